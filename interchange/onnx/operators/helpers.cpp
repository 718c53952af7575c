#include "kaon/interchange/onnx/operators/helpers.h"

#include <algorithm>

#include "kaon/graph/ir/symbol_node.h"

namespace kaon::onnx::convert {

const Shape& shape_of(const Symbol& x) { return x.entry().node->outputs[x.entry().output].shape; }
DType dtype_of(const Symbol& x) { return x.entry().node->outputs[x.entry().output].dtype; }

Shape as_shape(const std::vector<int64_t>& dims) { return Shape(std::span<const int64_t>(dims)); }
std::vector<int64_t> as_vector(const Shape& shape) { return {shape.begin(), shape.end()}; }

Shape consecutive(int first, int last) {
  Shape s;
  for (int i = first; i < last; ++i) s.push_back(i);
  return s;
}

Shape from(const Shape& shape, int first) {
  Shape s;
  for (int i = first; i < shape.ndim(); ++i) s.push_back(shape[i]);
  return s;
}

Shape without(const Shape& shape, int axis) {
  Shape s;
  for (int i = 0; i < shape.ndim(); ++i) {
    if (i != axis) s.push_back(shape[i]);
  }
  return s;
}

Shape with_dim(Shape shape, int axis, int64_t size) {
  shape[axis] = size;
  return shape;
}

Symbol reshaped(const Symbol& x, const Shape& shape) {
  if (shape_of(x) == shape) return x;
  // MXNet's operator where it can say the shape: 0 and no dimensions are codes there
  if (shape.ndim() == 0 || shape.size() == 0) return sym._reshape_to(x, {.shape = shape});
  if (shape_of(x).size() != shape.size()) return sym.reshape(x, shape);  // which says so
  // its codes say the first dimension, so that one program may do for any batch
  return sym.reshape(x, with_dim(shape, 0, rank_of(x) > 0 && shape_of(x)[0] == shape[0] ? 0 : -1));
}

Symbol cast(const Symbol& x, DType dtype) { return dtype_of(x) == dtype ? x : sym.cast(x, dtype); }

Symbol broadcast(const Symbol& x, const Shape& shape) {
  if (shape_of(x) == shape) return x;
  Shape aligned;
  for (int i = rank_of(x); i < shape.ndim(); ++i) aligned.push_back(1);
  for (int64_t d : shape_of(x)) aligned.push_back(d);
  const Symbol y = reshaped(x, aligned);
  if (shape.size() == 0) {
    // broadcast_to takes 0 for "as it is": an empty array of the shape
    Shape axes, sizes;
    for (int i = 0; i < shape.ndim(); ++i) {
      if (aligned[i] == shape[i]) continue;
      axes.push_back(i);
      sizes.push_back(shape[i]);
    }
    return axes.empty() ? y : reshaped(full(shape, 0, dtype_of(x)), shape);
  }
  return shape_of(y) == shape ? y : sym.broadcast_to(y, shape);
}

Symbol transposed(const Symbol& x, const std::vector<int64_t>& axes) {
  bool moves = false;
  for (size_t i = 0; i < axes.size(); ++i) moves |= axes[i] != int64_t(i);
  return moves ? sym.transpose(x, as_shape(axes)) : x;
}

Symbol slice_along(const Symbol& x, int axis, int64_t begin, int64_t end, int64_t step) {
  if (step == 1 && begin == 0 && end == shape_of(x)[axis]) return x;
  OptionalShape b, e, s;
  for (int i = 0; i < axis; ++i) b.push_back(std::nullopt), e.push_back(std::nullopt), s.push_back(std::nullopt);
  b.push_back(begin), e.push_back(end), s.push_back(step);
  return sym.slice(x, b, e, s);
}

Symbol concatenated(const std::vector<Symbol>& parts, int axis) {
  return parts.size() == 1 ? parts[0] : sym.concat(std::span<const Symbol>(parts), {.dim = axis});
}

Symbol padded(const Symbol& x, const std::vector<int64_t>& before, const std::vector<int64_t>& after, double value) {
  bool pads = false;
  ops::IntTuple widths;
  for (size_t i = 0; i < before.size(); ++i) {
    pads |= before[i] != 0 || after[i] != 0;
    widths.push_back(before[i]);
    widths.push_back(after[i]);
  }
  return pads ? sym._npi_pad(x, {.pad_width = {widths}, .constant_value = value}) : x;
}

Symbol scalar(double value, DType dtype) { return Symbol::constant(NDArray::from(&value, 1, Shape(), dtype)); }

Value number(int64_t n) { return Value::constant(NDArray::from(&n, 1, Shape(), DType::int64)); }
Value truth(bool b) { return Value::constant(NDArray::from(&b, 1, Shape(), DType::boolean)); }

Symbol constant(const std::vector<int64_t>& values) {
  return Symbol::constant(NDArray::from(values.data(), values.size(), Shape(int64_t(values.size())), DType::int64));
}

Symbol constant(const std::vector<double>& values, const Shape& shape, DType dtype) {
  return Symbol::constant(NDArray::from(values.data(), values.size(), shape, dtype));
}

Symbol full(const Shape& shape, double value, DType dtype) {
  if (shape.size() == 0) return Symbol::constant(NDArray::empty(shape, dtype));
  const Symbol one = constant({value}, Shape::filled(shape.ndim(), 1), dtype);
  return shape.size() == 1 ? one : sym.broadcast_to(one, shape);
}

Symbol per_channel(const Symbol& x, int rank, int axis) {
  Shape s = Shape::filled(rank, 1);
  s[axis] = shape_of(x).size();
  return reshaped(x, s);
}

Symbol in_float32(const Symbol& x, const std::function<Symbol(const Symbol&)>& fn) {
  const DType dtype = dtype_of(x);
  if (dtype == DType::float32 || dtype == DType::float64) return fn(x);
  return cast(fn(cast(x, DType::float32)), dtype);
}

std::vector<int64_t> axes_of(const Call& c, int i, int rank, int moved) {
  std::vector<int64_t> axes;
  if (c.opset() < moved) axes = c.integers("axes");
  else if (c.has(i)) axes = c.integers(i);
  for (int64_t& a : axes) a = c.axis(a, rank);
  return axes;
}

}  // namespace kaon::onnx::convert
