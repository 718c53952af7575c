// Activations.
#include "kaon/interchange/onnx/convert/families.h"
#include "kaon/interchange/onnx/operators/helpers.h"

namespace kaon::onnx::convert {

namespace {

// alpha x where x < 0, alpha being broadcast to x from the right.
void prelu(Call& c) {
  Shape slope = c.shape(1);
  // before version 7: a number for each channel
  if (c.opset() < 7 && slope.ndim() == 1 && slope[0] != 1 && c.rank() > 2) {
    slope = Shape(c.shape(1)[0]);
    while (slope.ndim() < c.rank() - 1) slope.push_back(1);
  }
  const Symbol x = c.x(), alpha = reshaped(c.x(1), slope);
  bool by_channel = c.rank() >= 2 && is_floating(c.dtype());
  for (int i = 0; by_channel && i < slope.ndim(); ++i) {
    const int axis = c.rank() - slope.ndim() + i;
    by_channel = axis >= 0 && (slope[i] == 1 || (axis == 1 && slope[i] == c.shape()[1]));
  }
  if (by_channel) return c.set(sym.LeakyReLU(x, reshaped(alpha, Shape(slope.size())), {.act_type = LeakyType::prelu}));
  c.set(sym.broadcast_where(x < 0, sym.broadcast_mul(x, alpha), x));
}

void elu(Call& c) { c.set(sym.LeakyReLU(c.x(), {.act_type = LeakyType::elu, .slope = c.real("alpha", 1)})); }

void selu(Call& c) {
  const double alpha = c.real("alpha", 1.67326319217681884765625), gamma = c.real("gamma", 1.05070102214813232421875);
  c.set(sym.LeakyReLU(c.x(), {.act_type = LeakyType::elu, .slope = alpha}) * gamma);
}

void hard_sigmoid(Call& c) {
  c.set(sym.hard_sigmoid(c.x(), {.alpha = double(float(c.real("alpha", 0.2f))), .beta = c.real("beta", 0.5)}));
}

// x Phi(x), or its approximation by tanh (Hendrycks and Gimpel 2016).
void gelu(Call& c) {
  const std::string approximate = c.text("approximate", "none");
  if (approximate == "none") return c.set(sym.gelu(c.x()));
  if (approximate != "tanh") c.fail("approximate must be none or tanh, got '" + approximate + "'");
  const Symbol x = c.x();
  const Symbol inner = (x + x * sym.square(x) * 0.044715) * 0.7978845608028654;
  c.set(x * (sym.tanh(inner) + 1) * 0.5);
}

void shrink(Call& c) {
  const double bias = c.real("bias", 0), lambd = c.real("lambd", 0.5);
  const DType dtype = c.dtype();
  const Symbol x = cast(c.x(), is_floating(dtype) ? dtype : DType::float32);
  const Symbol below = x<-lambd, above = x> lambd;
  const Symbol y = (x + bias) * below + (x - bias) * above;
  c.set(cast(y, dtype));
}

void swish(Call& c) {
  const double alpha = c.real("alpha", 1);
  c.set(alpha == 1 ? sym.silu(c.x()) : c.x() * sym.sigmoid(c.x() * alpha));
}

// swish(a) b, a and b the halves of x along an axis, or two inputs.
void swiglu(Call& c) {
  Symbol a = c.x(0), b;
  if (c.has(1)) {
    b = c.x(1);
  } else {
    const int axis = c.axis("axis", -1, c.rank());
    const int64_t half = c.shape()[axis] / 2;
    b = slice_along(a, axis, half, 2 * half);
    a = slice_along(a, axis, 0, half);
  }
  const double alpha = c.real("alpha", 1);
  c.set((alpha == 1 ? sym.silu(a) : a * sym.sigmoid(a * alpha)) * b);
}

void relu(Call& c) {
  Value y = Value::of(sym.relu(c.x()), c.type());
  if (const auto& layer = c.input(0).layer) {
    IntegerLayer own = *layer;
    own.relu = true;
    y.layer = std::make_shared<const IntegerLayer>(std::move(own));
  }
  c.set(y);
}

constexpr Row activation_table[] = {
    {"Relu", relu},
    {"Sigmoid", [](Call& c) { c.set(sym.sigmoid(c.x())); }},
    {"Tanh", [](Call& c) { c.set(sym.tanh(c.x())); }},
    {"Softplus", [](Call& c) { c.set(sym.softrelu(c.x())); }},
    {"Softsign", [](Call& c) { c.set(sym.softsign(c.x())); }},
    {"HardSwish", [](Call& c) { c.set(sym.hard_swish(c.x())); }},
    {"HardSigmoid", hard_sigmoid},
    {"Mish", [](Call& c) { c.set(sym.mish(c.x())); }},
    {"Celu", [](Call& c) { c.set(sym.celu(c.x(), {.alpha = c.real("alpha", 1)})); }},
    {"Elu", elu},
    {"Selu", selu},
    {"LeakyRelu",
     [](Call& c) { c.set(sym.LeakyReLU(c.x(), {.act_type = LeakyType::leaky, .slope = c.real("alpha", 0.01f)})); }},
    {"PRelu", prelu},
    {"ThresholdedRelu", [](Call& c) { c.set(sym.threshold(c.x(), {.threshold = c.real("alpha", 1), .value = 0})); }},
    {"Gelu", gelu},
    {"Shrink", shrink},
    {"Swish", swish},
    {"SwiGLU", swiglu},
};

}  // namespace

std::span<const Row> activation_rows() { return activation_table; }

}  // namespace kaon::onnx::convert
