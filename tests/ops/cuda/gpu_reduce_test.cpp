// Reductions, softmax, losses and normalisations on a GPU at sizes that the test table is too small for: rows of a few
// threads, of a block and of many blocks; results side by side; more elements than threads keep in registers. The CPU
// is the reference.
#include <catch2/catch.hpp>
#include <limits>

#include "kaon/ops/nn/norm/kernels/moving_statistics.h"
#include "kaon/tests/support/check_gpu.h"

namespace kaon::test::gpu_reduce_test {
namespace {

const Reference none{};
constexpr double nan = std::numeric_limits<double>::quiet_NaN(), inf = std::numeric_limits<double>::infinity();

constexpr auto all_floats = {DType::float32, DType::float64, DType::float16, DType::bfloat16};
constexpr auto all_numbers = {DType::float32, DType::float64, DType::float16, DType::bfloat16,
                              DType::uint8,   DType::int8,    DType::uint16,  DType::int16,
                              DType::uint32,  DType::int32,   DType::uint64,  DType::int64};
constexpr auto wide_floats = {DType::float32, DType::float64};

const RowOptions numeric{.dtypes = numbers};
const RowOptions real{.dtypes = floats};
const RowOptions trains{.dtypes = floats, .training = true};

template <class Op>
void add(Rows& rows, const Op& op, std::vector<Input> inputs, const RowOptions& options = real) {
  rows.emplace_back(op, std::move(inputs), none, options);
}

struct Case {
  Shape shape, axis;
};
// Each way of sharing the work out: see Team and ReducePlan.
const Case cases[] = {
    {{300, 3}, {1}},
    {{70, 33}, {1}},
    {{5, 700}, {1}},
    {{3, 2500}, {1}},
    {{2, 20000}, {1}},
    {{40000}, {0}},
    {{3, 300}, {0}},
    {{700, 5}, {0}},
    {{60, 70}, {0}},
    {{9000, 3}, {0}},
    {{2, 37, 5}, {1}},
    {{20, 3, 401}, {0, 2}},
    {{3, 4, 5, 6}, {0, 2}},
    {{2, 3, 2, 3, 2, 3, 2, 3}, {0, 2, 4, 6}},
    {{2, 3, 2, 3, 2, 3, 2, 3}, {1, 3, 5, 7}},
};

std::vector<double> with(std::vector<double> values, int64_t n) {
  const size_t period = values.size();
  for (size_t i = period; i < size_t(n); ++i) values.push_back(values[i - period] + (i % 3 == 0 ? 0.25 : 0));
  values.resize(size_t(n));
  return values;
}

// Those of `dtypes` that hold the index of each of n elements: argmax refuses the others.
RowOptions of_indices(int64_t n, uint32_t dtypes) {
  const auto drop = [&](DType t, int64_t largest) {
    if (n - 1 > largest) dtypes &= ~dtype_bit(t);
  };
  drop(DType::int8, 127), drop(DType::uint8, 255), drop(DType::bfloat16, 256), drop(DType::float16, 2048);
  drop(DType::int16, 32767), drop(DType::uint16, 65535);
  return {.dtypes = dtypes};
}

}  // namespace

TEST_CASE("gpu reduce: rows, columns and parts of results", "[cuda]") {
  Rows sums, exact;
  for (const Case& c : cases) {
    add(sums, op::Sum{.axis = c.axis}, {in(c.shape)}, numeric);
    add(sums, op::Mean{.axis = c.axis}, {in(c.shape, Fill::positive)});
    add(sums, op::Norm{.axis = c.axis}, {in(c.shape)});
    add(sums, op::Norm{.ord = 1, .axis = c.axis}, {in(c.shape)});
    add(exact, op::Max{.axis = c.axis}, {in(c.shape)}, numeric);
    add(exact, op::Min{.axis = c.axis}, {in(c.shape)}, numeric);
    if (c.axis.ndim() == 1) {
      const int axis = int(c.axis[0]);
      const RowOptions holds = of_indices(c.shape[axis], every_dtype);
      add(exact, op::ArgMax{.axis = axis}, {constant(in(c.shape))}, holds);
      add(exact, op::ArgMin{.axis = axis}, {constant(in(c.shape))}, holds);
    }
  }
  check_gpu(sums, all_numbers, 1e-5);
  check_gpu(exact, all_numbers);
}

TEST_CASE("gpu reduce: products, and integers that wrap", "[cuda]") {
  Rows rows, integers;
  for (const Shape& axis : {Shape(0), Shape(1)}) {
    add(rows, op::Prod{.axis = axis}, {in({60, 50}, with({0.8, 1.2, -1.1, 0.95, 1.05}, 3000))});
    add(rows, op::Prod{.axis = axis}, {in({60, 50}, with({0.8, 1.2, 0, 0.95, 1.05, -1}, 3000))});
    add(rows, op::NanProd{.axis = axis}, {in({60, 50}, with({0.8, 1.2, nan, 0.95, 1.05, -1}, 3000))});
    add(rows, op::NanSum{.axis = axis}, {in({60, 50}, with({0.8, nan, 1.2}, 3000))});
    add(integers, op::Prod{.axis = axis}, {in({60, 50}, Fill::distinct)}, numeric);
    add(integers, op::Sum{.axis = axis}, {in({60, 50}, Fill::distinct)}, numeric);
  }
  add(integers, op::Sum{}, {in({3, 70001}, Fill::distinct)}, numeric);
  check_gpu(rows, wide_floats, 1e-4);
  check_gpu(integers, {DType::uint8, DType::int8, DType::uint16, DType::int16, DType::int32, DType::uint64});
}

TEST_CASE("gpu reduce: a NaN wins, and of equal elements the first", "[cuda]") {
  Rows rows;
  for (const Shape& shape : {Shape(7, 300), Shape(300, 7), Shape(1, 9000)}) {
    for (const int axis : {0, 1}) {
      for (const std::vector<double>& values :
           {std::vector<double>{1, nan, 3, 2, nan, 5, inf}, {3, 3, 1, 1, 3}, {-inf, -inf, -inf}, {-0.0, 0.0}}) {
        std::vector<double> all;
        for (int64_t i = 0; i < shape.size(); ++i) all.push_back(values[size_t(i) % values.size()]);
        add(rows, op::ArgMax{.axis = axis}, {constant(in(shape, all))}, of_indices(shape[axis], floats));
        add(rows, op::ArgMin{.axis = axis}, {constant(in(shape, all))}, of_indices(shape[axis], floats));
      }
    }
  }
  check_gpu(rows, all_floats);
}

TEST_CASE("gpu reduce: sums to a shape", "[cuda]") {
  Rows rows;
  add(rows, op::SumTo{.shape = Shape(1, 6)}, {in({500, 6})}, numeric);
  add(rows, op::SumTo{.shape = Shape(6)}, {in({30, 20, 6})}, numeric);
  add(rows, op::SumTo{.shape = Shape(1, 12, 1, 1)}, {in({6, 12, 9, 11})}, numeric);
  add(rows, op::SumTo{.shape = Shape(40, 1)}, {in({3, 40, 333})}, numeric);
  add(rows, op::SumTo{.shape = Shape(1)}, {in({2, 9000})}, numeric);
  check_gpu(rows, all_numbers, 1e-5);
}

TEST_CASE("gpu softmax: rows and columns of every length", "[cuda]") {
  Rows rows;
  for (const Shape& shape : {Shape(3, 1), Shape(70, 5), Shape(6, 100), Shape(2, 257), Shape(2, 1500), Shape(2, 5000),
                             Shape(5, 7, 9), Shape(2, 600, 3), Shape(3, 4, 300)}) {
    for (const int axis : {1, -1, 0}) {
      add(rows, op::Softmax{.axis = axis, .temperature = 0.7}, {in(shape)});
      add(rows, op::LogSoftmax{.axis = axis}, {in(shape)});
      add(rows, op::Softmin{.axis = axis}, {in(shape)});
    }
  }
  const RowOptions halves{.dtypes = dtype_bit(DType::float16) | dtype_bit(DType::bfloat16)};
  add(rows, op::Softmax{.dtype = DType::float32}, {in({9, 40})}, halves);
  add(rows, op::LogSoftmax{.axis = 0, .dtype = DType::float64}, {in({9, 40})});
  add(rows, op::Softmax{.axis = 1, .use_length = true}, {in({2, 9, 4}), index({2, 4}, 0, 10, DType::int32)});
  add(rows, op::Softmax{.use_length = true}, {in({4, 40}), index({4}, {0, 1, 17, 40}, DType::int32)});
  add(rows, op::Softmax{.use_length = true}, {in({4, 3000}), index({4}, {-3, 2.9, nan, 9000})});
  add(rows, op::SoftmaxActivation{}, {in({3, 4, 50})});
  add(rows, op::SoftmaxActivation{.mode = SoftmaxMode::channel}, {in({3, 4, 50})});
  check_gpu(rows, all_floats, 1e-5);
}

TEST_CASE("gpu softmax: infinities and NaN", "[cuda]") {
  Rows rows;
  for (const std::vector<double>& odd :
       {std::vector<double>{-inf, 1, 2}, {inf, 1, 2}, {nan, 1, 2}, {-inf, -inf, -inf}, {-inf, nan, inf}}) {
    for (const int64_t n : {6, 3000}) {
      std::vector<double> values(size_t(2 * n), 0.5);
      for (size_t i = 0; i < 3; ++i) values[i] = odd[i], values[size_t(n) + 3 - i] = odd[i];
      if (odd[2] == -inf) std::fill_n(values.begin(), n, -inf);
      add(rows, op::Softmax{}, {constant(in({2, n}, values))});
      add(rows, op::LogSoftmax{}, {constant(in({2, n}, values))});
      add(rows, op::Softmax{.axis = 0}, {constant(in({2, n}, values))});
    }
  }
  check_gpu(rows, all_floats, 1e-5);
}

TEST_CASE("gpu losses: labels of every kind", "[cuda]") {
  Rows rows;
  const Input labels = index({6}, {0, 4, -1, nan, 9, 2});
  const RowOptions once{.dtypes = floats, .differentiate = false};
  for (const Normalization n : {Normalization::null, Normalization::batch, Normalization::valid}) {
    add(rows, op::BackwardSoftmaxOutput{.grad_scale = 3, .ignore_label = 2, .use_ignore = true, .normalization = n},
        {in({6, 5}, Fill::unit), labels}, once);
    add(rows, op::BackwardSoftmaxOutput{.ignore_label = 2, .normalization = n, .smooth_alpha = 0.2},
        {in({6, 300}, Fill::unit), index({6}, 0, 300, DType::int32)}, once);
    add(rows, op::BackwardSoftmaxOutput{.multi_output = true, .normalization = n, .out_grad = true},
        {in({3, 4, 50}, Fill::unit), index({3, 50}, 0, 4), in({3, 4, 50})}, once);
    add(rows, op::BackwardMakeLoss{.grad_scale = 2, .valid_thresh = 0.1, .normalization = n}, {in({50, 60})}, once);
  }
  add(rows, op::BackwardSoftmaxOutput{.grad_scale = 2}, {in({6, 5}, Fill::unit), in({6, 5}, Fill::unit)}, once);
  add(rows, op::SoftmaxOutput{.preserve_shape = true}, {in({6, 5, 40}), index({6, 5}, 0, 40)}, once);
  add(rows, op::SoftmaxCrossEntropy{}, {in({600, 50}), index({600}, -2, 52)}, once);
  add(rows, op::BackwardSoftmaxCrossEntropy{}, {in({1}), in({6, 50}), labels}, once);
  add(rows, op::LogisticRegressionOutput{}, {in({40, 30}), in({40, 30})}, once);
  for (const RegressionKind kind : {RegressionKind::linear, RegressionKind::mae, RegressionKind::logistic}) {
    add(rows, op::BackwardRegressionOutput{.kind = kind, .grad_scale = 1.5}, {in({40, 30}), in({40, 30})}, once);
  }
  check_gpu(rows, all_floats, 1e-5);
}

TEST_CASE("gpu normalisations: few and many channels, rows of every length", "[cuda]") {
  Rows rows;
  for (const int axis : {-1, 1, 0}) {
    for (const Shape& shape : {Shape(40, 7), Shape(9, 300), Shape(3, 3000), Shape(4, 5, 60)}) {
      const Shape n(shape[normalize_axis(axis, shape.ndim(), "test")]);
      add(rows, op::LayerNorm{.axis = axis}, {in(shape), in(n, Fill::positive), in(n)});
      Shape row = shape;
      row[normalize_axis(axis, shape.ndim(), "test")] = 1;
      add(rows, op::LayerNorm{.axis = axis}, {in(shape), in(row, Fill::positive), in(row)});
    }
  }
  check_gpu(rows, wide_floats, 1e-3);
  const auto channels = [](int64_t n) { return constant(in(Shape(n), Fill::positive)); };
  Rows norms;
  for (const Shape& shape : {Shape(8, 3, 20, 25), Shape(300, 40), Shape(3, 70, 9)}) {
    const int64_t n = shape[1];
    for (const RowOptions& mode : {trains, real}) {
      add(norms, op::BatchNorm{}, {in(shape), in(Shape(n), Fill::positive), in(Shape(n)), channels(n), channels(n)},
          mode);
      add(norms, op::BatchNorm{.momentum = 0.5, .fix_gamma = false, .axis = 1},
          {in(shape), in(Shape(n), Fill::positive), in(Shape(n)), channels(n), channels(n)}, mode);
    }
    add(norms, op::BatchNorm{.fix_gamma = false, .use_global_stats = true},
        {in(shape), in(Shape(n), Fill::positive), in(Shape(n)), channels(n), channels(n)}, trains);
  }
  for (const int64_t n : {1, 70, 3000}) {  // of either sign: some of them stay
    add(norms, op::MoveStatistics{.eps = 1e-5, .momentum = 0.5},
        {channels(n), channels(n), in(Shape(n)), in(Shape(n))});
  }
  check_gpu(norms, wide_floats, 1e-3);
}

}  // namespace kaon::test::gpu_reduce_test
