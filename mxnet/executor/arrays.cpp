#include "kaon/mxnet/executor/arrays.h"

#include <fmt/format.h>

#include <algorithm>

#include "kaon/graph/autograd.h"
#include "kaon/mxnet/handle/numpy_shape.h"
#include "kaon/ops/functions.h"

namespace kaon::mxnet {

InferredArrays infer_arrays(const Symbol& symbol, const Shapes& shapes, const DTypes& dtypes) {
  const std::vector<std::string> names = symbol.list_inputs();
  const auto exists = [&](const std::string& name) {
    return std::find(names.begin(), names.end(), name) != names.end();
  };
  Shapes known_shapes;
  DTypes known_dtypes;
  for (const auto& [name, shape] : shapes) {
    if (exists(name)) known_shapes[name] = shape;
  }
  for (const auto& [name, dtype] : dtypes) {
    if (exists(name)) known_dtypes[name] = dtype;
  }
  const Symbol::InferredShapes found = symbol.infer_shape_partial(known_shapes);
  const Symbol::InferredTypes types = symbol.infer_type(known_dtypes);
  std::string missing;
  const auto join = [&](const std::vector<std::string>& of, const std::vector<Shape>& s,
                        const std::vector<std::optional<DType>>& t) {
    std::vector<TensorMeta> metas;
    for (size_t i = 0; i < s.size(); ++i) {
      if (!s[i].is_known()) missing += fmt::format("\n{}: {}", of[i], s[i].str());
      metas.push_back({s[i], t[i].value_or(DType::float32)});
    }
    return metas;
  };
  InferredArrays result;
  result.arguments = join(symbol.list_arguments(), found.arguments, types.arguments);
  result.states = join(symbol.list_auxiliary_states(), found.auxiliary_states, types.auxiliary_states);
  if (!missing.empty()) {
    throw ShapeError(
        fmt::format("InferShape pass cannot decide shapes for the following arguments (-1 means unknown dimensions). "
                    "Please consider providing them as inputs:{}",
                    missing));
  }
  return result;
}

template <class Int>
Shapes named_shapes(uint32_t count, const char** names, const Int* data, const uint32_t* starts) {
  Shapes shapes;
  for (uint32_t i = 0; i < count; ++i) {
    Shape& shape = shapes[names[i]];
    shape = Shape();
    const uint32_t ndim = starts[i + 1] - starts[i];
    if (ndim == 0 && !has_numpy_shape()) {
      shape = Shape::unknown();
      continue;
    }
    if (ndim > uint32_t(Shape::max_ndim)) {
      throw ShapeError(fmt::format("'{}' has {} dimensions, more than {}", names[i], ndim, Shape::max_ndim));
    }
    for (uint32_t k = starts[i]; k < starts[i + 1]; ++k) {
      const int64_t d = int64_t(data[k]);
      shape.push_back(d == 0 && !has_numpy_shape() ? -1 : d);
    }
  }
  return shapes;
}
template Shapes named_shapes(uint32_t, const char**, const int*, const uint32_t*);
template Shapes named_shapes(uint32_t, const char**, const int64_t*, const uint32_t*);

BoundArray new_array(const TensorMeta& meta, Context context, ops::StorageType storage) {
  const autograd::ModeScope mode(false, false);
  const DeviceScope scope(context.device());
  BoundArray made{nd.zeros(meta.shape, {.dtype = meta.dtype}), context};
  if (storage != ops::StorageType::dense) {
    made.sparse = nothing_stored(storage, meta.shape, meta.dtype, context.device());
  }
  return made;
}

BoundArray new_gradient(const TensorMeta& meta, Context context, ops::StorageType storage) {
  BoundArray made = new_array(meta, context, storage);
  if (made.sparse) made.array = dense_gradient(made.sparse);
  return made;
}

ReturnedArrays& return_arrays(const Bindings& arrays) {
  static thread_local ReturnedArrays lists;
  const auto fill = [](std::vector<void*>& handles, const std::vector<BoundArray>& from) {
    handles.clear();
    handles.reserve(from.size() + 1);
    for (const BoundArray& a : from) {
      handles.push_back(a.sparse            ? new ArrayObject(a.sparse, a.context)
                        : a.array.defined() ? new_handle(a.array, a.context)
                                            : nullptr);
    }
    handles.push_back(nullptr);  // so that an empty list has an address too
  };
  fill(lists.arguments, arrays.arguments);
  fill(lists.gradients, arrays.gradients);
  fill(lists.states, arrays.states);
  return lists;
}

}  // namespace kaon::mxnet
