// Sums up to each element.
#include <fmt/format.h>

#include <algorithm>

#include "kaon/ops/functions.h"
#include "kaon/ops/op_def.h"
#include "kaon/ops/reduce/kernels/scan_pieces.h"
#include "kaon/ops/reduce/reduce.h"

namespace kaon {

using namespace ops;

constinit const OpDef op::Scan::def = make_op_def<op::Scan>();
constinit const OpDef op::CumSum::def = make_op_def<op::CumSum>();

void op::Scan::infer(InferContext& c) const {
  if (c.dtype() == DType::boolean) c.fail_dtype("needs numbers, got bool; use cast");
  normalize_axis(axis, c.shape(0).ndim(), c.op());
  c.set_output(c.shape(0), c.dtype());
}

void op::Scan::grad(GradContext& g) const {
  if (g.wants(0) && g.has_head(0)) g.set(0, nd._scan(g.head(), {.axis = axis, .reverse = !reverse}));
}

namespace {

constexpr int64_t kWidth = 64;  // neighbouring lines that are summed side by side

// Calls f(first element of the lines, first number of the lines, how many, piece) for runs of neighbouring lines.
template <class F>
void for_each_run(KernelContext& c, const ScanPieces& s, int64_t pieces, const F& f) {
  const int64_t runs = (s.inner + kWidth - 1) / kWidth;
  const int64_t cost = s.length * std::min(s.inner, kWidth);
  c.run.parallel_for(s.outer * pieces * runs, std::max<int64_t>(1, (1 << 14) / cost), [&](int64_t i, int64_t end) {
    for (; i < end; ++i) {
      const int64_t column = i % runs * kWidth, piece = i / runs % pieces, o = i / runs / pieces;
      f(o * s.n * s.inner + column, o * s.inner + column, std::min(kWidth, s.inner - column), piece);
    }
  });
}

template <class T>
void scan_lines(KernelContext& c, const ScanPieces& s) {
  using Sum = typename ScanSum<T>::type;
  const T* const x = c.in(0).as<const T>();
  T* const y = c.out().as<T>();
  const int64_t lines = s.outer * s.inner;
  Sum* before = nullptr;  // the sum of all pieces before one, by piece and line
  if (s.pieces > 1) {
    before = static_cast<Sum*>(c.run.workspace(size_t(s.pieces * lines) * sizeof(Sum)));
    std::fill_n(before, lines, Sum(0));
    for_each_run(c, s, s.pieces - 1, [&](int64_t first, int64_t line, int64_t width, int64_t piece) {
      Sum sum[kWidth] = {};
      for (int64_t k = s.begin(piece); k < s.end(piece); ++k) {
        for (int64_t i = 0; i < width; ++i) sum[i] = Sum(sum[i] + Sum(x[first + s.offset(k) + i]));
      }
      std::copy_n(sum, width, before + (piece + 1) * lines + line);
    });
    for (int64_t i = lines; i < s.pieces * lines; ++i) before[i] = Sum(before[i] + before[i - lines]);
  }
  for_each_run(c, s, s.pieces, [&](int64_t first, int64_t line, int64_t width, int64_t piece) {
    Sum sum[kWidth] = {};
    if (before) std::copy_n(before + piece * lines + line, width, sum);
    for (int64_t k = s.begin(piece); k < s.end(piece); ++k) {
      const int64_t at = first + s.offset(k);
      for (int64_t i = 0; i < width; ++i) {
        sum[i] = Sum(sum[i] + Sum(x[at + i]));
        y[at + i] = T(sum[i]);
      }
    }
  });
}

}  // namespace

void run_cpu(const op::Scan& op, KernelContext& c) {
  const Shape& shape = c.in(0).shape;
  if (shape.size() == 0) return;
  const ScanPieces pieces(shape, normalize_axis(op.axis, shape.ndim(), "_scan"), op.reverse);
  dispatch_number("_scan", c.out().dtype, [&]<class T>() { scan_lines<T>(c, pieces); });
}

// --- cumsum

void op::CumSum::infer(InferContext& c) const {
  const Shape& a = c.shape(0);
  const DType own = c.dtype() == DType::boolean ? DType::int64 : c.dtype(), sums = dtype.value_or(own);
  if (sums == DType::boolean) c.fail_dtype("dtype must be one of numbers, got bool");
  if (axis) normalize_axis(*axis, a.ndim(), c.op());
  c.set_output(axis ? a : Shape(a.size()), sums);
}

void op::CumSum::compose(ComposeContext& c) const {
  const auto& [shape, dtype] = c.output();
  NDArray x = c.input();
  if (x.dtype() != dtype) x = nd.cast(x, dtype);
  if (!axis) x = nd._reshape_to(x, {.shape = shape});
  c.set(nd._scan(x, {.axis = axis.value_or(0)}));
}

}  // namespace kaon
