// GraphTracer: appends operator calls to a graph.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "kaon/graph/ir/graph.h"
#include "kaon/ops/operator/interceptor.h"

namespace kaon::graph {

// While a Scope exists, operators called on this thread become nodes of `phase`. Arrays that are not of the graph
// become constants.
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

  NDArray array(ValueId v);         // the array that represents the value
  ValueId value(const NDArray& a);  // the value that the array represents, else a new constant
  // Gives the node of `v` these attributes, with which it has these outputs more; returns those.
  std::vector<NDArray> add_outputs(ValueId v, Attributes attrs, std::span<const TensorMeta> more);
  void on_call(OpCall& call) override;

  std::string name;  // base of the new nodes' names
  // They are steps of this node's gradient, numbered from step + 1.
  std::optional<uint32_t> gradient_of;
  uint32_t step = 0;
  std::optional<bool> keeps;     // as in GradientForm
  std::vector<bool> own_inputs;  // by input of the node whose gradient is taken: GradientForm::own

 private:
  Graph& graph_;
  Phase phase_;
};

}  // namespace kaon::graph
