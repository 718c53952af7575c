#include "kaon/mxnet/call/call.h"

#include <fmt/format.h>

#include <algorithm>

#include "kaon/graph/autograd.h"
#include "kaon/graph/ir/symbol_node.h"
#include "kaon/mxnet/call/inputs.h"
#include "kaon/mxnet/call/layer_operators.h"
#include "kaon/mxnet/call/sparse_call.h"
#include "kaon/mxnet/handle/numpy_shape.h"
#include "kaon/ops/array/array_node.h"

namespace kaon::mxnet {

using namespace ops;

namespace {

// Whether MXNet would have to find the shape: without NumPy's shapes, 0 stands for a dimension that is not known.
bool is_open(std::string_view shape_text) {
  Shape shape;
  if (shape_text.empty()) return true;
  if (has_numpy_shape() || !from_text(shape_text, shape)) return false;
  return shape.ndim() == 0 || std::ranges::find(shape, 0) != shape.end();
}

// The attributes of an operator without inputs, where shape and dtype that are not given are those of the array that it
// fills. Throws ShapeError where a shape is given that says nothing, and no array does either.
Texts completed(const OperatorInfo& info, Texts texts, Arrays outputs, OwnTexts& own, std::string& own_shape) {
  const NDArray like = outputs.empty() ? NDArray() : outputs[0]->array;
  const std::string_view shape = find_text(texts, "shape"), dtype = find_text(texts, "dtype");
  const bool asks_shape = info.argument("shape") && is_open(shape);
  const bool asks_dtype = info.argument("dtype") && (dtype.empty() || dtype == "None");
  if (asks_shape && !shape.empty() && !like.defined()) {
    throw ShapeError(fmt::format("[{}] inferring shapes failed: {} does not say the shape without NumPy's shapes",
                                 info.name, shape));
  }
  if (!like.defined() || !(asks_shape || asks_dtype)) return texts;
  for (const auto& t : texts) {
    if (t.first != (asks_shape ? "shape" : "") && t.first != (asks_dtype ? "dtype" : "")) own.push_back(t);
  }
  if (asks_shape) own.emplace_back("shape", own_shape = to_text(like.shape()));
  if (asks_dtype) own.emplace_back("dtype", name_of(like.dtype()));
  return own;
}

// Without NumPy's shapes a 0 in the shape of an input is a dimension that is not known: no result may have one. Nor may
// tile make one.
void refuse_unknown_sizes(const OperatorInfo& info, const OpDef& def, const void* attributes,
                          std::span<const NDArray* const> inputs) {
  if (has_numpy_shape()) return;
  bool may_be_empty = info.name == "tile";
  for (const NDArray* x : inputs) {
    if (!x->defined()) return;  // refused by the call
    may_be_empty = may_be_empty || x->size() == 0;
  }
  const int expected = def.num_inputs(attributes);
  if (!may_be_empty || (expected >= 0 && size_t(expected) != inputs.size())) return;
  std::vector<TensorMeta> metas, results{size_t(std::max(def.num_outputs(attributes), 0))};
  std::vector<TensorMeta*> in;
  for (const NDArray* x : inputs) metas.push_back({x->shape(), x->dtype()});
  for (TensorMeta& m : metas) in.push_back(&m);
  InferContext context(info.name.c_str(), def.traits, in, results);
  def.infer(attributes, context);
  for (const TensorMeta& r : results) {
    if (r.shape.size() != 0) continue;
    throw ShapeError(
        fmt::format("[{}] inferring shapes failed: the result would have the shape {}, with a dimension "
                    "that is not known without NumPy's shapes",
                    info.name, r.shape.str()));
  }
}

// A call whose attributes are read and whose inputs are checked.
struct Call {
  Call(const OperatorInfo& info, Texts texts, Arrays given, Arrays outputs)
      : info(info), def(def_of(info)), context(context_of_call(texts, given, outputs)), inputs(given, context) {
    OwnTexts more;
    std::string shape;
    if (given.empty()) texts = completed(info, texts, outputs, more, shape);
    attributes = read_attributes(info, texts, int(given.size()));
    refuse_unknown_sizes(info, def, attributes.get(), inputs.arrays());
    if (info.equal_shapes) {
      std::vector<const TensorMeta*> metas;
      for (const NDArray* x : inputs.arrays()) metas.push_back(&x->node());
      graph::expect_equal_shapes(info.name, metas);
    }
  }
  bool is_update() const { return def.traits.outputs == 0 && def.traits.mutates != 0; }
  int num_visible() const { return std::max(def.visible_outputs(attributes.get()), 0); }
  // Runs it; `results` are the first of its outputs.
  void apply(std::span<NDArray> results) {
    const DeviceScope scope(context.device());
    NDArray::apply(def, attributes.get(), inputs.arrays(), results, no_site, {});
  }

  const OperatorInfo& info;
  const OpDef& def;
  const Context context;
  Inputs inputs;
  Attributes attributes;
};

// --- Operators that update weights in place and have no outputs: MXNet gives the new weights.

// The places of the weights among the inputs. reset_arrays has no results in MXNet either.
std::vector<size_t> weights_of(const Call& call) {
  std::vector<size_t> weights;
  const OpTraits& traits = call.def.traits;
  if (traits.name == "reset_arrays") return weights;
  const size_t n = call.inputs.arrays().size();
  const size_t period = traits.mutates_period ? size_t(traits.mutates_period) : n;
  if (period == 0 || n < size_t(traits.ungrouped)) return weights;  // refused by the call
  for (size_t at = 0; at + period <= n - size_t(traits.ungrouped); at += period) weights.push_back(at);
  return weights;
}

bool is_same_memory(const NDArray& a, const NDArray& b) {
  return a.defined() && a.node().buffer == b.node().buffer && a.node().offset == b.node().offset;
}

// Runs it on copies of the weights that no array of `outputs` is, and gives the new weights.
std::vector<NDArray> update(Call& call, Arrays outputs) {
  const std::vector<size_t> weights = weights_of(call);
  std::vector<NDArray> updated;
  const autograd::ModeScope mode(false, autograd::is_training());
  for (size_t i = 0; i < weights.size(); ++i) {
    const NDArray& weight = *call.inputs.arrays()[weights[i]];
    const bool in_place = i < outputs.size() && is_same_memory(outputs[i]->array, weight);
    updated.push_back(in_place ? weight : weight.copy());
  }
  for (size_t i = 0; i < weights.size(); ++i) call.inputs.replace(weights[i], updated[i]);
  call.apply({});
  return updated;
}

// --- Results

// Straight into the memory of `output`, where the operator can do that. False: it was not run.
bool run_into(Call& call, ArrayObject& output) {
  if (!output.array.defined() || call.def.compose || autograd::is_recording()) return false;
  if (call.def.num_outputs(call.attributes.get()) != 1) return false;
  const auto& inputs = call.inputs.arrays();
  if (call.context.device() != output.array.device()) return false;
  if (!inputs.empty() && !call.def.traits.random && inputs[0]->dtype() != output.array.dtype()) return false;
  try {
    NDArray::apply_into(call.def, call.attributes.get(), inputs, output.array, no_site);
    return true;
  } catch (const TypeError&) {
    return false;  // the result has another dtype; else the second call throws this again
  }
}

[[noreturn]] void refuse_in_place() {
  throw StateError(
      "Inplace operations (+=, -=, x[:]=, etc) are not supported when recording with autograd: the array is part of a "
      "recorded computation");
}

// A recorded call reads its inputs again in the backward: none may be among its results.
void check_not_in_place(const Call& call, Arrays outputs) {
  const auto& inputs = call.inputs.arrays();
  if (!autograd::is_recording()) return;
  if (std::ranges::none_of(inputs, [](const NDArray* x) { return autograd::wants_gradient(*x); })) return;
  for (const ArrayObject* out : outputs) {
    if (!out->array.defined()) continue;
    if (std::ranges::any_of(inputs, [&](const NDArray* x) { return x->ptr() == out->array.ptr(); })) refuse_in_place();
  }
}

void check_output_count(const Call& call, size_t given) {
  const int visible = call.num_visible(), all = std::max(call.def.num_outputs(call.attributes.get()), 0);
  if (int(given) == visible || int(given) == all) return;
  throw ValueError(
      fmt::format("[{}] expected {} outputs (all) or {} (visible ones), got {}", call.info.name, all, visible, given));
}

Results handles_of(std::vector<NDArray> arrays, Context context) {
  Results results;
  for (NDArray& a : arrays) results.push_back(std::make_unique<ArrayObject>(std::move(a), context));
  return results;
}

}  // namespace

void put_result(ArrayObject& output, const NDArray& result, Context context) {
  NDArray& target = output.array;
  if (!target.defined()) {
    target = result;
    output.context = context;
    return;
  }
  if (target.ptr() == result.ptr()) return;
  const bool records = autograd::is_recording();
  if (records && autograd::wants_gradient(target)) refuse_in_place();
  if (result.shape() != target.shape()) {
    throw ShapeError(fmt::format("the result has shape {}, which does not fit into an array of shape {}",
                                 result.shape().str(), target.shape().str()));
  }
  const autograd::ModeScope mode(false, autograd::is_training());
  target.assign(Arg<NDArray>(result, no_site));
  if (records) target.node().annotation = result.node().annotation;
}

Results call_operator(const OperatorInfo& info, Texts texts, Arrays inputs) {
  if (is_sparse_call(info, texts, inputs, {})) [[unlikely]]
    return call_sparse(info, texts, inputs, {});
  if (const LayerCall here = find_layer_operator(info)) return here(info, texts, inputs, {});
  Call call(info, texts, inputs, {});
  if (call.is_update()) return handles_of(update(call, {}), call.context);
  std::vector<NDArray> results{size_t(call.num_visible())};
  call.apply(results);
  return handles_of(std::move(results), call.context);
}

void call_operator(const OperatorInfo& info, Texts texts, Arrays inputs, Arrays outputs) {
  const bool is_sparse = is_sparse_call(info, texts, inputs, outputs);
  const LayerCall here = is_sparse ? call_sparse : find_layer_operator(info);
  if (here) {
    const Results results = here(info, texts, inputs, outputs);
    for (size_t i = 0; i < results.size() && i < outputs.size(); ++i) put_any_result(*outputs[i], *results[i]);
    return;
  }
  Call call(info, texts, inputs, outputs);
  std::vector<NDArray> results;
  if (call.is_update()) {
    results = update(call, outputs);
  } else {
    check_output_count(call, outputs.size());
    check_not_in_place(call, outputs);
    if (outputs.size() == 1 && run_into(call, *outputs[0])) return;
    results.resize(outputs.size());
    call.apply(results);
  }
  for (size_t i = 0; i < outputs.size() && i < results.size(); ++i) {
    put_result(*outputs[i], results[i], call.context);
  }
}

}  // namespace kaon::mxnet
