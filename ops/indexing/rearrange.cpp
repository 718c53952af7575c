#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "kaon/ops/attributes.h"
#include "kaon/ops/compose/conform.h"
#include "kaon/ops/functions.h"
#include "kaon/ops/indexing/indexing.h"
#include "kaon/ops/op_def.h"

namespace kaon {

using namespace ops;

// --- _split_v2

constinit const OpDef op::SplitV2::def = make_op_def<op::SplitV2>();

namespace {

// Where part i of `op` begins along an axis of n elements; the end of the last part for i = number of parts.
int64_t part_begin(const op::SplitV2& op, int i, int64_t n) {
  if (op.sections > 0) return i * (n / op.sections) + std::min<int64_t>(i, n % op.sections);
  return i < op.indices.size() ? op.indices[i] : n;
}

}  // namespace

void op::SplitV2::infer(InferContext& c) const {
  const Shape& data = c.shape(0);
  const int at = normalize_axis(axis, data.ndim(), c.op());
  const int64_t n = data[at];
  if (sections < 0) c.fail_value(fmt::format("sections must not be negative, got {}", sections));
  if (sections == 0 && (indices.size() == 0 || indices[0] != 0)) {
    c.fail_value(fmt::format("indices must begin with 0, got {}", to_text(indices)));
  }
  for (int i = 0; i < num_outputs(); ++i) {
    const int64_t begin = part_begin(*this, i, n), size = part_begin(*this, i + 1, n) - begin;
    if (size < 0 || begin > n) {
      c.fail(fmt::format("indices must rise to at most {}, the size of axis {}, got {}", n, at, to_text(indices)));
    }
    if (squeeze_axis && size != 1) {
      c.fail(fmt::format("squeeze_axis needs parts of size 1, part {} of axis {} has {}", i, at, size));
    }
    Shape part;
    for (int k = 0; k < data.ndim(); ++k) {
      if (k != at || !squeeze_axis) part.push_back(k == at ? size : data[k]);
    }
    c.set_output(i, part, c.dtype());
  }
}

void op::SplitV2::compose(ComposeContext& c) const {
  const NDArray& x = c.input();
  const int at = normalize_axis(axis, x.ndim(), "_split_v2");
  const int64_t n = x.shape()[at];
  for (int i = 0; i < num_outputs(); ++i) {
    const NDArray part = nd.slice_axis(x, at, part_begin(*this, i, n), part_begin(*this, i + 1, n));
    c.set(i, squeeze_axis ? nd._reshape_to(part, {.shape = c.output(i).shape}) : part);
  }
}

// --- depth_to_space and space_to_depth

constinit const OpDef op::DepthToSpace::def = make_op_def<op::DepthToSpace>();
constinit const OpDef op::SpaceToDepth::def = make_op_def<op::SpaceToDepth>();

namespace {

void expect_blocks(const InferContext& c, int block_size) {
  c.expect_ndim(0, 4);
  if (block_size < 1) c.fail_value(fmt::format("block_size must be at least 1, got {}", block_size));
}

}  // namespace

void op::DepthToSpace::infer(InferContext& c) const {
  expect_blocks(c, block_size);
  const Shape& s = c.shape(0);
  const int64_t b = block_size;
  if (s[1] % (b * b) != 0) {
    c.fail(fmt::format("the number of channels must be a multiple of {}, got data {}", b * b, s.str()));
  }
  c.set_output(Shape(s[0], s[1] / (b * b), s[2] * b, s[3] * b), c.dtype());
}

void op::DepthToSpace::compose(ComposeContext& c) const {
  const Shape &in = c.input().shape(), &out = c.output().shape;
  const int64_t b = block_size;
  const NDArray blocks = nd._reshape_to(c.input(), {.shape = Shape(in[0], b, b, out[1], in[2], in[3])});
  c.set(nd._reshape_to(nd.transpose(blocks, {0, 3, 4, 1, 5, 2}), {.shape = out}));
}

void op::SpaceToDepth::infer(InferContext& c) const {
  expect_blocks(c, block_size);
  const Shape& s = c.shape(0);
  const int64_t b = block_size;
  if (s[2] % b != 0 || s[3] % b != 0) {
    c.fail(fmt::format("height and width must be multiples of {}, got data {}", b, s.str()));
  }
  c.set_output(Shape(s[0], s[1] * b * b, s[2] / b, s[3] / b), c.dtype());
}

void op::SpaceToDepth::compose(ComposeContext& c) const {
  const Shape &in = c.input().shape(), &out = c.output().shape;
  const int64_t b = block_size;
  const NDArray blocks = nd._reshape_to(c.input(), {.shape = Shape(in[0], in[1], out[2], b, out[3], b)});
  c.set(nd._reshape_to(nd.transpose(blocks, {0, 3, 5, 1, 2, 4}), {.shape = out}));
}

// --- diag

constinit const OpDef op::Diag::def = make_op_def<op::Diag>();

namespace {

// The first element of the k-th diagonal in a row-major matrix with this number of columns; further ones follow after
// columns + 1 each.
int64_t diagonal_begin(int64_t k, int64_t columns) { return k >= 0 ? k : -k * columns; }

}  // namespace

void op::Diag::infer(InferContext& c) const {
  const Shape& data = c.shape(0);
  c.expect_ndim_at_least(0, 1);
  if (data.ndim() == 1) {
    const int64_t n = data[0] + std::abs(int64_t(k));
    return c.set_output(Shape(n, n), c.dtype());
  }
  const int row = normalize_axis(axis1, data.ndim(), c.op()), column = normalize_axis(axis2, data.ndim(), c.op());
  if (row == column) c.fail_value(fmt::format("axis1 and axis2 must differ, got {} and {}", axis1, axis2));
  const int64_t n = std::min(data[row] + std::min(k, 0), data[column] - std::max(k, 0));
  if (n < 0) c.fail(fmt::format("there is no diagonal {} along axes {} and {} of data {}", k, row, column, data.str()));
  Shape out;
  for (int i = 0; i < data.ndim(); ++i) {
    if (i != row && i != column) out.push_back(data[i]);
  }
  out.push_back(n);
  c.set_output(out, c.dtype());
}

void op::Diag::compose(ComposeContext& c) const {
  const NDArray& x = c.input();
  const Shape &in = x.shape(), &out = c.output().shape;
  if (in.ndim() == 1) {
    const int64_t columns = out[1];
    const Shape flat(columns * columns), begin(diagonal_begin(k, columns)), step(columns + 1);
    return c.set(shaped(nd._backward_slice(x, {.shape = flat, .begin = begin, .step = step}), out));
  }
  const int row = normalize_axis(axis1, in.ndim(), "diag"), column = normalize_axis(axis2, in.ndim(), "diag");
  Shape axes, flat;
  for (int i = 0; i < in.ndim(); ++i) {
    if (i != row && i != column) axes.push_back(i), flat.push_back(in[i]);
  }
  const bool is_last = row == in.ndim() - 2 && column == in.ndim() - 1;
  axes.push_back(row), axes.push_back(column), flat.push_back(in[row] * in[column]);
  const NDArray matrices = shaped(is_last ? x : nd.transpose(x, axes), flat);
  OptionalShape begin, end, step;
  for (int i = 0; i < flat.ndim() - 1; ++i) begin.push_back({}), end.push_back({}), step.push_back({});
  const int64_t n = out.back(), first = n == 0 ? 0 : diagonal_begin(k, in[column]), apart = in[column] + 1;
  begin.push_back(first), end.push_back(n == 0 ? 0 : first + (n - 1) * apart + 1), step.push_back(apart);
  c.set(nd.slice(matrices, begin, end, step));
}

}  // namespace kaon
