// Trainer: applies an optimizer to the parameters of a net.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <source_location>
#include <span>
#include <string_view>
#include <type_traits>
#include <vector>

#include "kaon/engine/api.h"
#include "kaon/gluon/optimizer.h"
#include "kaon/gluon/parameter.h"
#include "kaon/ops/ndarray_file.h"

namespace KAON_API kaon {
namespace gluon {
class KVStore;
class Trainer;
namespace detail {
class GradientBuckets;
}
}  // namespace gluon

namespace amp {

// How losses are scaled, for gluon/util/amp.h.
struct LossScaleOptions {
  double init_scale = 65536;
  double scale_factor = 2;     // by which the scale falls after an overflow, and grows
  double scale_window = 2000;  // steps in a row without an overflow, after which it grows
  double min_scale = 1;
  double max_scale = 16777216;
};
KAON_API void init_trainer(gluon::Trainer& trainer, const LossScaleOptions& options);
KAON_API NDArray scale_loss(const NDArray& loss, gluon::Trainer& trainer);
KAON_API void unscale(gluon::Trainer& trainer);

}  // namespace amp

namespace gluon {

// How gradients are made smaller on their way between ranks: MXNet's compression_params, with two types more.
// "none". "2bit": MXNet's, for float32: a rank adds each gradient to what is left of those before and sends threshold
// where that is at least threshold, -threshold where it is at most -threshold, else 0; what it sends is taken from what
// is left. "float16", "bfloat16": gradients are rounded before they are sent and after each addition; beyond the range
// of float16 they become infinite.
struct CompressionParams {
  std::string_view type = "none";
  double threshold = 0.5;  // of 2bit, above 0
};
static_assert(std::is_trivially_destructible_v<CompressionParams>);

struct TrainerOptions {
  // Where the 2-norm of all gradients together, divided by the batch size, is larger, they are multiplied by
  // clip_global_norm / (norm + 1e-8): as gluon::clip_global_norm of gradients that are divided already, within each
  // step and without a wait. 0: they are not. A gradient that is not finite makes all weights NaN, unless losses are
  // scaled.
  double clip_global_norm = 0;
  // What adds up the gradients of parameters on several devices: KVStore's types. The optimizer's states are on the
  // first device; the others get its weights. "dist_sync" and "dist_device_sync" add them up over the ranks of
  // comm::mpi() too, and give every parameter rank 0's values: those that have values when the trainer is made at once,
  // the others at their first step. batch_size is then that of all ranks together.
  std::string_view kvstore = "device";

  // --- over ranks alone; all ranks give the same

  CompressionParams compression_params{};
  // Gradients have the same bits for any number of ranks, a power of two up to `shards`: a batch of all ranks is cut
  // into `shards` parts, a power of two, whose gradients are added up by one binary tree. TrainingStep does that with
  // its data; other programs call backward_by_shards().
  bool deterministic = false;
  int shards = 8;
  // Each parameter has one rank that keeps the optimizer's states for it, updates it and gives it to the others
  // (ZeRO-1). Numbers are as without.
  bool shard_states = false;
  // Parameters whose gradients are in one bucket are updated as soon as these are added up, while sums of others are
  // under way, and the next forward begins with the layers that are updated; the sums of the first layers go before the
  // others. Numbers are as without. A step that fails may have changed some parameters and not others: every later step
  // throws, until states are loaded. Not for what needs all gradients at once: clip_global_norm, shard_states, SGLD and
  // scaled losses (ValueError). Of a hybridized net the forward is one operation, which waits for all parameters: a
  // TrainingStep, or the net as it is, does not.
  bool overlap_update = false;
};
static_assert(std::is_trivially_destructible_v<TrainerOptions>);

// Parameters without a gradient (grad_req null, running statistics) are left alone. Only save_states and load_states
// block, and the first step of a parameter on a GPU, or whose rule keeps a copy of it, which makes its states. Thread
// safety: one thread.
class Trainer {
 public:
  // The parameters may be without values until the first step. Throws ValueError for options out of range.
  Trainer(const ParameterDict& parameters, const optimizer::Optimizer& optimizer, const TrainerOptions& options = {});
  Trainer(Trainer&&) = default;
  Trainer& operator=(Trainer&&) = default;

  // Updates every parameter by its gradient divided by batch_size. Pushes one operator that reads all gradients: when
  // one of them has failed, no parameter changes. That failure, or the step's own, is thrown by the first later step()
  // that finds the failed one finished; that call does nothing else. A step that was dropped with its scope is no
  // failure. Of a row_sparse gradient, blocks until the indices that were looked up are computed, and changes the rows
  // that it stores, or all, as the optimizer says. Throws StateError naming a parameter without values, or whose
  // gradient no backward() has written since the last step, and ValueError for a batch_size below 1 and for a rate of a
  // scheduler that is negative, infinite or NaN. ignore_stale_grad:
  // skips such parameters.
  void step(int64_t batch_size, bool ignore_stale_grad = false,
            std::source_location site = std::source_location::current());
  // Of this rank's part of a batch, what record(), loss(inputs) and backward() do: shard by shard under
  // `deterministic`, else at once; `inputs`, whose first axis is that of the samples, come in these parts. Each part
  // draws numbers of its own, the same for any number of ranks if these have one seed. Returns the losses one after
  // another. Throws ValueError for no inputs and samples that do not divide by the shards, StateError for grad_req add,
  // several devices, or a SyncBatchNorm over ranks, under `deterministic`.
  NDArray backward_by_shards(std::span<const NDArray> inputs,
                             const std::function<NDArray(std::span<const NDArray>)>& loss,
                             std::source_location site = std::source_location::current());
  // The first half of step(): gradients of each device become their sum over the devices, which the program may look at
  // and change, on the first device. Throws as step() does.
  void allreduce_grads();
  // The second half: updates weights by the gradients on the first device. Throws as step() does.
  void update(int64_t batch_size, bool ignore_stale_grad = false,
              std::source_location site = std::source_location::current());
  int64_t steps() const { return steps_; }  // taken so far, loaded ones included

  double learning_rate() const;       // of the update made last; a scheduler's for as many updates
  void set_learning_rate(double lr);  // throws StateError when there is a scheduler, ValueError when it is negative
  const optimizer::Optimizer& optimizer() const { return optimizer_; }  // the rule and its attributes

  std::vector<Parameter> parameters() const;  // in their order, those left alone included

  bool scales_losses() const { return scaling_.has_value(); }  // since amp::init_trainer()
  // The scale of the next loss, float32 (1,). Throws StateError where losses are not scaled.
  NDArray loss_scale() const;

  // Writes states() as an array file. Blocks until they are computed. Throws IoError, the failure of a state, and as
  // states() does. Over ranks all of them call it, and rank 0 writes: it returns when the file is there, or throws on
  // each rank, CommError where one is gone.
  void save_states(const std::filesystem::path& file) const;
  // Reads such a file. Blocks. Throws IoError, ValueError when the file is of another optimizer (by its name, where the
  // file and the optimizer have one), of other parameters or other states or when two parameters have one name,
  // ShapeError or TypeError for a state that does not fit; then nothing is changed.
  void load_states(const std::filesystem::path& file);
  // The optimizer's name, states (momentum, means), the numbers of updates, the learning rate and the scale of losses,
  // by parameter name: the arrays themselves. With shard_states, and with compression of type 2bit, which adds what
  // each rank has not sent yet, all ranks call it, and get those of other ranks as copies; with another number of ranks
  // set_states() takes them as well. Throws ValueError when two parameters have
  // one name.
  NamedArrays states() const;
  // What load_states() does with a file's arrays; `source` is named in errors. May block as that does.
  void set_states(const NamedArrays& arrays, const std::string& source);

  // Null: there is one rank, or those of comm::mpi() do not train together.
  const std::shared_ptr<detail::GradientBuckets>& over_ranks() const { return ranks_; }

 private:
  friend class TrainingStep;  // does the same in one submission
  friend class KVStore;       // has gradients that no backward() has written
  friend void amp::init_trainer(Trainer& trainer, const amp::LossScaleOptions& options);
  friend NDArray amp::scale_loss(const NDArray& loss, Trainer& trainer);
  friend void amp::unscale(Trainer& trainer);
  bool overlaps_update() const { return ranks_ && overlap_update_; }
  struct Slot {
    Parameter parameter;
    std::vector<NDArray> states;  // made in the first update
    int64_t updates = 0;
    std::vector<uint64_t> stamps{};  // of the gradients used last, by device
    bool is_fresh() const;           // whether each gradient has been written since; throws without values
    void keep_stamps();
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
  // These hold until the next call of either.
  std::span<Slot* const> fresh_slots(bool ignore_stale_grad);
  std::span<Slot* const> all_slots();
  void update_slots(std::span<Slot* const> slots, int64_t batch_size, const std::source_location& site);
  // The same bucket by bucket, after the sums have been begun.
  void update_buckets(std::span<Slot* const> slots, int64_t batch_size, const std::source_location& site);
  void find_groups(std::span<Slot* const> slots);  // and their rates
  void end_update(std::span<Slot* const> slots);   // after it has been pushed
  void note_failure(const std::string& why);       // of a part of a step
  void check_whole() const;                        // throws where a part of a step has failed
  static void check_overlap(const TrainerOptions& options, const optimizer::Optimizer& optimizer);
  // How gradients become an update, apart from the arrays.
  struct UpdatePlan {
    optimizer::Optimizer optimizer;
    optimizer::StepOptions options;
    double clip_global_norm;
    std::optional<amp::LossScaleOptions> scaling;
    bool unscaled;  // the gradients are divided by the scale already
    // arrays: as Rule::update's, without a factor, then the state of the scale if there is one. Returns its output.
    // all_gradients: where arrays have only some of those that the factor is of.
    NDArray apply(std::span<const NDArray* const> arrays, const std::source_location& site,
                  std::span<const NDArray> all_gradients = {}) const;
  };
  UpdatePlan update_plan(int64_t batch_size) const;
  const NDArray& scale_state(Device device);
  struct Scaling {
    amp::LossScaleOptions options;
    NDArray state;            // float32 (2,), as LossScale has it; made at the first use
    bool has_scaled = false;  // a loss since the last step
    bool unscaled = false;
  };
  void complete_states(Slot& slot);
  void check_shards() const;
  void refuse_gradients_without_shards(const char* caller) const;
  void add_up_over_ranks(bool everywhere);
  NamedArrays states_of(const Slot& slot) const;
  std::span<Slot* const> owned(std::span<Slot* const> slots);
  NDArray rates(std::span<Slot* const> slots, size_t group = 0);
  int64_t num_update() const;

  optimizer::Optimizer optimizer_;
  double clip_global_norm_;
  std::vector<bool> on_any_rank(std::span<Slot* const> slots) const;
  std::shared_ptr<const KVStore> store_;
  std::shared_ptr<detail::GradientBuckets> ranks_;  // null: there is one rank
  bool has_shards_ = false;                         // the gradients are the sum over this rank's shards
  std::optional<Scaling> scaling_;
  std::vector<Slot> slots_;
  int64_t steps_ = 0;
  std::vector<NDArray> pending_;  // extra outputs of the steps that had not finished at the last look
  bool overlap_update_ = false;
  std::string failed_;  // why some weights may be those of a step that has failed; empty: none are
  std::vector<double> rule_numbers_;
  std::vector<float> next_rate_values_;
  struct Rates {
    std::vector<float> values;
    NDArray array;  // made again only when the values change
  };
  std::vector<Rates> rates_;  // by group of parameters that are updated together
  // Of the step that is being made. Kept between steps, so that these allocate nothing.
  std::vector<Slot*> fresh_, owned_;
  std::vector<std::vector<Slot*>> groups_;  // by bucket
  std::vector<uint32_t> bucket_of_;         // by slot; of the buckets' layout
  uint64_t bucket_layout_ = 0;
  std::vector<NDArray> gradients_;
  std::vector<const NDArray*> arrays_;
};

}  // namespace gluon
}  // namespace kaon
