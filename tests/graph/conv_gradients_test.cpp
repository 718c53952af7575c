// Gradients of convolutions by kernels of our own: where they are used, and what they are.
#include "kaon/ops/nn/conv/kernels/conv_gemm_col2im.h"

#include "kaon/ops/nn/conv/conv.h"
#include "kaon/tests/graph/support.h"

namespace conv_gradients_test {

using namespace kaon;
using namespace kaon::test;
using Catch::Matchers::Contains;

namespace {

struct Sizes {
  Shape x, kernel;
  int filters;
  Shape stride{1, 1};

  op::Convolution attrs() const { return {.kernel = kernel, .stride = stride, .num_filter = filters}; }
  Shape weight() const { return {filters, x[1], kernel[0], kernel[1]}; }
};

// Odd and even numbers of channels, strides that leave pixels out, rows of patches that fill the memory of a block, and
// batches whose last piece is smaller.
const Sizes all_sizes[] = {{{64, 20, 12, 12}, {5, 5}, 50},      {{7, 20, 13, 15}, {5, 5}, 50, {2, 3}},
                           {{1, 5, 9, 7}, {3, 2}, 17},          {{3, 33, 6, 40}, {1, 4}, 18, {4, 1}},
                           {{2, 36, 5, 120}, {5, 5}, 33},       {{5, 17, 3, 3}, {3, 3}, 65},
                           {{2, 6, 28, 28}, {5, 5}, 16, {3, 3}}};

// y, dx, dw, db for a head of numbers.
std::vector<NDArray> results(const Sizes& s, DType type) {
  const Shape weight = s.weight();
  std::vector<NDArray> in{numbers(s.x), numbers(weight, 2) * 0.1, numbers({s.filters}, 3)};
  for (NDArray& a : in) {
    a = a.astype(type);
    a.attach_grad();
  }
  NDArray y;
  autograd::record([&] { y = nd.Convolution(in[0], in[1], in[2], s.attrs()); });
  y.backward(numbers(y.shape(), 4).astype(type));
  return {y, in[0].grad(), in[1].grad(), in[2].grad()};
}

}  // namespace

TEST_CASE("convolution gradients by our kernels: they equal those in float64, on any number of threads",
          "[arithmetic][unsanitized]") {
  for (const Sizes& s : all_sizes) {
    INFO(s.x.str() << ", " << s.weight().str());
    const std::vector<NDArray> exact = results(s, DType::float64);
    std::vector<NDArray> first;
    for (int threads : {0, 1, 2, 4}) {
      Engine engine({.threads = threads});
      EngineScope scope(engine);
      const std::vector<NDArray> got = results(s, DType::float32);
      for (size_t k = 0; k < got.size(); ++k) {
        require_near(got[k], exact[k].asvector<double>(), 1e-4);
        if (!first.empty()) REQUIRE(floats(got[k]) == floats(first[k]));
      }
      if (first.empty()) first = got;
    }
  }
}

TEST_CASE("convolution gradients by our kernels: taken where vectors of channels would be empty, and nowhere else",
          "[graph]") {
  const auto geometry = [](const Sizes& s, Shape pad = {0, 0}, Shape dilate = {1, 1}, int groups = 1) {
    Shape out{s.x[0], s.filters};
    for (int i : {0, 1}) {
      out.push_back((s.x[i + 2] + 2 * pad[i] - dilate[i] * (s.kernel[i] - 1) - 1) / s.stride[i] + 1);
    }
    return make_geometry(s.x, out, s.kernel, s.stride, dilate, pad, groups);
  };
  for (const Sizes& s : all_sizes) CHECK(gemm_col2im_pays(geometry(s)));
  const Sizes lenet = all_sizes[0];
  CHECK_FALSE(gemm_col2im_fits(geometry(lenet, {1, 1})));
  CHECK_FALSE(gemm_col2im_fits(geometry(lenet, {0, 0}, {2, 1})));
  CHECK_FALSE(gemm_col2im_fits(geometry(lenet, {0, 0}, {1, 1}, 5)));
  CHECK_FALSE(gemm_col2im_fits(geometry({{4, 20, 9, 9}, {1, 1}, 50})));
  CHECK_FALSE(gemm_col2im_pays(geometry({{4, 32, 9, 9}, {3, 3}, 50})));
  CHECK_FALSE(gemm_col2im_pays(geometry({{4, 1, 28, 28}, {5, 5}, 20})));

  const Shape weight = lenet.weight();
  CachedGraph graph(sym.Convolution(sym.var("x"), sym.var("w"), sym.var("b"), lenet.attrs()), {"x", "w", "b"}, {},
                    "net");
  std::vector<NDArray> in{numbers(lenet.x), numbers(weight, 2) * 0.1, numbers({lenet.filters}, 3)}, y;
  for (NDArray& a : in) a.attach_grad();
  autograd::record([&] { y = call(graph, in); });
  y[0].backward(numbers(y[0].shape(), 4));
  const std::vector<NDArray> want = results(lenet, DType::float32);
  for (size_t k = 0; k < in.size(); ++k) require_near(in[k].grad(), want[k + 1].asvector<double>(), 1e-4);
  const std::string kernels = graph.report()->implementations();
  CHECK_THAT(kernels, Contains("(_backward_Convolution_data): sgemm nhwc"));
  CHECK_THAT(kernels, Contains("(_backward_Convolution_weight): direct nhwc"));
}

}  // namespace conv_gradients_test
