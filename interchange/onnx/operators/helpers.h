// What the families of operators share: shapes of Symbols, and small compositions.
#pragma once

#include <vector>

#include "kaon/graph/symbol.h"
#include "kaon/interchange/onnx/convert/call.h"

namespace kaon::onnx::convert {

const Shape& shape_of(const Symbol& x);  // known, as all shapes are
DType dtype_of(const Symbol& x);
inline int rank_of(const Symbol& x) { return shape_of(x).ndim(); }

Shape as_shape(const std::vector<int64_t>& dims);
std::vector<int64_t> as_vector(const Shape& shape);
Shape consecutive(int first, int last);     // first, ..., last - 1
Shape from(const Shape& shape, int first);  // without the dimensions before
Shape without(const Shape& shape, int axis);
Shape with_dim(Shape shape, int axis, int64_t size);

Symbol matmul(const Symbol& a, const Symbol& b);  // NumPy's product of matrices
// The same with a layer's weight b, which is (in, out), given its transpose: an operator that plans know as a layer.
Symbol dense(const Symbol& a, const Symbol& b_transposed, const Symbol* bias = nullptr);
Symbol reshaped(const Symbol& x, const Shape& shape);  // the same where it has that shape
Symbol cast(const Symbol& x, DType dtype);             // the same where it has that dtype
Symbol broadcast(const Symbol& x, const Shape& shape);
Symbol transposed(const Symbol& x, const std::vector<int64_t>& axes);
Symbol slice_along(const Symbol& x, int axis, int64_t begin, int64_t end, int64_t step = 1);
Symbol concatenated(const std::vector<Symbol>& parts, int axis);
// Zeros, or another value, around: (before, after) of each axis.
Symbol padded(const Symbol& x, const std::vector<int64_t>& before, const std::vector<int64_t>& after, double value = 0);
Symbol scalar(double value, DType dtype);  // of shape ()
Value number(int64_t n);                   // a constant of shape ()
Value truth(bool b);
Symbol constant(const std::vector<int64_t>& values);
Symbol constant(const std::vector<double>& values, const Shape& shape, DType dtype = DType::float32);
Symbol full(const Shape& shape, double value, DType dtype);
// The channels' numbers (c,) in front of `axes_behind` axes of 1: to be broadcast over images.
Symbol per_channel(const Symbol& x, int rank, int axis = 1);

// What `fn` makes of x in float32, in x's dtype again, where it is of 16 bits or an integer; else what it makes of x.
Symbol in_float32(const Symbol& x, const std::function<Symbol(const Symbol&)>& fn);

// Which of two tensors of strings are equal, broadcast to `shape`.
std::vector<uint8_t> equal_strings(const Value& a, const Value& b, Shape& shape);

// The axes of an attribute (before version `moved`) or of input `i`, normalised; none given: empty.
std::vector<int64_t> axes_of(const Call& c, int i, int rank, int moved);

}  // namespace kaon::onnx::convert
