// Steps that move elements, and layers with parameters.
#include <algorithm>
#include <cmath>

#include "kaon/tests/support/programs/program_steps.h"

namespace kaon::test::steps {
namespace {

Ref like_shape(ProgramBuilder& b, const Shape& shape) {
  return b.pick([&](const TensorMeta& m) { return m.dtype == DType::float32 && m.shape == shape; });
}

void join(ProgramBuilder& b, Ref a) {
  const Shape shape = b.shape(a);
  const int axis = int(b.dice.below(shape.ndim()));
  if (b.keeps_rows && axis == 0) throw Refused();
  std::vector<Ref> parts{a};
  for (int64_t n = b.dice.between(1, 2); n > 0; --n) parts.push_back(like_shape(b, shape));
  const int count = int(parts.size());
  b.offer(b.dice.chance(0.6) ? b.call(op::Concat{.dim = axis, .num_args = count}, parts)
                             : b.call(op::Stack{.axis = axis, .num_args = count}, parts));
}

void split(ProgramBuilder& b, Ref a) {
  const Shape& shape = b.shape(a);
  const int axis = int(b.dice.below(shape.ndim()));
  std::vector<int> divisors;
  for (int n = 2; n <= 4; ++n) {
    if (shape[axis] % n == 0) divisors.push_back(n);
  }
  if (divisors.empty() || (b.keeps_rows && axis == 0)) throw Refused();
  ProgramNode n;
  n.kind = Kind::call;
  n.def = &op::SliceChannel::def;
  const op::SliceChannel op{.num_outputs = b.dice.pick(divisors), .axis = axis, .squeeze_axis = b.dice.chance(0.3)};
  n.attrs = Attributes(op::SliceChannel::def, &op);
  n.inputs = {a};
  for (Ref r : b.add(n)) {
    if (b.dice.chance(0.8)) b.offer(r);
  }
}

// The number of inputs of a layer on `shape`: what a weight needs to keep the size of the values.
Range weights(int64_t fan_in) {
  const double bound = std::sqrt(3.0 / double(std::max<int64_t>(1, fan_in)));
  return {-bound, bound};
}

Ref dense(ProgramBuilder& b, Ref a) {
  const Shape& shape = b.shape(a);
  if (shape.ndim() < 2) throw Refused();
  const bool flatten = b.dice.chance(0.6);
  const int64_t width = flatten ? shape.product(1, shape.ndim()) : shape.back();
  if (width > 600) throw Refused();
  const int hidden = b.dice.pick({1, 3, 5, 8, 16, 33, 64, 130, 200});
  const bool no_bias = b.dice.chance(0.3);
  std::vector<Ref> inputs{a, b.variable(Role::parameter, {hidden, width}, weights(width))};
  if (!no_bias) inputs.push_back(b.variable(Role::parameter, {hidden}));
  return b.call(op::FullyConnected{.num_hidden = hidden, .no_bias = no_bias, .flatten = flatten}, inputs);
}

// Now and then one with the channels last.
std::optional<ConvLayout> some_layout(ProgramBuilder& b, int axes) {
  if (!b.dice.chance(0.3)) return std::nullopt;
  return axes == 1 ? ConvLayout::NWC : ConvLayout::NHWC;
}

Ref convolution(ProgramBuilder& b, Ref a) {
  const Shape shape = b.shape(a);
  const int axes = shape.ndim() - 2;
  if (axes < 1 || axes > 2) throw Refused();
  const bool wide = axes == 2 && b.dice.chance(0.08);  // as Winograd's algorithm takes it
  const std::optional<ConvLayout> layout = some_layout(b, axes);
  const bool last = is_channels_last(layout);
  const int64_t channels = wide ? 32 : shape[last ? axes + 1 : 1];
  if (wide) {
    const int64_t images = b.dice.between(1, 2);  // two: the gradient of the weights too
    a = b.to_shape(a, last ? Shape(images, 6, 6, 32) : Shape(images, 32, 6, 6));
    b.offer(a);
  }
  const int64_t k = wide ? 3 : b.dice.pick({1, 2, 3, 3}), stride = wide ? 1 : b.dice.pick({1, 1, 2});
  const int64_t pad = k == 3 ? 1 : b.dice.below(2);
  int groups = 1, filters = wide ? 32 : b.dice.pick({1, 2, 4, 8, 16});
  if (!wide && b.dice.chance(0.2)) groups = int(channels), filters = int(channels) * int(b.dice.between(1, 2));
  const bool no_bias = b.dice.chance(0.3);
  Shape kernel = Shape::filled(axes, k), weight(filters);
  if (!last) weight.push_back(channels / groups);
  for (int64_t x : kernel) weight.push_back(x);
  if (last) weight.push_back(channels / groups);
  std::vector<Ref> inputs{a, b.variable(Role::parameter, weight, weights(channels / groups * kernel.size()))};
  if (!no_bias) inputs.push_back(b.variable(Role::parameter, {filters}));
  return b.call(op::Convolution{.kernel = kernel,
                                .stride = Shape::filled(axes, stride),
                                .pad = Shape::filled(axes, pad),
                                .num_filter = filters,
                                .num_group = groups,
                                .no_bias = no_bias,
                                .layout = layout},
                inputs);
}

Ref normalisation(ProgramBuilder& b, Ref a) {
  const Shape& shape = b.shape(a);
  if (shape.ndim() < 2) throw Refused();
  const bool batch = b.dice.chance(0.6);
  const int axis = batch && b.dice.chance(0.7) ? 1 : shape.ndim() - 1;
  const Shape channels(shape[axis]);
  const Ref gamma = b.variable(Role::parameter, channels, {0.5, 1.5}), beta = b.variable(Role::parameter, channels);
  if (!batch) return b.call(op::LayerNorm{.eps = 1e-3}, {a, gamma, beta});
  if (shape.size() / shape[axis] < 2) throw Refused();
  const Ref mean = b.variable(Role::state, channels), var = b.variable(Role::state, channels, {0.5, 1.5});
  return b.call(op::BatchNorm{.eps = 1e-2, .momentum = 0.5, .fix_gamma = b.dice.chance(0.3), .axis = axis},
                {a, gamma, beta, mean, var});
}

Ref pooling(ProgramBuilder& b, Ref a) {
  const int axes = b.shape(a).ndim() - 2;
  if (axes < 1 || axes > 2) throw Refused();
  return b.call(op::Pooling{.kernel = Shape::filled(axes, b.dice.pick({2, 3})),
                            .pool_type = PoolType(b.dice.below(3)),
                            .global_pool = b.dice.chance(0.3),
                            .stride = Shape::filled(axes, b.dice.pick({1, 2})),
                            .layout = some_layout(b, axes)},
                {a});
}

Ref product(ProgramBuilder& b, Ref a) {
  const Shape& shape = b.shape(a);
  if (shape.ndim() == 3) {
    const Ref c = like_shape(b, shape);
    return b.calm(b.call(op::BatchDot{.transpose_b = true}, {a, c}));
  }
  if (shape.ndim() != 2) throw Refused();
  const int64_t width = b.dice.pick({2, 5, 16});
  return b.call(op::Dot{}, {a, b.variable(Role::parameter, {shape[1], width}, weights(shape[1]))});
}

}  // namespace

void movement(ProgramBuilder& b) {
  const Ref a = b.pick();
  const Shape shape = b.shape(a);
  const int n = shape.ndim(), first = b.keeps_rows ? 1 : 0;
  if (n <= first) throw Refused();
  const int axis = int(b.dice.between(first, n - 1));
  switch (b.dice.below(12)) {
    case 0: return b.offer(b.call(op::Flatten{}, {a}));
    case 1: return b.offer(b.call(op::Reshape{.shape = {0, -1}}, {a}));
    case 2: {
      Shape axes;
      for (int i = 0; i < n; ++i) axes.push_back(i);
      for (int i = n - 1; i > first; --i) std::swap(axes[i], axes[int(b.dice.between(first, i))]);
      return b.offer(b.call(op::Transpose{.axes = axes}, {a}));
    }
    case 3: return b.offer(b.call(op::SwapAxis{.dim1 = axis, .dim2 = int(b.dice.between(first, n - 1))}, {a}));
    case 4: {
      const int64_t begin = b.dice.below(shape[axis]);
      return b.offer(
          b.call(op::SliceAxis{.axis = axis, .begin = begin, .end = b.dice.between(begin + 1, shape[axis])}, {a}));
    }
    case 5: return join(b, a);
    case 6: return split(b, a);
    case 7: return b.offer(b.call(op::ExpandDims{.axis = int(b.dice.between(first, n))}, {a}));
    case 8: return b.offer(b.call(op::Reverse{.axis = Shape(axis)}, {a}));
    case 9: return b.offer(b.call(op::Repeat{.repeats = 2, .axis = axis}, {a}));
    case 10: {
      IntTuple width;
      for (int i = 0; i < 2 * n; ++i) width.push_back(i < 2 * n - 2 ? 0 : b.dice.below(3));
      return b.offer(b.call(op::Pad{.mode = PadMode::constant, .pad_width = width, .constant_value = 0.5}, {a}));
    }
    default: {
      OptionalShape begin, step;
      for (int i = 0; i < n; ++i)
        begin.push_back(std::nullopt), step.push_back(i == axis ? b.dice.pick({-1, 2, -2}) : 1);
      return b.offer(b.call(op::Slice{.begin = begin, .end = begin, .step = step}, {a}));
    }
  }
}

void layer(ProgramBuilder& b) {
  const Ref a = b.calm(b.pick());
  Ref y;
  switch (b.dice.below(13)) {
    case 0:
    case 1:
    case 2: y = dense(b, a); break;
    case 3:
    case 4:
    case 5: y = convolution(b, a); break;
    case 6:
    case 7: y = normalisation(b, a); break;
    case 8: y = pooling(b, a); break;
    case 9: y = b.call(op::Dropout{.p = b.dice.pick({0.25, 0.5})}, {a}); break;
    case 10: y = product(b, a); break;
    case 11: y = b.call(op::Softmax{.axis = -1}, {a}); break;
    default: y = b.call(op::LogSoftmax{.axis = -1}, {a}); break;
  }
  b.offer(y);
  if (b.dice.chance(0.35)) return motif_of(b, y);  // its memory may become that of what follows
  if (b.dice.chance(0.4)) b.offer(b.call(op::Activation{.act_type = ActivationType(b.dice.below(5))}, {y}));
}

}  // namespace kaon::test::steps
