#include "kaon/interchange/onnx/operators/integer_layers.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include "kaon/interchange/onnx/operators/convolutions.h"
#include "kaon/interchange/onnx/operators/helpers.h"
#include "kaon/ops/quant/kernels/int8_conv.h"
#include "kaon/ops/quant/kernels/integer_layers.h"
#include "kaon/ops/quant/kernels/integer_values.h"

namespace kaon::onnx::convert {

namespace {

using Layer = std::shared_ptr<const IntegerLayer>;

bool is_level(ElementType type) { return type == ElementType::int8 || type == ElementType::uint8; }

// Weights without their zero points, and what belongs to each filter.
struct Filters {
  Symbol weights;  // int8 (filters, ...)
  std::vector<int64_t> sums;
  std::vector<double> scale;
};

// `filters`: the axis of `w` that becomes the first one, of a matrix. Nothing where the numbers are no int8.
std::optional<Filters> filters_of(const Levels& w, int axis) {
  if (!w.known.defined() || (w.axis != axis && (w.scale.size() > 1 || w.zero.size() > 1))) return std::nullopt;
  const Shape& shape = w.known.shape();
  const int64_t n = shape[axis], size = n ? shape.size() / n : 0, step = axis == 0 ? 1 : n, skip = axis == 0 ? size : 1;
  if (n == 0 || size == 0) return std::nullopt;
  const auto fits = [&](size_t count) { return count == 1 || int64_t(count) == n; };
  if (!fits(w.scale.size()) || !fits(w.zero.size())) return std::nullopt;
  std::vector<int16_t> numbers;
  if (w.known.dtype() == DType::int8) {
    const std::vector<int8_t> all = w.known.asvector<int8_t>();
    numbers.assign(all.begin(), all.end());
  } else {
    const std::vector<uint8_t> all = w.known.asvector<uint8_t>();
    numbers.assign(all.begin(), all.end());
  }
  Filters f;
  std::vector<int8_t> packed(numbers.size());
  for (int64_t o = 0; o < n; ++o) {
    const int64_t zero = w.zero[w.zero.size() > 1 ? size_t(o) : 0];
    int64_t sum = 0;
    for (int64_t i = 0; i < size; ++i) {
      const int64_t number = numbers[size_t(o * skip + i * step)] - zero;
      if (number < -128 || number > 127) return std::nullopt;
      packed[size_t(o * size + i)] = int8_t(number);
      sum += number;
    }
    f.sums.push_back(sum);
    f.scale.push_back(w.scale[w.scale.size() > 1 ? size_t(o) : 0]);
  }
  const Shape to = axis == 0 ? shape : Shape(n, size);
  f.weights = Symbol::constant(NDArray::from(packed.data(), packed.size(), to, DType::int8));
  return f;
}

// The biases in units of the sums, with what the data's zero point makes of them. Nothing where they leave int32.
std::optional<Symbol> whole_bias(const Filters& f, const Levels& x, const std::vector<double>& bias) {
  if (!bias.empty() && bias.size() != f.scale.size()) return std::nullopt;
  std::vector<int32_t> all;
  for (size_t o = 0; o < f.scale.size(); ++o) {
    const double unit = x.scale[0] * f.scale[o];
    const double own = bias.empty() ? 0 : bias[o] / unit, whole = std::nearbyint(own) - double(x.zero[0] * f.sums[o]);
    if (!(std::fabs(whole) < 2147483000.0)) return std::nullopt;
    all.push_back(int32_t(whole));
  }
  return Symbol::constant(NDArray::from(all.data(), all.size(), Shape(int64_t(all.size())), DType::int32));
}

Symbol scales(const std::vector<double>& scale) { return constant(scale, Shape(int64_t(scale.size()))); }

template <class Op>
Symbol applied(const Op& op, std::initializer_list<const Symbol*> inputs) {
  Symbol result;
  Symbol::apply(Op::def, &op, std::span(inputs.begin(), inputs.size()), std::span(&result, 1),
                std::source_location::current(), "");
  return result;
}

// Levels of the one scale and zero point for all, which the model does not say.
bool is_uniform(const std::shared_ptr<const Levels>& x) {
  return x && !x->known.defined() && x->scale.size() == 1 && x->zero.size() == 1;
}

// The layer of operators `op`, which get the dtype of the result.
template <class Op>
Layer layer_of(const Op& op, const Symbol& data, const Filters& f, const Levels& x, const std::vector<double>& bias) {
  const std::optional<Symbol> whole = whole_bias(f, x, bias);
  if (!whole) return nullptr;
  auto layer = std::make_shared<IntegerLayer>();
  for (double s : f.scale) layer->scale.push_back(x.scale[0] * s);
  layer->weight_sums = f.sums;
  layer->make = [op, data, weights = f.weights, bias = *whole](DType out, const std::vector<double>& scale, int zero,
                                                               bool relu) {
    Op own = op;
    own.out_type = out, own.zero = zero, own.relu = relu;
    const Symbol factors = scales(scale);
    return applied(own, {&data, &weights, &bias, &factors});
  };
  return layer;
}

// The numbers of the bias at input 2, by filter, where the model says them; nothing for another bias.
std::optional<std::vector<double>> known_bias(const Call& c) {
  if (!c.has(2)) return std::vector<double>();
  if (!c.input(2).is_constant() || c.rank(2) > 1) return std::nullopt;
  return c.numbers(2);
}

// Whether DequantizeLinear has made both factors.
bool are_dequantised(const Call& c) { return c.input(0).levels && c.input(1).levels; }

}  // namespace

bool computes_integers(int axes, int64_t groups) {
  return IntegerScope::chosen().value_or(ops::multiplies_int8(axes, groups));
}

std::shared_ptr<const Levels> levels_of(const Call& c, int i, int scale, int zero, int axis) {
  if (!is_level(c.type(i)) || c.input(i).kind != Value::Kind::tensor) return nullptr;
  const auto is_known = [&](int k) { return k < 0 || !c.has(k) || (c.input(k).is_constant() && c.rank(k) <= 1); };
  if (!is_known(scale) || !is_known(zero)) return nullptr;
  auto levels = std::make_shared<Levels>();
  levels->numbers = c.x(i);
  if (c.input(i).is_constant()) levels->known = c.input(i).known;
  levels->scale = scale < 0 ? std::vector<double>{1} : c.numbers(scale);
  levels->zero = zero < 0 || !c.has(zero) ? std::vector<int64_t>{0} : c.integers(zero);
  levels->axis = axis;
  if (levels->scale.empty() || levels->zero.empty()) return nullptr;
  if (std::ranges::any_of(levels->scale, [](double s) { return !(s > 0) || std::isinf(s); })) return nullptr;
  return levels;
}

Layer integer_convolution(const Call& c, const std::shared_ptr<const Levels>& x, const std::shared_ptr<const Levels>& w,
                          const std::vector<double>& bias) {
  if (!x || !w || x->scale.size() != 1 || x->zero.size() != 1) return nullptr;
  const Shape& data = shape_of(x->numbers);
  if (data.ndim() < 3 || data.ndim() > 5 || data.size() == 0) return nullptr;
  const std::optional<Filters> f = filters_of(*w, 0);
  if (!f) return nullptr;
  const ConvolutionCall call = convolution_call(c, x->numbers, w->known.shape(), double(x->zero[0]));
  if (!computes_integers(data.ndim() - 2, call.op.num_group)) return nullptr;
  return layer_of(op::IntegerConv{.kernel = call.op.kernel,
                                  .stride = call.op.stride,
                                  .dilate = call.op.dilate,
                                  .pad = call.op.pad,
                                  .num_filter = call.op.num_filter,
                                  .num_group = call.op.num_group},
                  call.x, *f, *x, bias);
}

Layer integer_product(const Call&, const std::shared_ptr<const Levels>& x, const std::shared_ptr<const Levels>& w,
                      bool turned, const std::vector<double>& bias) {
  if (!computes_integers() || !x || !w || x->scale.size() != 1 || x->zero.size() != 1) return nullptr;
  const Shape& data = shape_of(x->numbers);
  if (data.ndim() < 2 || data.size() == 0 || !w->known.defined() || w->known.ndim() != 2) return nullptr;
  const std::optional<Filters> f = filters_of(*w, turned ? 0 : 1);
  if (!f) return nullptr;
  return layer_of(op::IntegerDense{.num_hidden = int(f->scale.size())}, x->numbers, *f, *x, bias);
}

Layer integer_convolution(const Call& c) {
  const auto bias = are_dequantised(c) ? known_bias(c) : std::nullopt;
  return bias ? integer_convolution(c, c.input(0).levels, c.input(1).levels, *bias) : nullptr;
}

Layer integer_product(const Call& c, bool turned) {
  const auto bias = are_dequantised(c) ? known_bias(c) : std::nullopt;
  return bias ? integer_product(c, c.input(0).levels, c.input(1).levels, turned, *bias) : nullptr;
}

Symbol quantised(const Symbol& numbers, DType out, double scale, int64_t zero) {
  return applied(op::IntegerQuantize{.scale = scale, .zero = int(zero), .out_type = out}, {&numbers});
}

Symbol dequantised(const Levels& x) {
  return applied(op::IntegerDequantize{.scale = x.scale[0], .zero = int(x.zero[0])}, {&x.numbers});
}

Layer integer_sum(const Call& c) {
  const std::shared_ptr<const Levels>&a = c.input(0).levels, &b = c.input(1).levels;
  if (!computes_integers() || !is_uniform(a) || !is_uniform(b)) return nullptr;
  if (shape_of(a->numbers) != shape_of(b->numbers)) return nullptr;
  auto layer = std::make_shared<IntegerLayer>();
  layer->join = [a, b](DType out, double step, int64_t zero, bool relu) {
    const op::IntegerAdd op{.lhs_scale = a->scale[0],
                            .rhs_scale = b->scale[0],
                            .scale = step,
                            .lhs_zero = int(a->zero[0]),
                            .rhs_zero = int(b->zero[0]),
                            .zero = int(zero),
                            .relu = relu,
                            .out_type = out};
    return applied(op, {&a->numbers, &b->numbers});
  };
  return layer;
}

Layer integer_max_pool(const Call& c, const Shape& kernel, const Shape& stride, const Shape& pad,
                       const Symbol& numbers) {
  const std::shared_ptr<const Levels>& x = c.input(0).levels;
  if (!computes_integers() || !is_uniform(x) || c.rank() != 4) return nullptr;
  auto layer = std::make_shared<IntegerLayer>();
  layer->join = [x, op = op::IntegerMaxPool{kernel, stride, pad}, numbers](DType out, double step, int64_t zero,
                                                                           bool relu) {
    const bool is_same = out == dtype_of(x->numbers) && step == x->scale[0] && zero == x->zero[0] && !relu;
    return is_same ? applied(op, {&x->numbers}) : quantised(relu ? sym.relu(numbers) : numbers, out, step, zero);
  };
  return layer;
}

void set_numbers(Call& c, const Layer& layer) {
  Value v = Value::of(layer->make(DType::float32, layer->scale, 0, layer->relu), ElementType::float32);
  v.layer = layer;
  c.set(v);
}

Symbol as_levels(const IntegerLayer& layer, DType out, double step, int64_t zero) {
  if (layer.join) return layer.join(out, step, zero, layer.relu);
  std::vector<double> scale = layer.scale;
  for (double& s : scale) s /= step;
  return layer.make(out, scale, int(zero), layer.relu);
}

}  // namespace kaon::onnx::convert
