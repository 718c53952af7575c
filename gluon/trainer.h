// Trainer: applies an optimizer to the parameters of a net.
#pragma once

#include <deque>
#include <filesystem>
#include <source_location>
#include <vector>

#include "kaon/engine/api.h"
#include "kaon/gluon/optimizer.h"
#include "kaon/gluon/parameter.h"

namespace KAON_API kaon {
namespace gluon {

// Parameters without a gradient (grad_req null, running statistics) are left alone. Only save_states and load_states
// block, and the first step of a parameter on a GPU, or whose rule keeps a copy of it, which makes its states. Thread
// safety: one thread.
class Trainer {
 public:
  // The parameters may be without values until the first step.
  Trainer(const ParameterDict& parameters, const optimizer::Optimizer& optimizer);
  Trainer(Trainer&&) = default;
  Trainer& operator=(Trainer&&) = default;

  // Updates every parameter by its gradient divided by batch_size. Pushes one operator that reads all gradients: when
  // one of them has failed, no parameter changes. That failure, or the step's own, is thrown by the first later step()
  // that finds the failed one finished; that call does nothing else. A step that was dropped with its scope is no
  // failure. Of a row_sparse gradient, blocks until the indices that were looked up are computed, and changes the rows
  // that it stores, or all, as the optimizer says. Throws StateError naming a parameter without values, or whose
  // gradient no backward() has written since the last step, and ValueError for a batch_size below 1. ignore_stale_grad:
  // skips such parameters.
  void step(int64_t batch_size, bool ignore_stale_grad = false,
            std::source_location site = std::source_location::current());
  int64_t steps() const { return steps_; }  // taken so far, loaded ones included

  double learning_rate() const;       // of the update made last; a scheduler's for as many updates
  void set_learning_rate(double lr);  // throws StateError when there is a scheduler, ValueError when it is negative
  const optimizer::Optimizer& optimizer() const { return optimizer_; }  // the rule and its attributes

  // Writes the optimizer's states (momentum, means), the numbers of updates and the learning rate, by parameter name,
  // as an array file. Blocks until they are computed. Throws IoError, ValueError when two parameters have one name, and
  // the failure of a state.
  void save_states(const std::filesystem::path& file) const;
  // Reads such a file. Blocks. Throws IoError, ValueError when the file is of other parameters or another rule or when
  // two parameters have one name, ShapeError or TypeError for a state that does not fit; then nothing is changed.
  void load_states(const std::filesystem::path& file);

 private:
  friend class TrainingStep;  // does the same in one submission
  struct Slot {
    Parameter parameter;
    std::vector<NDArray> states;  // made in the first update
    int64_t updates = 0;
    uint64_t stamp = 0;  // of the gradient used last
  };
  void throw_failure_of_earlier_step();
  // Keeps the array that `push` returns, for throw_failure_of_earlier_step(). Nothing fails after the push.
  template <class Push>
  void push_step(Push&& push) {
    pending_.emplace_back();
    try {
      pending_.back() = push();
    } catch (...) {
      pending_.pop_back();
      throw;
    }
  }
  std::vector<Slot*> fresh_slots(bool ignore_stale_grad);
  void complete_states(Slot& slot);
  NDArray rates(std::span<Slot* const> slots);
  int64_t num_update() const;

  optimizer::Optimizer optimizer_;
  std::vector<Slot> slots_;
  int64_t steps_ = 0;
  std::deque<NDArray> pending_;  // extra outputs of the steps that had not finished at the last look
  std::vector<double> rule_numbers_;
  std::vector<float> rate_values_, next_rate_values_;
  NDArray rates_;  // rate_values_ as an array, made again only when they change
};

}  // namespace gluon
}  // namespace kaon
