// Gradients of programs against central differences in float64, along one direction.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "kaon/engine/engine.h"
#include "kaon/graph/autograd.h"
#include "kaon/ops/random_state.h"
#include "kaon/tests/support/programs/program_check.h"
#include "kaon/tests/support/programs/program_evaluate.h"

namespace kaon::test {
namespace {

bool is_learning(const ProgramNode& n) {
  return n.kind == Kind::variable && (n.role == Role::data || n.role == Role::parameter) &&
         is_floating(n.outputs[0].dtype);
}

// The variables moved by `distance` along a direction.
std::vector<NDArray> moved(const Program& p, double distance) {
  std::vector<NDArray> all;
  for (const ProgramNode& n : p.nodes) {
    if (n.kind != Kind::variable || n.role == Role::constant) continue;
    std::vector<double> values = values_of(n, n.outputs[0].shape, 1);
    ProgramNode direction = n;
    direction.range = {-1, 1};
    direction.seed = n.seed + 77;
    const std::vector<double> by = values_of(direction, n.outputs[0].shape, 2);
    for (size_t i = 0; is_learning(n) && i < values.size(); ++i) values[i] += distance * by[i];
    all.push_back(NDArray::from(values.data(), values.size(), n.outputs[0].shape, n.outputs[0].dtype));
  }
  return all;
}

// A number from a program's variables: the weighed sum of its results, or of its gradients. Calls' results are
// multiplied by numbers near 1, so that no two are equal: at ties some gradients are no derivatives.
class Function {
 public:
  Function(const Program& program, bool second) : program_(program), second_(second) {}
  const Program& program() const { return program_; }
  // Whether it makes float32 of float64, as to_tensor does, so that small differences are lost.
  bool rounds() const { return rounds_; }

  NDArray operator()(const std::vector<NDArray>& in) {
    random::seed(1);
    uint64_t seed = program_.seed;
    auto change = [&](const ProgramNode&, const std::vector<NDArray>&, std::vector<NDArray>& results) {
      for (const NDArray& y : results) rounds_ = rounds_ || (is_floating(y.dtype()) && y.dtype() != DType::float64);
      disturb(results, 1e-3, seed);
    };
    const NDArray sum = weighed(Evaluation<NDArray>(program_, change).run(in), flow_from_results_);
    if (!second_ || !sum.defined()) return sum;
    std::vector<NDArray> leaves;
    size_t next = 0;
    for (const ProgramNode& n : program_.nodes) {
      if (n.kind != Kind::variable || n.role == Role::constant) continue;
      if (is_learning(n)) leaves.push_back(in[next]);
      ++next;
    }
    const std::vector<NDArray> heads{sum};
    return weighed(autograd::grad(heads, leaves, {}, true, true), flow_from_gradients_);
  }

 private:
  // Those that gradients flow from, the first time.
  static NDArray weighed(const std::vector<NDArray>& arrays, std::vector<bool>& flows) {
    NDArray sum;
    for (size_t k = 0; k < arrays.size(); ++k) {
      if (flows.size() == k) flows.push_back(is_floating(arrays[k].dtype()) && autograd::wants_gradient(arrays[k]));
      if (!flows[k]) continue;
      const NDArray part = nd.sum(arrays[k].astype(DType::float64) * weights_like(arrays[k]).astype(DType::float64));
      sum = sum.defined() ? sum + part : part;
    }
    return sum;
  }

  const Program& program_;
  const bool second_;
  std::vector<bool> flow_from_results_, flow_from_gradients_;
  bool rounds_ = false;
};

void attach(const Program& p, std::vector<NDArray>& in) {
  size_t next = 0;
  for (const ProgramNode& n : p.nodes) {
    if (n.kind != Kind::variable || n.role == Role::constant) continue;
    if (is_learning(n)) in[next].attach_grad();
    ++next;
  }
}

// NaN where the program does not run there.
double at(Function& f, double distance) {
  std::vector<NDArray> in = moved(f.program(), distance);
  attach(f.program(), in);
  try {
    return autograd::record([&] { return f(in); }, false).asscalar<double>();
  } catch (const Error&) {
    return NAN;
  }
}

}  // namespace

std::string check_derivative(const Program& narrow, bool second) {
  bool all = true;
  each_call(narrow, [&](const ProgramNode& n) { all = all && n.is_derivative; });
  // Round data meet kinks and ties exactly, where gradients are conventions.
  for (uint32_t i : variables(narrow, Role::data)) {
    const ProgramNode& n = narrow.nodes[i];
    all = all && (n.range.step == 0 || !is_floating(n.outputs[0].dtype));
  }
  if (!all) return "";
  Engine engine({.threads = 0});
  EngineScope scope(engine);
  const Program p = widened(narrow);
  Function f(p, second);
  double slope = 0, size = 0;
  std::vector<NDArray> in = moved(p, 0);
  attach(p, in);
  try {
    const NDArray value = autograd::record([&] { return f(in); }, false);
    if (!value.defined() || !autograd::wants_gradient(value) || f.rounds()) return "";
    value.backward();
    size_t next = 0;
    const std::vector<NDArray> there = moved(p, 1);
    for (const ProgramNode& n : p.nodes) {
      if (n.kind != Kind::variable || n.role == Role::constant) continue;
      const size_t i = next++;
      if (!is_learning(n)) continue;
      const auto g = in[i].grad().asvector<double>(), x = in[i].asvector<double>(), y = there[i].asvector<double>();
      for (size_t k = 0; k < g.size(); ++k) slope += g[k] * (y[k] - x[k]), size += std::abs(g[k] * (y[k] - x[k]));
    }
  } catch (const Error&) {  // not differentiable, or not in float64
    return "";
  }
  if (!std::isfinite(size)) return "";
  const double here = at(f, 0);
  if (std::isnan(here)) return "";
  double best = INFINITY, found = 0, bend = 0, low = INFINITY, high = -INFINITY;
  for (double h : {1e-5, 1e-6, 1e-7}) {
    const double right = at(f, h), left = at(f, -h), numeric = (right - left) / (2 * h);
    const double wrong = std::abs(numeric - slope);
    if (wrong <= 1e-5 * size + 1e-7 * std::abs(here) + 1e-8) return "";
    if (wrong < best) best = wrong, found = numeric;
    bend = std::abs(right - 2 * here + left) / h;
    low = std::min(low, numeric), high = std::max(high, numeric);
  }
  // Between two pieces of a function, at a jump, or where it curves too much for differences.
  if (!std::isfinite(best) || !(bend < 0.02 * best) || !(high - low < 0.1 * best)) return "";
  return fmt::format("{}derivative: got {:.9g}, numerically {:.9g} (terms up to {:.3g}, value {:.6g})",
                     second ? "second " : "", slope, found, size, here);
}

}  // namespace kaon::test
