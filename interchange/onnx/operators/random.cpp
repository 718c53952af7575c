// Random numbers: Kaon's own, drawn anew in each call. An attribute `seed` is not read, as no other library's generator
// gives the numbers of the model's author either.
#include <cmath>

#include "kaon/interchange/onnx/convert/families.h"
#include "kaon/interchange/onnx/operators/helpers.h"

namespace kaon::onnx::convert {

namespace {

// The attribute, else the input's element type, else float32.
DType dtype_for(const Call& c, bool like) {
  const DType otherwise = like && is_floating(c.dtype()) ? c.dtype() : DType::float32;
  if (!c.has("dtype")) return otherwise;
  const auto dtype = format::dtype_of(ElementType(c.integer("dtype", 1)));
  if (!dtype) c.fail_supported("dtype");
  return *dtype;
}

template <bool Like>
Shape shape_for(const Call& c) {
  return Like ? c.shape() : as_shape(c.integers("shape"));
}

template <bool Like>
void normal(Call& c) {
  const DType dtype = dtype_for(c, Like);
  const Shape s = shape_for<Like>(c);
  const Symbol y =
      sym.random_normal(s.ndim() == 0 ? Shape(1) : s, {.loc = c.real("mean", 0), .scale = c.real("scale", 1)});
  c.keep();
  c.set(cast(reshaped(y, s), dtype));
}

template <bool Like>
void uniform(Call& c) {
  const DType dtype = dtype_for(c, Like);
  const Shape s = shape_for<Like>(c);
  const Symbol y =
      sym.random_uniform(s.ndim() == 0 ? Shape(1) : s, {.low = c.real("low", 0), .high = c.real("high", 1)});
  c.keep();
  c.set(cast(reshaped(y, s), dtype));
}

void bernoulli(Call& c) {
  auto type = ElementType(c.integer("dtype", int64_t(c.type())));
  const auto dtype = format::dtype_of(type);
  if (!dtype) c.fail_supported("dtype");
  const Symbol p = cast(c.x(), DType::float32);
  const Symbol u = sym.random_uniform_like(p);
  c.keep();
  c.set(Value::of(cast(u < p, *dtype), type));
}

// Logarithms of probabilities (n, classes) to classes (n, sample_size)
void multinomial(Call& c) {
  const auto dtype = format::dtype_of(ElementType(c.integer("dtype", 6)));
  if (!dtype) c.fail_supported("dtype");
  const int64_t n = c.integer("sample_size", 1);
  const Symbol y = sym.sample_multinomial(sym.softmax(cast(c.x(), DType::float32), {.axis = 1}), {.shape = Shape(n)});
  c.keep();
  c.set(cast(reshaped(y, Shape(c.shape()[0], n)), *dtype));
}

constexpr Row random_table[] = {
    {"RandomNormal", normal<false>},      {"RandomNormalLike", normal<true>}, {"RandomUniform", uniform<false>},
    {"RandomUniformLike", uniform<true>}, {"Bernoulli", bernoulli},           {"Multinomial", multinomial},
};

}  // namespace

std::span<const Row> random_rows() { return random_table; }

}  // namespace kaon::onnx::convert
