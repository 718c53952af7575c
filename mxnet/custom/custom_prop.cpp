#include "kaon/mxnet/custom/custom_prop.h"

#include <fmt/format.h>

#include "kaon/engine/error.h"
#include "kaon/graph/autograd.h"
#include "kaon/mxnet/handle/handle.h"

namespace kaon::mxnet {

namespace {

// The places of a property's functions.
enum : size_t { remove, arguments, outputs, states, infer_shape, dependencies, create, infer_type };

using ListFunction = int (*)(char***, void*);
using InferShapeFunction = int (*)(int, int*, int**, void*);
using InferTypeFunction = int (*)(int, int*, void*);
using CreateFunction = int (*)(const char*, int, unsigned**, const int*, const int*, MXCallbackList*, void*);
using RunFunction = int (*)(int, void**, int*, const int*, int, void*);

}  // namespace

// --- The instance

void CustomInstance::run(size_t function, std::initializer_list<Tagged> all, size_t written, bool training) const {
  const char* what = function == run_forward ? "forward" : "backward";
  if (!may_call_back()) {
    throw StateError(fmt::format("[Custom] the program has ended: the {} of '{}' is not called", what, name_));
  }
  std::vector<void*> handles;  // the callee's
  std::vector<int> tags;
  for (const Tagged& t : all) {
    for (const NDArray& a : t.arrays) {
      handles.push_back(new ArrayObject(a));
      tags.push_back(t.tag);
    }
  }
  const std::vector<int> reqs(written, 1);  // all are written
  const autograd::ModeScope mode(false, training);
  if (!callbacks_.call<RunFunction>(function, int(handles.size()), handles.data(), tags.data(), reqs.data(),
                                    int(training))) {
    throw Error(
        fmt::format("[Custom] the {} of '{}' has failed: its error was printed where it was raised", what, name_));
  }
}

void CustomInstance::forward(const CustomArrays& a, bool training) const {
  run(run_forward, {{a.inputs, 0}, {a.outputs, 1}, {a.states, 4}}, a.outputs.size(), training);
}

void CustomInstance::backward(const CustomArrays& a, bool training) const {
  run(run_backward, {{a.heads, 3}, {a.inputs, 0}, {a.outputs, 1}, {a.gradients, 2}, {a.states, 4}}, a.gradients.size(),
      training);
}

// --- The property

void CustomProp::fail(const char* what) const {
  throw Error(fmt::format("[Custom] {} of '{}' has failed: its error was printed where it was raised", what, op_type_));
}

CustomProp::CustomProp(const std::string& op_type, CustomOpPropCreator creator, const CustomAttributes& attributes)
    : op_type_(op_type), callbacks_([&] {
        if (!may_call_back()) throw StateError(fmt::format("[Custom] '{}': the program has ended", op_type));
        std::vector<const char*> keys, values;
        for (const auto& [key, value] : attributes) {
          keys.push_back(key.c_str());
          values.push_back(value.c_str());
        }
        MXCallbackList list{};
        // a Python function that raises gives any number, and no functions
        if (!creator(op_type.c_str(), int(keys.size()), keys.data(), values.data(), &list) || !list.callbacks) {
          throw Error(fmt::format("[Custom] the program cannot make '{}' with these attributes", op_type));
        }
        return CallbackList(list, remove);
      }()) {
  signature_.inputs = list(arguments, "list_arguments");
  signature_.outputs = list(outputs, "list_outputs");
  const std::vector<std::string> updated = list(states, "list_auxiliary_states");
  signature_.updated = int(updated.size());
  signature_.inputs.insert(signature_.inputs.end(), updated.begin(), updated.end());
}

std::vector<std::string> CustomProp::list(size_t function, const char* what) const {
  char** names = nullptr;
  if (!callbacks_.call<ListFunction>(function, &names)) fail(what);
  std::vector<std::string> list;
  for (; names && *names; ++names) list.emplace_back(*names);
  return list;
}

void CustomProp::infer(InferContext& c) const {
  const size_t n_in = size_t(num_inputs()), n_out = size_t(num_outputs()), n_states = size_t(signature_.updated);
  const size_t n = n_in + n_out + n_states;
  // in the program's order: inputs, outputs, states
  std::vector<std::vector<int>> dims(n);
  std::vector<int> ndims(n), types(n, -1);
  std::vector<int*> shapes;
  for (size_t i = 0; i < n; ++i) {
    if (i < n_in && c.shape(int(i)).ndim() >= 0) {
      for (const int64_t d : c.shape(int(i))) dims[i].push_back(int(d));
      types[i] = int(c.dtype(int(i)));
    }
    ndims[i] = int(dims[i].size());
    shapes.push_back(dims[i].data());
  }
  {
    // The program frees the shapes that it returned at its next call, which another thread may make.
    const std::scoped_lock lock(infer_mutex_);
    if (!callbacks_.call<InferShapeFunction>(infer_shape, int(n), ndims.data(), shapes.data())) fail("infer_shape");
    for (size_t i = 0; i < n; ++i) dims[i].assign(shapes[i], shapes[i] + ndims[i]);
  }
  if (!callbacks_.call<InferTypeFunction>(infer_type, int(n), types.data())) fail("infer_type");
  const auto shape_of = [&](size_t i) {
    Shape shape;
    for (const int d : dims[i]) shape.push_back(d);
    return shape;
  };
  const auto type_of = [&](size_t i) { return types[i] < 0 ? c.dtype(0) : DType(types[i]); };
  for (size_t i = 0; i < n_in; ++i) c.expect_input(int(i), shape_of(i), type_of(i));
  for (size_t i = 0; i < n_states; ++i) {
    c.expect_input(int(n_in + i), shape_of(n_in + n_out + i), type_of(n_in + n_out + i));
  }
  for (size_t i = 0; i < n_out; ++i) {
    if (types[n_in + i] < 0 && n_in == 0) c.fail("infer_type gave no dtype for an output, and there are no inputs");
    c.set_output(int(i), shape_of(n_in + i), type_of(n_in + i));
  }
}

std::shared_ptr<const CustomInstance> CustomProp::instance(Device device, std::span<const TensorMeta> inputs) const {
  std::vector<std::vector<unsigned>> dims;
  std::vector<unsigned*> shapes;
  std::vector<int> ndims, types;
  for (const TensorMeta& m : inputs) {
    std::vector<unsigned>& d = dims.emplace_back();
    for (const int64_t n : m.shape) d.push_back(unsigned(n));
    ndims.push_back(m.shape.ndim());
    types.push_back(int(m.dtype));
  }
  for (std::vector<unsigned>& d : dims) shapes.push_back(d.data());
  MXCallbackList list{};
  if (!callbacks_.call<CreateFunction>(create, device.str().c_str(), int(inputs.size()), shapes.data(), ndims.data(),
                                       types.data(), &list) ||
      !list.callbacks) {
    fail("create_operator");
  }
  return std::make_shared<const CustomInstance>(op_type_, list);
}

}  // namespace kaon::mxnet
