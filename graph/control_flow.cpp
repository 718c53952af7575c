#include "kaon/graph/control_flow.h"

#include <fmt/format.h>

#include "kaon/graph/autograd.h"
#include "kaon/graph/control_flow/control_flow_program.h"
#include "kaon/ops/array/array_node.h"
#include "kaon/ops/operator/interceptor.h"
#include "kaon/ops/random_state.h"

namespace kaon::contrib::detail {

using namespace graph;

namespace {

namespace checks = graph::control_flow;
using Arrays = std::vector<NDArray>;

TensorMeta meta_of(const NDArray& a) { return {a.shape(), a.dtype()}; }
std::vector<TensorMeta> metas_of(const Arrays& arrays) {
  std::vector<TensorMeta> metas;
  for (const NDArray& a : arrays) metas.push_back(meta_of(a));
  return metas;
}

// Whether a tape or tracer is active, which does not see views and writes in place.
bool is_watched() { return Interceptor::current() != nullptr; }

// The rows of an array. Where gradients are recorded one operator makes all of them, so that its gradient is one too.
class Rows {
 public:
  Rows(const NDArray& array, int64_t n) : array_(array), row_(row_of(meta_of(array))) {
    if (is_watched() && n > 0) parts_ = nd.split(array, int(n), {.axis = 0});
  }
  NDArray operator[](int64_t k) const {
    return parts_.empty() ? array_[k] : nd._reshape_to(parts_[size_t(k)], {.shape = row_.shape});
  }

 private:
  NDArray array_;
  TensorMeta row_;
  Arrays parts_;
};

// Outputs of the iterations, stacked. Each is copied immediately, since the body may change the array that it has
// returned.
class Stack {
 public:
  Stack(const char* name, int64_t length) : name_(name), length_(length) {}

  void add(const Arrays& outputs) {
    if (made_ == 0) metas_ = metas_of(outputs);
    checks::check_counts(name_, "outputs, as in the first iteration,", metas_.size(), outputs.size());
    for (size_t i = 0; i < outputs.size(); ++i) {
      checks::check_output(name_, i, metas_[i], meta_of(outputs[i]));
      if (is_watched()) {
        if (made_ == 0) rows_.emplace_back();
        rows_[i].push_back(nd.expand_dims(outputs[i], 0));
        continue;
      }
      if (made_ == 0) results_.push_back(nd.zeros(rows_of(metas_[i], length_).shape, options(outputs[i])));
      results_[i].slice(made_, made_ + 1).assign(outputs[i]);
    }
    ++made_;
  }
  // For a loop without iterations: shapes and dtypes of the outputs.
  void set_metas(std::vector<TensorMeta> metas) { metas_ = std::move(metas); }

  Arrays finish() {
    for (size_t i = results_.size(); i < metas_.size(); ++i) {
      if (made_ < length_ || length_ == 0) {
        NDArray rest = nd.zeros(rows_of(metas_[i], length_ - made_).shape, {.dtype = metas_[i].dtype});
        if (made_ == 0) {
          results_.push_back(rest);
          continue;
        }
        rows_[i].push_back(rest);
      }
      results_.push_back(nd.concat(rows_[i], {.dim = 0}));
    }
    return std::move(results_);
  }
  int64_t made() const { return made_; }

 private:
  static ArrayOptions options(const NDArray& like) { return {.dtype = like.dtype(), .device = like.device()}; }

  const char* name_;
  int64_t length_, made_ = 0;
  std::vector<TensorMeta> metas_;
  std::vector<Arrays> rows_;  // by output, while is_watched()
  Arrays results_;
};

// While it exists, operators and control flow called on this thread find shapes and dtypes and run nothing: what a loop
// without iterations would return. A body that asks for a value throws TraceError.
class ShapesOnly final : public Interceptor {
 public:
  ShapesOnly() : Interceptor(true), saved_(thread_context()) {
    thread_context().interceptor = static_cast<Interceptor*>(this);
    thread_context().recording = false;
  }
  ~ShapesOnly() override { thread_context() = saved_; }
  ShapesOnly(const ShapesOnly&) = delete;
  ShapesOnly& operator=(const ShapesOnly&) = delete;
  void on_call(OpCall&) override {}

  static bool is_current() { return dynamic_cast<ShapesOnly*>(Interceptor::current()) != nullptr; }

  static NDArray array(const TensorMeta& m) {
    return NDArray(IntrusivePtr<ArrayNode>(new ArrayNode(nullptr, m.shape, m.dtype)));
  }
  static Arrays arrays(const std::vector<TensorMeta>& metas) {
    Arrays made;
    for (const TensorMeta& m : metas) made.push_back(array(m));
    return made;
  }

 private:
  ThreadContext saved_;
};

Arrays next_states(const char* name, const Arrays& before, Arrays after) {
  checks::check_counts(name, "states", before.size(), after.size());
  for (size_t i = 0; i < after.size(); ++i) checks::check_state(name, i, meta_of(before[i]), meta_of(after[i]));
  return after;
}

// What one iteration would return, in arrays without values.
Step<NDArray> shapes_of_step(const char* name, StepFn<NDArray> body, const std::vector<TensorMeta>& rows,
                             const std::vector<TensorMeta>& states) {
  const Arrays first = ShapesOnly::arrays(states);
  Step<NDArray> step = body(ShapesOnly::arrays(rows), first);
  step.states = next_states(name, first, std::move(step.states));
  return step;
}

// The same for a loop that makes no iteration.
std::vector<TensorMeta> shapes_of_outputs(const char* name, StepFn<NDArray> body, const std::vector<TensorMeta>& rows,
                                          const Arrays& states, const std::source_location& site) {
  const ShapesOnly scope;
  try {
    return metas_of(shapes_of_step(name, body, rows, metas_of(states)).outputs);
  } catch (const TraceError& e) {
    throw TraceError(
        fmt::format("[{}] makes no iteration, so that the shapes of its outputs come from calling the body "
                    "without values: {}; called at {}",
                    name, e.what(), describe(site)));
  }
}

// The step's outputs as a loop of n iterations returns them, without values.
Step<NDArray> stacked(Step<NDArray> step, int64_t n) {
  for (NDArray& o : step.outputs) o = ShapesOnly::array(rows_of(meta_of(o), n));
  return step;
}

// Copies: the body may write to its states, the caller's stay as they are.
Arrays copies(const Arrays& states) {
  Arrays own;
  for (const NDArray& s : states) own.push_back(nd.identity(s));
  return own;
}

bool holds(const char* name, const NDArray& predicate, const std::source_location& site) {
  checks::check_scalar(name, meta_of(predicate));
  return predicate.asscalar<double>(site) != 0;
}

// New arrays belong to the engine of the given ones; arrays in a trace have none.
Engine& engine_of(const Arrays& arrays) {
  return !arrays.empty() && arrays[0].node().buffer ? arrays[0].engine() : Engine::current();
}

}  // namespace

Step<NDArray> run(const Foreach<NDArray>& loop) {
  const char* name = "foreach";
  const int64_t n = checks::common_length(name, metas_of(loop.data));
  std::vector<TensorMeta> row_metas;
  for (const NDArray& a : loop.data) row_metas.push_back(row_of(meta_of(a)));
  if (ShapesOnly::is_current()) {
    return stacked(shapes_of_step(name, loop.body, row_metas, metas_of(loop.states)), n);
  }
  const EngineScope scope(engine_of(loop.data));
  random::RandomSubstream numbers;
  Arrays states = copies(loop.states);
  std::vector<Rows> data;
  for (const NDArray& a : loop.data) data.emplace_back(a, n);
  Stack outputs(name, n);
  for (int64_t k = 0; k < n; ++k) {
    Arrays row;
    for (const Rows& rows : data) row.push_back(rows[k]);
    Step<NDArray> step = loop.body(std::move(row), states);
    states = next_states(name, states, std::move(step.states));
    outputs.add(step.outputs);
  }
  if (n == 0) outputs.set_metas(shapes_of_outputs(name, loop.body, row_metas, states, loop.site));
  return {outputs.finish(), std::move(states)};
}

Step<NDArray> run(const While<NDArray>& loop) {
  const char* name = "while_loop";
  checks::check_limit(name, loop.max_iterations);
  if (ShapesOnly::is_current()) {
    checks::check_scalar(name, meta_of(loop.condition(loop.states)));
    return stacked(shapes_of_step(name, loop.body, {}, metas_of(loop.states)), loop.max_iterations);
  }
  const EngineScope scope(engine_of(loop.states));
  random::RandomSubstream numbers;
  Arrays states = copies(loop.states);
  Stack outputs(name, loop.max_iterations);
  while (outputs.made() < loop.max_iterations && holds(name, loop.condition(states), loop.site)) {
    Step<NDArray> step = loop.body({}, states);
    states = next_states(name, states, std::move(step.states));
    outputs.add(step.outputs);
  }
  if (outputs.made() == 0) outputs.set_metas(shapes_of_outputs(name, loop.body, {}, states, loop.site));
  return {outputs.finish(), std::move(states)};
}

Arrays run(const Cond<NDArray>& cond) {
  if (ShapesOnly::is_current()) {
    checks::check_scalar("cond", meta_of(cond.predicate));
    const std::vector<TensorMeta> then = metas_of(cond.then()), otherwise = metas_of(cond.otherwise());
    checks::check_branches(then, otherwise);
    return ShapesOnly::arrays(then);
  }
  const bool first = holds("cond", cond.predicate, cond.site);
  random::RandomSubstream numbers;
  return first ? cond.then() : cond.otherwise();
}

}  // namespace kaon::contrib::detail
