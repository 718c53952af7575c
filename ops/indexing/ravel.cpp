#include <fmt/format.h>

#include <vector>

#include "kaon/ops/functions.h"
#include "kaon/ops/indexing/indexing.h"
#include "kaon/ops/indexing/kernels/ravel_value.h"
#include "kaon/ops/op_def.h"

namespace kaon {

using namespace ops;
namespace {

constexpr int64_t ravel_grain = 1 << 14;  // positions of one task

// The sizes, of which all but the first must be positive.
const Shape& expect_sizes(const InferContext& c, const std::optional<Shape>& shape) {
  if (!shape || shape->empty()) c.fail_value("shape must be given");
  for (int k = 1; k < shape->ndim(); ++k) {
    if ((*shape)[k] < 1) c.fail_value(fmt::format("sizes after the first must be positive, got {}", shape->str()));
  }
  if (c.dtype() == DType::boolean) c.fail_dtype("needs numbers, got bool; use cast");
  return *shape;
}

}  // namespace

constinit const OpDef op::RavelMultiIndex::def = make_op_def<op::RavelMultiIndex>();
constinit const OpDef op::UnravelIndex::def = make_op_def<op::UnravelIndex>();

void op::RavelMultiIndex::infer(InferContext& c) const {
  const Shape& sizes = expect_sizes(c, shape);
  c.expect_ndim(0, 2);
  if (c.shape(0)[0] != sizes.ndim()) {
    c.fail(
        fmt::format("data must have {} rows, one for each of {}, got {}", sizes.ndim(), sizes.str(), c.shape(0).str()));
  }
  c.set_output(Shape(c.shape(0)[1]), c.dtype());
}

void run_cpu(const op::RavelMultiIndex& op, KernelContext& c) {
  const RavelSizes sizes(*op.shape);
  const int64_t n = c.out().size();
  dispatch_number("_ravel_multi_index", c.out().dtype, [&]<class T>() {
    const T* tuples = c.in(0).as<const T>();
    T* positions = c.out().as<T>();
    c.run.parallel_for(n, ravel_grain, [&](int64_t j, int64_t end) {
      for (; j < end; ++j) positions[j] = T(accumulate_t<T>(ravel_value(sizes, tuples, n, j)));
    });
  });
}

void op::UnravelIndex::infer(InferContext& c) const {
  c.set_output(Shape(expect_sizes(c, shape).ndim(), c.shape(0).size()), c.dtype());
}

void run_cpu(const op::UnravelIndex& op, KernelContext& c) {
  const RavelSizes sizes(*op.shape);
  const int64_t n = c.in(0).size();
  dispatch_number("_unravel_index", c.out().dtype, [&]<class T>() {
    const T* positions = c.in(0).as<const T>();
    T* tuples = c.out().as<T>();
    c.run.parallel_for(n, ravel_grain, [&](int64_t j, int64_t end) {
      for (; j < end; ++j) unravel_value(sizes, positions[j], tuples, n, j);
    });
  });
}

// --- index_array

constinit const OpDef op::IndexArray::def = make_op_def<op::IndexArray>();

namespace {

// Of data's axes, or all of them.
std::vector<int> chosen_axes(const op::IndexArray& op, int ndim, const char* name) {
  std::vector<int> axes;
  if (op.axes) {
    for (int64_t a : *op.axes) axes.push_back(normalize_axis(a, ndim, name));
  } else {
    for (int a = 0; a < ndim; ++a) axes.push_back(a);
  }
  return axes;
}

}  // namespace

void op::IndexArray::infer(InferContext& c) const {
  Shape out = c.shape(0);
  if (out.ndim() == Shape::max_ndim) {
    c.fail(fmt::format("data must have less than {} dimensions, got {}", Shape::max_ndim, out.str()));
  }
  out.push_back(int64_t(chosen_axes(*this, out.ndim(), c.op()).size()));
  c.set_output(out, DType::int64);
}

void op::IndexArray::compose(ComposeContext& c) const {
  const Shape& out = c.output().shape;
  if (out.size() == 0) return c.set(nd.zeros(out, {.dtype = DType::int64}));
  Shape each = out;
  each[out.ndim() - 1] = 1;
  std::vector<NDArray> positions;
  for (int a : chosen_axes(*this, out.ndim() - 1, "_contrib_index_array")) {
    Shape along = Shape::filled(out.ndim(), 1);
    along[a] = out[a];
    const NDArray line = nd.arange(double(out[a]), {.dtype = DType::int64});
    positions.push_back(nd.broadcast_to(nd._reshape_to(line, {.shape = along}), each));
  }
  c.set(positions.size() == 1 ? positions[0] : nd.concat(positions, {.dim = out.ndim() - 1}));
}

}  // namespace kaon
