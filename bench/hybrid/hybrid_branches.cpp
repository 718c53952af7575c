// Branches that run side by side, beside the same net whose nodes run one after the other.
#include "kaon/bench/hybrid/hybrid_parts.h"

namespace kaon::bench {
namespace {

namespace nn = gluon::nn;

// Four branches of three dense layers each, put together.
struct FourBranches : gluon::HybridBlock<FourBranches> {
  std::vector<nn::HybridSequential> branches;
  FourBranches() : HybridBlock("four") {
    for (int i = 0; i < 4; ++i) {
      nn::HybridSequential layers;
      for (int k = 0; k < 3; ++k) layers.add(nn::Dense(256, {.activation = "relu", .in_units = 256}));
      branches.push_back(child("branch" + std::to_string(i), layers));
    }
  }
  auto hybrid_forward(auto F, auto x) {
    return F.concat(branches[0](x), branches[1](x), branches[2](x), branches[3](x));
  }
};

}  // namespace

void branches(int threads) {
  for (int64_t n : {1, 4, 8, 32}) {
    FourBranches in_turn, side_by_side;
    for (auto net : {in_turn, side_by_side}) net.initialize(init::Xavier());
    in_turn.hybridize({.static_alloc = true, .static_shape = true, .branches = false});
    hybridize(side_by_side);
    const NDArray x = nd.random_uniform({n, 256});
    for (auto net : {in_turn, side_by_side}) net(x).wait_to_read();
    const int calls = int(4000 / n);
    const auto r = interleave(9, {[&] { return seconds_per_call(in_turn, x, calls) * per_us; },
                                  [&] { return seconds_per_call(side_by_side, x, calls) * per_us; },
                                  [&] { return seconds_per_call(in_turn, x, calls, Wait::each) * per_us; },
                                  [&] { return seconds_per_call(side_by_side, x, calls, Wait::each) * per_us; }});
    const std::string name = "branches_b" + std::to_string(n), t = on_threads(threads);
    print(name + "_in_turn" + t, r[0], "us");
    print(name + "_side_by_side" + t, r[1], "us", name + "_in_turn", r[0]);
    print(name + "_in_turn_each_waited_for" + t, r[2], "us");
    print(name + "_side_by_side_each_waited_for" + t, r[3], "us", name + "_in_turn_each_waited_for", r[2]);
  }
}

}  // namespace kaon::bench
