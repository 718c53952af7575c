#include "kaon/gluon/trainer.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <unordered_map>

#include "kaon/gluon/internal/parameter_files.h"
#include "kaon/graph/sparse_gradient.h"
#include "kaon/ops/array/array_node.h"

namespace kaon::gluon {

namespace {

void check_names(const auto& slots, std::string_view caller) {
  detail::NamedParameters named;
  for (const auto& s : slots) named.emplace_back(s.parameter.name(), s.parameter);
  detail::check_unique(named, caller);
}

// Filled before it returns: no wait reports a failed state (no memory, a stopped scope), which would silently end all
// updates.
NDArray make_state(const optimizer::RuleState& state, const NDArray& weight) {
  if (state.is_weight) {
    NDArray copy = state.dtype == weight.dtype() ? weight.copy() : weight.astype(state.dtype);
    copy.wait_to_read();
    return copy;
  }
  if (weight.device().type != DeviceType::cpu) {
    NDArray zeros = nd.zeros(state.shape, {.dtype = state.dtype, .device = weight.device()});
    zeros.wait_to_read();
    return zeros;
  }
  NDArray zeros = NDArray::empty(state.shape, state.dtype, weight.device());
  std::memset(zeros.node().data(), 0, zeros.node().bytes());
  return zeros;
}

// A weight and its states by the rows that a row_sparse gradient stores.
struct RowUpdate {
  RowUpdate(const NDArray& weight, std::span<const NDArray> states, const sparse::RowSparseNDArray& gradient)
      : indices(gradient.indices()), whole{weight} {
    whole.insert(whole.end(), states.begin(), states.end());
    for (const NDArray& a : whole) {
      arrays.push_back(has_rows(a) ? nd.take(a, indices, {.axis = 0}) : a);
      if (arrays.size() == 1) arrays.push_back(gradient.data());
    }
  }
  // A state that a rule keeps for other weights only is empty.
  bool has_rows(const NDArray& a) const { return a.shape() == whole[0].shape(); }
  void put_back() const {
    for (size_t i = 0; i < whole.size(); ++i) {
      if (has_rows(whole[i])) whole[i].at(indices) = arrays[i + (i > 0)];
    }
  }

  NDArray indices;
  std::vector<NDArray> whole, arrays;  // weight, states; as Rule::update has them
};

}  // namespace

Trainer::Trainer(const ParameterDict& parameters, const optimizer::Optimizer& optimizer) : optimizer_(optimizer) {
  for (const Parameter& p : parameters) slots_.push_back({.parameter = p, .states = {}});
}

int64_t Trainer::num_update() const {
  int64_t n = 0;
  for (const Slot& s : slots_) n = std::max(n, s.updates);
  return n;
}

double Trainer::learning_rate() const { return optimizer_.learning_rate(num_update()); }
void Trainer::set_learning_rate(double lr) { optimizer_.set_learning_rate(lr); }

void Trainer::throw_failure_of_earlier_step() {
  while (!pending_.empty()) {
    struct Seen {
      std::deque<NDArray>& pending;
      bool has_ended = true;
      ~Seen() {
        if (has_ended) pending.pop_front();
      }
    } seen{pending_};
    const NDArray& earliest = pending_.front();
    try {
      seen.has_ended = earliest.engine().read_now(earliest.var(), [] {});  // throws its failure
    } catch (const Cancelled&) {
      // dropped with its stopped scope, which waitall() does not report either
    }
    if (!seen.has_ended) return;
  }
}

std::vector<Trainer::Slot*> Trainer::fresh_slots(bool ignore_stale_grad) {
  std::vector<Slot*> fresh;
  fresh.reserve(slots_.size());
  for (Slot& s : slots_) {
    const Parameter& p = s.parameter;
    if (p.grad_req() == GradReq::null) continue;
    if (ignore_stale_grad && !p.is_initialized()) continue;
    uint64_t stamp = autograd::gradient_stamp(p.data());
    if (stamp != 0 && stamp != s.stamp) {
      fresh.push_back(&s);
    } else if (!ignore_stale_grad) {
      throw StateError(
          fmt::format("[Trainer.step] the gradient of {} has not been written by backward() since the last step; if "
                      "this step uses only a "
                      "part of the parameters, pass ignore_stale_grad",
                      p.name()));
    }
  }
  return fresh;
}

void Trainer::complete_states(Slot& slot) {
  const optimizer::Rule& rule = optimizer_.rule();
  const size_t states = size_t(rule.num_states());
  while (slot.states.size() < states) {
    const NDArray& weight = slot.parameter.data();
    slot.states.push_back(make_state(rule.state(int(slot.states.size()), weight.shape(), weight.dtype()), weight));
  }
}

NDArray Trainer::rates(std::span<Slot* const> slots) {
  int64_t update = num_update();
  for (const Slot* s : slots) update = std::max(update, s->updates + 1);
  const optimizer::Rule& rule = optimizer_.rule();
  const double lr = optimizer_.learning_rate(update), last = update > 1 ? optimizer_.learning_rate(update - 1) : lr;
  const size_t numbers = size_t(rule.num_numbers());
  std::vector<float>& values = next_rate_values_;
  values.resize(numbers * slots.size());
  for (size_t i = 0; i < slots.size(); ++i) {
    const Parameter& p = slots[i]->parameter;
    rule_numbers_.assign(numbers, 0);
    rule.numbers({.name = p.name(),
                  .lr = lr * p.lr_mult(),
                  .wd = optimizer_.wd() * p.wd_mult(),
                  .t = slots[i]->updates + 1,
                  .rate = lr,
                  .last_rate = last},
                 rule_numbers_);
    for (size_t k = 0; k < numbers; ++k) values[k * slots.size() + i] = float(rule_numbers_[k]);
  }
  if (values != rate_values_ || !rates_.defined()) {
    Device device = slots[0]->parameter.data().device();
    rates_ = nd.array(values, {int64_t(values.size())}).as_in_context(device);
    std::swap(rate_values_, values);
  }
  return rates_;
}

void Trainer::step(int64_t batch_size, bool ignore_stale_grad, std::source_location site) {
  if (batch_size < 1) throw ValueError(fmt::format("[Trainer.step] batch_size must be at least 1, got {}", batch_size));
  throw_failure_of_earlier_step();
  autograd::ModeScope mode(false, false);
  std::vector<Slot*> slots = fresh_slots(ignore_stale_grad);
  if (!slots.empty()) {
    size_t states = size_t(optimizer_.rule().num_states()), group = 2 + states;
    std::vector<NDArray> weights, gradients;
    std::vector<const NDArray*> arrays;
    std::deque<RowUpdate> rows;
    weights.reserve(slots.size());
    gradients.reserve(slots.size());
    arrays.reserve(slots.size() * group + 1);
    for (Slot* s : slots) {
      complete_states(*s);
      if (s->parameter.has_row_sparse_grad() && optimizer_.rule().updates_rows()) {
        rows.emplace_back(s->parameter.data(), s->states, s->parameter.row_sparse_grad());
        for (const NDArray& a : rows.back().arrays) arrays.push_back(&a);
        continue;
      }
      weights.push_back(s->parameter.data());
      gradients.push_back(s->parameter.has_row_sparse_grad() ? s->parameter.row_sparse_grad().todense()
                                                             : s->parameter.grad());
      arrays.push_back(&weights.back());
      arrays.push_back(&gradients.back());
      for (const NDArray& state : s->states) arrays.push_back(&state);
    }
    NDArray rates_array = rates(slots);
    arrays.push_back(&rates_array);
    const optimizer::StepOptions options = optimizer_.step_options(1.0 / double(batch_size));
    push_step([&] { return optimizer_.rule().update(arrays, options, site); });
    for (const RowUpdate& r : rows) r.put_back();
    for (Slot* s : slots) {
      ++s->updates;
      s->stamp = autograd::gradient_stamp(s->parameter.data());
    }
  }
  ++steps_;
}

void Trainer::save_states(const std::filesystem::path& file) const {
  check_names(slots_, "save_states");
  NamedArrays arrays;
  auto number = [&](const std::string& name, double value) {
    arrays.emplace_back(name, nd.full({1}, value, {.dtype = DType::float64, .device = cpu()}));
  };
  number("steps", double(steps_));
  if (!optimizer_.has_scheduler()) number("learning_rate", optimizer_.learning_rate(0));
  for (const Slot& s : slots_) {
    const std::string& name = s.parameter.name();
    number("updates:" + name, double(s.updates));
    for (size_t k = 0; k < s.states.size(); ++k) arrays.emplace_back(fmt::format("state{}:{}", k, name), s.states[k]);
  }
  nd_file::save(file, arrays);
}

void Trainer::load_states(const std::filesystem::path& file) {
  check_names(slots_, "load_states");
  std::unordered_map<std::string, NDArray> arrays;
  for (auto& [name, array] : nd_file::load(file)) arrays.emplace(name, array);
  auto take = [&](const std::string& name) {
    auto it = arrays.find(name);
    if (it == arrays.end()) {
      throw ValueError(fmt::format("[load_states] {} has no '{}': it is of other parameters or of another optimizer",
                                   file.string(), name));
    }
    NDArray a = it->second;
    arrays.erase(it);
    return a;
  };
  auto number = [&](const std::string& name) {
    NDArray a = take(name);
    if (a.size() == 1) return a.asscalar<double>();
    throw ValueError(
        fmt::format("[load_states] '{}' in {} must be one number, got shape {}", name, file.string(), a.shape().str()));
  };

  // Counts are written as doubles: exact up to 2^53.
  auto count = [&](const std::string& name) {
    constexpr double most = 9007199254740992.0;
    const double value = number(name);
    if (value >= 0 && value <= most && value == std::floor(value)) return int64_t(value);
    throw ValueError(
        fmt::format("[load_states] '{}' in {} must be a count of 0 to 2^53, got {}", name, file.string(), value));
  };
  const int64_t steps = count("steps");
  std::vector<Slot> slots;
  for (const Slot& s : slots_) {
    const Parameter& p = s.parameter;
    Slot loaded{.parameter = p, .states = {}, .updates = count("updates:" + p.name()), .stamp = s.stamp};
    for (int k = 0; loaded.updates > 0 && k < optimizer_.rule().num_states(); ++k) {
      NDArray state = take(fmt::format("state{}:{}", k, p.name()));
      if (p.is_initialized()) {
        const optimizer::RuleState expected = optimizer_.rule().state(k, p.shape(), p.dtype());
        if (state.shape() != expected.shape) {
          throw ShapeError(fmt::format("[load_states] {} has shape {}, its state in {} has {}", p.name(),
                                       p.shape().str(), file.string(), state.shape().str()));
        }
        if (state.dtype() != expected.dtype) {
          throw TypeError(fmt::format("[load_states] {} has dtype {}, its state in {} has {}", p.name(),
                                      name_of(p.dtype()), file.string(), name_of(state.dtype())));
        }
        state = state.as_in_context(p.data().device());
      }
      loaded.states.push_back(state);
    }
    slots.push_back(std::move(loaded));
  }
  std::optional<double> learning_rate;
  if (arrays.contains("learning_rate")) learning_rate = number("learning_rate");
  if (learning_rate && !(*learning_rate >= 0 && std::isfinite(*learning_rate))) {
    throw ValueError(fmt::format("[load_states] 'learning_rate' in {} must be a finite number of at least 0, got {}",
                                 file.string(), *learning_rate));
  }
  if (!arrays.empty()) {
    throw ValueError(fmt::format("[load_states] {} holds '{}', which does not fit these parameters and this optimizer",
                                 file.string(), arrays.begin()->first));
  }
  if (learning_rate && !optimizer_.has_scheduler()) optimizer_.set_learning_rate(*learning_rate);
  slots_ = std::move(slots);
  steps_ = steps;
}

}  // namespace kaon::gluon
