// Small nets for the cases about blocks.
#pragma once

#include <cstring>

#include "kaon/gluon/nn/nn.h"
#include "kaon/ops/op_def.h"
#include "kaon/ops/random_state.h"
#include "kaon/tests/gluon/support.h"

namespace kaon::test {

namespace nn = kaon::gluon::nn;

inline bool same_bits(const NDArray& a, const NDArray& b) {
  if (a.shape() != b.shape() || a.dtype() != b.dtype()) return false;
  auto x = a.asvector<double>(), y = b.asvector<double>();
  return x.empty() || std::memcmp(x.data(), y.data(), x.size() * sizeof(double)) == 0;
}

// Random numbers that leave the engine's own as they are.
inline NDArray numbers(const Shape& shape, uint32_t seed = 1) {
  std::vector<float> v(size_t(shape.size()));
  for (float& x : v) {
    seed = seed * 1664525 + 1013904223;
    x = float(int32_t(seed >> 8)) / float(1 << 23) - 1;
  }
  return nd.array(v, shape);
}

template <class F>
std::string message_of(F&& f) {
  try {
    f();
  } catch (const std::exception& e) {
    return e.what();
  }
  return "nothing was thrown";
}

// A dense layer as a user would write it.
struct Fc : gluon::HybridBlock<Fc> {
  int units;
  gluon::Parameter weight = param("weight", {0, 0});
  gluon::Parameter bias;
  explicit Fc(int n) : HybridBlock("fc"), units(n) {
    weight.set_shape({n, 0});
    bias = param("bias", {n}, {.init = init::Zero()});
  }
  auto hybrid_forward(auto F, auto x) {
    return F.as("fwd").FullyConnected(x, F(weight), F(bias), {.num_hidden = units});
  }
};

// Two layers; counts how often hybrid_forward runs, by kind.
struct Mlp : gluon::HybridBlock<Mlp> {
  Fc fc1 = child("fc1", Fc(16)), fc2 = child("fc2", Fc(4));
  std::shared_ptr<int> arrays = std::make_shared<int>(0), symbols = std::make_shared<int>(0);
  Mlp() : HybridBlock("mlp") {}
  auto hybrid_forward(auto F, auto x) {
    ++*(std::is_same_v<decltype(x), Symbol> ? symbols : arrays);
    return fc2(F.relu(fc1(x)));
  }
};

template <class B>
B ready(B block, uint64_t seed = 1) {
  kaon::random::seed(seed);
  block.initialize(init::Uniform(0.5));
  return block;
}

}  // namespace kaon::test
