// Shapes, and values that the model or a shape says: all of these are constants of the conversion.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "kaon/interchange/onnx/convert/families.h"
#include "kaon/interchange/onnx/operators/helpers.h"

namespace kaon::onnx::convert {

namespace {

using format::Attribute;

Value integers_value(const std::vector<int64_t>& values) {
  return Value::constant(NDArray::from(values.data(), values.size(), Shape(int64_t(values.size())), DType::int64));
}

Value scalar_value(int64_t value) { return Value::constant(NDArray::from(&value, 1, Shape(), DType::int64)); }

void shape(Call& c) {
  const Value& x = c.input(0);
  const int rank = x.shape().ndim();
  const auto bound = [&](int64_t at) { return std::clamp<int64_t>(at < 0 ? at + rank : at, 0, rank); };
  const int64_t begin = bound(c.integer("start", 0)), end = bound(c.integer("end", rank));
  std::vector<int64_t> dims;
  for (int64_t i = begin; i < end; ++i) dims.push_back(x.shape()[int(i)]);
  c.set(integers_value(dims));
}

void constant_node(Call& c) {
  const Attribute* a = c.node().attributes.empty() ? nullptr : &c.node().attributes[0];
  for (const Attribute& each : c.node().attributes) {
    if (each.name.starts_with("value") || each.name == "sparse_value") a = &each;
  }
  if (!a) c.fail("has no value");
  if (a->name == "sparse_value" && a->sparse.size() == 2) {
    return c.set(Value::constant(format::dense({a->sparse[0], a->sparse[1], a->sparse_dims}), a->sparse[0].type));
  }
  switch (a->type) {
    case Attribute::Type::tensor: {
      const format::Tensor& t = a->tensors.at(0);
      if (t.type == ElementType::string) return c.set(Value::text(t.strings, t.shape()));
      return c.set(Value::constant(t.values(), t.type));
    }
    case Attribute::Type::integer: return c.set(scalar_value(a->i));
    case Attribute::Type::integers: return c.set(integers_value(a->integers));
    case Attribute::Type::float32: return c.set(Value::constant(NDArray::from(&a->f, 1, Shape())));
    case Attribute::Type::floats:
      return c.set(
          Value::constant(NDArray::from(a->floats.data(), a->floats.size(), Shape(int64_t(a->floats.size())))));
    case Attribute::Type::string: return c.set(Value::text({a->s}, Shape()));
    case Attribute::Type::strings: return c.set(Value::text(a->strings, Shape(int64_t(a->strings.size()))));
    default: c.fail_supported("the attribute " + a->name);
  }
}

void constant_of_shape(Call& c) {
  const std::vector<int64_t> dims = c.integers(0);
  for (int64_t d : dims) {
    if (d < 0) c.fail(fmt::format("the shape has the dimension {}", d));
  }
  const Attribute* a = c.node().find("value");
  if (!a || a->tensors.empty()) return c.set(Value::of(full(as_shape(dims), 0, DType::float32)));
  const NDArray value = a->tensors[0].values();
  const Shape s = as_shape(dims);
  const Symbol one = Symbol::constant(value);
  if (s.size() == 0) return c.set(Value::of(full(s, 0, value.dtype()), a->tensors[0].type));
  c.set(Value::of(broadcast(reshaped(one, Shape::filled(s.ndim(), 1)), s), a->tensors[0].type));
}

void reshape(Call& c) {
  const std::vector<int64_t> given = c.opset() < 5 ? c.integers("shape") : c.integers(1);
  const bool zero_is_zero = c.integer("allowzero", 0) != 0;
  std::vector<int64_t> dims = given;
  int64_t known = 1, left = 1;  // of the new dimensions and of the old ones, without those that are copied
  int unknown = -1;
  std::vector<bool> is_copied(size_t(c.rank()));
  for (size_t i = 0; i < dims.size(); ++i) {
    if (dims[i] == 0 && !zero_is_zero) {
      if (int(i) >= c.rank())
        c.fail(fmt::format("dimension {} is copied from an input of shape {}", i, c.shape().str()));
      dims[i] = c.shape()[int(i)];
      is_copied[i] = true;
    } else if (dims[i] == -1) {
      if (unknown >= 0) c.fail("two dimensions are -1");
      unknown = int(i);
    } else {
      known *= dims[i];
    }
  }
  for (int i = 0; i < c.rank(); ++i) left *= is_copied[size_t(i)] ? 1 : c.shape()[i];
  if (unknown >= 0 && zero_is_zero && known == 0) {
    c.fail(fmt::format("with allowzero, dimensions of 0 leave that of -1 open: {}", fmt::join(given, ", ")));
  }
  if (unknown >= 0) dims[size_t(unknown)] = known == 0 ? 0 : left / known;
  c.set_like(c.input(0), reshaped(c.x(), as_shape(dims)));
}

void flatten(Call& c) {
  const int64_t axis = c.integer("axis", 1);
  const int at = int(axis < 0 ? axis + c.rank() : axis);
  if (at < 0 || at > c.rank()) c.fail(fmt::format("axis {} of {} dimensions", axis, c.rank()));
  c.set_like(c.input(0), reshaped(c.x(), Shape(c.shape().product(0, at), c.shape().product(at, c.rank()))));
}

void squeeze(Call& c) {
  std::vector<int64_t> axes = axes_of(c, 1, c.rank(), 13);
  const bool all = c.opset() < 13 ? !c.has("axes") : !c.has(1);
  Shape s;
  for (int i = 0; i < c.rank(); ++i) {
    const bool named = all ? c.shape()[i] == 1 : std::find(axes.begin(), axes.end(), i) != axes.end();
    if (named && c.shape()[i] != 1) c.fail(fmt::format("axis {} of shape {} is not 1", i, c.shape().str()));
    if (!named) s.push_back(c.shape()[i]);
  }
  c.set_like(c.input(0), reshaped(c.x(), s));
}

void unsqueeze(Call& c) {
  std::vector<int64_t> axes = c.opset() < 13 ? c.integers("axes") : c.integers(1);
  const int rank = c.rank() + int(axes.size());
  for (int64_t& a : axes) a = c.axis(a, rank);
  Shape s;
  int from = 0;
  for (int i = 0; i < rank; ++i) {
    const bool added = std::find(axes.begin(), axes.end(), i) != axes.end();
    if (!added && from == c.rank()) c.fail("an axis is named twice");
    s.push_back(added ? 1 : c.shape()[from++]);
  }
  c.set_like(c.input(0), reshaped(c.x(), s));
}

void expand(Call& c) {
  const Shape shape = as_shape(c.integers(1));
  c.set_like(c.input(0), broadcast(c.x(), ops::broadcast_shapes(c.shape(), shape, "Expand")));
}

void range(Call& c) {
  const double start = c.number(0), limit = c.number(1), delta = c.number(2);
  if (delta == 0) c.fail("delta is 0");
  const DType dtype = c.dtype(0);
  const double steps = std::ceil((limit - start) / delta);
  if (!(steps < 2147483648.0)) c.fail(fmt::format("{} elements are too many", steps));
  std::vector<double> values;
  for (int64_t i = 0; i < int64_t(steps); ++i) values.push_back(start + double(i) * delta);
  c.set(Value::constant(NDArray::from(values.data(), values.size(), Shape(int64_t(values.size())), dtype)));
}

void eye_like(Call& c) {
  if (c.rank() != 2) c.fail("input 0 must be a matrix, got shape " + c.shape().str());
  const auto type = ElementType(c.integer("dtype", int64_t(c.type())));
  const auto dtype = format::dtype_of(type);
  if (!dtype) c.fail_supported("dtype");
  const int64_t k = c.integer("k", 0), rows = c.shape()[0], columns = c.shape()[1];
  std::vector<double> values(size_t(rows * columns));
  for (int64_t i = 0; i < rows; ++i) {
    if (i + k >= 0 && i + k < columns) values[size_t(i * columns + i + k)] = 1;
  }
  c.set(Value::constant(NDArray::from(values.data(), values.size(), c.shape(), *dtype), type));
}

constexpr Row shape_table[] = {
    {"Shape", shape},
    {"Size", [](Call& c) { c.set(scalar_value(c.shape().size())); }},
    {"Constant", constant_node},
    {"ConstantOfShape", constant_of_shape},
    {"Reshape", reshape},
    {"Flatten", flatten},
    {"Squeeze", squeeze},
    {"Unsqueeze", unsqueeze},
    {"Expand", expand},
    {"Range", range},
    {"EyeLike", eye_like},
};

}  // namespace

std::span<const Row> shape_rows() { return shape_table; }

}  // namespace kaon::onnx::convert
