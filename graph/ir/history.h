// The tape: which recorded call made an array, or the gradient attached to it.
#pragma once

#include <atomic>
#include <memory>
#include <utility>
#include <vector>

#include "kaon/graph/ir/tape.h"
#include "kaon/ops/array/array_node.h"
#include "kaon/ops/sparse/sparse.h"

namespace kaon::autograd {

using namespace graph;

// A row_sparse gradient: rows of values that belong at indices and are added up, in this order.
struct RowGradient {
  Shape shape;
  std::vector<std::pair<NDArray, NDArray>> parts;
};

// Of a dense gradient: the rows that recorded calls have read, where they tell them. Others may be written as well.
struct RowsRead {
  std::vector<NDArray> indices;
};

// The history of an array: which call made it, or the gradient attached to it.
struct History : Annotation, Pooled {
  History() : Annotation(Kind::history) {}
  ~History() override;
  IntrusivePtr<TapeNode> node;
  uint32_t output = 0;
  GradReq req = GradReq::null;
  NDArray grad;
  std::unique_ptr<RowGradient> rows;    // in place of grad
  std::shared_ptr<RowsRead> rows_read;  // beside grad; null: nobody asks for them
  // Whether calls give rows and their indices where they can.
  bool takes_rows() const { return rows || rows_read; }
  uint64_t stamp = 0;          // of the last store
  std::shared_ptr<void> kept;  // what a program keeps as long as the gradient is attached
  uint64_t number = 0;  // of the variable, in the symbols that get_symbol makes; from 1, and 0 until the first one
  // Whether calls on the array are recorded. History ends where a backward() has freed it, as MXNet's does: a state
  // that is carried from batch to batch is a constant for the next one.
  inline bool is_recorded() const override;
};

// One recorded call.
struct TapeNode : RefCounted<TapeNode>, Pooled {
  const char* name;
  uint64_t sequence;                  // order of the calls
  bool training;                      // the mode of the call
  std::atomic<bool> released{false};  // a backward() has freed what it had saved; other threads may be recording
  bool queued = false;                // during backward
  std::unique_ptr<GradFunction> function;
  // At the call: attaching a gradient later changes no recorded computation. Null where no gradient flows.
  PooledVector<IntrusivePtr<History>> inputs;
  PooledVector<NDArray> heads;  // during backward: the gradient summed so far at each output
  void destroy();
  TapeNode* next_destroyed = nullptr;  // of destroy_in_turn()
};

inline bool History::is_recorded() const { return (node && !node->released) || req != GradReq::null; }

inline History* history_of(const NDArray& a) {
  Annotation* annotation = a.defined() ? a.ptr()->annotation.get() : nullptr;
  return annotation && annotation->kind == Annotation::Kind::history ? static_cast<History*>(annotation) : nullptr;
}

}  // namespace kaon::autograd
