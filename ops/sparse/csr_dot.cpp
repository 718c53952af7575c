#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "kaon/engine/error.h"
#include "kaon/ops/array/row_gradient.h"
#include "kaon/ops/functions.h"
#include "kaon/ops/math/dispatch.h"
#include "kaon/ops/op_def.h"
#include "kaon/ops/sparse/kernels/csr_dot.h"

namespace kaon {

using namespace ops;

constinit const OpDef op::CsrDot::def = make_op_def<op::CsrDot>();

namespace ops {

bool is_valid_csr(const int64_t* indptr, int64_t rows, const int64_t* indices, int64_t k, int64_t columns) {
  return indptr[0] == 0 && indptr[rows] == k && std::is_sorted(indptr, indptr + rows + 1) &&
         std::all_of(indices, indices + k, [&](int64_t i) { return i >= 0 && i < columns; });
}

}  // namespace ops

void op::CsrDot::infer(InferContext& c) const {
  const int64_t rows = c.shape(2)[0] - 1;
  if (c.shape(3).ndim() != 2) c.fail(fmt::format("the dense matrix must have 2 dimensions, got {}", c.shape(3).str()));
  if (c.dtype(3) != c.dtype(0)) {
    c.fail_dtype(
        fmt::format("the matrices must have one dtype, got {} and {}", name_of(c.dtype(0)), name_of(c.dtype(3))));
  }
  const int64_t inner = transpose ? rows : columns;
  if (c.shape(3)[0] != inner) {
    c.fail(fmt::format("the dense matrix must have {} rows, got {}", inner, c.shape(3).str()));
  }
  c.set_output(Shape(transpose ? columns : rows, c.shape(3)[1]), c.dtype());
}

void op::CsrDot::grad(GradContext& g) const {
  if (g.wants(0)) throw StateError("[_csr_dot] no gradient flows to the elements that a csr matrix stores");
  if (!g.wants(3) || !g.has_head(0)) return;
  auto* const rows = transpose ? nullptr : dynamic_cast<RowGradContext*>(&g);
  if (rows && rows->takes_rows(3)) rows->set_rows_read(3, g.input(1));
  g.set(3, nd.call(CsrDot{.columns = columns, .transpose = !transpose}, g.input(0), g.input(1), g.input(2), g.head()));
}

namespace {

// One row of the product: the sum over entries of value(entry) dense[row(entry), :].
template <class T>
void add_up(int64_t begin, int64_t end, auto value, auto row, const T* dense, int64_t width, T* out) {
  using A = accumulate_t<T>;
  constexpr int64_t block = 64;
  for (int64_t at = 0; at < width; at += block) {
    const int64_t n = std::min(block, width - at);
    A sum[block] = {};
    for (int64_t j = begin; j < end; ++j) {
      const A factor = A(value(j));
      const T* from = dense + row(j) * width + at;
      for (int64_t k = 0; k < n; ++k) sum[k] += factor * A(from[k]);
    }
    for (int64_t k = 0; k < n; ++k) out[at + k] = T(sum[k]);
  }
}

}  // namespace

void run_cpu(const op::CsrDot& op, KernelContext& c) {
  const int64_t k = c.in(0).size(), rows = c.in(2).size() - 1, width = c.in(3).shape[1];
  const int64_t *indices = c.in(1).as<int64_t>(), *indptr = c.in(2).as<int64_t>();
  if (!is_valid_csr(indptr, rows, indices, k, op.columns)) {
    throw IndexError(fmt::format("[_csr_dot] indptr must rise from 0 to {} and indices lie in [0, {})", k, op.columns));
  }
  const int64_t results = c.out().shape[0];
  if (results == 0 || width == 0) return;
  const int64_t grain = std::max<int64_t>(1, 16384 / (width * (1 + k / results)));
  dispatch_signed("_csr_dot", c.in(0).dtype, [&]<class T>() {
    const T *data = c.in(0).as<T>(), *dense = c.in(3).as<T>();
    T* const out = c.out().as<T>();
    if (!op.transpose) {
      c.run.parallel_for(results, grain, [&](int64_t from, int64_t to) {
        for (int64_t i = from; i < to; ++i) {
          add_up(
              indptr[i], indptr[i + 1], [&](int64_t j) { return data[j]; }, [&](int64_t j) { return indices[j]; },
              dense, width, out + i * width);
        }
      });
      return;
    }
    // The entries of each column, in the order of the rows.
    auto* const start = static_cast<int64_t*>(c.run.workspace(size_t(op.columns + 1 + 2 * k) * sizeof(int64_t)));
    int64_t *const entry = start + op.columns + 1, *const row = entry + k;
    std::fill(start, start + op.columns + 1, 0);
    for (int64_t j = 0; j < k; ++j) ++start[indices[j]];
    int64_t before = 0;
    for (int64_t i = 0; i <= op.columns; ++i) before += std::exchange(start[i], before);
    for (int64_t i = 0; i < rows; ++i) {
      for (int64_t j = indptr[i]; j < indptr[i + 1]; ++j) {
        const int64_t to = start[indices[j]]++;  // ends as the beginning of the next column
        entry[to] = j, row[to] = i;
      }
    }
    c.run.parallel_for(results, grain, [&](int64_t from, int64_t to) {
      for (int64_t i = from; i < to; ++i) {
        add_up(
            i == 0 ? 0 : start[i - 1], start[i], [&](int64_t j) { return data[entry[j]]; },
            [&](int64_t j) { return row[j]; }, dense, width, out + i * width);
      }
    });
  });
}

}  // namespace kaon
