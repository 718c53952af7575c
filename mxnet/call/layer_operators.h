// Operators whose calls are not calls of one of Kaon's operators.
#pragma once

#include "kaon/mxnet/call/call.h"
#include "kaon/ops/attributes.h"

namespace kaon::mxnet {

// Gives the results; `outputs` say what is wanted of them where that makes a difference, and get them afterwards.
using LayerCall = Results (*)(const OperatorInfo& info, Texts texts, Arrays inputs, Arrays outputs);

// nullptr: the call is one of Kaon's operator. Thread safety: any thread.
LayerCall find_layer_operator(const OperatorInfo& info);

// By name, for the table that find_layer_operator makes.
using AddLayerOperator = engine::FunctionRef<void(std::string_view name, LayerCall call)>;
void add_image_operators(AddLayerOperator add);

// --- for those calls
Results one_result(NDArray array, Context context);
// The inputs, which must be so many dense arrays. Throws ValueError.
std::vector<NDArray> dense_inputs(const OperatorInfo& info, Arrays inputs, size_t count);
// An attribute, or `value` where it is not given. Throws ValueError for a text that is no T.
template <class T>
T attribute(const OperatorInfo& info, Texts texts, std::string_view key, T value) {
  const std::string_view text = find_text(texts, key);
  if (!text.empty() && text != "None" && !ops::from_text(text, value)) refuse_text(info, key, text);
  return value;
}

}  // namespace kaon::mxnet
