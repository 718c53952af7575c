// Arrays and Eigen's matrices, for programs that use Eigen 3: Kaon itself is built without it.
#pragma once

#include <Eigen/Core>
#include <memory>
#include <type_traits>
#include <utility>

#include "kaon/engine/api.h"
#include "kaon/ops/ndarray.h"

namespace KAON_API kaon {
namespace eigen {

template <class T>
using RowMajor = Eigen::Matrix<std::remove_const_t<T>, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
// A matrix over the memory of an array. T is as data<T>() takes it: `const` only reads.
template <class T>
using Map = Eigen::Map<std::conditional_t<std::is_const_v<T>, const RowMajor<T>, RowMajor<T>>>;

// Blocks. The elements of a matrix, or of a 1-D array as one column, without a copy; used and throws as data<T>() does.
// Throws ShapeError for other numbers of dimensions.
template <class T>
Map<T> map(const NDArray& array) {
  const Shape& s = array.shape();
  if (s.ndim() != 1 && s.ndim() != 2) {
    throw ShapeError("[eigen] a matrix has 1 or 2 dimensions, got an array of shape " + s.str());
  }
  return Map<T>(array.data<T>().data(), s[0], s.ndim() == 2 ? s[1] : 1);
}

template <class T>
Map<T> map(const NDArray&&) = delete;  // the memory would go with the array: give it a name

// The values of a matrix or of an expression, copied, with its element type: of shape (rows, columns), a column vector
// (rows,).
template <class Derived>
NDArray array(const Eigen::DenseBase<Derived>& values) {
  using T = typename Derived::Scalar;
  static_assert(dtype_of<T> != DType(-1), "elements of this type have no dtype");
  const Shape shape = Derived::ColsAtCompileTime == 1 ? Shape(int64_t(values.rows()))
                                                      : Shape(int64_t(values.rows()), int64_t(values.cols()));
  auto matrix = std::make_unique<RowMajor<T>>(values);
  T* elements = matrix->data();
  return NDArray::from_blob(elements, shape, [owner = std::shared_ptr<RowMajor<T>>(std::move(matrix))] {});
}

}  // namespace eigen
}  // namespace kaon
