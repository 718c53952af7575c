// Movement, indexing and pooling on a GPU at sizes that the test table is too small for: more than one tile of a
// transposition, of a sort, of a launch; rows moved 16 bytes at a time and rows that cannot be. The CPU is the
// reference.
#include <catch2/catch.hpp>

#include "kaon/tests/support/check_gpu.h"

namespace kaon::test::gpu_movement_test {
namespace {

const Reference none{};

const RowOptions moves{.dtypes = every_dtype};
const RowOptions sums{.dtypes = numbers};

constexpr auto all_widths = {DType::float32, DType::float64, DType::float16, DType::int8};
constexpr auto all_sums = {DType::float32, DType::float64, DType::float16, DType::bfloat16, DType::int32, DType::uint8};
constexpr auto all_floats = {DType::float32, DType::float64, DType::float16, DType::bfloat16};

template <class Op>
void add(Rows& rows, const Op& op, std::vector<Input> inputs, RowOptions options = moves) {
  rows.emplace_back(op, std::move(inputs), none, options);
}

}  // namespace

TEST_CASE("gpu movement: transposed planes of many tiles and of odd sizes", "[cuda]") {
  Rows rows;
  add(rows, op::Transpose{}, {in({64, 96})});
  add(rows, op::Transpose{}, {in({33, 31})});
  add(rows, op::Transpose{}, {in({8, 130})});
  add(rows, op::Transpose{.axes = Shape(0, 2, 1)}, {in({3, 45, 70})});
  add(rows, op::Transpose{.axes = Shape(2, 1, 0)}, {in({9, 5, 40})});
  add(rows, op::Transpose{.axes = Shape(0, 2, 3, 1)}, {in({2, 3, 6, 7})});  // too thin for tiles
  add(rows, op::Transpose{.axes = Shape(0, 3, 1, 2)}, {in({2, 6, 7, 33})});
  add(rows, op::Transpose{.axes = Shape(1, 0, 2)}, {in({5, 7, 16})});  // runs
  add(rows, op::SwapAxis{.dim1 = 0, .dim2 = 2}, {in({40, 3, 36})});
  check_gpu(rows, all_widths);
}

TEST_CASE("gpu movement: runs and strides", "[cuda]") {
  Rows rows;
  add(rows, op::Slice{.begin = Shape(1, 2), .end = Shape(9, 34)}, {in({10, 40})});
  add(rows, op::Slice{.begin = Shape(1, 3), .end = Shape(9, 36)}, {in({10, 40})});
  const OptionalShape first(std::nullopt, 30), last(std::nullopt, 3);
  add(rows, op::Slice{.begin = first, .end = last, .step = Shape(-2, -3)}, {in({10, 40})});
  add(rows, op::SliceAxis{.axis = 1, .begin = 8, .end = 24}, {in({6, 32, 5})});
  add(rows, op::SliceAssign{.begin = Shape(0, 4), .end = Shape(5, 20)}, {in({5, 24}), in({5, 16})});
  add(rows, op::SliceAssignScalar{.begin = Shape(0, 4), .end = Shape(5, 20), .scalar = 3}, {in({5, 24})});
  add(rows, op::SliceAssignScalar{.begin = Shape(0, 5), .end = Shape(5, 20), .step = Shape(2, 3), .scalar = 1},
      {in({5, 24})});
  add(rows, op::Reverse{.axis = Shape(0, 1)}, {in({9, 37})});
  check_gpu(rows, all_widths);
}

TEST_CASE("gpu movement: repetitions", "[cuda]") {
  Rows rows;
  add(rows, op::BroadcastTo{.shape = Shape(7, 5, 32)}, {in({5, 1})});
  add(rows, op::BroadcastTo{.shape = Shape(7, 5, 32)}, {in({1, 32})});
  add(rows, op::Repeat{.repeats = 3, .axis = 0}, {in({5, 16})});
  add(rows, op::Repeat{.repeats = 70}, {in({5, 3})});
  add(rows, op::Tile{.reps = Shape(2, 3, 4)}, {in({5, 16})});
  check_gpu(rows, all_widths, 1e-5);  // the gradients are sums, in another order
}

TEST_CASE("gpu movement: more arrays than one launch joins or splits", "[cuda]") {
  Rows rows;
  for (int64_t width : {8, 3}) {
    std::vector<Input> parts;
    for (int i = 0; i < 21; ++i) parts.push_back(in({6, i % 4 == 3 ? 0 : width * (i % 3 + 1), 2}));
    add(rows, op::Concat{.dim = 1, .num_args = 21}, parts);
    add(rows, op::Stack{.axis = 1, .num_args = 21}, std::vector<Input>(21, in({5, width})));
    add(rows, op::SliceChannel{.num_outputs = 21, .axis = 1}, {in({4, 21 * width, 2})});
    add(rows, op::SliceChannel{.num_outputs = 21, .axis = 1, .squeeze_axis = true}, {in({4, 21, width})});
  }
  check_gpu(rows, all_widths);
}

TEST_CASE("gpu movement: padding inside and outside of runs", "[cuda]") {
  Rows rows;
  for (PadMode mode : {PadMode::constant, PadMode::edge, PadMode::reflect}) {
    const double value = mode == PadMode::constant ? 3 : 0;
    add(rows, op::Pad{mode, Shape(0, 0, 0, 0, 2, 1, 3, 4), value}, {in({2, 3, 5, 9})});
    add(rows, op::Pad{mode, Shape(0, 0, 1, 2, 0, 0, 0, 0), value}, {in({2, 4, 3, 8})});
  }
  check_gpu(rows, all_widths);
  for (Row& row : rows) row.options.dtypes = floats;
  check_gpu(rows, all_floats);
}

TEST_CASE("gpu movement: indices of more than one tile of the sort", "[cuda]") {
  Rows rows;
  add(rows, op::Take{}, {in({300, 8}), index({5000}, -5, 310)});
  add(rows, op::Take{.mode = IndexMode::wrap}, {in({70000, 1}), index({2100}, -70000, 140000, DType::int32)});
  add(rows, op::Take{.axis = 1}, {in({3, 11, 5}), index({40, 60}, 0, 11, DType::int64)});
  add(rows, op::Embedding{.input_dim = 50, .output_dim = 16}, {index({7, 30}, 0, 50, DType::int32), in({50, 16})});
  add(rows, op::GatherNd{}, {in({40, 30, 6}), index({2, 2500}, -30, 30, DType::int32)});
  add(rows, op::GatherNd{}, {in({40, 30}), index({2, 5}, 0, 30)});
  add(rows, op::TakeGrad{.shape = Shape(300, 4)}, {in({5000, 4}), index({5000}, 0, 300)}, sums);
  add(rows, op::TakeGrad{.shape = Shape(6, 4)}, {in({0, 4}), index({0}, 0, 300)}, sums);
  check_gpu(rows, all_sums);
}

// Rows that take part very often are summed in pieces of 256.
TEST_CASE("gpu movement: rows with many contributions", "[cuda]") {
  Rows rows;
  const auto add_sum = [&](const Shape& shape, int axis, const Shape& head, std::vector<double> to) {
    const Input whole{.shape = head, .fill = Fill::integers, .low = 0, .high = 3};  // of which no sum is rounded
    const int64_t count = int64_t(to.size());
    add(rows, op::TakeGrad{.shape = shape, .axis = axis}, {whole, index({count}, std::move(to), DType::int32)}, sums);
  };
  std::vector<double> mixed, in_turn;  // indices
  for (int64_t row = 0; int64_t contributions : {0, 1, 255, 256, 511, 512, 513, 700, 3, 767, 768, 1500}) {
    mixed.insert(mixed.end(), size_t(contributions), double(row++));
  }
  for (size_t i = 0; i < mixed.size(); ++i) in_turn.push_back(mixed[i * 1009 % mixed.size()]);
  const int64_t count = int64_t(mixed.size());
  add_sum({13, 3}, 0, {count, 3}, mixed);
  add_sum({13, 3}, 0, {count, 3}, in_turn);
  add_sum({2, 13, 5}, 1, {2, count, 5}, in_turn);
  add_sum({9}, 0, {512}, std::vector<double>(512, 4));
  add_sum({9, 2}, 0, {4200, 2}, std::vector<double>(4200, 8));
  check_gpu(rows, all_sums);
  rows.clear();
  add(rows, op::Take{}, {in({9, 3}), index({4200}, 4, 5)});
  check_gpu(rows, {DType::float32, DType::float64}, 1e-5);  // in another order
}

TEST_CASE("gpu movement: one element per index", "[cuda]") {
  Rows rows;
  for (IndexMode mode : {IndexMode::clip, IndexMode::wrap}) {
    add(rows, op::Pick{.mode = mode}, {in({300, 10}), index({300}, -3, 14)});
    add(rows, op::Pick{.axis = 1, .keepdims = true, .mode = mode},
        {in({20, 10, 33}), index({20, 33}, -3, 14, DType::int8)});
  }
  add(rows, op::BatchTake{}, {in({300, 10}), index({300}, -3, 14, DType::int32)});
  add(rows, op::OneHot{.depth = 37, .on_value = 5, .off_value = 1}, {index({50}, -3, 40)});
  add(rows, op::OneHot{.depth = 37, .dtype = DType::float16}, {index({50}, -3, 40, DType::int64)});
  for (int axis : {0, 1}) {
    add(rows, op::SequenceMask{.use_sequence_length = true, .value = -1, .axis = axis},
        {in({9, 9, 16}), index({9}, 0, 11, DType::int32)}, RowOptions{.dtypes = floats});
    add(rows, op::SequenceMask{.use_sequence_length = true, .axis = axis}, {in({9, 9, 3}), index({9}, 0, 11)});
  }
  check_gpu(rows, all_widths);
}

// Last: the GPU is gone after this.
TEST_CASE("gpu movement: an index outside, where that is an error, stops the GPU", "[cuda][fault]") {
  if (!has_gpu()) return;
  const NDArray data = nd.ones({3, 2}, {.device = gpu(0)});
  const NDArray last = nd.array({2, -1, -3}).as_in_context(gpu(0)), outside = nd.array({0, 3}).as_in_context(gpu(0));
  CHECK(nd.take(data, last, {.mode = IndexMode::raise}).asvector<float>() == std::vector<float>(6, 1));
  CHECK(nd.take(data, outside).asvector<float>() == std::vector<float>(4, 1));  // clip
  const NDArray taken = nd.take(data, outside, {.mode = IndexMode::raise});
  CHECK_THROWS_AS(taken.wait_to_read(), DeviceError);
  CHECK_THROWS_WITH(nd.waitall(), Catch::Contains("launched last: [take]") && Catch::Contains("gpu_movement_test"));
}

TEST_CASE("gpu pooling: windows of a thread, of a warp and of whole planes", "[cuda]") {
  Rows rows;
  for (PoolType type : {PoolType::max, PoolType::avg, PoolType::sum, PoolType::lp}) {
    for (bool count_pad : {true, false}) {
      if (!count_pad && type != PoolType::avg) continue;
      auto pool = [&](op::Pooling op, const Shape& data) {
        op.pool_type = type;
        op.count_include_pad = count_pad;
        if (type == PoolType::lp) op.p_value = 3;
        add(rows, op, {in(data, type == PoolType::max ? Fill::integers : Fill::nonzero)}, RowOptions{.dtypes = floats});
        if (type == PoolType::max) rows.back().inputs[0].low = -3, rows.back().inputs[0].high = 4;  // many are equal
      };
      pool({.kernel = Shape(3, 3), .stride = Shape(2, 2), .pad = Shape(1, 1)}, {2, 3, 17, 19});
      pool({.kernel = Shape(2, 2), .stride = Shape(2, 2)}, {2, 3, 16, 18});
      pool({.kernel = Shape(3, 2), .pooling_convention = PoolingConvention::full, .stride = Shape(2, 3)},
           {1, 2, 10, 12});
      pool({.global_pool = true}, {3, 5, 9, 7});
      pool({.global_pool = true}, {2, 3, 4, 5, 6});
      pool({.kernel = Shape(40), .stride = Shape(7), .pad = Shape(5)}, {2, 3, 101});
      pool({.kernel = Shape(2, 36), .pad = Shape(1, 3)}, {1, 2, 5, 70});
      pool({.kernel = Shape(2, 3, 2), .stride = Shape(1, 2, 2), .pad = Shape(0, 1, 1)}, {1, 2, 4, 7, 6});
    }
  }
  check_gpu(rows, all_floats, 1e-5);
}

TEST_CASE("gpu pooling: NaN and infinities, and how a change reaches a maximum", "[cuda]") {
  constexpr double nan = std::numeric_limits<double>::quiet_NaN(), inf = std::numeric_limits<double>::infinity();
  Rows rows;
  const std::vector<double> odd{1, nan, 3, 3, -inf, -inf, inf, 0, -inf, -inf, inf, nan, 5, 5, 5, 5};
  add(rows, op::Pooling{.kernel = Shape(2, 2), .stride = Shape(2, 2)}, {in({1, 1, 4, 4}, odd)},
      RowOptions{.dtypes = floats});
  const std::vector<double> equal(64, 2.0);
  add(rows, op::Pooling{.global_pool = true}, {in({1, 1, 8, 8}, equal)}, RowOptions{.dtypes = floats});
  add(rows, op::PoolingAlong{.kernel = Shape(2, 2), .stride = Shape(2, 2)},
      {in({1, 1, 4, 4}), in({1, 1, 4, 4}, odd), in({1, 1, 2, 2}, {nan, inf, 5, nan})}, RowOptions{.dtypes = floats});
  check_gpu(rows, all_floats, 1e-5);
}

}  // namespace kaon::test::gpu_movement_test
