// A recurrent net by foreach, beside the same net with its loop written out: 35 steps, batch 32, 128 units.
#include "kaon/bench/hybrid/hybrid_parts.h"
#include "kaon/gluon/nn/nn.h"

namespace kaon::bench {
namespace {

namespace nn = gluon::nn;

constexpr int64_t length = 35, batch = 32, units = 128;

struct LstmCell : gluon::HybridBlock<LstmCell> {
  nn::Dense from_input = child("i2h", nn::Dense(4 * units, {.in_units = units}));
  nn::Dense from_state = child("h2h", nn::Dense(4 * units, {.in_units = units}));
  LstmCell() : HybridBlock("lstm") {}
  auto hybrid_forward(auto F, auto x, auto h, auto c) {
    auto gates = F.split(from_input(x) + from_state(h), 4, {.axis = 1});
    auto next = F.sigmoid(gates[1]) * c + F.sigmoid(gates[0]) * F.tanh(gates[2]);
    return std::pair(F.sigmoid(gates[3]) * F.tanh(next), next);
  }
};

struct Recurrent : gluon::HybridBlock<Recurrent> {
  LstmCell cell = child("cell", LstmCell());
  const bool by_foreach;
  explicit Recurrent(bool by_foreach) : HybridBlock("net"), by_foreach(by_foreach) {}
  auto hybrid_forward(auto F, auto x, auto h, auto c) {
    using A = decltype(x);
    if (by_foreach) {
      auto [outputs, last] = contrib::foreach (
          [&](const A& row, const std::vector<A>& states) {
            auto [next, memory] = cell(row, states[0], states[1]);
            return std::pair(next, std::vector<A>{next, memory});
          },
          x, std::vector<A>{h, c});
      return outputs;
    }
    std::vector<A> outputs;
    for (int64_t k = 0; k < length; ++k) {
      std::tie(h, c) = cell(x[k], h, c);
      outputs.push_back(F.expand_dims(h, 0));
    }
    return F.concat(outputs, {.dim = 0});
  }
};

}  // namespace

void loops(int threads) {
  Recurrent by_foreach(true), written_out(false);
  for (auto net : {by_foreach, written_out}) {
    net.initialize(init::Xavier());
    hybridize(net);
  }
  const NDArray x = nd.random_uniform({length, batch, units}), zeros = nd.zeros({batch, units});
  const auto forward = [&](const Recurrent& net) {
    return seconds([&] {
             for (int i = 0; i < 10; ++i) net(x, zeros, zeros);
             nd.waitall();
           }) /
           10 * per_ms;
  };
  const auto both = [&](const Recurrent& net) {
    return seconds([&] {
             for (int i = 0; i < 10; ++i) autograd::record([&] { return net(x, zeros, zeros); }).backward();
             nd.waitall();
           }) /
           10 * per_ms;
  };
  for (const auto& net : {by_foreach, written_out}) forward(net), both(net);
  const auto r = interleave(9, {[&] { return forward(by_foreach); }, [&] { return forward(written_out); },
                                [&] { return both(by_foreach); }, [&] { return both(written_out); }});
  const std::string t = on_threads(threads);
  print("loop_forward" + t, r[0], "ms", "written_out", r[1]);
  print("loop_forward_backward" + t, r[2], "ms", "written_out", r[3]);
}

}  // namespace kaon::bench
