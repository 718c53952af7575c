#include "kaon/tests/support/programs/program_check.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "kaon/engine/engine.h"
#include "kaon/graph/plan/difference.h"

namespace kaon::test {

using namespace graph;
namespace {

constexpr const char* names[num_ways] = {"plain",
                                         "exact",
                                         "two threads",
                                         "static, two threads",
                                         "mirror",
                                         "no branches",
                                         "verify",
                                         "verify, exact",
                                         "winograd",
                                         "bucket",
                                         "training step",
                                         "training step, exact",
                                         "training step, winograd",
                                         "derivative",
                                         "second derivative"};

bool is_second(Phase phase) { return phase == Phase::second || phase == Phase::second_training; }
bool is_training(Phase phase) { return phase == Phase::train || phase == Phase::second_training; }
bool wants_bits(Way way) {
  return way == Way::exact || way == Way::verify_exact || way == Way::other_threads || way == Way::static_two_threads ||
         way == Way::mirror || way == Way::no_branches;
}
// The way whose results are expected.
std::optional<Way> model_of(Way way) {
  return way == Way::static_two_threads || way == Way::mirror || way == Way::no_branches ? std::optional(Way::plain)
                                                                                         : std::nullopt;
}

bool has_loop(const Program& p) {
  return std::any_of(p.nodes.begin(), p.nodes.end(), [](const ProgramNode& n) { return !n.bodies.empty(); });
}

const Hosts& list_of(const Outcome& o, int list) { return list == 0 ? o.outputs : list == 1 ? o.gradients : o.states; }

}  // namespace

bool has_winograd(const Program& p) {
  bool found = false;
  each_call(p, [&](const ProgramNode& n) { found = found || may_be_winograd(n); });
  return found;
}

const char* name_of(Way way) { return names[int(way)]; }

bool is_called(Way way, Phase phase) {
  switch (way) {
    case Way::bucket: return phase == Phase::predict;
    case Way::winograd: return !is_second(phase);
    default: return true;
  }
}

std::optional<HybridizeOptions> options_of(Way way) {
  HybridizeOptions o;
  switch (way) {
    case Way::plain: break;
    case Way::exact: o.static_alloc = o.static_shape = o.exact = true; break;
    case Way::static_two_threads: o.static_alloc = o.static_shape = true; break;
    case Way::mirror: o.mirror = true; break;
    case Way::no_branches: o.branches = false; break;
    case Way::verify: o.verify = 1; break;
    case Way::verify_exact: o.exact = true, o.verify = 2; break;
    case Way::winograd: o.winograd = true; break;
    case Way::bucket: o.policy = PlanPolicy::bucket; break;
    case Way::training_step: o.static_alloc = true; break;
    case Way::training_step_exact: o.static_alloc = o.exact = true; break;
    case Way::training_step_winograd: o.static_alloc = o.winograd = true; break;
    default: return {};
  }
  return o;
}

int threads_of(Way way) {
  switch (way) {
    case Way::other_threads:
    case Way::static_two_threads:
    case Way::verify: return 2;
    case Way::exact:
    case Way::mirror:
    case Way::bucket:
    case Way::training_step_exact: return 1;
    default: return 0;
  }
}

Checker::Outcomes Checker::run(Way way, const std::vector<Phase>& phases, Noise noise) const {
  Engine engine({.threads = noise.rounding != 0 ? 0 : threads_of(way)});
  EngineScope scope(engine);
  ProgramNet net(program_, noise);
  if (const auto options = options_of(way); options && noise.rounding == 0) net.hybridize(*options);
  Outcomes all;
  uint64_t call = 0;
  for (int64_t rows : program_.rows) {
    for (Phase phase : phases) {
      ++call;
      if (!is_called(noise.winograd ? Way::winograd : way, phase)) {
        if (noise.winograd) all.emplace_back();  // as many as there are without noise
        continue;
      }
      all.push_back(run_phase(net, phase, rows, call));
    }
  }
  return all;
}

bool is_refused_for_a_run(const Program& program, std::string_view error) {
  bool depends = false;
  each_call(program,
            [&](const ProgramNode& n) { depends = depends || n.kind == Kind::cond || n.kind == Kind::while_loop; });
  return depends && error.find("has no gradient") != error.npos;
}

std::string Checker::check(Way way) {
  switch (way) {
    case Way::derivative: return check_derivative(program_, false);
    case Way::second_derivative: return check_derivative(program_, true);
    case Way::training_step:
    case Way::training_step_exact: return check_training_step(program_, way);
    case Way::training_step_winograd: return has_winograd(program_) ? check_training_step(program_, way) : "";
    case Way::winograd:
      if (!has_winograd(program_)) return "";
      break;
    default: break;
  }
  const auto model = model_of(way);
  const Outcomes& want = kept(model.value_or(Way::derivative));
  const Outcomes got = way == Way::plain ? kept(way) : run(way, program_.phases);
  // Calls that are left out leave running statistics as they are: only what comes before the first training among them
  // is the same.
  const bool has_states = !variables(program_, Role::state).empty();
  size_t at = 0, next = 0;
  bool differs = false;
  for (int64_t rows : program_.rows) {
    for (Phase phase : program_.phases) {
      if (!is_called(way, phase)) {
        differs = differs || (has_states && is_training(phase)), ++at;
        continue;
      }
      if (differs) {
        ++at, ++next;
        continue;
      }
      const std::string wrong = compare({got[next]}, {want[at]}, way, at);
      if (!wrong.empty()) {
        return fmt::format("{}, {}, rows {}: {}", name_of(way), name_of(phase), rows, wrong);
      }
      ++at, ++next;
    }
  }
  return "";
}

// The imperative outcomes are those of a way without options.
const Checker::Outcomes& Checker::kept(Way way) {
  auto [at, is_new] = kept_.try_emplace(way);
  if (is_new) at->second = run(way, program_.phases);
  return at->second;
}

std::string Checker::compare(const Outcomes& got_list, const Outcomes& want_list, Way way, size_t at) {
  const Outcome &got = got_list[0], &want = want_list[0];
  if (!want.error.empty() && !got.error.empty()) return "";
  if (way == Way::bucket && !got.error.empty()) return "";  // rows that depend on each other
  // A hybridized call is recorded as a whole: also where the gradients that are asked for need no such operator.
  if (got.error.find("gradients of gradients do not go through") != got.error.npos) return "";
  if (is_refused_for_a_run(program_, got.error)) return "";
  if (way == Way::verify && got.error.find("verify") != got.error.npos && is_sensitive(at)) return "";
  if (got.error != want.error) {
    return fmt::format("expected {}, got {}", want.error.empty() ? "a result" : want.error,
                       got.error.empty() ? "a result" : got.error);
  }
  std::string wrong = compare_arrays("output", got.outputs, want.outputs, false, way, at);
  if (wrong.empty()) wrong = compare_arrays("gradient", got.gradients, want.gradients, true, way, at);
  if (wrong.empty()) wrong = compare_arrays("state", got.states, want.states, false, way, at);
  return wrong;
}

std::string Checker::compare_arrays(const char* what, const Hosts& got, const Hosts& want, bool gradients, Way way,
                                    size_t at) {
  // For the same reason results may be gradients of nothing, which are not there imperatively.
  const bool only_nothing = std::all_of(got.begin() + ptrdiff_t(std::min(got.size(), want.size())), got.end(),
                                        [](const Host& h) { return largest(h) == 0; });
  if (got.size() < want.size() || !only_nothing)
    return fmt::format("{} {}s, expected {}", got.size(), what, want.size());
  // Gradients from a traced loop arrive as one sum.
  const bool in_order = !has_loop(program_) || model_of(way) || way == Way::other_threads;
  const Phase phase = program_.phases[at % program_.phases.size()];
  const bool twice = is_second(phase);
  const bool bits = wants_bits(way) && (in_order || !(gradients || twice));
  if (bits) return compare_bits(what, {got.begin(), got.begin() + ptrdiff_t(want.size())}, want);
  for (size_t k = 0; k < want.size(); ++k) {
    const std::string name = fmt::format("{} {}", what, k);
    if (got[k].shape != want[k].shape || got[k].dtype != want[k].dtype) return name + ": another shape or dtype";
    const Bounds bounds = bounds_for(*want[k].dtype, gradients || twice);
    const double atol = bounds.atol * std::max(1.0, largest(want[k]));
    std::string wrong = test::compare(name, got[k], want[k], bounds.rtol, atol);
    if (wrong.empty()) continue;
    const double moves = spread(at, gradients ? 1 : what[0] == 's' ? 2 : 0, k, way == Way::winograd);
    constexpr double factor = 20;
    if (std::isnan(moves) || (moves > 0 && !is_floating(*want[k].dtype))) continue;
    if (test::compare(name, got[k], want[k], bounds.rtol, atol + factor * moves).empty()) continue;
    return fmt::format("{} (largest {:.3g}, moves by {:.3g} with roundings)", wrong, largest(want[k]), moves);
  }
  return "";
}

double Checker::spread(size_t outcome, int list, size_t array, bool winograd) {
  std::vector<Outcomes>& disturbed = disturbed_[winograd];
  if (disturbed.empty()) {
    for (double rounding : {4e-7, -4e-7, 1e-6, 3e-6, -3e-6}) {
      disturbed.push_back(run(Way::derivative, program_.phases, {rounding, winograd}));
    }
  }
  const Outcome& calm = kept(Way::derivative)[outcome];
  double most = 0;
  for (const Outcomes& all : disturbed) {
    const Outcome& other = all[outcome];
    if (list_of(other, list).size() != list_of(calm, list).size()) return NAN;
    const Host &a = list_of(calm, list)[array], &b = list_of(other, list)[array];
    if (a.shape != b.shape) return NAN;
    for (size_t i = 0; i < a.values.size(); ++i) {
      if (std::isfinite(a[i]) != std::isfinite(b[i])) return NAN;
      if (std::isfinite(a[i])) most = std::max(most, std::abs(a[i] - b[i]));
    }
  }
  return most;
}

// So much that a comparison of single operators may find roundings beyond its bounds.
bool Checker::is_sensitive(size_t outcome) {
  const Outcome& calm = kept(Way::derivative)[outcome];
  for (int list = 0; list < 3; ++list) {
    for (size_t k = 0; k < list_of(calm, list).size(); ++k) {
      const Host& h = list_of(calm, list)[k];
      const double moves = spread(outcome, list, k);
      if (!(moves <= 0.3 * bounds_for(*h.dtype, list == 1).atol * std::max(1.0, largest(h)))) return true;
    }
  }
  return false;
}

}  // namespace kaon::test
