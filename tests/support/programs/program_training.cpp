// TrainingStep against record, backward and Trainer::step.
#include <fmt/format.h>

#include <cmath>

#include "kaon/engine/engine.h"
#include "kaon/gluon/training_step.h"
#include "kaon/graph/autograd.h"
#include "kaon/graph/plan/difference.h"
#include "kaon/ops/random_state.h"
#include "kaon/tests/support/programs/program_check.h"

namespace kaon::test {

using namespace graph;
namespace {

constexpr int num_steps = 5;

// The means of squares of all results.
template <class A>
A loss_of(const auto& F, const std::vector<A>& outputs, const A& label) {
  A loss = F.mean(label);
  for (const A& y : outputs) loss = loss + F.mean(F.square(F.cast(y, DType::float32)));
  return loss;
}

optimizer::Optimizer optimizer_of(const Program& p) {
  switch (p.seed % 3) {
    case 0: return optimizer::SGD({.learning_rate = 0.01});
    case 1: return optimizer::SGD({.learning_rate = 0.01, .momentum = 0.9, .wd = 0.01});
    default: return optimizer::Adam({.learning_rate = 0.01});
  }
}

enum class How { calls, step, disturbed };

// Losses, then parameters and states. Nothing where no parameter learns.
Hosts train(const Program& p, How how, const HybridizeOptions& options, int threads, Noise noise = {}) {
  Engine engine({.threads = threads});
  EngineScope scope(engine);
  ProgramNet net(p, noise);
  const bool has_label = variables(p, Role::data).size() == 2;
  const NDArray no_label = nd.zeros({1});
  auto call = [&](const std::vector<NDArray>& data) { return loss_of(nd, net.call(data), no_label); };
  // Only what the loss depends on can learn.
  gluon::ParameterDict learning;
  {
    random::seed(1);
    const ProgramNet trial(p);
    const NDArray loss = autograd::record([&] { return loss_of(nd, trial.call(data_of(p, 0, 1)), no_label); });
    if (!autograd::wants_gradient(loss)) return {};
    loss.backward();
    for (size_t i = 0; i < net.parameters.size(); ++i) {
      const gluon::Parameter& q = trial.parameters[i];
      if (q.grad_req() != GradReq::null && autograd::gradient_stamp(q.data()) != 0) learning.add(net.parameters[i]);
    }
    nd.waitall();
  }
  if (learning.size() == 0) return {};
  gluon::Trainer trainer(learning, optimizer_of(p));
  auto forward = [](const Symbol& x) { return x; };
  auto loss = [net, has_label](const Symbol& x, const Symbol& label) {
    std::vector<Symbol> outputs = has_label ? net(x, label) : net(x);
    return has_label ? loss_of(sym, outputs, sym.zeros({1})) : loss_of(sym, outputs, label);
  };
  std::optional<gluon::TrainingStep> step;
  if (how == How::step) step.emplace(forward, loss, trainer, options);
  Hosts results;
  for (int k = 0; k < num_steps; ++k) {
    const std::vector<NDArray> data = data_of(p, 0, uint64_t(k) + 1);
    random::seed(uint64_t(k) + 1);
    if (step) {
      results.push_back(read((*step)(data[0], has_label ? data[1] : no_label)));
    } else {
      const NDArray value = autograd::record([&] { return call(data); });
      value.backward();
      trainer.step(data[0].shape()[0]);
      results.push_back(read(value));
    }
  }
  for (const gluon::Parameter& q : net.parameters) results.push_back(read(q.data()));
  nd.waitall();
  return results;
}

}  // namespace

Program training_part(const Program& program) {
  Program p = program;
  std::erase_if(p.heads, [&](Ref r) { return !is_floating(p.meta(r).dtype) || p.meta(r).shape.size() == 0; });
  return pruned(p);
}

std::string check_training_step(const Program& program, Way way) {
  const bool exact = way == Way::training_step_exact, winograd = way == Way::training_step_winograd;
  const Program p = training_part(program);
  const size_t num_data = variables(p, Role::data).size();
  if (num_data > 2 || p.nodes[variables(p, Role::data)[0]].outputs[0].shape.ndim() == 0) return "";
  const HybridizeOptions options = *options_of(way);
  Hosts want, got;
  try {
    want = train(p, How::calls, {}, 0);
  } catch (const std::exception&) {  // has no gradient
    return "";
  }
  try {
    got = train(p, How::step, options, exact ? 1 : 2);
  } catch (const std::exception& e) {
    if (is_refused_for_a_run(p, e.what())) return "";
    return fmt::format("training step: expected a result, got {}", e.what());
  }
  bool has_loop = false;
  for (const ProgramNode& n : p.nodes) has_loop = has_loop || !n.bodies.empty();
  if (exact && !has_loop) return compare_bits("training step, exact: loss, parameter or state", got, want);
  // Where training diverges, what follows says nothing: kernels differ in whether padding is multiplied by infinity.
  size_t compared = 0;
  while (compared < want.size() && (compared >= num_steps || std::isfinite(want[compared][0]))) ++compared;
  if (compared < num_steps) want.resize(compared);
  std::vector<Hosts> disturbed;
  for (size_t k = 0; k < want.size(); ++k) {
    if (!is_floating(*want[k].dtype)) continue;
    const Bounds bounds = bounds_for(*want[k].dtype, true);
    const double atol = bounds.atol * std::max(1.0, largest(want[k]));
    const std::string what = fmt::format("training step: {} {}", k < num_steps ? "loss" : "array", k);
    const std::string wrong = compare(what, got[k], want[k], bounds.rtol, atol);
    if (wrong.empty()) continue;
    if (disturbed.empty()) {
      for (double rounding : {4e-7, -4e-7, 1e-6, 3e-6, -3e-6}) {
        disturbed.push_back(train(p, How::disturbed, {}, 0, {rounding, winograd}));
      }
    }
    double moves = 0;
    for (const Hosts& other : disturbed) {
      for (size_t i = 0; i < want[k].values.size(); ++i) {
        const double by = std::abs(other[k][i] - want[k][i]);
        moves = std::isfinite(want[k][i]) ? std::max(moves, std::isnan(by) ? INFINITY : by) : moves;
      }
    }
    if (std::isinf(moves) || compare(what, got[k], want[k], bounds.rtol, atol + 20 * moves).empty()) continue;
    return fmt::format("{} (moves by {:.3g} with roundings)", wrong, moves);
  }
  return "";
}

}  // namespace kaon::test
