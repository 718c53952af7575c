// Plans by Winograd's algorithm: their error stays within what HybridizeOptions says, and they are plans like others.
#include <cmath>

#include "kaon/engine/storage.h"
#include "kaon/ops/nn/conv/kernels/conv_winograd.h"
#include "kaon/tests/graph/passes/passes_support.h"

namespace winograd_test {

using namespace kaon;
using namespace kaon::ops;
using namespace kaon::test;
using Catch::Matchers::Contains;

namespace {

size_t live_bytes() {
  nd.waitall();
  return Storage::cpu().stats().live;
}

struct Sizes {
  Shape x;
  int filters;
  int pad = 1;
};

// Tiles of both sizes, that fit and that do not, in one block and several, with one slice of the filters and more, and
// half a panel of them.
const Sizes all_sizes[] = {{{1, 32, 8, 8}, 32},     {{3, 48, 9, 13}, 32, 0}, {{2, 32, 7, 6}, 48},
                           {{4, 64, 46, 47}, 32},   {{1, 128, 28, 28}, 128}, {{7, 512, 4, 4}, 512},
                           {{5, 32, 4, 4}, 32},     {{1, 32, 47, 46}, 32},   {{1, 64, 56, 50}, 64, 0},
                           {{1, 288, 14, 14}, 256}, {{2, 32, 9, 9}, 32, 2},  {{3, 512, 7, 7}, 64},
                           {{8, 160, 5, 3}, 144}};

NDArray convolve(const NDArray& x, const NDArray& w, const Sizes& s) {
  return nd.Convolution(x, w, {.kernel = {3, 3}, .pad = {s.pad, s.pad}, .num_filter = s.filters, .no_bias = true});
}

std::unique_ptr<CachedGraph> planned(const Sizes& s, const HybridizeOptions& options = {.winograd = true}) {
  Symbol y = sym.Convolution(sym.var("x"), sym.var("w"),
                             {.kernel = {3, 3}, .pad = {s.pad, s.pad}, .num_filter = s.filters, .no_bias = true});
  return std::make_unique<CachedGraph>(y, std::vector<std::string>{"x", "w"}, options, "net");
}

// The largest error of y in units of 2^-24 max|x| sum|w|, the sum over the filter of the result.
double error_in_units(const NDArray& y, const NDArray& x, const NDArray& w, const Sizes& s) {
  const auto exact = convolve(x.astype(DType::float64), w.astype(DType::float64), s).asvector<double>();
  const auto got = floats(y), images = floats(x), weights = floats(w);
  float largest = 0;
  for (float v : images) largest = std::max(largest, std::abs(v));
  const size_t filters = size_t(s.filters), taps = weights.size() / filters,
               positions = size_t(y.shape()[2] * y.shape()[3]);
  std::vector<double> sums(filters);
  for (size_t i = 0; i < weights.size(); ++i) sums[i / taps] += std::abs(double(weights[i]));
  double worst = 0;
  for (size_t i = 0; i < got.size(); ++i) {
    const double unit = std::ldexp(double(largest) * sums[i / positions % filters], -24);
    worst = std::max(worst, std::abs(double(got[i]) - exact[i]) / unit);
  }
  return worst;
}

// Images and weights that round badly: noise, all of one sign, signs that alternate, one large number among small ones.
std::vector<NDArray> hard_cases(const Shape& shape, uint32_t seed) {
  NDArray noise = numbers(shape, seed);
  std::vector<float> alternating = floats(noise), lonely = floats(noise);
  for (size_t i = 0; i < alternating.size(); ++i) alternating[i] = (i % 2 ? -1.f : 1.f) * (1 + 0.1f * alternating[i]);
  for (size_t i = 0; i < lonely.size(); ++i) lonely[i] = i % 97 == 0 ? 1.f + 0.3f * lonely[i] : 1e-3f * lonely[i];
  return {noise, nd.abs(noise) + 1, nd.array(alternating, shape), nd.array(lonely, shape)};
}

}  // namespace

TEST_CASE("winograd: the error of a convolution stays within its bound", "[arithmetic][unsanitized]") {
  double worst = 0;
  for (const Sizes& s : all_sizes) {
    const auto graph = planned(s);
    const auto images = hard_cases(s.x, 1), weights = hard_cases({s.filters, s.x[1], 3, 3}, 2);
    for (size_t i = 0; i < images.size(); ++i) {
      INFO(s.x.str() << ", " << s.filters << " filters, case " << i);
      const double error = error_in_units(call(*graph, {images[i], weights[i]})[0], images[i], weights[i], s);
      CHECK(error <= 64);
      worst = std::max(worst, error);
    }
    CHECK_THAT(graph->report()->implementations(), Contains("wino"));
  }
  CHECK(worst > 4);  // the cases are hard: noise alone gives less
}

namespace {

// Two residual blocks as they predict, a pooling between, and a convolution that cannot lie in blocks.
template <class F, class A>
std::vector<A> residual_net(F f, const std::vector<A>& in) {
  const auto conv = [&](const A& x, const A& w, int filters, int stride) {
    return f.Convolution(
        x, w, {.kernel = {3, 3}, .stride = {stride, stride}, .pad = {1, 1}, .num_filter = filters, .no_bias = true});
  };
  A first = f.relu(f.Convolution(in[0], in[1], in[2], {.kernel = {7, 7}, .pad = {3, 3}, .num_filter = 32}));
  A x = f.Pooling(first, {.kernel = {3, 3}, .stride = {2, 2}, .pad = {1, 1}});
  A y = f.BatchNorm(conv(x, in[3], 32, 1), in[4], in[5], in[6], in[7], {.fix_gamma = false});
  x = f.relu(f.elemwise_add(y, x));
  y = f.tanh(conv(x, in[8], 64, 2)) * 0.5;
  x = f.sigmoid(conv(y, in[9], 64, 1));
  A narrow = conv(x, in[10], 20, 1);
  return {f.Pooling(x, {.pool_type = PoolType::avg, .global_pool = true}), narrow, x};
}

std::vector<NDArray> residual_inputs(int64_t batch, int64_t size = 30) {
  return {numbers({batch, 3, size, size}),
          numbers({32, 3, 7, 7}, 2) * 0.1,
          numbers({32}, 3),
          numbers({32, 32, 3, 3}, 4) * 0.1,
          numbers({32}, 5),
          numbers({32}, 6),
          numbers({32}, 7),
          numbers({32}, 8) * 0.1 + 1,
          numbers({64, 32, 3, 3}, 9) * 0.1,
          numbers({64, 64, 3, 3}, 10) * 0.1,
          numbers({20, 64, 3, 3}, 11) * 0.1};
}

// On this thread's engine.
std::vector<NDArray> copies(const std::vector<NDArray>& arrays) {
  std::vector<NDArray> own;
  for (const NDArray& a : arrays) own.push_back(nd.array(floats(a), a.shape()));
  return own;
}

std::unique_ptr<CachedGraph> residual_graph(const HybridizeOptions& options) {
  std::vector<Symbol> data;
  for (const std::string& name : data_names(11)) data.push_back(sym.var(name));
  return std::make_unique<CachedGraph>(Symbol::group(residual_net(sym, data)), data_names(11), options, "net");
}

}  // namespace

TEST_CASE("winograd: a residual net equals the imperative one, on any number of threads", "[graph]") {
  for (int64_t batch : {1, 2, 4, 7}) {
    const std::vector<NDArray> inputs = residual_inputs(batch), expected = residual_net(nd, inputs);
    std::vector<NDArray> first;
    for (int threads : {0, 1, 2, 4}) {
      INFO("batch " << batch << ", " << threads << " threads");
      Engine engine({.threads = threads});
      EngineScope scope(engine);
      const std::vector<NDArray> own = copies(inputs);
      const auto graph = residual_graph({.static_alloc = true, .static_shape = true, .winograd = true});
      for (int time = 0; time < 2; ++time) {
        const std::vector<NDArray> got = call(*graph, own);
        for (size_t k = 0; k < got.size(); ++k) {
          require_near(got[k], expected[k].asvector<double>(), 1e-4);
          if (!first.empty()) REQUIRE(floats(got[k]) == floats(first[k]));
        }
        if (first.empty()) first = got;
      }
      const std::string kernels = graph->report()->implementations();
      size_t by_name = 0;
      for (size_t at = kernels.find("wino"); at != kernels.npos; at = kernels.find("wino", at + 1)) ++by_name;
      CHECK(by_name == 2);
      CHECK_THAT(kernels, Contains(" 3 reorders of images"));  // of the outputs
    }
  }
}

TEST_CASE("winograd: one large image goes in blocks of tiles, on any number of threads", "[graph]") {
  const std::vector<NDArray> inputs = residual_inputs(1, 100), expected = residual_net(nd, inputs);
  std::vector<NDArray> first;
  for (int threads : {0, 1, 2, 4}) {
    INFO(threads << " threads");
    Engine engine({.threads = threads});
    EngineScope scope(engine);
    const std::vector<NDArray> own = copies(inputs);
    const auto graph = residual_graph({.static_alloc = true, .static_shape = true, .winograd = true});
    const std::vector<NDArray> got = call(*graph, own);
    for (size_t k = 0; k < got.size(); ++k) {
      require_near(got[k], expected[k].asvector<double>(), 1e-4);
      if (!first.empty()) REQUIRE(floats(got[k]) == floats(first[k]));
    }
    if (first.empty()) first = got;
    const std::string kernels = graph->report()->implementations();
    CHECK_THAT(kernels, Contains("winograd F(4x4, 3x3) nhwc in 8 blocks"));
    CHECK_THAT(kernels, Contains("nhwc in 3 parts"));  // step two
  }
}

namespace {

// A convolution with a bias, its images' channels first or last.
struct Layer {
  Sizes sizes;
  bool is_last;
  template <class F, class A>
  A operator()(F f, const A& x, const A& w, const A& b) const {
    op::Convolution options{.kernel = {3, 3}, .pad = {sizes.pad, sizes.pad}, .num_filter = sizes.filters};
    if (is_last) options.layout = ConvLayout::NHWC;
    return f.Convolution(x, w, b, options);
  }
  NDArray arranged(const NDArray& x) const { return is_last ? nd.transpose(x, {0, 2, 3, 1}) : x; }
};

// The gradients of x, w and b for this head.
template <class Call>
std::vector<NDArray> gradients_of(Call&& forward, std::vector<NDArray> inputs, const NDArray& head) {
  for (NDArray& x : inputs) x = x.copy(), x.attach_grad();
  NDArray y;
  autograd::record([&] { y = forward(inputs); });
  y.backward(head);
  std::vector<NDArray> gradients;
  for (const NDArray& x : inputs) gradients.push_back(x.grad());
  return gradients;
}

double largest(const NDArray& x) { return nd.max(nd.abs(x)).asscalar<double>(); }

// The largest error in units of 2^-24 times what `unit` says of each element.
double worst_error(const NDArray& got, const NDArray& exact, const NDArray& unit) {
  const NDArray error = nd.abs(got.astype(DType::float64) - exact) / nd.maximum(unit, 1e-300);
  return std::ldexp(largest(error), 24);
}

}  // namespace

TEST_CASE("winograd: the errors of gradients stay within their bounds", "[arithmetic][unsanitized]") {
  double worst_of_images = 0, worst_of_weights = 0;
  for (const Sizes& s : all_sizes) {
    for (bool is_last : {false, true}) {
      const Layer layer{s, is_last};
      const auto graph = std::make_unique<CachedGraph>(layer(sym, sym.var("x"), sym.var("w"), sym.var("b")),
                                                       std::vector<std::string>{"x", "w", "b"},
                                                       HybridizeOptions{.winograd = true}, "net");
      const auto images = hard_cases(s.x, 1), weights = hard_cases({s.filters, s.x[1], 3, 3}, 2);
      const Shape out{s.x[0], s.filters, s.x[2] + 2 * s.pad - 2, s.x[3] + 2 * s.pad - 2};
      const auto heads = hard_cases(out, 3);
      for (size_t i = 0; i < images.size(); ++i) {
        INFO(s.x.str() << ", " << s.filters << " filters, case " << i << (is_last ? ", channels last" : ""));
        const std::vector<NDArray> in{layer.arranged(images[i]), layer.arranged(weights[i]), numbers({s.filters}, 4)};
        const NDArray head = layer.arranged(heads[i]);
        const auto got = gradients_of([&](const std::vector<NDArray>& all) { return call(*graph, all)[0]; }, in, head);
        std::vector<NDArray> doubles;
        for (const NDArray& x : in) doubles.push_back(x.astype(DType::float64));
        const auto exact =
            gradients_of([&](const std::vector<NDArray>& all) { return layer(nd, all[0], all[1], all[2]); }, doubles,
                         head.astype(DType::float64));
        const int channel = is_last ? 3 : 1;
        // by input channel: max|dy| sum|w|, and by filter: max|x| sum|dy|
        const NDArray by_channel = nd.sum(nd.abs(doubles[1]), {.axis = Shape(channel), .exclude = true});
        const NDArray by_filter =
            nd.sum(nd.abs(head.astype(DType::float64)), {.axis = Shape(channel), .exclude = true});
        const Shape along = is_last ? Shape{1, 1, 1, -1} : Shape{1, -1, 1, 1};
        const double of_images = worst_error(got[0], exact[0], by_channel.reshape(along) * largest(head));
        const double of_weights = worst_error(got[1], exact[1], by_filter.reshape({-1, 1, 1, 1}) * largest(in[0]));
        CHECK(of_images <= 64);
        CHECK(of_weights <= 64);
        CHECK(worst_error(got[2], exact[2], by_filter) <= 64);
        worst_of_images = std::max(worst_of_images, of_images);
        worst_of_weights = std::max(worst_of_weights, of_weights);
      }
      CHECK_THAT(graph->report()->implementations(), Contains("wino"));
    }
  }
  CHECK(worst_of_images > 4);  // the cases are hard
  CHECK(worst_of_weights > 4);
}

TEST_CASE("winograd: gradients and training equal the imperative ones, on any number of threads", "[graph]") {
  for (int64_t batch : {1, 2, 4, 7}) {
    const std::vector<NDArray> inputs = residual_inputs(batch);
    for (bool training : {false, true}) {
      const auto run = [&](auto&& forward) {
        std::vector<NDArray> own = copies(inputs);
        for (size_t i : {0, 1, 3, 8, 9, 10}) own[i].attach_grad();
        std::vector<NDArray> got;
        autograd::record([&] { got = forward(own); }, training);
        autograd::backward(got);
        for (size_t i : {0, 1, 3, 8, 9, 10}) got.push_back(own[i].grad());
        return got;
      };
      const auto expected = run([](const std::vector<NDArray>& in) { return residual_net(nd, in); });
      std::vector<NDArray> first;
      for (int threads : {0, 1, 2, 4}) {
        INFO("batch " << batch << ", " << threads << " threads" << (training ? ", training" : ""));
        Engine engine({.threads = threads});
        EngineScope scope(engine);
        const auto graph = residual_graph({.winograd = true});
        const auto got = run([&](const std::vector<NDArray>& in) { return call(*graph, in); });
        for (size_t k = 0; k < got.size(); ++k) {
          const auto values = expected[k].asvector<double>();
          double most = 1;
          for (double v : values) most = std::max(most, std::abs(v));
          const auto results = got[k].asvector<double>();
          for (size_t i = 0; i < values.size(); ++i) REQUIRE(std::abs(results[i] - values[i]) <= 2e-5 * most);
          if (!first.empty()) REQUIRE(floats(got[k]) == floats(first[k]));
        }
        if (first.empty()) first = got;
        CHECK_THAT(graph->report()->implementations(), Contains("wino"));
      }
    }
  }
}

TEST_CASE("winograd: weights are transformed once, and anew when they have changed", "[graph]") {
  const Sizes s{{1, 64, 14, 14}, 64};
  const auto graph = planned(s);
  NDArray x = numbers(s.x), w = numbers({64, 64, 3, 3}, 2);
  const size_t before = live_bytes();
  call(*graph, {x, w})[0].wait_to_read();
  const size_t live = live_bytes();
  CHECK(live >= before + 64 * 64 * 36 * sizeof(float));
  for (int time = 0; time < 3; ++time) call(*graph, {x, w})[0].wait_to_read();
  CHECK(live_bytes() == live);
  w.assign(numbers({64, 64, 3, 3}, 3));
  CHECK(error_in_units(call(*graph, {x, w})[0], x, w, s) <= 64);
}

TEST_CASE("winograd: refused together with exact, and direct where it does not fit", "[graph]") {
  CHECK_THROWS_AS(planned(all_sizes[0], {.exact = true, .winograd = true}), ValueError);
  CHECK_THROWS_WITH(planned(all_sizes[0], {.exact = true, .winograd = true}),
                    Contains("[hybridize] winograd and exact exclude each other"));
  for (const Sizes& s : {Sizes{{2, 16, 9, 9}, 32}, Sizes{{2, 40, 9, 9}, 32}, Sizes{{2, 32, 9, 9}, 24},
                         Sizes{{5, 32, 1, 1}, 32}, Sizes{{1, 512, 4, 4}, 512}, Sizes{{0, 32, 9, 9}, 32}}) {
    INFO(s.x.str() << ", " << s.filters << " filters");
    const auto graph = planned(s);
    const NDArray x = numbers(s.x), w = numbers({s.filters, s.x[1], 3, 3}, 2);
    require_near(call(*graph, {x, w})[0], convolve(x, w, s).asvector<double>(), 1e-4);
    CHECK_THAT(graph->report()->implementations(), !Contains("wino"));
  }
}

}  // namespace winograd_test
