// Operators of whole numbers against loops over single numbers, in every layout of images that plans have.
#include <catch2/catch.hpp>

#include <cmath>
#include <random>

#include "kaon/kaon.h"
#include "kaon/ops/quant/kernels/integer_layers.h"
#include "kaon/ops/quant/kernels/integer_values.h"

namespace onnx_integer_layers_test {

using namespace kaon;

namespace {

template <class Out, class Op, class In>
Out applied(const Op& op, const std::vector<In>& inputs) {
  std::vector<const In*> pointers;
  for (const In& x : inputs) pointers.push_back(&x);
  Out out;
  Out::apply(Op::def, &op, pointers, std::span(&out, 1), std::source_location::current(), "");
  return out;
}

template <class Op>
NDArray run(const Op& op, const std::vector<NDArray>& inputs) {
  return applied<NDArray>(op, inputs);
}

std::mt19937 random_bits(7);
int random_int(int low, int high) { return std::uniform_int_distribution<int>(low, high)(random_bits); }

NDArray random_levels(const Shape& shape, DType dtype) {
  std::vector<int32_t> all;
  for (int64_t i = 0; i < shape.size(); ++i) {
    all.push_back(dtype == DType::int8 ? random_int(-128, 127) : random_int(0, 255));
  }
  return NDArray::from(all.data(), all.size(), shape, DType::int32).astype(dtype);
}

std::vector<int32_t> numbers(const NDArray& x) { return x.astype(DType::int32).asvector<int32_t>(); }

// The sums of a convolution of one group.
std::vector<int32_t> sums_of(const op::IntegerConv& op, const NDArray& data, const NDArray& weight, const NDArray& bias,
                             const Shape& out) {
  const std::vector<int32_t> x = numbers(data), w = numbers(weight), b = numbers(bias);
  const Shape &in = data.shape(), &filter = weight.shape();
  std::vector<int32_t> y;
  for (int64_t n = 0; n < out[0]; ++n) {
    for (int64_t o = 0; o < out[1]; ++o) {
      for (int64_t i = 0; i < out[2]; ++i) {
        for (int64_t j = 0; j < out[3]; ++j) {
          int32_t sum = b[size_t(o)];
          for (int64_t c = 0; c < in[1]; ++c) {
            for (int64_t k = 0; k < filter[2]; ++k) {
              for (int64_t l = 0; l < filter[3]; ++l) {
                const int64_t row = i * op.stride[0] - op.pad[0] + k * op.dilate[0];
                const int64_t column = j * op.stride[1] - op.pad[1] + l * op.dilate[1];
                if (row < 0 || column < 0 || row >= in[2] || column >= in[3]) continue;
                sum += x[size_t(((n * in[1] + c) * in[2] + row) * in[3] + column)] *
                       w[size_t(((o * in[1] + c) * filter[2] + k) * filter[3] + l)];
              }
            }
          }
          y.push_back(sum);
        }
      }
    }
  }
  return y;
}

}  // namespace

TEST_CASE("onnx quantised: sums of whole numbers are exact for all sizes of convolutions", "[onnx]") {
  struct Case {
    int64_t batch, channels, filters, height, width;
    Shape kernel, stride, dilate, pad;
  };
  const Case cases[] = {
      {1, 3, 64, 23, 20, Shape(7, 7), Shape(2, 2), Shape(1, 1), Shape(3, 3)},
      {2, 16, 16, 9, 7, Shape(3, 3), Shape(1, 1), Shape(1, 1), Shape(1, 1)},
      {1, 64, 128, 14, 14, Shape(3, 3), Shape(2, 2), Shape(1, 1), Shape(1, 1)},
      {1, 64, 256, 7, 7, Shape(1, 1), Shape(1, 1), Shape(1, 1), Shape(0, 0)},
      {1, 32, 65, 8, 9, Shape(1, 1), Shape(2, 2), Shape(1, 1), Shape(0, 0)},
      {3, 5, 17, 6, 11, Shape(2, 3), Shape(1, 2), Shape(2, 2), Shape(1, 0)},
      {1, 1, 1, 1, 1, Shape(1, 1), Shape(1, 1), Shape(1, 1), Shape(0, 0)},
      {1, 2, 130, 3, 3, Shape(3, 1), Shape(1, 1), Shape(1, 1), Shape(2, 2)},
      {1, 24, 48, 40, 33, Shape(5, 3), Shape(1, 1), Shape(1, 1), Shape(2, 1)},
  };
  for (const Case& k : cases) {
    CAPTURE(k.channels, k.filters, k.height, k.width);
    for (DType dtype : {DType::uint8, DType::int8}) {
      op::IntegerConv op{.kernel = k.kernel,
                         .stride = k.stride,
                         .dilate = k.dilate,
                         .pad = k.pad,
                         .num_filter = int(k.filters),
                         .out_type = DType::int32};
      const NDArray x = random_levels(Shape(k.batch, k.channels, k.height, k.width), dtype);
      const NDArray w = random_levels(Shape(k.filters, k.channels, k.kernel[0], k.kernel[1]), DType::int8);
      const NDArray bias = nd.random_randint(-5000, 5000, Shape(k.filters)).astype(DType::int32);
      const NDArray scale = nd.random_uniform(Shape(k.filters), {.low = 1e-4, .high = 2e-3});
      const NDArray y = run(op, {x, w, bias, scale});
      const std::vector<int32_t> sums = sums_of(op, x, w, bias, y.shape());
      CHECK(y.asvector<int32_t>() == sums);

      // their levels
      op.out_type = DType::uint8, op.zero = 3, op.relu = true;
      const std::vector<float> scales = scale.asvector<float>();
      std::vector<int32_t> levels;
      const int64_t plane = y.shape()[2] * y.shape()[3];
      for (size_t i = 0; i < sums.size(); ++i) {
        const float number = float(sums[i]) * scales[size_t(int64_t(i) / plane % k.filters)];
        levels.push_back(int32_t(std::min(std::nearbyint(std::max(number, 0.f)) + 3, 255.f)));
      }
      CHECK(numbers(run(op, {x, w, bias, scale})) == levels);
    }
  }
}

TEST_CASE("onnx quantised: dense layers of whole numbers are exact for all sizes", "[onnx]") {
  for (const auto& [rows, inputs, filters] : {std::tuple{1, 512, 1000}, {7, 30, 16}, {130, 64, 100}, {61, 3, 65}}) {
    CAPTURE(rows, inputs, filters);
    for (DType dtype : {DType::uint8, DType::int8}) {
      const NDArray x = random_levels(Shape(rows, inputs), dtype),
                    w = random_levels(Shape(filters, inputs), DType::int8);
      const NDArray bias = nd.random_randint(-5000, 5000, Shape(filters)).astype(DType::int32);
      const op::IntegerDense op{.num_hidden = filters, .out_type = DType::int32};
      const std::vector<int32_t> a = numbers(x), b = numbers(w);
      const std::vector<int32_t> start = numbers(bias);
      std::vector<int32_t> sums;
      for (int i = 0; i < rows * filters; ++i) sums.push_back(start[size_t(i % filters)]);
      for (int i = 0; i < rows * filters; ++i) {
        for (int k = 0; k < inputs; ++k) {
          sums[size_t(i)] += a[size_t(i / filters * inputs + k)] * b[size_t(i % filters * inputs + k)];
        }
      }
      CHECK(run(op, {x, w, bias, nd.ones(Shape(filters))}).asvector<int32_t>() == sums);
    }
  }
}

TEST_CASE("onnx quantised: levels of numbers, sums and maxima are those of the standard", "[onnx]") {
  const NDArray x = nd.array({0.5, 1.5, 2.5, -0.5, -1.5, 300, -300, std::numeric_limits<float>::infinity()});
  CHECK(numbers(run(op::IntegerQuantize{.scale = 1, .zero = 5}, {x})) ==
        std::vector<int32_t>{5, 7, 7, 5, 3, 255, 0, 255});
  CHECK(numbers(run(op::IntegerQuantize{.scale = 0.5, .zero = -3, .out_type = DType::int8}, {x})) ==
        std::vector<int32_t>{-2, 0, 2, -4, -6, 127, -128, 127});
  CHECK_THROWS_WITH(run(op::IntegerQuantize{.scale = 0}, {x}), Catch::Contains("scale must be above 0"));

  const Shape shape(2, 16, 9, 11);
  for (DType left : {DType::uint8, DType::int8}) {
    for (DType right : {DType::uint8, DType::int8}) {
      const NDArray a = random_levels(shape, left), b = random_levels(shape, right);
      const op::IntegerDequantize number_of_a{.scale = 0.013f, .zero = 4}, number_of_b{.scale = 0.0071f, .zero = -90};
      const NDArray m = run(number_of_a, {a}), n = run(number_of_b, {b});
      CHECK(m.asvector<float>() == ((a.astype(DType::float32) - 4.0) * double(0.013f)).asvector<float>());
      for (bool relu : {false, true}) {
        const op::IntegerAdd op{.lhs_scale = 0.013f,
                                .rhs_scale = 0.0071f,
                                .scale = 0.0173f,
                                .lhs_zero = 4,
                                .rhs_zero = -90,
                                .zero = 100,
                                .relu = relu};
        const NDArray sum = relu ? nd.relu(m + n) : m + n;
        const NDArray levels = run(op::IntegerQuantize{.scale = 0.0173f, .zero = 100}, {sum});
        CHECK(numbers(run(op, {a, b})) == numbers(levels));
      }
    }
    const NDArray a = random_levels(shape, left);
    const op::IntegerMaxPool pool{.kernel = Shape(3, 2), .stride = Shape(2, 3), .pad = Shape(1, 1)};
    const NDArray floats =
        nd.Pooling(a.astype(DType::float32), {.kernel = pool.kernel, .stride = pool.stride, .pad = pool.pad});
    CHECK(numbers(run(pool, {a})) == numbers(floats));
  }
}

TEST_CASE("onnx quantised: plans keep levels with channels last between layers, with the same results", "[onnx]") {
  const int64_t channels = 32;
  const auto constant = [](const NDArray& x) { return Symbol::constant(x); };
  const auto conv = [&](const Symbol& x, int64_t from, DType out) {
    const op::IntegerConv op{.kernel = Shape(3, 3),
                             .stride = Shape(1, 1),
                             .dilate = Shape(1, 1),
                             .pad = Shape(1, 1),
                             .num_filter = int(channels),
                             .out_type = out,
                             .relu = true};
    return applied<Symbol>(
        op, std::vector<Symbol>{x, constant(random_levels(Shape(channels, from, 3, 3), DType::int8)),
                                constant(nd.zeros({channels}, {.dtype = DType::int32})),
                                constant(nd.random_uniform(Shape(channels), {.low = 1e-4, .high = 1e-3}))});
  };
  const Symbol x = sym.var("x");
  const Symbol first =
      conv(applied<Symbol>(op::IntegerQuantize{.scale = 0.01}, std::vector<Symbol>{x}), 3, DType::uint8);
  const Symbol pooled =
      applied<Symbol>(op::IntegerMaxPool{.kernel = Shape(2, 2), .stride = Shape(2, 2)}, std::vector<Symbol>{first});
  const Symbol sum =
      applied<Symbol>(op::IntegerAdd{.lhs_scale = 0.1, .rhs_scale = 0.2, .scale = 0.25, .out_type = DType::int8},
                      std::vector<Symbol>{conv(pooled, channels, DType::uint8), pooled});
  const Symbol as_numbers = applied<Symbol>(op::IntegerDequantize{.scale = 0.25}, std::vector<Symbol>{sum});
  const Symbol all =
      sym.Group({conv(sum, channels, DType::float32), conv(sum, channels, DType::int32), as_numbers, sum});
  gluon::SymbolBlock net(all, {"x"});
  const NDArray image = nd.random_uniform({2, 3, 21, 18});
  const std::vector<NDArray> plain = net.forward({image});
  net.hybridize({.static_alloc = true, .static_shape = true});
  const std::vector<NDArray> planned = net.forward({image});
  REQUIRE(plain.size() == planned.size());
  for (size_t i = 0; i < plain.size(); ++i) {
    CAPTURE(i);
    CHECK(plain[i].astype(DType::float32).asvector<float>() == planned[i].astype(DType::float32).asvector<float>());
  }
  const std::string plan = net.plan()->dump();
  CHECK_THAT(plan, Catch::Contains("3 reorders of images"));  // of what leaves the net, and before sums in int32
}

}  // namespace onnx_integer_layers_test
