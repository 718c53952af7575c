// BlockNode: the object that a block's handles share. For the sources of gluon/.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "kaon/engine/base/spin_lock.h"
#include "kaon/gluon/block.h"
#include "kaon/graph/hybrid/cached_graph.h"

namespace kaon::gluon {

struct BlockNode : std::enable_shared_from_this<BlockNode> {
  BlockNode() = default;
  BlockNode(const BlockNode&) = delete;
  BlockNode& operator=(const BlockNode&) = delete;

  struct Child {
    std::string key;   // in save_parameters: attribute name or index
    std::string name;  // in parameter and node names
    std::shared_ptr<BlockNode> node;
  };
  struct OwnParameter {
    std::string key;
    Parameter parameter;
    std::string file_key;    // in save_parameters
    bool is_shared = false;  // another block names it
  };
  // A trace for one form of the arguments and one training mode; with `metas` when it depended on their shapes or
  // dtypes.
  struct Trace {
    size_t num_inputs;
    std::vector<int> form;  // CallInputs::form
    bool training;
    std::vector<TensorMeta> metas;  // empty: any
    std::shared_ptr<graph::CachedGraph> graph;
    std::shared_ptr<const std::vector<size_t>> lengths;  // of the lists that it returned; null: none
    std::vector<Parameter> parameters;                   // after the data, in this order
    uint64_t used;                                       // when last
  };

  std::string hint;
  std::string name;                               // last part of the path
  std::string prefix;                             // path, each part followed by "_"
  const char* path = nullptr;                     // interned, parts joined by "."
  const BlockNode* part_of = nullptr;             // the block that runs it, and does not list it among its children
  std::vector<std::weak_ptr<BlockNode>> parents;  // whose traces contain this block
  std::vector<Child> children;
  std::vector<OwnParameter> parameters;
  bool active = false;
  bool runs_itself = false;  // hybridized too: its children are planned, its own few operators are not
  HybridizeOptions options;
  bool calls_hooks = false;  // operator() does
  struct Hook {
    uint64_t id;
    ForwardPreHook before;  // one of the two is empty
    ForwardHook after;
  };
  std::vector<Hook> hooks;
  struct OperatorHook {
    uint64_t id;
    OpHook fn;
    bool monitors_all;
  };
  std::vector<OperatorHook> op_hooks;
  uint64_t registered_hooks = 0;  // so far
  bool keeps_float32 = false;     // casting the net to a 16-bit float leaves its own parameters float32
  std::vector<Trace> traces;
  engine::IntrusivePtr<graph::PlanArenas> arenas{new graph::PlanArenas};  // of the plans of all traces
  uint64_t clock = 0;                                                     // counts calls
  std::atomic<uint64_t> changes = 0;                                      // how often traces of it were dropped
  engine::SpinLock lock;                                                  // guards traces and clock

  const BlockNode* named_by() const;                                            // the first of its parents that lives
  void set_prefix(const std::string& new_prefix, const std::string& new_path);  // and of the children that it named
  void clear_traces();  // the block's and those of blocks that contain it
  // That of the latest call, in prediction when there was one. Throws StateError naming `asker` when there is none.
  const Trace& latest_trace(const char* asker) const;
};

namespace detail {

// The attribute of a data variable whose __shape__ and __dtype__ are the only ones that its program is for.
inline constexpr const char* fixed_shapes_key = "__fixed_shape__";

// Exists while a block with op hooks runs: calls them.
class OpHookScope {
 public:
  explicit OpHookScope(const BlockNode& block);
  ~OpHookScope();
  OpHookScope(const OpHookScope&) = delete;
  OpHookScope& operator=(const OpHookScope&) = delete;
  static bool is_open();  // on this thread

 private:
  struct Caller;
  std::unique_ptr<Caller> caller_;
};

// Collects, while it exists, the blocks whose calls on Symbols end on this thread, in that order, each once.
class CallOrder {
 public:
  CallOrder();
  ~CallOrder();
  CallOrder(const CallOrder&) = delete;
  CallOrder& operator=(const CallOrder&) = delete;
  std::vector<const BlockNode*> ended;

 private:
  CallOrder* outer_;
};

// A program with the parameters that it used.
struct Traced {
  Symbol program;
  std::vector<size_t> lengths;           // of the lists that it returned
  std::vector<std::string> input_names;  // of the data
  std::vector<Parameter> parameters;
  bool read_shapes = false;  // of the data: it holds for these alone
  // The blocks that it called itself, and their `changes` then.
  std::vector<std::pair<std::weak_ptr<const BlockNode>, uint64_t>> called;
  bool is_outdated() const;  // one of them has changed, or is gone
};

// What becomes of a trace. A plan runs instead of the blocks that are traced, but for `of`: none of them may have hooks
// (StateError).
struct TraceUse {
  bool is_plan = false;
  const BlockNode* of = nullptr;
};

// Whether the trace that this thread runs becomes a plan, not only shapes.
bool traces_a_plan();

// The number of the trace that this thread runs, which no other trace of the process has; 0 outside of traces.
uint64_t running_trace();

// Calls `trace` with variables of the inputs' shapes and completes the shapes of deferred parameters. One trace runs at
// a time, in the whole process.
Traced run_trace(std::span<const NDArray* const> inputs, TraceFn trace, const TraceUse& use);

}  // namespace detail

}  // namespace kaon::gluon
