// Calls of operators by MXNet's rules.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "kaon/mxnet/attributes/attributes.h"
#include "kaon/mxnet/handle/sparse_array.h"

namespace kaon::mxnet {

using Arrays = std::span<ArrayObject* const>;
using Results = std::vector<std::unique_ptr<ArrayObject>>;

// Calls the operator as MXImperativeInvokeEx does and gives its visible results; they are on the context of the first
// input, or on the one that the attribute ctx names. Operators that update a weight leave `inputs` as they are but for
// the states, and give the new weight. Throws as NDArray::apply, and ValueError as read_attributes.
Results call_operator(const OperatorInfo& info, Texts texts, Arrays inputs);

// The same with arrays for the results (MXNet's out=): for the visible ones, or for all. Each result is converted to
// the dtype and device of its array and written to its memory; an array without memory takes the result. While
// recording, the array becomes the result, with its history; StateError where it is part of a recorded computation
// already.
void call_operator(const OperatorInfo& info, Texts texts, Arrays inputs, Arrays outputs);

// Writes `result` to an array as the call above does. Throws ShapeError for another shape.
void put_result(ArrayObject& output, const NDArray& result, Context context);

}  // namespace kaon::mxnet
