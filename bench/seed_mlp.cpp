// The seeds' benchmark: an MLP 512-256-128-2 at batch 1, 1000 forwards, then waitall. Prints the floor in the same run:
// one read of the 656 KB of weights.
#include "kaon/bench/common.h"
#include "kaon/engine/storage.h"
#include "kaon/gluon/nn/nn.h"

using namespace kaon;
namespace nn = kaon::gluon::nn;

namespace {

nn::HybridSequential make_net() {
  nn::HybridSequential net;
  net.add(nn::Dense(256, {.activation = "relu"}), nn::Dense(128, {.activation = "relu"}), nn::Dense(2));
  net.initialize();
  return net;
}

double us_per_forward(const nn::HybridSequential& net, const NDArray& x) {
  constexpr int forwards = 1000;
  nd.waitall();
  double s = bench::seconds([&] {
    for (int i = 0; i < forwards; ++i) net(x);
    nd.waitall();
  });
  return s * 1e6 / forwards;
}

// Reads as many floats as the net has weights, from memory that stays in the second-level cache.
double us_per_read() {
  constexpr size_t floats = 512 * 256 + 256 * 128 + 128 * 2 + 256 + 128 + 2;
  static float* weights = [] {
    auto* p = static_cast<float*>(Storage::cpu().allocate(floats * sizeof(float)));
    std::fill_n(p, floats, 1.0f);
    return p;
  }();
  constexpr int reads = 1000;
  double s = bench::seconds([&] {
    for (int r = 0; r < reads; ++r) bench::read_all(weights, floats);
  });
  return s * 1e6 / reads;
}

}  // namespace

int main() {
  bench::print_machine();
  bench::print_ping_pong();
  for (int threads : {1, 2}) {
    Engine engine({.threads = threads});
    EngineScope scope(engine);
    NDArray x = nd.random_normal({1, 512});
    nn::HybridSequential imperative = make_net(), hybrid = make_net();
    hybrid.hybridize({.static_alloc = true, .static_shape = true});
    auto results = bench::interleave(
        9, {us_per_read, [&] { return us_per_forward(imperative, x); }, [&] { return us_per_forward(hybrid, x); }});
    std::string t = "_threads" + std::to_string(threads);
    bench::print("weights_read_once" + t, results[0], "us");
    bench::print("seed_mlp_imperative" + t, results[1], "us", "weights_read_once", results[0]);
    bench::print("seed_mlp_hybridized" + t, results[2], "us", "weights_read_once", results[0]);
    fmt::print("{{\"name\": \"hybridized_over_imperative{}\", \"ratio\": {:.3f}}}\n", t,
               results[2].median / results[1].median);
  }
}
