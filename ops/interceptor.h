// Interceptor: sees every operator call of this thread. The tape and the tracer (graph/) are interceptors.
#pragma once

#include <span>
#include <string_view>

#include "kaon/engine/thread_context.h"
#include "kaon/ops/ndarray.h"

namespace kaon {

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
  virtual ~Interceptor() = default;
  virtual bool before(OpCall&) { return false; }  // true: the call is handled, nothing is pushed
  virtual void after(OpCall&) {}                  // it has been pushed

  static Interceptor* current() { return static_cast<Interceptor*>(thread_context().interceptor); }
};

}  // namespace kaon
