// Plans on a GPU keep the images that tensor cores take channels last: nets and their gradients against the imperative
// run, which keeps them row-major. Run on the emulator (tests/cuda_emulator) where there is no GPU.
#include <catch2/catch.hpp>
#include <cmath>

#include "kaon/engine/device/backend.h"
#include "kaon/kaon.h"
#include "kaon/tests/support/skip.h"

namespace gpu_layouts_test {

namespace nn = kaon::gluon::nn;
namespace vision = kaon::gluon::model_zoo::vision;
using namespace kaon;
using namespace kaon::engine;

namespace {

NDArray numbers(const Shape& shape, DType t) {
  std::vector<float> v(static_cast<size_t>(shape.size()));
  for (size_t i = 0; i < v.size(); ++i) v[i] = float(int(i * 37 % 101) - 50) / 32;
  return nd.array(v, shape).astype(t).as_in_context(gpu(0));
}

nn::HybridSequential make_net(const std::string& pool, int64_t channels) {
  nn::HybridSequential net;
  net.add(nn::Conv2D(int(channels), {.kernel_size = 3, .strides = 2, .padding = 1, .use_bias = false}), nn::BatchNorm(),
          nn::Activation("relu"));
  if (pool == "max") net.add(nn::MaxPool2D({.pool_size = 3, .strides = 2, .padding = 1}));
  if (pool == "avg") net.add(nn::AvgPool2D({.pool_size = 2, .strides = 2}));
  net.add(vision::BottleneckV1(int(2 * channels), 1, true, channels),
          vision::BottleneckV1(int(2 * channels), 2, true, 2 * channels),
          nn::Conv2D(int(channels), {.kernel_size = 3, .padding = 1, .groups = 2}), nn::Activation("tanh"));
  if (pool == "max") {
    net.add(nn::GlobalMaxPool2D());
  } else {
    net.add(nn::GlobalAvgPool2D());
  }
  net.add(nn::Dense(5));
  return net;
}

// The largest difference as a part of the largest value. A bias before a BatchNorm has a gradient of rounding errors
// only.
double difference(const NDArray& got, const NDArray& want) {
  const auto a = got.asvector<double>(), b = want.asvector<double>();
  double most = 0.5, apart = 0;
  for (size_t i = 0; i < b.size(); ++i) {
    if (!std::isfinite(a[i])) return INFINITY;
    most = std::max(most, std::abs(b[i])), apart = std::max(apart, std::abs(a[i] - b[i]));
  }
  return apart / most;
}

// `bound`: of results. Where a relu is near 0 a rounding decides whether a gradient goes through.
void check(nn::HybridSequential net, const NDArray& x, double bound) {
  random::seed(5);
  net.initialize(init::Xavier(), gpu(0));
  net.cast(x.dtype());
  net(x).wait_to_read();
  std::vector<NDArray> want;
  for (const char* how : {"imperative", "hybridized", "as a CUDA graph"}) {
    CAPTURE(how);
    const bool is_graph = how == std::string("as a CUDA graph");
    if (!want.empty()) net.hybridize({.static_alloc = is_graph, .static_shape = is_graph});
    for (int time = 0; time < (want.empty() ? 1 : 3 + is_graph); ++time) {
      std::vector<NDArray> got{net(x).copy()};  // running statistics at first: the same in all runs
      const NDArray y = autograd::record([&] { return net(x); });
      y.backward();
      got.push_back(y.copy());
      for (const gluon::Parameter& p : net.collect_params()) {
        if (p.grad_req() != GradReq::null) got.push_back(p.grad().copy());
      }
      // back to what they were
      for (const gluon::Parameter& p : net.collect_params()) {
        if (p.grad_req() != GradReq::null) continue;
        NDArray value = p.data();
        value.assign(p.name().find("var") != std::string::npos ? nd.ones_like(value) : nd.zeros_like(value));
      }
      if (want.empty()) {
        want = got;
        continue;
      }
      REQUIRE(got.size() == want.size());
      for (size_t i = 0; i < got.size(); ++i) {
        INFO("value " << i);
        CHECK(difference(got[i], want[i]) < (i < 2 ? bound : 8 * bound));
      }
    }
  }
}

}  // namespace

TEST_CASE("gpu: nets of 16-bit floats and of TF32 are channels last in plans", "[gluon][cuda]") {
  if (!test::has_gpu()) return;
  for (const char* pool : {"max", "avg", "none"}) {
    for (int64_t channels : {8, 6}) {
      CAPTURE(pool, channels);
      check(make_net(pool, channels), numbers({3, 3, 17, 15}, DType::float16), 0.03);
      check(make_net(pool, channels), numbers({3, 3, 17, 15}, DType::bfloat16), 0.1);
      check(make_net(pool, channels), numbers({3, 3, 17, 15}, DType::float32), 1e-4);
      gpu_allow_tf32(true);
      check(make_net(pool, channels), numbers({3, 3, 17, 15}, DType::float32), 0.03);
      gpu_allow_tf32(false);
    }
  }
}

TEST_CASE("gpu: only what tensor cores take is channels last", "[gluon][cuda]") {
  if (!test::has_gpu()) return;
  const auto is_last = [](DType t) {
    nn::HybridSequential net = make_net("max", 8);
    net.initialize(init::Xavier(), gpu(0));
    net.cast(t);
    const NDArray x = numbers({2, 3, 17, 15}, t);
    net.hybridize();
    net(x).wait_to_read();
    return net.plan()->dump().find(" nhwc") != std::string::npos;
  };
  CHECK_FALSE(is_last(DType::float32));
  CHECK(is_last(DType::float16));
  CHECK(is_last(DType::bfloat16));
}

}  // namespace gpu_layouts_test
