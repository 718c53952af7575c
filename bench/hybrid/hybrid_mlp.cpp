#include "kaon/bench/hybrid/hybrid_bare.h"
#include "kaon/bench/hybrid/hybrid_parts.h"

namespace kaon::bench {
namespace {

examples::nn::HybridSequential make_net(bool hybridized) {
  auto net = examples::seed_mlp();
  net.initialize();
  if (hybridized) hybridize(net);
  return net;
}

// Reads as many floats as the net has weights, from memory that stays in the second-level cache.
double seconds_per_read() {
  constexpr size_t floats = 512 * 256 + 256 * 128 + 128 * 2 + 256 + 128 + 2;
  static const float* weights = [] {
    auto* p = static_cast<float*>(Storage::cpu().allocate(floats * sizeof(float)));
    std::fill_n(p, floats, 1.0f);
    return p;
  }();
  return seconds_per_loop(1000, [] { read_all(weights, floats); });
}

BarePrimitives bare_mlp(int64_t batch, int threads) {
  BarePrimitives bare(threads);
  bare.dense(batch, 512, 256, true);
  bare.dense(batch, 256, 128, true);
  bare.dense(batch, 128, 2, false);
  return bare;
}

void one_sample(int threads) {
  constexpr int calls = 1000;
  const NDArray x = nd.random_normal({1, 512});
  const auto imperative = make_net(false), hybrid = make_net(true);
  const BarePrimitives bare = bare_mlp(1, threads);
  const auto r = interleave(9, {[] { return seconds_per_read() * per_us; }, [&] { return bare.run() * per_us; },
                                [&] { return seconds_per_call(imperative, x, calls) * per_us; },
                                [&] { return seconds_per_call(hybrid, x, calls) * per_us; },
                                [&] { return seconds_per_call(imperative, x, calls, Wait::each) * per_us; },
                                [&] { return seconds_per_call(hybrid, x, calls, Wait::each) * per_us; }});
  const std::string t = on_threads(threads);
  const Baseline read{"mlp_weights_read_once", r[0]}, primitives{"mlp_b1_bare", r[1]};
  print(read.name + t, r[0], "us");
  print(primitives.name + t, r[1], "us", read.name, r[0]);
  print("mlp_b1_imperative" + t, r[2], "us", {read, primitives}, 4.5);
  print("mlp_b1_hybridized" + t, r[3], "us", {read, primitives, {"mlp_b1_imperative", r[2]}}, 1.25 * r[0].median);
  print("mlp_b1_imperative_each_waited_for" + t, r[4], "us", {read, primitives});
  print("mlp_b1_hybridized_each_waited_for" + t, r[5], "us", {read, primitives});
}

void many_samples(int64_t batch, int threads) {
  const int calls = batch == 32 ? 300 : 60;
  const NDArray x = nd.random_normal({batch, 512});
  const auto imperative = make_net(false), hybrid = make_net(true);
  const BarePrimitives bare = bare_mlp(batch, threads);
  const auto r = interleave(
      9, {[&] { return bare.run() * per_us; }, [&] { return seconds_per_call(imperative, x, calls) * per_us; },
          [&] { return seconds_per_call(hybrid, x, calls) * per_us; },
          [&] { return seconds_per_call(imperative, x, calls, Wait::each) * per_us; },
          [&] { return seconds_per_call(hybrid, x, calls, Wait::each) * per_us; }});
  const std::string name = "mlp_b" + std::to_string(batch), t = on_threads(threads);
  const Baseline primitives{name + "_bare", r[0]};
  print(primitives.name + t, r[0], "us");
  print(name + "_imperative" + t, r[1], "us", {primitives});
  print(name + "_hybridized" + t, r[2], "us", {primitives, {name + "_imperative", r[1]}}, 1.1 * r[0].median);
  print(name + "_imperative_each_waited_for" + t, r[3], "us", {primitives});
  print(name + "_hybridized_each_waited_for" + t, r[4], "us", {primitives}, 1.1 * r[0].median);
}

}  // namespace

void mlp(int threads) {
  one_sample(threads);
  many_samples(32, threads);
  many_samples(256, threads);
}

}  // namespace kaon::bench
