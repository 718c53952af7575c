// What the cases of graph share: values on the host, random programs, an operator that fails.
#pragma once

#include <catch2/catch.hpp>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "kaon/graph/autograd.h"
#include "kaon/graph/hybrid/cached_graph.h"
#include "kaon/ops/op_def.h"

namespace kaon::test {

using namespace graph;

inline std::vector<float> floats(const NDArray& a) { return a.asvector<float>(); }

inline bool same_bits(const NDArray& a, const NDArray& b) {
  if (a.shape() != b.shape() || a.dtype() != b.dtype()) return false;
  auto x = a.asvector<double>(), y = b.asvector<double>();
  return x.empty() || std::memcmp(x.data(), y.data(), x.size() * sizeof(double)) == 0;
}

inline void require_near(const NDArray& got, const std::vector<double>& expected, double tolerance = 1e-6) {
  auto values = got.asvector<double>();
  REQUIRE(values.size() == expected.size());
  for (size_t i = 0; i < values.size(); ++i) {
    INFO("element " << i << ": got " << values[i] << ", expected " << expected[i]);
    REQUIRE(std::abs(values[i] - expected[i]) <= tolerance * (1 + std::abs(expected[i])));
  }
}

// Numbers in [-1, 1) that depend on `seed` alone.
inline NDArray numbers(const Shape& shape, uint32_t seed = 1) {
  std::mt19937 random(seed);
  std::vector<float> v(size_t(shape.size()));
  for (float& x : v) x = float(int32_t(random() >> 8)) / float(1 << 23) - 1;
  return nd.array(v, shape);
}

// A call of any operator that has one output.
inline Symbol apply(const OpDef& def, const Attributes& attrs, const std::vector<Symbol>& inputs) {
  std::vector<const Symbol*> pointers;
  for (const Symbol& s : inputs) pointers.push_back(&s);
  Symbol out;
  Symbol::apply(def, attrs.get(), pointers, std::span<Symbol>(&out, 1), std::source_location::current(), {});
  return out;
}

// y = x; throws when it runs and x[0] is NaN.
struct FailsOnNan {
  static constexpr OpTraits traits{.name = "_test_fails_on_nan", .in_mxnet = false};
  static constexpr void fields(auto) {}
  static const OpDef def;
  void infer(InferContext& c) const { c.set_output(c.shape(0), c.dtype()); }
  void grad(GradContext& g) const { g.set(0, nd.identity(g.head())); }
};
inline void run_cpu(const FailsOnNan&, KernelContext& c) {
  if (c.in(0).as<float>()[0] != c.in(0).as<float>()[0]) throw ValueError("[_test_fails_on_nan] NaN");
  std::memcpy(c.out().data, c.in(0).data, c.in(0).bytes());
}
inline const OpDef FailsOnNan::def = make_op_def<FailsOnNan>();

template <class A>
A fails_on_nan(const A& x, std::source_location site = std::source_location::current(),
               std::string_view name = "check") {
  const FailsOnNan op{};
  const A* inputs[] = {&x};
  A out;
  A::apply(FailsOnNan::def, &op, inputs, std::span<A>(&out, 1), site, name);
  return out;
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

// A program of `steps` operators chosen by `random`, on (4, 6) arrays; the same for NDArrays and Symbols. Views, values
// that are used often or never, several outputs, inputs and constants among the outputs.
template <class A>
std::vector<A> random_program(const Functions<A>& F, std::vector<A> values, int steps, uint32_t seed) {
  std::mt19937 random(seed);
  const size_t inputs = values.size();
  auto any = [&]() -> const A& {  // rather a recent one
    size_t n = values.size(), back = std::min<size_t>(random() % 6 * (random() % 3), n - 1);
    return values[n - 1 - back];
  };
  if (random() % 3 == 0) values.push_back(F.array(std::vector<float>(24, 0.25f), {4, 6}, {}));
  for (int i = 0; i < steps; ++i) {
    const A a = any(), b = any();
    switch (random() % 15) {
      case 0: values.push_back(a + b); break;
      case 1: values.push_back(a * b); break;
      case 2: values.push_back(F.tanh(a)); break;
      case 3: values.push_back(F.sigmoid(a)); break;
      case 4: values.push_back(a.reshape({6, 4}).reshape({4, 6})); break;
      case 5: values.push_back(F.reshape(F.flatten(F.reshape(a, {2, 2, 6})), {4, 6})); break;
      case 6: values.push_back(F.concat(op::Concat{.dim = 0}, a.slice(2, 4), F.slice_axis(b, 0, 0, 2))); break;
      case 7: values.push_back(a + F.mean(b, {.axis = Shape(1), .keepdims = true})); break;
      case 8: {
        auto parts = F.split(a, 2, {.axis = 1});
        values.push_back(F.concat(op::Concat{.dim = 1}, parts[1], parts[random() % 2]));
        break;
      }
      case 9: values.push_back(F.softmax(a)); break;
      case 10: values.push_back(a * 0.5 - b); break;
      case 11: values.push_back(F.transpose(F.reshape(a, {6, 4}))); break;
      case 12: values.push_back(F.relu(a)); break;
      case 13: values.push_back(F.broadcast_maximum(a, b)); break;
      default: values.push_back(F.abs(a)); break;
    }
  }
  std::vector<A> outputs{values.back()};
  for (uint32_t n = random() % 4; n > 0; --n) outputs.push_back(any());
  if (random() % 4 == 0) outputs.push_back(values[random() % inputs]);
  if (random() % 4 == 0) outputs.push_back(outputs[0]);
  if (random() % 4 == 0) outputs.push_back(F.reshape(outputs[0], {24}));
  return outputs;
}

inline Symbol random_symbol(int steps, uint32_t seed, int inputs = 2) {
  std::vector<Symbol> data;
  for (int i = 0; i < inputs; ++i) data.push_back(sym.var("data" + std::to_string(i), {4, 6}));
  return Symbol::group(random_program<Symbol>(sym, data, steps, seed));
}
inline std::vector<std::string> data_names(int n) {
  std::vector<std::string> names;
  for (int i = 0; i < n; ++i) names.push_back("data" + std::to_string(i));
  return names;
}

inline std::vector<NDArray> call(CachedGraph& graph, const std::vector<NDArray>& inputs,
                                 std::source_location site = std::source_location::current()) {
  std::vector<const NDArray*> pointers;
  for (const NDArray& a : inputs) pointers.push_back(&a);
  return graph.call(pointers, site);
}

}  // namespace kaon::test
