// The inputs of a call as Kaon's operators take them: on one device, of an engine that runs in this process.
#pragma once

#include <span>
#include <vector>

#include "kaon/mxnet/attributes/attributes.h"
#include "kaon/mxnet/handle/sparse_array.h"

namespace kaon::mxnet {

// Where a call runs: the context of its first input, that of the array which it fills, the one that it names, or
// cpu(0). Pinned and shared memory is the first input's own: results are on the cpu.
Context context_of_call(Texts texts, std::span<ArrayObject* const> inputs, std::span<ArrayObject* const> outputs);

// An array that a forked process has from its parent as an array of its own; any other array as it is. Blocks for such
// a one. Throws StateError where the parent had not finished it.
NDArray in_this_process(const NDArray& array);

// The first elements of `from` in this shape, on the same memory. Throws ShapeError where it has fewer.
NDArray first_elements(const NDArray& from, const Shape& shape);

class Inputs {
 public:
  // cpu(0) and cpu(1) are both the host's memory: inputs on several of these are copied to `context`, and the copy is
  // recorded. Throws StateError for an array without values.
  Inputs(std::span<ArrayObject* const> given, Context context);
  Inputs(const Inputs&) = delete;
  Inputs& operator=(const Inputs&) = delete;

  std::span<const NDArray* const> arrays() const { return arrays_; }
  void replace(size_t i, const NDArray& array) { arrays_[i] = &array; }

 private:
  std::vector<const NDArray*> arrays_;
  std::vector<NDArray> copies_;
};

}  // namespace kaon::mxnet
