// MXCustomOpRegister: operators that a program computes.
#include <map>
#include <mutex>

#include "kaon/engine/engine.h"
#include "kaon/engine/error.h"
#include "kaon/graph/autograd.h"
#include "kaon/mxnet/c_api.h"
#include "kaon/mxnet/custom/callback_node.h"
#include "kaon/mxnet/custom/custom_prop.h"
#include "kaon/mxnet/handle/guard.h"
#include "kaon/mxnet/handle/handle.h"
#include "kaon/ops/array/array_node.h"

using namespace kaon;
using namespace kaon::mxnet;

namespace {

using PropPtr = std::shared_ptr<const CustomProp>;

// The properties of one op_type, by attributes: a set of attributes is made once.
class Props {
 public:
  Props(const char* op_type, CustomOpPropCreator creator) : op_type_(op_type), creator_(creator) {}
  PropPtr of(const CustomAttributes& attributes) {
    {
      const std::scoped_lock lock(mutex_);
      if (const auto at = props_.find(attributes); at != props_.end()) return at->second;
    }
    auto made = std::make_shared<const CustomProp>(op_type_, creator_, attributes);  // without the lock
    const std::scoped_lock lock(mutex_);
    return props_.emplace(attributes, std::move(made)).first->second;
  }

 private:
  std::string op_type_;
  CustomOpPropCreator creator_;
  std::mutex mutex_;
  std::map<CustomAttributes, PropPtr> props_;
};

// The program's failure becomes that of the arrays that it should have written: a wait for them throws it.
void fail_arrays(std::span<const NDArray> arrays, std::exception_ptr error) {
  if (arrays.empty()) return;
  std::vector<Access> writes;
  for (const NDArray& a : arrays) writes.push_back(write(a.var()));
  arrays[0].engine().push(writes, [error = std::move(error)](RunContext&) { std::rethrow_exception(error); },
                          {.label = {.name = "Custom", .site = no_site}});
}

template <class F>
std::exception_ptr failure_of(F&& call) {
  try {
    call();
    return nullptr;
  } catch (const std::exception&) {
    return std::current_exception();
  }
}

std::vector<NDArray> detached(std::span<const NDArray> arrays) {
  std::vector<NDArray> list;
  for (const NDArray& a : arrays) list.push_back(a.detach());
  return list;
}

// Whether the arrays stand for values of a graph: they have no memory then.
bool is_traced(const ComposeContext& c) {
  for (int i = 0; i < c.num_inputs(); ++i) {
    if (!c.input(i).node().buffer) return true;
  }
  return c.num_inputs() == 0 && engine::thread_context().tracing;
}

// A call on arrays: the program's functions run here, and push.
void call_custom(const PropPtr& prop, ComposeContext& c) {
  const int n_in = prop->num_inputs();
  std::vector<const NDArray*> inputs;
  std::vector<NDArray> states, outputs;
  std::vector<TensorMeta> metas;
  for (int i = 0; i < c.num_inputs(); ++i) {
    if (i >= n_in) {
      states.push_back(c.input(i).detach());
      continue;
    }
    inputs.push_back(&c.input(i));
    metas.push_back({c.input(i).shape(), c.input(i).dtype()});
  }
  const Device device = c.num_inputs() ? c.input(0).device() : Device();
  for (int i = 0; i < prop->num_outputs(); ++i) {
    outputs.push_back(NDArray::empty(c.output(i).shape, c.output(i).dtype, device));
  }
  const bool training = autograd::is_training();
  const auto instance = prop->instance(outputs.empty() ? device : outputs[0].device(), metas);
  const auto forward = [&] {
    std::vector<NDArray> given;
    for (const NDArray* x : inputs) given.push_back(x->detach());
    std::exception_ptr failure =
        failure_of([&] { instance->forward({.inputs = given, .outputs = outputs, .states = states}, training); });
    if (failure) fail_arrays(outputs, std::move(failure));
    return outputs;
  };
  const auto backward = std::make_shared<const autograd::detail::FunctionBackward>(
      [instance, states, training](const autograd::FunctionCall& call) {
        std::vector<NDArray> gradients;
        for (const NDArray& x : call.inputs) {
          gradients.push_back(NDArray::empty(x.shape(), x.dtype(), x.device()));
        }
        std::exception_ptr failure = failure_of([&] {
          instance->backward({.inputs = detached(call.inputs),
                              .outputs = detached(call.outputs),
                              .states = states,
                              .heads = detached(call.heads),
                              .gradients = gradients},
                             training);
        });
        if (failure) fail_arrays(gradients, std::move(failure));
        return gradients;
      });
  const std::vector<NDArray> results = autograd::detail::call_function(inputs, forward, backward, no_site);
  for (size_t i = 0; i < results.size(); ++i) c.set(int(i), results[i]);
}

// A call in a trace: a node of the graph.
void trace_custom(const PropPtr& prop, ComposeContext& c) {
  std::vector<const NDArray*> inputs;
  for (int i = 0; i < c.num_inputs(); ++i) inputs.push_back(&c.input(i));
  std::vector<NDArray> results = trace_callback(prop, inputs);
  for (size_t i = 0; i < results.size(); ++i) c.set(int(i), std::move(results[i]));
}

}  // namespace

void kaon::mxnet::register_program_operator(const char* op_type, CustomOpPropCreator creator) {
  const auto props = std::make_shared<Props>(op_type, creator);
  register_custom_family(
      op_type,
      {.signature = [props](const CustomAttributes& attributes) { return props->of(attributes)->signature(); },
       .compose =
           [props](const CustomAttributes& attributes, ComposeContext& c) {
             const PropPtr prop = props->of(attributes);
             is_traced(c) ? trace_custom(prop, c) : call_custom(prop, c);
           },
       .infer = [props](const CustomAttributes& attributes, InferContext& c) { props->of(attributes)->infer(c); }});
}

int MXCustomOpRegister(const char* op_type, CustomOpPropCreator creator) {
  return guard([&] { register_program_operator(op_type, creator); });
}
