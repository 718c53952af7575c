// Dense layers of weights of a few bits beside sums in double, with the vectors of every processor that this one can
// be, on any number of threads, their gradients, and on a GPU.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <random>

#include "kaon/kaon.h"
#include "kaon/ops/quant/kernels/block_dense.h"
#include "kaon/ops/quant/kernels/block_weights.h"
#include "kaon/tests/support/skip.h"
#include "kaon/tests/support/targets.h"

namespace block_dense_test {

using namespace kaon;

namespace {

template <class Op>
NDArray run(const Op& op, const std::vector<NDArray>& inputs) {
  std::vector<const NDArray*> pointers;
  for (const NDArray& x : inputs) pointers.push_back(&x);
  NDArray out;
  NDArray::apply(Op::def, &op, pointers, std::span(&out, 1), std::source_location::current(), "");
  return out;
}

enum class Zeros { none, packed, numbers };

// The inputs of a layer.
struct Layer {
  op::BlockQuantizedDense op;
  int64_t n, k;
  Zeros zeros;
  std::vector<NDArray> inputs;  // data first

  int64_t blocks() const { return (k + op.block_size - 1) / op.block_size; }
  op::BlockDequantize weight_op() const { return {k, op.bits, op.block_size, op.has_zeros}; }
  std::vector<NDArray> weight_inputs() const { return {inputs.begin() + 1, inputs.begin() + 3 + int(op.has_zeros)}; }

  // W in double.
  std::vector<double> weight() const {
    const auto codes = inputs[1].asvector<uint8_t>();
    const auto scales = inputs[2].astype(DType::float64).asvector<double>();
    const auto zero = op.has_zeros ? inputs[3].astype(DType::float64).asvector<double>() : std::vector<double>();
    const int64_t per = 8 / op.bits, row_bytes = blocks() * op.block_size / per, mask = (1 << op.bits) - 1;
    const auto code = [&](int64_t byte, int64_t j) { return double(byte >> (j % per * op.bits) & mask); };
    std::vector<double> w;
    for (int64_t r = 0; r < n; ++r) {
      for (int64_t j = 0; j < k; ++j) {
        const int64_t b = j / op.block_size, at = r * blocks() + b;
        double z = double(int64_t(1) << (op.bits - 1));
        if (zeros == Zeros::numbers) z = zero[size_t(at)];
        if (zeros == Zeros::packed) z = code(int64_t(zero[size_t(r * ((blocks() + per - 1) / per) + b / per)]), b);
        w.push_back((code(codes[size_t(r * row_bytes + j / per)], j) - z) * scales[size_t(at)]);
      }
    }
    return w;
  }
};

class Draw {
 public:
  explicit Draw(uint32_t seed) : bits_(seed) {}
  int64_t up_to(int64_t n, int64_t low = 1) { return std::uniform_int_distribution<int64_t>(low, n)(bits_); }
  NDArray bytes(const Shape& shape) {
    std::vector<uint8_t> v(static_cast<size_t>(shape.size()));
    for (uint8_t& b : v) b = uint8_t(up_to(255, 0));
    return NDArray::from(v.data(), v.size(), shape, DType::uint8);
  }
  NDArray numbers(const Shape& shape, DType dtype, double middle = 0) {
    std::vector<double> v(static_cast<size_t>(shape.size()));
    for (double& x : v) x = middle + std::normal_distribution<double>()(bits_);
    return NDArray::from(v.data(), v.size(), shape, DType::float64).astype(dtype);
  }

  Layer layer(const Shape& data, int64_t n, int bits, int64_t block, Zeros zeros, bool has_bias, DType dtype) {
    Layer l{
        .op = {bits, block, zeros != Zeros::none, !has_bias}, .n = n, .k = data.back(), .zeros = zeros, .inputs = {}};
    const Shape by_block(n, l.blocks());
    l.inputs = {numbers(data, dtype), bytes(Shape(n, l.blocks(), block * bits / 8)), numbers(by_block, dtype)};
    if (zeros == Zeros::packed) l.inputs.push_back(bytes(Shape(n, (l.blocks() * bits + 7) / 8)));
    if (zeros == Zeros::numbers) l.inputs.push_back(numbers(by_block, dtype, 1 << (bits - 1)));
    if (has_bias) l.inputs.push_back(numbers(Shape(n), dtype));
    return l;
  }
  Layer layer() {
    static constexpr int64_t rows[] = {1, 1, 2, 3, 7, 8, ops::few_rows, ops::few_rows + 1, 40};
    static constexpr DType dtypes[] = {DType::float32, DType::float32, DType::float16, DType::bfloat16};
    static constexpr int bits[] = {2, 4, 4, 8};
    const int64_t k = up_to(3) == 1 ? up_to(2000) : up_to(140), m = rows[up_to(8, 0)];
    const Shape data = m == 1 && up_to(2) == 1 ? Shape(k) : m == 8 ? Shape(2, 4, k) : Shape(m, k);
    return layer(data, up_to(23), bits[up_to(3, 0)], int64_t(16) << up_to(4, 0), Zeros(up_to(2, 0)), up_to(2) == 1,
                 dtypes[up_to(3, 0)]);
  }

 private:
  std::mt19937 bits_;
};

// Of the result's last rounding.
double rounding(DType t) { return t == DType::float32 ? 0x1p-24 : t == DType::float16 ? 0x1p-11 : 0x1p-8; }

// Sums in float32, whose error grows with the terms' absolute values, rounded once to the dtype.
// `of_terms`: besides, how exact each term is.
void check(const Layer& l, const NDArray& y, double of_terms = 0) {
  const int64_t m = l.inputs[0].size() / l.k;
  CAPTURE(m, l.k, l.n, l.op.bits, l.op.block_size, int(l.zeros), l.op.no_bias, name_of(y.dtype()));
  Shape expected = l.inputs[0].shape();
  expected[expected.ndim() - 1] = l.n;
  REQUIRE(y.shape() == expected);
  const std::vector<double> w = l.weight();
  const auto x = l.inputs[0].astype(DType::float64).asvector<double>();
  const auto got = y.astype(DType::float64).asvector<double>();
  const auto bias = l.op.no_bias ? std::vector<double>() : l.inputs.back().astype(DType::float64).asvector<double>();
  for (int64_t i = 0; i < m; ++i) {
    for (int64_t r = 0; r < l.n; ++r) {
      double sum = bias.empty() ? 0 : bias[size_t(r)], size = std::fabs(sum);
      for (int64_t j = 0; j < l.k; ++j) {
        const double term = x[size_t(i * l.k + j)] * w[size_t(r * l.k + j)];
        sum += term, size += std::fabs(term);
      }
      REQUIRE(std::fabs(got[size_t(i * l.n + r)] - sum) <=
              rounding(y.dtype()) * std::fabs(sum) + (1e-6 + of_terms) * size + 1e-7);
    }
  }
}

}  // namespace

TEST_CASE("block dense: products and weights are those in double", "[ops]") {
  Draw draw(3);
  for (int i = 0; i < 400; ++i) {
    const Layer l = draw.layer();
    check(l, run(l.op, l.inputs));
    const auto got = run(l.weight_op(), l.weight_inputs()).asvector<float>();
    const std::vector<double> w = l.weight();
    REQUIRE(got.size() == w.size());
    for (size_t j = 0; j < w.size(); ++j) REQUIRE(got[j] == Approx(w[j]).epsilon(1e-6).margin(1e-30));
  }
}

TEST_CASE("block dense: with the vectors of every processor", "[ops]") {
  Engine engine({.threads = 0});  // no kernel runs while the target changes
  EngineScope scope(engine);
  test::for_each_target([&] {
    Draw draw(5);
    for (int i = 0; i < 60; ++i) {
      const Layer l = draw.layer();
      check(l, run(l.op, l.inputs));
    }
  });
}

TEST_CASE("block dense: the same bits for any number of threads", "[ops]") {
  std::vector<float> expected;
  for (const int threads : {0, 1, 2, 4}) {
    Engine engine({.threads = threads});
    EngineScope scope(engine);
    std::vector<float> all;
    Draw draw(19);
    for (const int64_t m : {1, 5, 40}) {
      const Layer l = draw.layer(Shape(m, 1030), 1201, 4, 32, Zeros::packed, true, DType::float32);
      const auto y = run(l.op, l.inputs).asvector<float>();
      all.insert(all.end(), y.begin(), y.end());
    }
    if (threads == 0) expected = all;
    CHECK(all == expected);
  }
}

TEST_CASE("block dense: arrays without elements, and NaN beside rows", "[ops]") {
  Draw draw(7);
  Layer l = draw.layer(Shape(0, 40), 5, 4, 16, Zeros::packed, true, DType::float32);
  CHECK(run(l.op, l.inputs).shape() == Shape(0, 5));
  l = draw.layer(Shape(2, 40), 0, 4, 16, Zeros::none, false, DType::float32);
  CHECK(run(l.op, l.inputs).shape() == Shape(2, 0));
  // a NaN in a row of W, or of x, stays there
  for (const int64_t m : {1, 3, 20}) {
    l = draw.layer(Shape(m, 40), 7, 4, 16, Zeros::numbers, false, DType::float32);
    auto scales = l.inputs[2].asvector<float>();
    scales[3 * 3] = NAN;
    l.inputs[2] = nd.array(scales, {7, 3});
    const auto y = run(l.op, l.inputs).asvector<float>();
    for (size_t i = 0; i < y.size(); ++i) CHECK(std::isnan(y[i]) == (i % 7 == 3));
  }
}

TEST_CASE("block dense: the gradients of data and bias", "[ops]") {
  Draw draw(11);
  for (const int64_t m : {1, 5, 20}) {
    for (const Zeros zeros : {Zeros::none, Zeros::packed, Zeros::numbers}) {
      Layer l = draw.layer(Shape(m, 70), 9, 4, 32, zeros, true, DType::float32);
      const NDArray head = draw.numbers(Shape(m, 9), DType::float32);
      l.inputs.front().attach_grad();
      l.inputs.back().attach_grad();
      const NDArray y = autograd::record([&] { return run(l.op, l.inputs); });
      y.backward(head);
      const std::vector<double> w = l.weight();
      const NDArray weight = NDArray::from(w.data(), w.size(), {9, 70}, DType::float64).astype(DType::float32);
      CHECK(nd.max(nd.abs(l.inputs.front().grad() - nd.dot(head, weight))).asscalar<float>() < 1e-4f);
      CHECK(nd.max(nd.abs(l.inputs.back().grad() - nd.sum(head, {.axis = Shape(0)}))).asscalar<float>() < 1e-5f);
    }
  }
}

TEST_CASE("block dense: what does not fit is refused", "[ops]") {
  Draw draw(13);
  const Layer l = draw.layer(Shape(2, 40), 3, 4, 16, Zeros::packed, true, DType::float32);
  const auto fails = [&](auto change, const std::string& why) {
    Layer other = l;
    change(other);
    CHECK_THROWS_WITH(run(other.op, other.inputs), Catch::Contains("[_block_quantized_dense]") && Catch::Contains(why));
  };
  fails([](Layer& o) { o.op.bits = 3; }, "bits must be 2, 4 or 8, got 3");
  fails([](Layer& o) { o.op.block_size = 24; }, "block_size must be a power of two from 16 on, got 24");
  fails([](Layer& o) { o.op.block_size = 8; }, "block_size must be a power of two from 16 on, got 8");
  fails([](Layer& o) { o.op.block_size = 32; }, "(3, 2, 16)");
  fails([](Layer& o) { o.inputs[1] = o.inputs[1].astype(DType::int8); }, "int8");
  fails([](Layer& o) { o.inputs[2] = nd.ones({3, 2}); }, "(3, 3)");
  fails([](Layer& o) { o.inputs[3] = nd.ones({3, 2}); }, "(3, 3)");
  fails([](Layer& o) { o.inputs[4] = nd.ones({2}); }, "(3,)");
  fails([](Layer& o) { o.inputs[0] = o.inputs[0].astype(DType::float64); }, "float64");
}

TEST_CASE("block dense: on a GPU", "[ops][cuda]") {
  if (!test::has_gpu()) return;
  Draw draw(17);
  for (int i = 0; i < 60; ++i) {
    Layer l = draw.layer();
    const auto there = [](std::vector<NDArray> all) {
      for (NDArray& x : all) x = x.as_in_context(gpu(0));
      return all;
    };
    // many rows are multiplied with weights that are rounded to their dtype
    const bool is_many = l.inputs[0].size() / l.k > 16;
    check(l, run(l.op, there(l.inputs)), is_many ? rounding(l.inputs[0].dtype()) : 0);
    const NDArray w = run(l.weight_op(), there(l.weight_inputs()));
    CHECK(w.asvector<float>() == run(l.weight_op(), l.weight_inputs()).asvector<float>());
  }
}

}  // namespace block_dense_test
