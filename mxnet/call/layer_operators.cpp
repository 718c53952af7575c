#include "kaon/mxnet/call/layer_operators.h"

#include <fmt/format.h>

#include <map>

#include "kaon/engine/base/process_wide.h"
#include "kaon/graph/autograd.h"
#include "kaon/mxnet/call/inputs.h"
#include "kaon/ops/functions.h"

namespace kaon::mxnet {

Results one_result(NDArray array, Context context) {
  Results results;
  results.push_back(std::make_unique<ArrayObject>(std::move(array), context));
  return results;
}

std::vector<NDArray> dense_inputs(const OperatorInfo& info, Arrays inputs, size_t count) {
  if (inputs.size() != count) {
    throw ValueError(fmt::format("[{}] expected {} arrays, got {}", info.name, count, inputs.size()));
  }
  std::vector<NDArray> arrays;
  for (const ArrayObject* x : inputs) arrays.push_back(in_this_process(dense_of(*x, info.name.c_str())));
  return arrays;
}

namespace {

In<NDArray> at_no_site(const NDArray& array) { return In<NDArray>(array, no_site); }

// A copy on the device and in the dtype of the array that takes it.
Results copy_to(const OperatorInfo& info, Texts texts, Arrays inputs, Arrays outputs) {
  const NDArray source = dense_inputs(info, inputs, 1)[0];
  const bool is_given = !outputs.empty() && !outputs[0]->is_none();
  const Context context = is_given ? outputs[0]->context : context_of_call(texts, inputs, {});
  NDArray copy = source;
  if (is_given && outputs[0]->array.defined() && copy.dtype() != outputs[0]->array.dtype()) {
    copy = copy.astype(outputs[0]->array.dtype(), no_site);
  }
  copy = copy.as_in_context(context.device(), no_site);
  // where the values are only written to an array, the copy is made there
  if (copy.ptr() == source.ptr() && (!is_given || autograd::is_recording())) copy = nd.identity(at_no_site(copy));
  return one_result(std::move(copy), context);
}

// The array that an operator fills.
const ArrayObject& filled(const OperatorInfo& info, Arrays outputs) {
  if (outputs.size() == 1 && !outputs[0]->is_none()) return *outputs[0];
  throw ValueError(fmt::format("[{}] expected an array to fill", info.name));
}

Results set_value(const OperatorInfo& info, Texts texts, Arrays, Arrays outputs) {
  const ArrayObject& target = filled(info, outputs);
  const double value = attribute(info, texts, "src", 0.0);
  ArrayObject like = target;
  const NDArray shape = to_dense(like);
  const ArrayOptions options{.dtype = shape.dtype(), .device = shape.device()};
  return one_result(nd.full(shape.shape(), value, options), target.context);
}

// The rows of rhs, of as many columns, as one_hot of lhs.
Results onehot_encode(const OperatorInfo& info, Texts, Arrays inputs, Arrays) {
  const std::vector<NDArray> in = dense_inputs(info, inputs, 2);
  if (in[1].ndim() != 2) {
    throw ShapeError(fmt::format("[{}] rhs must have 2 dimensions, got {}", info.name, in[1].shape().str()));
  }
  return one_result(nd.one_hot(at_no_site(in[0]), in[1].shape()[1], {.dtype = in[1].dtype()}), inputs[0]->context);
}

// lhs (n, c) with mhs[i] at [i, rhs[i]]; a column outside of [0, c) changes nothing.
Results fill_element(const OperatorInfo& info, Texts, Arrays inputs, Arrays) {
  const std::vector<NDArray> in = dense_inputs(info, inputs, 3);
  const Shape& shape = in[0].shape();
  if (shape.ndim() != 2 || in[1].shape() != Shape(shape[0]) || in[2].shape() != Shape(shape[0])) {
    throw ShapeError(fmt::format("[{}] expected (n, c), (n,) and (n,), got {}, {} and {}", info.name, shape.str(),
                                 in[1].shape().str(), in[2].shape().str()));
  }
  const NDArray here = nd.one_hot(at_no_site(in[2]), shape[1], {.dtype = in[0].dtype()});
  const NDArray values = nd.broadcast_to(in[1].reshape(Shape(-1, 1), no_site), shape);
  return one_result(nd.where(at_no_site(here), values, in[0]), inputs[0]->context);
}

// Its dtype is a number; -1: the default.
Results zeros_without_dtype(const OperatorInfo& info, Texts texts, Arrays inputs, Arrays outputs) {
  const Context context = context_of_call(texts, inputs, outputs);
  const int dtype = attribute(info, texts, "dtype", -1);
  if (dtype > 12 || dtype < -1 || (dtype >= 0 && !ops::is_valid(DType(dtype)))) {
    refuse_text(info, "dtype", find_text(texts, "dtype"));
  }
  const ArrayOptions options{.dtype = dtype < 0 ? DType::float32 : DType(dtype), .device = context.device()};
  return one_result(nd.zeros(attribute(info, texts, "shape", Shape()), options), context);
}

// One number, of no dimension.
Results all_close(const OperatorInfo& info, Texts texts, Arrays inputs, Arrays) {
  const std::vector<NDArray> in = dense_inputs(info, inputs, 2);
  const NDArray result = nd.allclose(at_no_site(in[0]), in[1],
                                     {.rtol = attribute(info, texts, "rtol", 1e-5f),
                                      .atol = attribute(info, texts, "atol", 1e-8f),
                                      .equal_nan = attribute(info, texts, "equal_nan", true)});
  return one_result(result.reshape(Shape(), no_site), inputs[0]->context);
}

Results boolean_mask(const OperatorInfo& info, Texts texts, Arrays inputs, Arrays) {
  const std::vector<NDArray> in = dense_inputs(info, inputs, 2);
  return one_result(nd.boolean_mask(at_no_site(in[0]), in[1], attribute(info, texts, "axis", 0)), inputs[0]->context);
}

const std::map<const OperatorInfo*, LayerCall>& layer_operators() {
  using Map = std::map<const OperatorInfo*, LayerCall>;
  static constinit engine::MadeOnce<const Map> made;
  return made.get([] {
    auto* map = new Map;
    const auto add = [&](std::string_view name, LayerCall call) {
      if (const OperatorInfo* info = find_operator(name)) (*map)[info] = call;
    };
    add("_copyto", copy_to);
    add("_npi_copyto", copy_to);
    add("_CrossDeviceCopy", copy_to);
    add("_set_value", set_value);
    add("_onehot_encode", onehot_encode);
    add("fill_element_0index", fill_element);
    add("_zeros_without_dtype", zeros_without_dtype);
    add("_contrib_boolean_mask", boolean_mask);
    add("_contrib_allclose", all_close);
    add_image_operators(add);
    return map;
  });
}

}  // namespace

LayerCall find_layer_operator(const OperatorInfo& info) {
  const auto at = layer_operators().find(&info);
  return at == layer_operators().end() ? nullptr : at->second;
}

}  // namespace kaon::mxnet
