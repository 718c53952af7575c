// Recording, gradients and backward.
#include "kaon/graph/autograd.h"

#include <algorithm>
#include <cstdio>
#include <mutex>
#include <set>
#include <string>

#include "kaon/graph/ir/history.h"
#include "kaon/graph/ir/tape.h"
#include "kaon/mxnet/c_api.h"
#include "kaon/mxnet/call/inputs.h"
#include "kaon/mxnet/handle/guard.h"
#include "kaon/mxnet/handle/returned.h"
#include "kaon/mxnet/handle/sparse_array.h"
#include "kaon/ops/array/array_node.h"
#include "kaon/ops/functions.h"
#include "kaon/ops/nn/norm/kernels/moving_statistics.h"

using namespace kaon;
using namespace kaon::mxnet;

int MXAutogradIsRecording(bool* curr) {
  return guard([&] { *curr = autograd::is_recording(); });
}
int MXAutogradIsTraining(bool* curr) {
  return guard([&] { *curr = autograd::is_training(); });
}
int MXAutogradSetIsRecording(int is_recording, int* prev) {
  return guard([&] {
    engine::ThreadContext& context = engine::thread_context();
    *prev = context.recording;
    context.recording = is_recording != 0;
    context.interceptor = context.recording ? autograd::tape() : nullptr;
  });
}
int MXAutogradSetIsTraining(int is_training, int* prev) {
  return guard([&] {
    engine::ThreadContext& context = engine::thread_context();
    *prev = context.training;
    context.training = is_training != 0;
  });
}

namespace {

[[maybe_unused]] const bool records_integers = (autograd::record_integers(true), true);

// Once for each array and place, and no more than 100: a training loop would say the same at each step.
void warn_of_changed(const std::string& what) {
  static std::mutex mutex;
  static std::set<std::string> told;
  const std::lock_guard lock(mutex);
  if (told.size() == 100 || !told.insert(what).second) return;
  std::fprintf(stderr, "kaon: warning: %s: the gradient takes its new values, as MXNet's does\n", what.c_str());
}
[[maybe_unused]] const bool allows_changed = (autograd::allow_changed(&warn_of_changed), true);
[[maybe_unused]] const bool moves_with_gradients = (ops::move_statistics_with_gradients(), true);

// MXNet's numbers: 0 null, 1 write, 2 write in place, 3 add.
GradReq grad_req(uint32_t number) {
  if (number > 3) throw ValueError("[mark variables] expected 0 (null), 1, 2 (write) or 3 (add)");
  return number == 0 ? GradReq::null : number == 3 ? GradReq::add : GradReq::write;
}

// A sparse gradient is one of a dense array, to which backward() writes; a sparse variable is recorded as a dense one.
void mark(ArrayObject& variable, GradReq req, ArrayObject& gradient) {
  const autograd::ModeScope mode(false, autograd::is_training());
  NDArray array = variable.array;
  if (variable.sparse) {
    if (req == GradReq::null) return end_recorded(*variable.sparse);
    array = begin_recorded(variable);
  }
  if (!gradient.sparse || req == GradReq::null) {
    array.attach_grad(req, gradient.array);
    return;
  }
  array.attach_grad(req, dense_gradient(gradient.sparse));
  autograd::history_of(array)->kept = gradient.sparse;
  autograd::history_of(array)->rows_read = gradient.sparse->rows_read;
}

// What stands for the array in recorded computations.
const NDArray& recorded_array(NDArrayHandle handle) {
  const ArrayObject& object = array_of(handle);
  return object.sparse ? object.sparse->recorded : object.array;
}

// Head gradients in the dtypes and on the devices of the heads; ones where none is given. MXNet does not compare
// shapes: a larger array counts with its first elements.
std::vector<NDArray> head_gradients(const std::vector<NDArray>& heads, NDArrayHandle* given) {
  std::vector<NDArray> gradients;
  if (!given) return gradients;
  for (size_t i = 0; i < heads.size(); ++i) {
    NDArray g = given[i] ? to_dense(array_of(given[i])) : NDArray();
    if (g.defined() && g.dtype() != heads[i].dtype()) g = g.astype(heads[i].dtype(), no_site);
    if (g.defined()) g = first_elements(g.as_in_context(heads[i].device(), no_site), heads[i].shape());
    gradients.push_back(std::move(g));
  }
  return gradients;
}

// A gradient that is recorded itself, also where it does not depend on the variable: then its derivative is zero.
NDArray recorded(const NDArray& gradient, const NDArray& variable) {
  if (autograd::wants_gradient(gradient) || gradient.dtype() != variable.dtype()) return gradient;
  const autograd::ModeScope mode(true, autograd::is_training());
  const NDArray nothing = nd.zeros_like(In<NDArray>(variable, no_site));
  return nd.elemwise_add(In<NDArray>(gradient, no_site), In<NDArray>(nothing, no_site));
}

}  // namespace

int MXAutogradMarkVariables(uint32_t num_var, NDArrayHandle* var_handles, uint32_t* reqs_array,
                            NDArrayHandle* grad_handles) {
  return guard([&] {
    for (uint32_t i = 0; i < num_var; ++i) {
      mark(array_of(var_handles[i]), grad_req(reqs_array[i]), array_of(grad_handles[i]));
    }
  });
}

int MXAutogradBackwardEx(uint32_t num_output, NDArrayHandle* output_handles, NDArrayHandle* ograd_handles,
                         uint32_t num_variables, NDArrayHandle* var_handles, int retain_graph, int create_graph, int,
                         NDArrayHandle** grad_handles, int** grad_stypes) {
  return guard([&] {
    std::vector<NDArray> heads;
    for (uint32_t i = 0; i < num_output; ++i) heads.push_back(recorded_array(output_handles[i]));
    std::vector<NDArray> gradients;
    {
      const autograd::ModeScope mode(create_graph != 0, autograd::is_training());
      gradients = head_gradients(heads, ograd_handles);
      if (std::ranges::none_of(gradients, [](const NDArray& g) { return g.defined(); })) gradients.clear();
    }
    if (num_variables == 0) {
      autograd::backward(heads, gradients, retain_graph != 0, no_site);
      return;
    }
    std::vector<NDArray> variables;
    for (uint32_t i = 0; i < num_variables; ++i) variables.push_back(recorded_array(var_handles[i]));
    std::vector<NDArray> results =
        autograd::grad(heads, variables, gradients, retain_graph != 0, create_graph != 0, no_site);
    Returned& lists = returned();
    lists.handles.clear();
    for (size_t i = 0; i < results.size(); ++i) {
      NDArray g = create_graph ? recorded(results[i], variables[i]) : results[i];
      lists.handles.push_back(new_handle(std::move(g), array_of(var_handles[i]).context));
    }
    lists.numbers.assign(results.size(), 0);
    *grad_handles = lists.handles.data();
    *grad_stypes = lists.numbers.data();
  });
}

int MXAutogradBackward(uint32_t num_output, NDArrayHandle* output_handles, NDArrayHandle* ograd_handles,
                       int retain_graph) {
  return MXAutogradBackwardEx(num_output, output_handles, ograd_handles, 0, nullptr, retain_graph, 0, 1, nullptr,
                              nullptr);
}
