// The arrays that an executor is made with: given ones, new ones, and those of another executor or a buffer.
#pragma once

#include "kaon/mxnet/executor/executor.h"

namespace kaon::mxnet {

// Shapes and dtypes of a symbol's arguments and auxiliary states.
struct InferredArrays {
  std::vector<TensorMeta> arguments, states;
};

// From what is known of the variables, in part perhaps; names that the symbol does not have are left out. A dtype that
// does not follow is float32. Throws ShapeError naming the variables whose shapes do not follow.
InferredArrays infer_arrays(const Symbol& symbol, const Shapes& shapes, const DTypes& dtypes);

// Named shapes as C functions get them: `starts` has one number more than there are names. A 0 that stands for what is
// not known becomes -1.
template <class Int>
Shapes named_shapes(uint32_t count, const char** names, const Int* data, const uint32_t* starts);

// Of zeros, none of which a sparse array stores.
BoundArray new_array(const TensorMeta& meta, Context context, ops::StorageType storage = ops::StorageType::dense);
// The same as a gradient.
BoundArray new_gradient(const TensorMeta& meta, Context context, ops::StorageType storage);

// Gives out handles of its arrays, for lists that are valid together; null for an undefined gradient.
struct ReturnedArrays {
  std::vector<void*> arguments, gradients, states, buffer;
  std::vector<std::string> buffer_names;
  std::vector<const char*> buffer_name_pointers;
};
ReturnedArrays& return_arrays(const Bindings& arrays);

}  // namespace kaon::mxnet
