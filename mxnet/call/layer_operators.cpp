#include "kaon/mxnet/call/layer_operators.h"

#include <fmt/format.h>

#include <map>

#include "kaon/engine/base/process_wide.h"
#include "kaon/graph/autograd.h"
#include "kaon/mxnet/call/inputs.h"
#include "kaon/ops/functions.h"

namespace kaon::mxnet {

namespace {

const ArrayObject& only_input(const OperatorInfo& info, Arrays inputs) {
  if (inputs.size() == 1 && inputs[0]->array.defined()) return *inputs[0];
  throw ValueError(fmt::format("[{}] expected one array, got {}", info.name, inputs.size()));
}

// A copy on the device and in the dtype of the array that takes it.
Results copy_to(const OperatorInfo& info, Texts texts, Arrays inputs, Arrays outputs) {
  const ArrayObject& from = only_input(info, inputs);
  const bool is_given = !outputs.empty() && outputs[0]->array.defined();
  const Context context = is_given ? outputs[0]->context : context_of_call(texts, inputs, {});
  const NDArray source = in_this_process(from.array);
  NDArray copy = source;
  if (is_given && copy.dtype() != outputs[0]->array.dtype()) copy = copy.astype(outputs[0]->array.dtype(), no_site);
  copy = copy.as_in_context(context.device(), no_site);
  if (copy.ptr() == source.ptr() && !is_given) copy = nd.identity(In<NDArray>(copy, no_site));
  if (copy.ptr() == source.ptr() && autograd::is_recording()) copy = nd.identity(In<NDArray>(copy, no_site));
  Results results;
  results.push_back(std::make_unique<ArrayObject>(std::move(copy), context));
  return results;
}

const std::map<const OperatorInfo*, LayerOperator>& layer_operators() {
  using Map = std::map<const OperatorInfo*, LayerOperator>;
  static constinit engine::MadeOnce<const Map> made;
  return made.get([] {
    auto* map = new Map;
    const auto add = [&](std::string_view name, auto* call) {
      if (const OperatorInfo* info = find_operator(name)) (*map)[info] = {call};
    };
    add("_copyto", copy_to);
    add("_npi_copyto", copy_to);
    return map;
  });
}

}  // namespace

const LayerOperator* find_layer_operator(const OperatorInfo& info, Arrays) {
  const auto at = layer_operators().find(&info);
  return at == layer_operators().end() ? nullptr : &at->second;
}

}  // namespace kaon::mxnet
