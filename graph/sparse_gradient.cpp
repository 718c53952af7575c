#include "kaon/graph/sparse_gradient.h"

#include <fmt/format.h>

#include "kaon/engine/error.h"
#include "kaon/graph/autograd.h"
#include "kaon/graph/ir/history.h"
#include "kaon/ops/functions.h"

namespace kaon::autograd {

void attach_row_sparse_grad(const NDArray& x, GradReq req) {
  if (!is_floating(x.dtype())) {
    throw TypeError(
        fmt::format("[attach_row_sparse_grad] gradients need a floating dtype, got {}", name_of(x.dtype())));
  }
  if (x.ndim() < 1) throw ShapeError("[attach_row_sparse_grad] the array must have at least 1 dimension, got none");
  if (req == GradReq::null) {
    x.node().annotation = nullptr;
    return;
  }
  IntrusivePtr<History> h(new History);
  h->req = req;
  h->rows = std::make_unique<RowGradient>(RowGradient{.shape = x.shape(), .parts = {}});
  x.node().annotation = h;
}

bool has_row_sparse_grad(const NDArray& x) {
  const History* h = history_of(x);
  return h && h->rows;
}

sparse::RowSparseNDArray row_sparse_grad(const NDArray& x) {
  if (!has_row_sparse_grad(x)) {
    throw StateError("[row_sparse_grad] the array has none: call attach_row_sparse_grad() first");
  }
  const ModeScope mode(false, false);
  RowGradient& rows = *history_of(x)->rows;
  if (rows.parts.empty()) return sparse::zeros<sparse::RowSparseNDArray>(x.shape(), {x.dtype(), x.device()});
  std::vector<NDArray> values, indices;
  for (const auto& [v, i] : rows.parts) values.push_back(v), indices.push_back(i);
  const auto joined = [](const std::vector<NDArray>& parts) {
    return parts.size() == 1 ? parts[0] : nd.concat(parts, {.dim = 0});
  };
  const sparse::RowSparseNDArray sum = sparse::sum_rows(joined(values), joined(indices), x.shape());
  rows.parts = {{sum.data(), sum.indices()}};  // the next call finds it
  return sum;
}

}  // namespace kaon::autograd
