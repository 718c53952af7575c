// tril and triu.
#include <algorithm>
#include <cstring>

#include "kaon/ops/functions.h"
#include "kaon/ops/op_def.h"
#include "kaon/ops/search/kernels/matrix_part.h"
#include "kaon/ops/search/search.h"

namespace kaon {

using namespace ops;

constinit const OpDef op::Tril::def = make_op_def<op::Tril>();
constinit const OpDef op::Triu::def = make_op_def<op::Triu>();

namespace {

void infer_part(InferContext& c) {
  c.expect_ndim_at_least(0, 1);
  const Shape& x = c.shape(0);
  c.set_output(x.ndim() == 1 ? Shape(x[0], x[0]) : x, c.dtype());
}

// A vector's gradient is that of each row.
void set_part_gradient(GradContext& g, const NDArray& part) {
  g.set(0, g.input_like(0).ndim() == 1 ? nd.sum(part, 0) : part);
}

void run_part(KernelContext& c, const MatrixPart& part) {
  const size_t width = size_of(c.out().dtype), row_bytes = size_t(part.columns) * width;
  const int64_t rows = part.columns == 0 ? 0 : c.out().size() / part.columns;
  const std::byte* const from = c.in(0).as<const std::byte>();
  std::byte* const to = c.out().as<std::byte>();
  const int64_t grain = std::max<int64_t>(1, (1 << 16) / std::max<int64_t>(1, int64_t(row_bytes)));
  c.run.parallel_for(rows, grain, [&](int64_t r, int64_t end) {
    for (; r < end; ++r) {
      const size_t begin = size_t(part.begin(r)) * width, last = size_t(part.end(r)) * width;
      const std::byte* const source = from + size_t(part.source_row(r)) * row_bytes;
      std::byte* const row = to + size_t(r) * row_bytes;
      std::memset(row, 0, begin);
      if (row != source && last > begin) std::memcpy(row + begin, source + begin, last - begin);
      std::memset(row + last, 0, row_bytes - last);
    }
  });
}

}  // namespace

void op::Tril::infer(InferContext& c) const { infer_part(c); }
void op::Tril::grad(GradContext& g) const {
  if (g.wants(0) && g.has_head(0)) set_part_gradient(g, nd.tril(g.head(), k));
}
void run_cpu(const op::Tril& op, KernelContext& c) { run_part(c, MatrixPart(c.in(0).shape, op.k, true)); }

void op::Triu::infer(InferContext& c) const { infer_part(c); }
void op::Triu::grad(GradContext& g) const {
  if (g.wants(0) && g.has_head(0)) set_part_gradient(g, nd.triu(g.head(), k));
}
void run_cpu(const op::Triu& op, KernelContext& c) { run_part(c, MatrixPart(c.in(0).shape, op.k, false)); }

}  // namespace kaon
