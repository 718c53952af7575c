// Arrays stacked and split as NumPy does it.
#include <fmt/format.h>

#include "kaon/ops/compose/conform.h"
#include "kaon/ops/functions.h"
#include "kaon/ops/numpy/numpy.h"
#include "kaon/ops/op_def.h"

namespace kaon {

using namespace ops;

template <StackKind K>
constinit const OpDef op::NumpyStack<K>::def = make_op_def<op::NumpyStack<K>>();
template <int N>
constinit const OpDef op::AtLeast<N>::def = make_op_def<op::AtLeast<N>>();
template <bool Depth>
constinit const OpDef op::NumpySplit<Depth>::def = make_op_def<op::NumpySplit<Depth>>();

namespace {

Shape at_least(const Shape& s, int ndim) {
  if (s.ndim() >= ndim) return s;
  if (ndim == 1) return Shape(1);
  const int64_t last = s.ndim() > 0 ? s[0] : 1;
  if (ndim == 2) return Shape(1, last);
  return s.ndim() == 2 ? Shape(s[0], s[1], 1) : Shape(1, last, 1);
}

// The shape under which an array is stacked.
Shape stacked_shape(StackKind kind, const Shape& s) {
  switch (kind) {
    case StackKind::columns: return s.ndim() == 1 ? Shape(s[0], 1) : at_least(s, 2);
    case StackKind::horizontal: return at_least(s, 1);
    case StackKind::vertical: return at_least(s, 2);
    default: return at_least(s, 3);
  }
}

int stack_axis(StackKind kind, int ndim) {
  switch (kind) {
    case StackKind::horizontal: return ndim == 1 ? 0 : 1;
    case StackKind::vertical: return 0;
    default: return kind == StackKind::columns ? 1 : 2;
  }
}

void expect_list(const InferContext& c, int num_args) {
  if (num_args < 1) c.fail_value(fmt::format("needs at least one array, got {}", num_args));
}

}  // namespace

namespace ops {

void infer_stack(StackKind kind, int num_args, InferContext& c) {
  expect_list(c, num_args);
  c.expect_same_dtype();
  Shape out = stacked_shape(kind, c.shape(0));
  const int axis = stack_axis(kind, out.ndim());
  for (int i = 1; i < c.num_inputs(); ++i) {
    const Shape s = stacked_shape(kind, c.shape(i));
    bool fits = s.ndim() == out.ndim();
    for (int k = 0; fits && k < s.ndim(); ++k) fits = k == axis || s[k] == out[k];
    if (!fits) {
      c.fail(fmt::format("arrays must have equal sizes but along axis {}, got {}", axis, c.describe_inputs()));
    }
    out[axis] += s[axis];
  }
  c.set_output(out, c.dtype());
}

void compose_stack(StackKind kind, ComposeContext& c) {
  std::vector<NDArray> arrays;
  for (int i = 0; i < c.num_inputs(); ++i) {
    arrays.push_back(shaped(c.input(i), stacked_shape(kind, c.input(i).shape())));
  }
  c.set(nd.concat(arrays, {.dim = stack_axis(kind, arrays[0].ndim())}));
}

}  // namespace ops

// --- atleast_1d and its like

template <int N>
void op::AtLeast<N>::infer(InferContext& c) const {
  expect_list(c, num_args);
  for (int i = 0; i < c.num_inputs(); ++i) c.set_output(i, at_least(c.shape(i), N), c.dtype(i));
}

template <int N>
void op::AtLeast<N>::compose(ComposeContext& c) const {
  for (int i = 0; i < c.num_inputs(); ++i) c.set(i, nd._reshape_to(c.input(i), {.shape = c.output(i).shape}));
}

// --- hsplit and dsplit

namespace {

op::SplitV2 split_of(const Shape& indices, bool squeeze_axis, int sections, int axis) {
  return {.indices = indices, .axis = axis, .squeeze_axis = squeeze_axis, .sections = sections};
}

}  // namespace

template <bool Depth>
void op::NumpySplit<Depth>::infer(InferContext& c) const {
  c.expect_ndim_at_least(0, Depth ? 3 : 1);
  const int along = Depth ? 2 : c.shape(0).ndim() > 1 ? 1 : 0;
  if (const int64_t n = c.shape(0)[along]; sections > 0 && n % sections != 0) {
    c.fail(fmt::format("axis {} of size {} has no {} equal parts", along, n, sections));
  }
  split_of(indices, squeeze_axis, sections, along).infer(c);
}

template <bool Depth>
void op::NumpySplit<Depth>::compose(ComposeContext& c) const {
  const int along = Depth ? 2 : c.input().ndim() > 1 ? 1 : 0;
  std::vector<NDArray> parts = nd._split_v2(c.input(), split_of(indices, squeeze_axis, sections, along));
  for (size_t i = 0; i < parts.size(); ++i) c.set(int(i), std::move(parts[i]));
}

template struct op::NumpyStack<StackKind::columns>;
template struct op::NumpyStack<StackKind::horizontal>;
template struct op::NumpyStack<StackKind::vertical>;
template struct op::NumpyStack<StackKind::depth>;
template struct op::AtLeast<1>;
template struct op::AtLeast<2>;
template struct op::AtLeast<3>;
template struct op::NumpySplit<false>;
template struct op::NumpySplit<true>;

}  // namespace kaon
