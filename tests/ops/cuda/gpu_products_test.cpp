// Matrix products and convolutions on a GPU against the CPU: what the rows of check_op, which lie well in memory, do
// not reach. Run on the emulator (tests/cuda_emulator) where there is none.
#include <catch2/catch.hpp>

#include "kaon/engine/device/backend.h"
#include "kaon/kaon.h"
#include "kaon/tests/support/skip.h"

namespace gpu_products_test {

using namespace kaon;
using namespace kaon::ops;
using namespace kaon::engine;

namespace {

constexpr DType floats[] = {DType::float32, DType::float64, DType::float16, DType::bfloat16};

double tolerance(DType t) {
  return t == DType::float64 ? 1e-12 : t == DType::float32 ? 1e-5 : t == DType::float16 ? 4e-3 : 3e-2;
}

// Different numbers for different seeds, in eighths.
NDArray numbers(const Shape& shape, int seed, DType t = DType::float32) {
  std::vector<float> v(static_cast<size_t>(shape.size()));
  for (size_t i = 0; i < v.size(); ++i) v[i] = float(int((i + size_t(seed)) * 37 % 23) - 11) / 8;
  return nd.array(v, shape).astype(t);
}

// A copy on the GPU that begins `skipped` elements into a block.
NDArray there(const NDArray& x, int skipped = 0) {
  if (skipped == 0 || x.size() == 0) return x.as_in_context(gpu(0));
  NDArray block = nd.zeros({skipped + x.size()}, {.dtype = x.dtype()});
  block.slice(skipped, skipped + x.size()).assign(x.reshape({-1}));
  return block.as_in_context(gpu(0)).slice(skipped, skipped + x.size()).reshape(x.shape());
}

void check_close(const NDArray& got, const NDArray& want) {
  REQUIRE(got.device() == gpu(0));
  REQUIRE(got.shape() == want.shape());
  REQUIRE(got.dtype() == want.dtype());
  const std::vector<double> g = got.asvector<double>(), w = want.asvector<double>();
  double largest = 1;
  for (double v : w) largest = std::max(largest, std::abs(v));
  for (size_t i = 0; i < w.size(); ++i) {
    INFO("element " << i);
    REQUIRE(g[i] == Approx(w[i]).margin(largest * tolerance(want.dtype())));
  }
}

}  // namespace

TEST_CASE("gpu: products of matrices of all sizes, types and places", "[ops][cuda]") {
  if (!test::has_gpu()) return;
  const int64_t sizes[][3] = {{3, 5, 7}, {1, 64, 9}, {33, 130, 1}, {1, 1, 1}, {16, 200, 24}, {2, 0, 3}, {0, 4, 2}};
  for (DType t : floats) {
    for (const auto& [m, k, n] : sizes) {
      for (int transposes = 0; transposes < 4; ++transposes) {
        const bool ta = transposes & 1, tb = transposes & 2;
        CAPTURE(name_of(t), m, k, n, ta, tb);
        const NDArray a = numbers(ta ? Shape(k, m) : Shape(m, k), 1, t);
        const NDArray b = numbers(tb ? Shape(n, k) : Shape(k, n), 2, t);
        for (int skipped : {0, 1}) {
          check_close(nd.dot(there(a, skipped), there(b, skipped), {.transpose_a = ta, .transpose_b = tb}),
                      nd.dot(a, b, {.transpose_a = ta, .transpose_b = tb}));
        }
        const NDArray many_a = numbers(ta ? Shape(3, k, m) : Shape(3, m, k), 3, t),
                      many_b = numbers(tb ? Shape(3, n, k) : Shape(3, k, n), 4, t);
        check_close(nd.batch_dot(there(many_a), there(many_b), {.transpose_a = ta, .transpose_b = tb}),
                    nd.batch_dot(many_a, many_b, {.transpose_a = ta, .transpose_b = tb}));
      }
    }
  }
}

TEST_CASE("gpu: dense layers with and without a bias, wherever it lies", "[ops][cuda]") {
  if (!test::has_gpu()) return;
  for (DType t : floats) {
    for (int64_t rows : {0, 1, 2, 3, 4, 6}) {
      for (int64_t size : {0, 64, 70, 300}) {
        const NDArray x = numbers({rows, size}, 1, t), w = numbers({13, size}, 2, t), b = numbers({13}, 3, t);
        const op::FullyConnected with_bias{.num_hidden = 13}, without{.num_hidden = 13, .no_bias = true};
        CAPTURE(name_of(t), rows, size);
        check_close(nd.FullyConnected(there(x), there(w), without), nd.FullyConnected(x, w, without));
        for (int skipped : {0, 1}) {
          check_close(nd.FullyConnected(there(x, skipped), there(w, skipped), there(b, skipped), with_bias),
                      nd.FullyConnected(x, w, b, with_bias));
        }
      }
    }
  }
}

TEST_CASE("gpu: convolutions and their gradients in all types", "[ops][cuda]") {
  if (!test::has_gpu()) return;
  const op::Convolution ops[] = {
      {.kernel = {3}, .stride = {2}, .pad = {1}, .num_filter = 4},
      {.kernel = {3, 3}, .pad = {1, 1}, .num_filter = 4},
      {.kernel = {2, 3}, .stride = {1, 2}, .dilate = {2, 1}, .pad = {1, 0}, .num_filter = 4, .num_group = 2},
      {.kernel = {2, 1, 3}, .pad = {0, 2, 1}, .num_filter = 2, .no_bias = true}};
  for (const op::Convolution& op : ops) {
    for (DType t : floats) {
      Shape data(2, 4), weight(op.num_filter, 4 / op.num_group);
      for (int64_t k : op.kernel) data.push_back(7), weight.push_back(k);
      CAPTURE(name_of(t), op.kernel.str());
      const NDArray arrays[] = {numbers(data, 1, t), numbers(weight, 2, t), numbers({op.num_filter}, 3, t)};
      std::vector<NDArray> results[2];
      for (int where = 0; where < 2; ++where) {
        std::vector<NDArray> in;
        for (const NDArray& a : arrays) {
          in.push_back(where ? there(a) : a.copy());
          in.back().attach_grad();
        }
        const NDArray y = autograd::record(
            [&] { return op.no_bias ? nd.Convolution(in[0], in[1], op) : nd.Convolution(in[0], in[1], in[2], op); });
        y.backward(numbers(y.shape(), 5, t).as_in_context(y.device()));
        results[where] = {y, in[0].grad(), in[1].grad()};
        if (!op.no_bias) results[where].push_back(in[2].grad());
      }
      for (size_t i = 0; i < results[0].size(); ++i) {
        CAPTURE(i);
        check_close(results[1][i], results[0][i]);
      }
    }
  }
}

TEST_CASE("gpu: gradients of convolutions with windows of one element, with and without steps", "[ops][cuda]") {
  if (!test::has_gpu()) return;
  for (DType t : floats) {
    for (int64_t batch : {1, 3}) {
      for (int64_t step : {1, 2, 3}) {
        const op::Convolution op{.kernel = {1, 1}, .stride = {step, 1}, .num_filter = 5, .no_bias = true};
        const NDArray x = numbers({batch, 4, 12 * step - (step > 1), 13}, 1, t), w = numbers({5, 4, 1, 1}, 2, t);
        const NDArray dy = numbers({batch, 5, 12, 13}, 3, t);
        CAPTURE(name_of(t), batch, step);
        const auto part = [&]<ConvPart p>() { return op.part<p>(true); };
        const auto weight = part.template operator()<ConvPart::backward_weight>();
        const auto data = part.template operator()<ConvPart::backward_data>();
        check_close(nd.Convolution(there(x), there(w), op), nd.Convolution(x, w, op));
        check_close(nd._backward_Convolution_weight(there(dy), there(x), weight)[0],
                    nd._backward_Convolution_weight(dy, x, weight)[0]);
        check_close(nd._backward_Convolution_data(there(dy), there(w), there(x), data),
                    nd._backward_Convolution_data(dy, w, x, data));
      }
    }
  }
}

TEST_CASE("gpu: gradients that would take more scratch memory than the attribute workspace allows", "[ops][cuda]") {
  if (!test::has_gpu()) return;
  const NDArray x = numbers({64, 64, 13, 12}, 1), dy = numbers({64, 72, 13, 12}, 2);
  for (int64_t workspace : {1, 2}) {  // MiB; all images' gradients are 1.1
    const op::ConvolutionBackwardWeight op{.kernel = {1, 1}, .num_filter = 72, .workspace = workspace, .no_bias = true};
    check_close(nd._backward_Convolution_weight(there(dy), there(x), op)[0],
                nd._backward_Convolution_weight(dy, x, op)[0]);
  }
}

TEST_CASE("gpu: many images sum to one gradient of a bias, with the same bits each time", "[ops][cuda]") {
  if (!test::has_gpu()) return;
  const NDArray dy = numbers({64, 3, 23, 9}, 1) * 1.001f + 1, x = numbers({64, 1, 23, 9}, 2);
  const op::ConvolutionBackwardWeight op{.kernel = {1, 1}, .num_filter = 3};
  const std::vector<NDArray> want = nd._backward_Convolution_weight(dy, x, op),
                             got = nd._backward_Convolution_weight(there(dy), there(x), op);
  check_close(got[0], want[0]);
  check_close(got[1], want[1]);
  CHECK(nd._backward_Convolution_weight(there(dy), there(x), op)[1].asvector<float>() == got[1].asvector<float>());
}

TEST_CASE("gpu: transposed convolutions", "[ops][cuda]") {
  if (!test::has_gpu()) return;
  for (DType t : floats) {
    const op::Deconvolution op{.kernel = {3, 2},
                               .stride = {2, 1},
                               .pad = {1, 0},
                               .adj = {1, 0},
                               .num_filter = 6,
                               .num_group = 2,
                               .no_bias = false};
    const NDArray x = numbers({2, 4, 5, 4}, 1, t), w = numbers({4, 3, 3, 2}, 2, t), b = numbers({6}, 3, t);
    check_close(nd.Deconvolution(there(x), there(w), there(b), op), nd.Deconvolution(x, w, b, op));
  }
  const op::Deconvolution uneven{.kernel = {3}, .stride = {2}, .target_shape = {6}, .num_filter = 1};
  const NDArray x = numbers({1, 1, 3}, 1), w = numbers({1, 1, 3}, 2);
  check_close(nd.Deconvolution(there(x), there(w), uneven), nd.Deconvolution(x, w, uneven));
}

TEST_CASE("gpu: the attribute workspace limits what an algorithm takes", "[ops][cuda]") {
  if (!test::has_gpu()) return;
  op::Convolution op{.kernel = {3, 3}, .num_filter = 2, .workspace = 0, .no_bias = true};
  const NDArray x = numbers({1, 2, 6, 6}, 1), w = numbers({2, 2, 3, 3}, 2);
  check_close(nd.Convolution(there(x), there(w), op), nd.Convolution(x, w, op));
}

TEST_CASE("gpu: float32 products take TF32 when they may, and not before", "[ops][cuda]") {
  if (!test::has_gpu()) return;
  const float fine = 1 + 1.0f / 4096;  // TF32 has ten bits of mantissa
  const NDArray a = there(nd.full({64, 64}, fine)), b = there(nd.ones({64, 64}));
  const NDArray image = there(nd.full({1, 64, 8, 8}, fine)), kernel = there(nd.ones({64, 64, 1, 1}));
  const op::Convolution op{.kernel = {1, 1}, .num_filter = 64, .no_bias = true};
  const auto product = [&] { return nd.dot(a, b)[0][0].asscalar<float>(); };
  const auto filtered = [&] { return nd.Convolution(image, kernel, op).reshape({-1})[0].asscalar<float>(); };
  CHECK(product() == 64 * fine);
  CHECK(filtered() == 64 * fine);
  gpu_allow_tf32(true);
  const float rough_product = product(), rough_filtered = filtered();
  gpu_allow_tf32(false);
  CHECK(rough_product == 64);
  CHECK(rough_filtered == 64);
  CHECK(product() == 64 * fine);
  CHECK(filtered() == 64 * fine);
}

}  // namespace gpu_products_test
