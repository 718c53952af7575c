// An executor for other shapes, on the memory of the one before where that fits.
#include <fmt/format.h>

#include "kaon/mxnet/c_api.h"
#include "kaon/mxnet/executor/arrays.h"
#include "kaon/mxnet/handle/guard.h"

using namespace kaon;
using namespace kaon::mxnet;

namespace {

struct Reshape {
  bool changes_any;  // arrays that were not named may change their shape
  bool may_grow;     // into new memory

  BoundArray operator()(const std::string& name, bool named, const BoundArray& old, const Shape& shape) const {
    if (!old.array.defined() || (old.sparse && shape == old.array.shape())) return old;
    if (!changes_any && !named && shape != old.array.shape()) {
      throw ShapeError(
          fmt::format("[reshape] Shape of unspecified array '{}' changed from {} to {}: the new executor would not "
                      "share it with the old one. If this is intended, set partial_shaping=True",
                      name, old.array.shape().str(), shape.str()));
    }
    if (old.sparse) {
      const auto make = old.sparse->gradient.defined() ? new_gradient : new_array;
      return make({shape, old.array.dtype()}, old.context, old.sparse->storage);
    }
    if (shape.size() <= old.array.size()) return {in_memory_of(old.array, shape), old.context};
    if (!may_grow) {
      throw ShapeError(
          fmt::format("[reshape] New shape {} of '{}' is larger than the original {}: first make the large executor "
                      "and reshape it down, or set allow_up_sizing=True",
                      shape.str(), name, old.array.shape().str()));
    }
    return new_array({shape, old.array.dtype()}, old.context);
  }
};

}  // namespace

int MXExecutorReshapeEx(int partial_shaping, int allow_up_sizing, int dev_type, int dev_id, uint32_t num_map_keys,
                        const char** map_keys, const int* map_dev_types, const int* map_dev_ids,
                        const uint32_t num_provided_arg_shapes, const char** provided_arg_shape_names,
                        const int* provided_arg_shape_data, const uint32_t* provided_arg_shape_idx,
                        uint32_t* num_in_args, NDArrayHandle** in_args, NDArrayHandle** arg_grads,
                        uint32_t* num_aux_states, NDArrayHandle** aux_states, ExecutorHandle shared_exec,
                        ExecutorHandle* out) {
  return guard([&] {
    const ExecutorObject& old = executor_of(shared_exec);
    ContextGroups contexts{.general = Context::numbered(dev_type, dev_id), .groups = {}};
    for (uint32_t i = 0; i < num_map_keys; ++i) {
      contexts.groups[map_keys[i]] = Context::numbered(map_dev_types[i], map_dev_ids[i]);
    }
    const Shapes shapes = named_shapes(num_provided_arg_shapes, provided_arg_shape_names, provided_arg_shape_data,
                                       provided_arg_shape_idx);
    const InferredArrays inferred = infer_arrays(old.symbol(), shapes, {});
    const Reshape reshape{partial_shaping != 0, allow_up_sizing != 0};
    const std::vector<std::string> names = old.symbol().list_arguments(), states = old.symbol().list_auxiliary_states();
    Bindings arrays;
    arrays.requests = old.arrays().requests;
    for (size_t i = 0; i < names.size(); ++i) {
      const Shape& shape = inferred.arguments[i].shape;
      const bool named = shapes.count(names[i]) != 0;
      arrays.arguments.push_back(reshape(names[i], named, old.arrays().arguments[i], shape));
      arrays.gradients.push_back(reshape(names[i], named, old.arrays().gradients[i], shape));
    }
    for (size_t i = 0; i < states.size(); ++i) {
      arrays.states.push_back(reshape(states[i], false, old.arrays().states[i], inferred.states[i].shape));
    }
    auto made = std::make_unique<ExecutorObject>(old.symbol(), contexts, arrays, old.outputs());
    ReturnedArrays& lists = return_arrays(arrays);
    *num_in_args = uint32_t(arrays.arguments.size());
    *in_args = lists.arguments.data();
    *arg_grads = lists.gradients.data();
    *num_aux_states = uint32_t(arrays.states.size());
    *aux_states = lists.states.data();
    *out = made.release();
  });
}
