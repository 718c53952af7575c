// GraphTracer: appends what operators are called with to a graph.
#pragma once

#include <optional>
#include <string>

#include "kaon/graph/ir/graph.h"
#include "kaon/ops/operator/interceptor.h"

namespace kaon {

// While a Scope of it lives, operators called on this thread become nodes of `phase`. Arrays without a place in the
// graph become constants.
class GraphTracer final : public Interceptor {
 public:
  class Scope {
   public:
    explicit Scope(GraphTracer& tracer);
    ~Scope() { thread_context() = saved_; }
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    ThreadContext saved_;
  };

  GraphTracer(Graph& graph, Phase phase) : Interceptor(true), graph_(graph), phase_(phase) {}

  NDArray array(ValueId v);         // stands for the value
  ValueId value(const NDArray& a);  // the value that it stands for, else a new constant
  void on_call(OpCall& call) override;

  std::string name;  // what the new nodes are named after
  // They are steps of this node's gradient, numbered from step + 1.
  std::optional<uint32_t> gradient_of;
  uint32_t step = 0;

 private:
  Graph& graph_;
  Phase phase_;
};

}  // namespace kaon
