// A small batch of large images is cut by output channels: the same values, whatever is fused and however memory lies.
#include "kaon/tests/graph/support.h"

namespace conv_slices_test {

using namespace kaon;
using namespace kaon::test;

namespace {

struct Sizes {
  Shape x, w;
  Shape stride{1, 1};
};

// relu(scale conv(x, w, b) + shift + addend), as a residual block predicts.
template <class F, class A>
std::vector<A> residual(F f, const std::vector<A>& in, const Sizes& sizes) {
  const int filters = int(sizes.w[0]);
  A y = f.Convolution(in[0], in[1], in[2],
                      {.kernel = {3, 3}, .stride = sizes.stride, .pad = {1, 1}, .num_filter = filters});
  y = f.BatchNorm(y, in[3], in[4], in[5], in[6], {.fix_gamma = false});
  return {f.relu(f.elemwise_add(y, in[7]))};
}

// 133, 425 and 231 MFLOP an image: 2, 4 and, with few positions, 2 slices for one image.
const Sizes all_sizes[] = {
    {{1, 64, 30, 30}, {128, 64, 3, 3}}, {{1, 64, 48, 48}, {640, 64, 3, 3}, {2, 2}}, {{1, 512, 7, 7}, {512, 512, 3, 3}}};

}  // namespace

TEST_CASE("convolution in slices: equals float64, and the batch has no influence", "[arithmetic][unsanitized]") {
  for (const Sizes& s : all_sizes) {
    const int filters = int(s.w[0]);
    auto convolve = [&](const NDArray& x, const NDArray& w, const NDArray& b) {
      return nd.Convolution(x, w, b, {.kernel = {3, 3}, .stride = s.stride, .pad = {1, 1}, .num_filter = filters});
    };
    NDArray w = numbers(s.w, 2) * 0.1, b = numbers({filters}, 3);
    for (int64_t batch : {1, 2, 3, 4}) {
      INFO("batch " << batch << ", weights " << s.w.str());
      Shape shape = s.x;
      shape[0] = batch;
      NDArray x = numbers(shape), y = convolve(x, w, b);
      NDArray exact = convolve(x.astype(DType::float64), w.astype(DType::float64), b.astype(DType::float64));
      require_near(y, exact.asvector<double>(), 1e-5);
    }
  }
}

TEST_CASE("convolution in parts: where some would read the border alone it equals float64 too", "[arithmetic]") {
  const NDArray x = numbers({1, 4, 40, 64}), w = numbers({128, 3, 3, 64}, 2) * 0.1;
  const auto convolve = [](const NDArray& x, const NDArray& w) {
    return nd.Convolution(
        x, w, {.kernel = {3, 3}, .pad = {20, 1}, .num_filter = 128, .no_bias = true, .layout = ConvLayout::NHWC});
  };
  require_near(convolve(x, w), convolve(x.astype(DType::float64), w.astype(DType::float64)).asvector<double>(), 1e-5);
}

TEST_CASE("convolution in slices: planned with all that is fused equals imperative", "[arithmetic][unsanitized]") {
  for (const Sizes& s : all_sizes) {
    const int64_t filters = s.w[0];
    for (int64_t batch : {1, 2}) {
      Shape shape = s.x;
      shape[0] = batch;
      NDArray x = numbers(shape), w = numbers(s.w, 2) * 0.1;
      Shape out{batch, filters, (shape[2] - 1) / s.stride[0] + 1, (shape[3] - 1) / s.stride[1] + 1};
      std::vector<NDArray> inputs{x,
                                  w,
                                  numbers({filters}, 3),
                                  numbers({filters}, 4),
                                  numbers({filters}, 5),
                                  numbers({filters}, 6),
                                  numbers({filters}, 7) * 0.1 + 1,
                                  numbers(out, 8)};
      std::vector<Symbol> data;
      for (const std::string& name : data_names(8)) data.push_back(sym.var(name));
      NDArray expected = residual(nd, inputs, s)[0];
      for (bool exact : {false, true}) {
        for (int threads : {0, 1, 2}) {
          INFO("batch " << batch << ", weights " << s.w.str() << (exact ? ", exact, " : ", ") << threads << " threads");
          Engine engine({.threads = threads});
          EngineScope scope(engine);
          std::vector<NDArray> own;
          for (const NDArray& a : inputs) own.push_back(nd.array(floats(a), a.shape()));
          CachedGraph graph(Symbol::group(residual(sym, data, s)), data_names(8),
                            {.static_alloc = true, .static_shape = true, .exact = exact}, "test");
          std::vector<const NDArray*> arguments;
          for (const NDArray& a : own) arguments.push_back(&a);
          for (int call = 0; call < 2; ++call) {
            NDArray y = graph.call(arguments, std::source_location::current())[0];
            if (exact) {
              REQUIRE(floats(y) == floats(expected));
            } else {
              require_near(y, expected.asvector<double>(), 1e-4);
            }
          }
        }
      }
    }
  }
}

}  // namespace conv_slices_test
