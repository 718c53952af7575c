// What a training goes on from: the trainer's states, to files and back.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <unordered_map>

#include "kaon/gluon/internal/gradient_buckets.h"
#include "kaon/gluon/internal/parameter_files.h"
#include "kaon/gluon/internal/write_by_one_rank.h"
#include "kaon/gluon/trainer.h"

namespace kaon::gluon {

namespace {

void check_names(const auto& slots, std::string_view caller) {
  detail::NamedParameters named;
  for (const auto& s : slots) named.emplace_back(s.parameter.name(), s.parameter);
  detail::check_unique(named, caller);
}

// What the name of the array begins with whose name says the optimizer.
constexpr std::string_view of_optimizer = "optimizer:";
// And of those with what 2bit compression has not sent yet of a gradient, a row for each rank, which goes on with it;
// another number of ranks shares out the sum of all rows. Files of trainings without 2bit, and of earlier versions,
// have none: nothing is left then. A trainer without 2bit, which has no place for them, reads past them.
constexpr std::string_view of_residuals = "residuals:";

// Takes that array out. Files without one are of versions that wrote none, or of an optimizer without a name.
void take_optimizer(std::unordered_map<std::string, NDArray>& arrays, const std::string& name,
                    const std::string& source) {
  const auto it = std::ranges::find_if(arrays, [](const auto& a) { return a.first.starts_with(of_optimizer); });
  if (it == arrays.end()) return;
  const std::string written = it->first.substr(of_optimizer.size());
  if (!name.empty() && written != name) {
    throw ValueError(fmt::format("[load_states] {} has the states of {}, but the optimizer of this trainer is {}",
                                 source, written, name));
  }
  arrays.erase(it);
}

void check_residuals(const Parameter& p, const NDArray& residuals, const std::string& source) {
  const Shape& shape = residuals.shape();
  const bool fits = shape.ndim() == 2 && shape[0] > 0 && (!p.is_initialized() || shape[1] == p.shape().size());
  if (!fits) {
    throw ShapeError(
        fmt::format("[load_states] {} has shape {}, what 2bit has not sent of its gradient must be (ranks, "
                    "elements), in {} it has {}",
                    p.name(), p.shape().str(), source, shape.str()));
  }
  if (residuals.dtype() != DType::float32) {
    throw TypeError(
        fmt::format("[load_states] what 2bit has not sent of the gradient of {} must be float32, in {} it "
                    "is {}",
                    p.name(), source, name_of(residuals.dtype())));
  }
}

}  // namespace

void Trainer::save_states(const std::filesystem::path& file) const {
  const NamedArrays all = states();
  detail::write_by_one_rank(ranks_.get(), [&] { nd_file::save(file, all); });
}

// Of an array that another rank keeps, a copy.
NamedArrays Trainer::states_of(const Slot& slot) const {
  const Parameter& p = slot.parameter;
  const bool are_elsewhere = ranks_ && ranks_->gives_owners() && slot.updates > 0;
  NamedArrays all;
  for (size_t k = 0; k < (are_elsewhere ? size_t(optimizer_.rule().num_states()) : slot.states.size()); ++k) {
    NDArray state;
    if (k < slot.states.size()) {
      state = slot.states[k];
    } else {
      const optimizer::RuleState kept = optimizer_.rule().state(int(k), p.shape(), p.dtype());
      state = NDArray::empty(kept.shape, kept.dtype);
    }
    if (are_elsewhere) ranks_->ranks().broadcast(state, ranks_->owner_of(p));
    all.emplace_back(fmt::format("state{}:{}", k, p.name()), state);
  }
  return all;
}

NamedArrays Trainer::states() const {
  check_whole();
  check_names(slots_, "save_states");
  NamedArrays arrays;
  auto number = [&](const std::string& name, double value) {
    arrays.emplace_back(name, nd.full({1}, value, {.dtype = DType::float64, .device = cpu()}));
  };
  number("steps", double(steps_));
  if (!optimizer_.name().empty()) number(std::string(of_optimizer) + optimizer_.name(), 1);
  if (!optimizer_.has_scheduler()) number("learning_rate", optimizer_.learning_rate(0));
  for (const Slot& s : slots_) {
    const std::string& name = s.parameter.name();
    number("updates:" + name, double(s.updates));
    for (auto& state : states_of(s)) arrays.push_back(std::move(state));
    if (!ranks_ || !ranks_->keeps_residuals()) continue;
    if (NDArray left = ranks_->residuals_of(s.parameter); left.defined()) {
      arrays.emplace_back(std::string(of_residuals) + name, std::move(left));
    }
  }
  if (scaling_) {
    const bool is_made = scaling_->state.defined();
    arrays.emplace_back("loss_scale", is_made ? scaling_->state : nd.array({scaling_->options.init_scale, 0.0}));
  }
  return arrays;
}

void Trainer::load_states(const std::filesystem::path& file) { set_states(nd_file::load(file), file.string()); }

void Trainer::set_states(const NamedArrays& all, const std::string& source) {
  check_names(slots_, "load_states");
  std::unordered_map<std::string, NDArray> arrays(all.begin(), all.end());
  take_optimizer(arrays, optimizer_.name(), source);
  auto take = [&](const std::string& name) {
    auto it = arrays.find(name);
    if (it == arrays.end()) {
      throw ValueError(
          fmt::format("[load_states] {} has no '{}': it is of other parameters or of another optimizer", source, name));
    }
    NDArray a = it->second;
    arrays.erase(it);
    return a;
  };
  auto number = [&](const std::string& name) {
    NDArray a = take(name);
    if (a.size() == 1) return a.asscalar<double>();
    throw ValueError(
        fmt::format("[load_states] '{}' in {} must be one number, got shape {}", name, source, a.shape().str()));
  };

  // Counts are written as doubles: exact up to 2^53.
  auto count = [&](const std::string& name) {
    constexpr double most = 9007199254740992.0;
    const double value = number(name);
    if (value >= 0 && value <= most && value == std::floor(value)) return int64_t(value);
    throw ValueError(fmt::format("[load_states] '{}' in {} must be a count of 0 to 2^53, got {}", name, source, value));
  };
  const int64_t steps = count("steps");
  std::vector<Slot> slots;
  std::vector<std::pair<Parameter, NDArray>> residuals;
  for (const Slot& s : slots_) {
    const Parameter& p = s.parameter;
    Slot loaded{.parameter = p, .states = {}, .updates = count("updates:" + p.name()), .stamps = s.stamps};
    for (int k = 0; loaded.updates > 0 && k < optimizer_.rule().num_states(); ++k) {
      NDArray state = take(fmt::format("state{}:{}", k, p.name()));
      if (p.is_initialized()) {
        const optimizer::RuleState expected = optimizer_.rule().state(k, p.shape(), p.dtype());
        if (state.shape() != expected.shape) {
          throw ShapeError(fmt::format("[load_states] {} has shape {}, its state in {} has {}", p.name(),
                                       p.shape().str(), source, state.shape().str()));
        }
        if (state.dtype() != expected.dtype) {
          throw TypeError(fmt::format("[load_states] {} has dtype {}, its state in {} has {}", p.name(),
                                      name_of(p.dtype()), source, name_of(state.dtype())));
        }
        state = state.as_in_context(p.list_ctx()[0]);
      }
      loaded.states.push_back(state);
    }
    slots.push_back(std::move(loaded));
    if (const std::string name = std::string(of_residuals) + p.name(); arrays.contains(name)) {
      residuals.emplace_back(p, take(name).as_in_context(cpu()));
      check_residuals(p, residuals.back().second, source);
    }
  }
  std::optional<double> learning_rate;
  if (arrays.contains("learning_rate")) learning_rate = number("learning_rate");
  if (learning_rate && !(*learning_rate >= 0 && std::isfinite(*learning_rate))) {
    throw ValueError(fmt::format("[load_states] 'learning_rate' in {} must be a finite number of at least 0, got {}",
                                 source, *learning_rate));
  }
  NDArray scale;
  if (scaling_) {
    scale = take("loss_scale");
    if (scale.shape() != Shape(2) || scale.dtype() != DType::float32) {
      throw ValueError(fmt::format("[load_states] 'loss_scale' in {} must be float32 of shape (2,), got {} of {}",
                                   source, name_of(scale.dtype()), scale.shape().str()));
    }
  }
  if (!arrays.empty()) {
    throw ValueError(fmt::format("[load_states] {} holds '{}', which does not fit these parameters and this optimizer",
                                 source, arrays.begin()->first));
  }
  if (learning_rate && !optimizer_.has_scheduler()) optimizer_.set_learning_rate(*learning_rate);
  if (scaling_) scaling_->state = scale;
  if (ranks_ && ranks_->keeps_residuals()) ranks_->set_residuals(residuals);
  slots_ = std::move(slots);
  steps_ = steps;
  failed_.clear();
}

}  // namespace kaon::gluon
