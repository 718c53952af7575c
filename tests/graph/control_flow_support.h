// Control flow in both ways: a program on arrays, and traced.
#pragma once

#include "kaon/graph/control_flow.h"
#include "kaon/ops/random_state.h"
#include "kaon/tests/graph/support.h"

namespace kaon::test {

struct Both {
  std::vector<NDArray> outputs, gradients;  // gradients: of the floating inputs
};

// Outputs of run(inputs), and with `train` the gradients of their weighted sum.
template <class Run>
Both with_gradients(Run&& run, const std::vector<NDArray>& inputs, bool train = true) {
  std::vector<NDArray> own;
  for (const NDArray& a : inputs) {
    own.push_back(a.copy());
    if (train && is_floating(a.dtype())) own.back().attach_grad();
  }
  Both both;
  if (!train) {
    both.outputs = run(own);
    return both;
  }
  both.outputs = autograd::record([&] { return run(own); });
  std::vector<NDArray> heads, weights;
  for (const NDArray& o : both.outputs) {
    if (!is_floating(o.dtype()) || !autograd::wants_gradient(o)) continue;
    heads.push_back(o);
    weights.push_back(numbers(o.shape(), 77).astype(o.dtype()));
  }
  if (!heads.empty()) autograd::backward(heads, weights);
  for (const NDArray& a : own) {
    if (is_floating(a.dtype())) both.gradients.push_back(a.grad());
  }
  return both;
}

inline std::vector<Symbol> variables_like(const std::vector<NDArray>& inputs) {
  std::vector<Symbol> all;
  for (size_t i = 0; i < inputs.size(); ++i) {
    all.push_back(sym.var("data" + std::to_string(i), inputs[i].shape(), inputs[i].dtype()));
  }
  return all;
}

// `body(F, arrays)`: the same program for NDArrays and Symbols; returns a vector.
template <class Body>
CachedGraph traced(Body&& body, const std::vector<NDArray>& inputs, HybridizeOptions options = {.exact = true}) {
  NameScope names("");
  const Symbol program = Symbol::group(body(sym, variables_like(inputs)));
  return CachedGraph(program, data_names(int(inputs.size())), options, "program");
}

inline void require_same(const std::vector<NDArray>& got, const std::vector<NDArray>& expected, const char* what) {
  REQUIRE(got.size() == expected.size());
  for (size_t i = 0; i < got.size(); ++i) {
    INFO(what << " " << i << ": got " << to_string(got[i]) << ", expected " << to_string(expected[i]));
    REQUIRE(same_bits(got[i], expected[i]));
  }
}
inline void require_close(const std::vector<NDArray>& got, const std::vector<NDArray>& expected, double tolerance) {
  REQUIRE(got.size() == expected.size());
  for (size_t i = 0; i < got.size(); ++i) {
    REQUIRE(got[i].shape() == expected[i].shape());
    require_near(got[i], expected[i].asvector<double>(), tolerance);
  }
}

// How the gradients of a value are summed that is used in a loop and outside of it, or in several: a node gives one.
enum class Sums : uint8_t { in_the_same_order, in_another_order };

// Imperative and traced: the same bits, outputs and gradients, called thrice; within bounds without .exact.
template <class Body>
Both check_both(Body&& body, const std::vector<NDArray>& inputs, Sums sums = Sums::in_the_same_order) {
  auto on_arrays = [&](const std::vector<NDArray>& x) { return body(nd, x); };
  random::seed(5);
  Both expected = with_gradients(on_arrays, inputs);
  CachedGraph graph = traced(body, inputs);
  for (int time = 0; time < 3; ++time) {
    random::seed(5);
    Both got = with_gradients([&](const std::vector<NDArray>& x) { return call(graph, x); }, inputs);
    require_same(got.outputs, expected.outputs, "output");
    if (sums == Sums::in_another_order) {
      require_close(got.gradients, expected.gradients, 1e-6);
    } else {
      require_same(got.gradients, expected.gradients, "gradient");
    }
  }
  random::seed(5);
  Both predicted = with_gradients(on_arrays, inputs, false);
  random::seed(5);
  require_same(call(graph, inputs), predicted.outputs, "prediction");
  CachedGraph fast = traced(body, inputs, {});
  random::seed(5);
  Both near = with_gradients([&](const std::vector<NDArray>& x) { return call(fast, x); }, inputs);
  require_close(near.outputs, expected.outputs, 1e-4);
  require_close(near.gradients, expected.gradients, 1e-3);
  return expected;
}

}  // namespace kaon::test
