// Interceptor: sees every operator call of this thread. The tape and the tracer (graph/) are interceptors.
#pragma once

#include <span>
#include <string_view>

#include "kaon/engine/thread_context.h"
#include "kaon/ops/array/array_node.h"
#include "kaon/ops/ndarray.h"

namespace kaon::ops {

// One call, after shape inference.
struct OpCall {
  const OpDef& def;
  const void* attrs;
  std::span<const NDArray* const> inputs;
  std::span<NDArray> outputs;  // all of them, visible or not
  const std::source_location& site;
  std::string_view name;
};

// Thread safety: called on the thread that calls the operator.
class Interceptor {
 public:
  // `instead_of_running`: nothing is pushed, the results have shapes but no memory.
  explicit Interceptor(bool instead_of_running) : instead_of_running(instead_of_running) {}
  virtual ~Interceptor() = default;
  virtual void on_call(OpCall& call) = 0;
  const bool instead_of_running;

  static Interceptor* current() { return static_cast<Interceptor*>(thread_context().interceptor); }
};

// Whether a part of `a` can be a view of its memory. A tracer has to see how the part is made, and so has the tape
// where gradients flow through `a`.
inline bool can_view(const NDArray& a) {
  const ArrayNode& node = a.node();
  const Interceptor* i = Interceptor::current();
  return node.buffer && (!i || (!i->instead_of_running && !node.annotation));
}

}  // namespace kaon::ops
