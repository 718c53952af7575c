// What the cases of gluon share: values on the host, and "hybridized equals imperative".
#pragma once

#include <catch2/catch.hpp>

#include <cmath>
#include <vector>

#include "kaon/gluon/block.h"

namespace kaon::test {

inline std::vector<double> values(const NDArray& a) { return a.asvector<double>(); }

inline void require_close(const std::vector<double>& got, const std::vector<double>& expected, double rtol = 1e-5,
                          double atol = 1e-6) {
  REQUIRE(got.size() == expected.size());
  for (size_t i = 0; i < got.size(); ++i) {
    INFO("element " << i << ": got " << got[i] << ", expected " << expected[i]);
    REQUIRE(std::abs(got[i] - expected[i]) <= atol + rtol * std::abs(expected[i]));
  }
}
inline void require_close(const NDArray& got, const std::vector<double>& expected, double rtol = 1e-5,
                          double atol = 1e-6) {
  require_close(values(got), expected, rtol, atol);
}

// Output, gradient of the input, and gradients of the parameters of one recorded call.
template <class B>
std::vector<std::vector<double>> forward_backward(const B& block, const NDArray& x, bool training) {
  NDArray y = autograd::record([&] { return block(x); }, training);
  // Weights that differ per element, so that no gradient is zero by symmetry.
  y.backward(nd.reshape(nd.arange(double(y.size())), y.shape()) * 0.01 + 1);
  std::vector<std::vector<double>> all{values(y), values(x.grad())};
  for (const gluon::Parameter& p : block.collect_params()) {
    all.push_back(values(p.grad_req() == GradReq::null ? p.data() : p.grad()));
  }
  return all;
}

// Imperative and hybridized runs agree: on the given batch, on a smaller last one and on one of a single sample.
template <class B>
void check_hybrid(B block, const Shape& shape, bool training = true) {
  block.initialize(init::Uniform(0.5));
  for (int64_t batch : {shape[0], shape[0] - 1, int64_t(1), shape[0]}) {
    Shape s = shape;
    s[0] = batch;
    NDArray x = nd.random_normal(s);
    x.attach_grad();
    INFO(block.class_name() << " on " << s.str());
    block.hybridize(false);
    block(x);  // completes parameters
    auto expected = forward_backward(block, x, training);
    block.hybridize({.static_alloc = true, .static_shape = true});
    auto got = forward_backward(block, x, training);
    REQUIRE(got.size() == expected.size());
    for (size_t i = 0; i < got.size(); ++i) {
      INFO((i == 0 ? "output" : i == 1 ? "input gradient" : "parameter gradient") << " " << i);
      require_close(got[i], expected[i], i ? 1e-3 : 1e-4, i ? 1e-4 : 1e-5);
    }
  }
}

}  // namespace kaon::test
