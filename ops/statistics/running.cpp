// cumprod, cummax and cummin.
#include <fmt/format.h>

#include <algorithm>

#include "kaon/ops/compose/conform.h"
#include "kaon/ops/functions.h"
#include "kaon/ops/op_def.h"
#include "kaon/ops/reduce/kernels/scan_lines.h"
#include "kaon/ops/statistics/kernels/extreme_line.h"
#include "kaon/ops/statistics/kernels/running.h"
#include "kaon/ops/statistics/statistics.h"

namespace kaon {

using namespace ops;

constinit const OpDef op::ProductScan::def = make_op_def<op::ProductScan>();
constinit const OpDef op::ProductScanGrad::def = make_op_def<op::ProductScanGrad>();
constinit const OpDef op::ExtremeScan::def = make_op_def<op::ExtremeScan>();
constinit const OpDef op::CumProd::def = make_op_def<op::CumProd>();
template <bool Max>
constinit const OpDef op::CumExtreme<Max>::def = make_op_def<op::CumExtreme<Max>>();

namespace {

// The dtype that running products and extrema of another one are computed in.
DType running_dtype(DType dtype) {
  return dtype == DType::float64 ? dtype : is_floating(dtype) ? DType::float32 : DType::int64;
}

int infer_running(InferContext& c, int axis) {
  const DType t = c.dtype();
  if (t != running_dtype(t)) {
    c.fail_dtype(fmt::format("needs float32, float64 or int64, got {}; use cast", name_of(t)));
  }
  return normalize_axis(axis, c.shape(0).ndim(), c.op());
}

ScanPieces pieces_of(const Shape& shape, int axis) {
  return ScanPieces(shape, normalize_axis(axis, shape.ndim(), "scan"), false);
}

// Whole lines.
ScanPieces lines_of(const Shape& shape, int axis) {
  ScanPieces s = pieces_of(shape, axis);
  s.length = s.n, s.pieces = 1;
  return s;
}

}  // namespace

// --- products

void op::ProductScan::infer(InferContext& c) const {
  infer_running(c, axis);
  c.set_output(c.shape(0), c.dtype());
}

void op::ProductScan::grad(GradContext& g) const {
  if (g.wants(0) && g.has_head(0)) g.set(0, nd._backward_product_scan(g.head(), g.input(0), {.axis = axis}));
}

void run_cpu(const op::ProductScan& op, KernelContext& c) {
  const Shape& shape = c.in(0).shape;
  if (shape.size() == 0) return;
  dispatch_running(c.out().dtype, [&]<class T>() { scan_lines<T>(c, pieces_of(shape, op.axis), T(1), Times()); });
}

void op::ProductScanGrad::infer(InferContext& c) const {
  c.expect_same_dtype();
  c.expect_floating();
  infer_running(c, axis);
  c.expect_shape(1, c.shape(0));
  c.set_output(c.shape(0), c.dtype());
}

// The products before each element on the way there, their sums on the way back.
void run_cpu(const op::ProductScanGrad& op, KernelContext& c) {
  if (c.out().size() == 0) return;
  const ScanPieces s = lines_of(c.in(0).shape, op.axis);
  dispatch_running(c.out().dtype, [&]<class T>() {
    const T *const head = c.in(0).as<const T>(), *const x = c.in(1).as<const T>();
    T* const y = c.out().as<T>();
    for_each_run(c, s, 1, [&](int64_t first, int64_t, int64_t width, int64_t) {
      T product[scan_width], sum[scan_width];
      std::fill_n(product, width, T(1)), std::fill_n(sum, width, T(0));
      for (int64_t k = 0; k < s.n; ++k) {
        const int64_t at = first + k * s.inner;
        for (int64_t i = 0; i < width; ++i) y[at + i] = product[i], product[i] *= x[at + i];
      }
      for (int64_t k = s.n; k-- > 0;) {
        const int64_t at = first + k * s.inner;
        for (int64_t i = 0; i < width; ++i) {
          sum[i] += head[at + i];
          y[at + i] *= sum[i];
          sum[i] *= x[at + i];
        }
      }
    });
  });
}

void op::CumProd::infer(InferContext& c) const {
  const Shape& a = c.shape(0);
  const DType products = dtype.value_or(c.dtype() == DType::boolean ? DType::int64 : c.dtype());
  if (products == DType::boolean) c.fail_dtype("dtype must be one of numbers, got bool");
  if (axis) normalize_axis(*axis, a.ndim(), c.op());
  c.set_output(axis ? a : Shape(a.size()), products);
}

void op::CumProd::compose(ComposeContext& c) const {
  const auto& [shape, dtype] = c.output();
  NDArray x = in_dtype(in_dtype(c.input(), dtype), running_dtype(dtype));
  if (!axis) x = shaped(x, shape);
  c.set(in_dtype(nd._product_scan(x, {.axis = axis.value_or(0)}), dtype));
}

// --- the largest and the smallest element

void op::ExtremeScan::infer(InferContext& c) const {
  infer_running(c, axis);
  c.set_output(c.shape(0), DType::int64);
}

void run_cpu(const op::ExtremeScan& op, KernelContext& c) {
  if (c.out().size() == 0) return;
  const ScanPieces s = lines_of(c.in(0).shape, op.axis);
  dispatch_running(c.in(0).dtype, [&]<class T>() {
    const T* const x = c.in(0).as<const T>();
    int64_t* const index = c.out().as<int64_t>();
    for_each_run(c, s, 1, [&](int64_t first, int64_t, int64_t width, int64_t) {
      if (s.inner == 1) return extreme_line(x + first, index + first, s.n, op.largest);
      T best[scan_width];
      int64_t at[scan_width] = {};
      std::copy_n(x + first, width, best);
      for (int64_t k = 0; k < s.n; ++k) {
        const int64_t row = first + k * s.inner;
        for (int64_t i = 0; i < width; ++i) {
          const bool better = replaces(x[row + i], best[i], op.largest);
          best[i] = better ? x[row + i] : best[i];
          at[i] = better ? k : at[i];
          index[row + i] = at[i];
        }
      }
    });
  });
}

template <bool Max>
void op::CumExtreme<Max>::infer(InferContext& c) const {
  if (c.dtype() == DType::boolean) c.fail_dtype("needs numbers, got bool; use cast");
  normalize_axis(axis, c.shape(0).ndim(), c.op());
  c.set_output(0, c.shape(0), c.dtype());
  c.set_output(1, c.shape(0), DType::int64);
}

template <bool Max>
void op::CumExtreme<Max>::compose(ComposeContext& c) const {
  const NDArray& x = c.input();
  const NDArray index = nd._extreme_scan(in_dtype(x, running_dtype(x.dtype())), {.axis = axis, .largest = Max});
  c.set(0, nd.take_along_axis(x, index, {.axis = axis, .mode = IndexMode::clip}));
  c.set(1, index);
}

template struct op::CumExtreme<true>;
template struct op::CumExtreme<false>;

}  // namespace kaon
