// box_nms and what it is made of: suppression in the order of scores, rows by their numbers.
#include <fmt/format.h>

#include <cstring>
#include <vector>

#include "kaon/ops/functions.h"
#include "kaon/ops/nn/detection/kernels/suppression.h"
#include "kaon/ops/op_def.h"

namespace kaon {

using namespace ops;
namespace {

// Refuses a box, a score or a class outside of a row of `width` numbers, or within another one.
template <class Op>
void expect_indices(const Op& op, const InferContext& c, int64_t width) {
  if (op.coord_start < 0 || op.coord_start + 4 > width) {
    c.fail_value(fmt::format("coord_start must leave 4 of {} numbers, got {}", width, op.coord_start));
  }
  const auto expect = [&](const char* name, int index) {
    if (index < 0 || index >= width || (index >= op.coord_start && index < op.coord_start + 4)) {
      c.fail_value(fmt::format("{} must be one of {} numbers outside of the box at {}, got {}", name, width,
                               op.coord_start, index));
    }
  };
  expect("score_index", op.score_index);
  if (op.id_index >= 0) expect("id_index", op.id_index);
  if (op.id_index == op.score_index) {
    c.fail_value(fmt::format("id_index and score_index must differ, got {}", op.id_index));
  }
}

void expect_rows(const InferContext& c, int input) {
  c.expect_ndim(input, 2);
  if (c.dtype(input) != DType::int64) {
    c.fail_dtype(fmt::format("numbers of rows must be int64, got {}", name_of(c.dtype(input))));
  }
  if (c.shape(input)[0] != c.shape(0)[0]) {
    c.fail(fmt::format("both inputs must have as many samples; inputs: {}", c.describe_inputs()));
  }
}

// The rows of sample `sample` that stay.
template <class T>
void suppress(const SuppressJob<T>& job, int64_t sample) {
  int64_t* const rows = job.rows + sample * job.count;
  std::fill_n(rows, job.count, int64_t(-1));
  std::vector<Candidate<accumulate_t<T>>> all;
  for (int64_t place = 0; place < job.count && int64_t(all.size()) < job.limit(); ++place) {
    const T* const row = job.row_at(sample, place);
    if (job.is_candidate(row)) all.push_back(job.candidate(row, place));
  }
  std::vector<char> is_suppressed(all.size());
  int64_t kept = 0;
  for (size_t i = 0; i < all.size(); ++i) {
    if (is_suppressed[i]) continue;
    const int64_t row = job.row_number(sample, all[i].place);
    rows[job.op.kind == SuppressKind::box ? kept++ : all[i].place] = row;
    for (size_t j = i + 1; j < all.size(); ++j) {
      if (!is_suppressed[j]) is_suppressed[j] = job.suppresses(all[i], all[j]);
    }
  }
}

}  // namespace

// --- box_nms

constinit const OpDef op::BoxNms::def = make_op_def<op::BoxNms>();

void op::BoxNms::infer(InferContext& c) const {
  c.expect_floating();
  c.expect_ndim_at_least(0, 2);
  Shape shape = c.shape(0);
  expect_indices(*this, c, shape.back());
  c.set_output(0, shape, c.dtype());
  shape[shape.ndim() - 1] = 1;
  c.set_output(1, shape, DType::int64);
}

void op::BoxNms::compose(ComposeContext& c) const {
  const NDArray& data = c.input();
  const Shape &shape = data.shape(), &numbers = c.output(1).shape;
  const int64_t n = shape[shape.ndim() - 2], samples = shape.product(0, shape.ndim() - 2);
  if (topk == 0 || data.size() == 0) {
    c.set(0, data);
    return c.set(1, nd.cast(nd.zeros_like(nd.slice_axis(data, -1, 0, 1)), DType::int64) - 1);
  }
  const NDArray boxes = nd._reshape_to(data, {.shape = {samples, n, shape.back()}});
  const NDArray scores = nd._reshape_to(nd.slice_axis(boxes, 2, score_index, score_index + 1), {.shape = {samples, n}});
  const NDArray order = nd._order(nd.BlockGrad(scores), {.is_ascend = false})[1];
  const NDArray rows = nd._box_suppress(boxes, order,
                                        {.overlap_thresh = overlap_thresh,
                                         .valid_thresh = valid_thresh,
                                         .topk = topk,
                                         .coord_start = coord_start,
                                         .score_index = score_index,
                                         .id_index = id_index,
                                         .background_id = background_id,
                                         .force_suppress = force_suppress,
                                         .in_format = in_format});
  const NDArray kept =
      nd._box_take(boxes, rows, {.coord_start = coord_start, .in_format = in_format, .out_format = out_format});
  c.set(0, nd._reshape_to(kept, {.shape = shape}));
  c.set(1, nd._reshape_to(rows, {.shape = numbers}));
}

// --- _box_suppress

constinit const OpDef op::BoxSuppress::def = make_op_def<op::BoxSuppress>();

void op::BoxSuppress::infer(InferContext& c) const {
  c.expect_floating();
  c.expect_ndim(0, 3);
  expect_rows(c, 1);
  const Shape& data = c.shape(0);
  c.expect_shape(1, {data[0], data[1]});
  expect_indices(*this, c, data[2]);
  if (kind == SuppressKind::multibox && id_index < 0) c.fail_value("multibox needs id_index");
  c.set_output({data[0], data[1]}, DType::int64);
}

void run_cpu(const op::BoxSuppress& op, KernelContext& c) {
  dispatch_float("_box_suppress", c.in(0).dtype, [&]<class T>() {
    const SuppressJob<T> job(op, c);
    c.run.parallel_for(c.in(0).shape[0], 1, [&](int64_t begin, int64_t end) {
      for (int64_t sample = begin; sample < end; ++sample) suppress(job, sample);
    });
  });
}

// --- _box_take

constinit const OpDef op::BoxTake::def = make_op_def<op::BoxTake>();
constinit const OpDef op::BackwardBoxTake::def = make_op_def<op::BackwardBoxTake>();

void op::BoxTake::infer(InferContext& c) const {
  c.expect_floating();
  c.expect_ndim(0, 3);
  expect_rows(c, 1);
  const Shape& data = c.shape(0);
  if (in_format != out_format && (coord_start < 0 || coord_start + 4 > data[2])) {
    c.fail_value(fmt::format("coord_start must leave 4 of {} numbers, got {}", data[2], coord_start));
  }
  c.set_output({data[0], c.shape(1)[1], data[2]}, c.dtype());
}

void op::BoxTake::grad(GradContext& g) const {
  if (g.wants(0)) g.set(0, nd._backward_box_take(g.head(), g.input(1), {.count = g.input_like(0).shape()[1]}));
}

void run_cpu(const op::BoxTake& op, KernelContext& c) {
  dispatch_float("_box_take", c.out().dtype, [&]<class T>() {
    const BoxTakeValue<T> take{op,
                               c.in(0).shape[1],
                               c.in(1).shape[1],
                               c.in(0).shape[2],
                               c.in(0).as<const T>(),
                               c.in(1).as<const int64_t>(),
                               c.out().as<T>()};
    c.run.parallel_for(c.out().size(), 4096, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) take(i);
    });
  });
}

void op::BackwardBoxTake::infer(InferContext& c) const {
  c.expect_floating();
  c.expect_ndim(0, 3);
  expect_rows(c, 1);
  const Shape& head = c.shape(0);
  c.expect_shape(1, {head[0], head[1]});
  if (count < 0) c.fail_value(fmt::format("count must not be negative, got {}", count));
  c.set_output({head[0], count, head[2]}, c.dtype());
}

void run_cpu(const op::BackwardBoxTake& op, KernelContext& c) {
  if (c.out().size() == 0) return;
  std::memset(c.out().data, 0, c.out().bytes());
  dispatch_float("_backward_box_take", c.out().dtype, [&]<class T>() {
    const BoxGiveBack<T> give{
        op.count,       c.in(0).shape[1], c.in(0).shape[2], c.in(0).as<const T>(), c.in(1).as<const int64_t>(),
        c.out().as<T>()};
    c.run.parallel_for(c.in(0).shape[0], 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin * give.width; i < end * give.width; ++i) give(i);
    });
  });
}

}  // namespace kaon
