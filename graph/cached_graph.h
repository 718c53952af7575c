// CachedGraph: a traced program and its plans: what a hybridized block calls.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <optional>

#include "kaon/graph/execution_plan.h"
#include "kaon/graph/update.h"

namespace kaon {

// What a call does whose inputs have shapes or dtypes that nothing is planned for yet.
//   retrace: it is planned as well.
//   error: it throws StateError, saying which argument changed. A plan for another mode (training, gradients wanted,
//     device) is made all the same.
//   bucket: the number of rows, which is the first dimension of the data, is rounded up to the next bucket; one plan
//     serves all calls of a bucket, with zeros for the rows that a call lacks, which costs one copy of the data and one of
//     the outputs. The first call proves that no row's result depends on another row, or throws ShapeError naming the
//     operator that mixes them, as it does for a trace that read a shape. Calls that train or are recorded are planned
//     for their very shapes: statistics of the batch and gradients of parameters would see the padding. Not with
//     `exact`: kernels may round otherwise for another number of rows.
enum class PlanPolicy : uint8_t { retrace, bucket, error };

struct HybridizeOptions {
  // Keep the arena between calls (Kaon always plans memory; without it arenas are given back). On a GPU, plans that draw
  // no random numbers are then launched as one CUDA graph, once the arrays of their calls come back to the same addresses.
  bool static_alloc = false;
  bool static_shape = false;  // as MXNet's; requires static_alloc
  // Imperative kernels and layouts only: bit-equal to the imperative run. Else, on a GPU, chains of pointwise operators
  // become kernels of their own, where NVRTC is there to compile them. That takes a tenth of a second each, once: they
  // are kept in $KAON_CACHE_DIR, else in kaon below $XDG_CACHE_HOME, else in ~/.cache/kaon.
  bool exact = false;
  // Predictions compute convolutions of 3 x 3 taps with step one, of 32 and more channels in multiples of 16, by Winograd's
  // algorithm where it pays: 1.5 to 2.8 times as fast. The error of each result of one is at most 2^-18 max|x| sum|w|,
  // over the images and its filter; ResNet-18's results stay within 1e-5 of the largest one. Takes up to 4 times the
  // memory of these weights; a NaN or infinity reaches all results of its tile, up to 4 x 4. Not together with `exact` or
  // `verify`.
  bool winograd = false;
  // Memory layouts and kernels of convolutions are chosen by timing all that there are on this machine, when a plan is
  // made; that takes some tenths of a second for each convolution of other sizes, once in a process. Otherwise by rules,
  // which were measured on machines with AVX-512. Results have the same bounds, but the last bits may differ from process
  // to process. Not together with `exact`. For the CPU only: a GPU's kernels are chosen as without.
  bool autotune = false;
  bool mirror = false;        // training computes cheap values twice instead of keeping them: less memory, same bits
  int max_plans = 8;          // least recently used goes
  bool branches = true;       // parts that do not depend on each other run on several threads; not with mirror
  PlanPolicy policy = PlanPolicy::retrace;
  Shape buckets{};                               // of rows, ascending, the last being the most; none: powers of two
  void (*on_miss)(std::string_view) = nullptr;   // gets one line for each plan that is made: why
  // The first so many calls of each plan, training steps too, with their backwards (unless those are recorded
  // themselves), also run imperatively, on what their operation has read and the random numbers that it has drawn, and
  // what both compute is compared: bit for bit under exact, else each operator within the bounds of graph/difference.h.
  // The trace is compared with a new one, so that a C++ value which hybrid_forward has captured and which has changed is
  // found. What differs is a VerifyError that names the first operator: thrown by the call for the trace, by a wait for
  // the outputs for values; parameters stay as they were. Such a call takes several times as long, keeps every value of
  // the imperative run, and may wait for constants. For new nets: verify the first call. KAON_VERIFY=n in the environment
  // does so for every plan on the CPU whose options ask for no verification and exclude none.
  int verify = 0;
};

// Throws ValueError saying which options exclude each other, or are out of range.
void check(const HybridizeOptions& options);

// "data dim 0: 32 -> 31": the first difference; empty when there is none.
std::string describe_change(std::span<const std::string> names, std::span<const TensorMeta> old,
                            std::span<const TensorMeta> now);

// The outputs of a program at which the backward of its next recorded call is taken to find gradients: those where the
// last one did. Imperatively no gradient goes through an output that nothing reads; a plan that took zeros for it would
// multiply them by derivatives that may be infinite.
// Thread safety: any thread.
class ExpectedHeads {
 public:
  // By output; empty: each.
  std::vector<bool> get() const {
    std::lock_guard lock(lock_);
    return heads_;
  }
  void set(std::vector<bool> heads) {
    std::lock_guard lock(lock_);
    heads_.swap(heads);
  }
  bool operator==(const std::vector<bool>& heads) const {
    std::lock_guard lock(lock_);
    return heads_ == heads;
  }

 private:
  mutable SpinLock lock_;
  std::vector<bool> heads_;
};

struct PlanStats {
  uint64_t hits = 0, misses = 0, evictions = 0;
};

// Thread safety: call() from any thread.
class CachedGraph {
 public:
  // `input_names`: the variables of `program` in the order in which arrays are given; data first, `num_data` of them.
  // Its plans share arenas, with those of other graphs that are given the same. With an update each call is a training step: forward, gradients of the outputs' sum, update.
  CachedGraph(const Symbol& program, std::vector<std::string> input_names, HybridizeOptions options, std::string name,
              std::shared_ptr<const Update> update = nullptr, IntrusivePtr<PlanArenas> arenas = nullptr,
              size_t num_data = 1);
  // From the inputs' shapes and the mode, the program with all shapes and numbered draws.
  using Trace = std::function<Graph(std::span<const TensorMeta> inputs, bool training)>;
  CachedGraph(Trace trace, size_t num_outputs, std::vector<std::string> input_names, HybridizeOptions options,
              std::string name, IntrusivePtr<PlanArenas> arenas);

  // One submission to the engine. Fills `outputs`, num_outputs() of them. Recorded when autograd records and an input
  // has a gradient attached. Its backward is one submission more where gradients arrive at the outputs that they arrived
  // at in the backward before it; where they do not, it computes the forward again. Shape errors are thrown here, naming the node.
  // `retrace` makes the program anew, for a call that is verified. Draws the random numbers at `numbers`; null: the
  // engine's next.
  void call(std::span<const NDArray* const> inputs, std::span<NDArray> outputs, const std::source_location& site,
            std::optional<FunctionRef<Symbol()>> retrace = {}, const RandomKey* numbers = nullptr);
  // The same outside of record(), into the outputs that are defined, whose memory no input shares.
  void call_into(std::span<const NDArray* const> inputs, std::span<NDArray> outputs, const std::source_location& site,
                 const RandomKey* numbers) {
    submit(inputs, outputs, site, {}, numbers);
  }
  std::vector<NDArray> call(std::span<const NDArray* const> inputs, const std::source_location& site);
  size_t num_outputs() const { return num_outputs_; }

  const Symbol& program() const { return program_; }  // undefined when it was made from a Trace
  const std::vector<std::string>& input_names() const { return input_names_; }
  // Its plans keep parameters no longer than calls last, until some more calls have found the same ones.
  void forget_parameters();
  PlanStats stats() const;
  std::string last_miss() const;  // why the last plan was made: "data dim 0: 32 -> 31"
  // Of the plan used last; throws StateError before the first call.
  IntrusivePtr<ExecutionPlan> plan() const;

 private:
  struct Key {
    std::vector<TensorMeta> inputs;
    Device device{};
    bool training = false;
    std::vector<bool> wanted;  // gradients; empty when nothing is recorded
    std::vector<bool> heads;   // outputs at which they arrive; empty: at each
  };
  struct Entry {
    Key key;
    IntrusivePtr<ExecutionPlan> plan;
    uint64_t used = 0;
  };
  bool matches(const Key& key, std::span<const NDArray* const> inputs, bool training, bool recorded,
               int64_t bucket) const;
  void submit(std::span<const NDArray* const> inputs, std::span<NDArray> outputs, const std::source_location& site,
              std::optional<FunctionRef<Symbol()>> retrace, const RandomKey* numbers);
  IntrusivePtr<ExecutionPlan> find(std::span<const NDArray* const> inputs, bool training, bool recorded);
  Entry* look_up(std::span<const NDArray* const> inputs, bool training, bool recorded, int64_t bucket);
  IntrusivePtr<ExecutionPlan> build(const Key& key) const;
  bool is_bucketed(bool training, bool recorded) const {
    return options_.policy == PlanPolicy::bucket && !training && !recorded;
  }
  std::string explain(const Key& key) const;
  void refuse_new_shapes(const Key& key) const;  // under PlanPolicy::error

  Trace trace_;
  size_t num_outputs_;
  Symbol program_;
  std::shared_ptr<const Update> update_;
  std::vector<std::string> input_names_;
  HybridizeOptions options_;
  const char* name_;
  IntrusivePtr<PlanArenas> arenas_;
  std::shared_ptr<ExpectedHeads> expected_heads_ = std::make_shared<ExpectedHeads>();
  size_t num_data_ = 0;
  mutable SpinLock lock_;
  std::vector<Entry> entries_;
  uint64_t clock_ = 0;
  PlanStats stats_;
  std::string last_miss_;
};

}  // namespace kaon
