// ExecutorObject: a symbol bound to arrays, with gradients: Symbol.bind, which Module uses.
#pragma once

#include <map>
#include <optional>

#include "kaon/mxnet/handle/sparse_array.h"
#include "kaon/mxnet/program/backward_monitor.h"
#include "kaon/mxnet/program/program.h"

namespace kaon::mxnet {

// An array and the context that the program named for it. A sparse one has its values in `array` too: those of an
// argument are brought up to date before a run, a gradient's are written there.
struct BoundArray {
  NDArray array;
  Context context;
  std::shared_ptr<SparseArray> sparse{};
};

// The arrays of a symbol: in the order of list_arguments(), and of list_auxiliary_states().
struct Bindings {
  std::vector<BoundArray> arguments, states;
  std::vector<BoundArray> gradients;  // of the arguments; undefined: none
  std::vector<GradReq> requests;      // of the arguments
};

// In the memory of `from`, without its history. Throws as first_elements.
NDArray in_memory_of(const NDArray& from, const Shape& shape);

// The contexts of nodes by the attribute ctx_group.
struct ContextGroups {
  Context general;
  std::map<std::string, Context, std::less<>> groups;
  Context of(const SymbolNode& node) const;
};

// Thread safety: one thread at a time.
class ExecutorObject : public Counted<ExecutorObject> {
 public:
  // Throws ShapeError, TypeError and ValueError where the arrays do not fit the symbol.
  // Outputs are in the memory of those of `before` where they fit.
  ExecutorObject(const Symbol& symbol, ContextGroups contexts, Bindings arrays,
                 const std::vector<BoundArray>& before = {});

  // Blocks where an output is sparse. Outputs keep their memory from call to call.
  void forward(bool training);
  // Writes gradients into those bound, or adds them. `heads`: of the outputs, ones where there is none; more than there
  // are outputs are left alone, as in MXNet.
  // After a forward without training, and before any, it computes what it needs. Does not block.
  void backward(std::vector<NDArray> heads, bool training);

  const Symbol& symbol() const { return program_.symbol(); }
  const Bindings& arrays() const { return arrays_; }
  const ContextGroups& contexts() const { return contexts_; }
  const std::vector<BoundArray>& outputs() const { return outputs_; }
  // Whether plans compute equal parts of the symbol once: MXNET_ELIMINATE_COMMON_EXPR at the time of binding.
  bool merges_equal_nodes() const { return merges_equal_nodes_; }
  // From the next forward on; null: none.
  void set_monitor(std::function<void(const MonitoredArray&)> call, bool all);
  // The memory of one run apart from what is bound. Runs the symbol once, on zeros.
  size_t planned_bytes();

 private:
  struct Input {
    BoundArray* bound;
    BoundArray* gradient = nullptr;  // of an argument that has one
    GradReq request = GradReq::null;
    NDArray leaf;  // what the program reads: the bound memory, or a copy on the executor's device
    bool is_copy = false;
  };
  // An output that is sparse, and the input whose elements it stores; null: it stores what is not zero.
  struct SparseOutput {
    BoundArray* output;
    Input* pattern;
  };
  void bind_inputs();
  void bind_outputs(const std::vector<BoundArray>& before);
  std::vector<const NDArray*> fresh_inputs();
  void bind_sparse_outputs();
  void store_sparse_outputs();
  void run_forward(bool training);
  void run(std::span<NDArray> results);
  void run_monitored(const Symbol& program, std::span<const NDArray* const> inputs, std::span<NDArray> results);
  void record(bool training);
  void clear_what_nothing_reached(const std::vector<uint64_t>& stamps);

  Program program_;
  ContextGroups contexts_;
  Bindings arrays_;
  std::vector<Input> inputs_;  // in the order of the program
  std::vector<BoundArray> outputs_;
  std::vector<SparseOutput> sparse_outputs_;
  std::vector<NDArray> recorded_;  // the outputs of a recorded run; empty: there is none
  bool wants_gradients_ = false;
  bool always_draws_ = false;  // random numbers, in predictions too
  const bool merges_equal_nodes_;
  bool has_run_ = false, trained_ = false;
  std::function<void(const MonitoredArray&)> monitor_;
  bool monitor_all_ = false;
  std::optional<BackwardMonitor> backward_monitor_;  // of the recorded run
};

// The object behind a handle. Throws ValueError for a null handle.
ExecutorObject& executor_of(void* handle);

}  // namespace kaon::mxnet
