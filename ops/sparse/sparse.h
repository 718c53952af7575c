// Sparse arrays: row_sparse and csr, as mx.nd.sparse has them.
#pragma once

#include <filesystem>
#include <iosfwd>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "kaon/engine/api.h"
#include "kaon/ops/init/init.h"
#include "kaon/ops/ndarray.h"
#include "kaon/ops/optim/optim.h"

namespace KAON_API kaon {

// Nothing here blocks unless it says so: what waits for values does so because the number of elements that its result
// stores depends on them, and throws TraceError while a block is traced. Contents of indices are checked where a kernel
// reads them; where checks().indices are made also when an array is constructed, which blocks then.
namespace sparse {

// Of an array of shape (n, ...) the rows at `indices`; the others are zero. data: (k, ...), indices: int64 (k,), each
// row at most once. A handle on two dense arrays, as asynchronous as these; a copy is the same array. Thread safety:
// distinct handles: safe, also on the same array. One shared handle: like shared_ptr.
class RowSparseNDArray {
 public:
  RowSparseNDArray() = default;
  // Throws ShapeError for parts that do not fit the shape, TypeError for indices that are not int64, DeviceError for
  // parts on two devices.
  RowSparseNDArray(NDArray data, NDArray indices, const Shape& shape);

  bool defined() const { return data_.defined(); }
  const Shape& shape() const { return shape_; }
  DType dtype() const { return data_.dtype(); }
  Device device() const { return data_.device(); }
  const NDArray& data() const { return data_; }        // the rows that are stored
  const NDArray& indices() const { return indices_; }  // where they belong, in any order

  NDArray todense() const;                              // gradients flow to data()
  RowSparseNDArray copy() const;                        // with memory of its own
  RowSparseNDArray as_in_context(Device device) const;  // throws DeviceError
  void wait_to_read() const;                            // blocks, and throws as NDArray's does

 private:
  NDArray data_, indices_;
  Shape shape_;
};

// A matrix (m, n) in compressed rows: row i has data[indptr[i]] to data[indptr[i + 1] - 1] in the columns that indices
// name there; the others are zero. Elements that are stored twice add up. data: (k,), indices: int64 (k,), indptr:
// int64 (m + 1,). A handle on three dense arrays; as RowSparseNDArray otherwise.
class CSRNDArray {
 public:
  CSRNDArray() = default;
  // Throws as RowSparseNDArray does.
  CSRNDArray(NDArray data, NDArray indices, NDArray indptr, const Shape& shape);

  bool defined() const { return data_.defined(); }
  const Shape& shape() const { return shape_; }
  DType dtype() const { return data_.dtype(); }
  Device device() const { return data_.device(); }
  const NDArray& data() const { return data_; }        // the elements that are stored, row by row
  const NDArray& indices() const { return indices_; }  // their columns
  const NDArray& indptr() const { return indptr_; }    // where each row begins, and the end

  NDArray todense() const;                        // gradients flow to data()
  CSRNDArray copy() const;                        // with memory of its own
  CSRNDArray as_in_context(Device device) const;  // throws DeviceError
  // Rows [begin, end), positions as NDArray::slice has them. Blocks until indptr is computed.
  CSRNDArray slice(int64_t begin, int64_t end) const;
  // Row `index` as a matrix (1, n). A negative index counts from the end. Throws IndexError. Blocks as slice().
  CSRNDArray operator[](int64_t index) const;
  void wait_to_read() const;  // blocks, and throws as NDArray's does

 private:
  NDArray data_, indices_, indptr_;
  Shape shape_;
};

// The rows, or the elements, of a dense array that are not zero; NaN is not. Blocks until the array is computed.
// Gradients flow to it. T: RowSparseNDArray, for at least one dimension, or CSRNDArray, for two. Throws ShapeError,
// TypeError for bool.
template <class T>
T cast_storage(const NDArray& dense);
template <>
KAON_API RowSparseNDArray cast_storage<RowSparseNDArray>(const NDArray& dense);
template <>
KAON_API CSRNDArray cast_storage<CSRNDArray>(const NDArray& dense);

// An array that stores nothing.
template <class T>
T zeros(const Shape& shape, const ArrayOptions& options = {});
template <>
KAON_API RowSparseNDArray zeros<RowSparseNDArray>(const Shape& shape, const ArrayOptions& options);
template <>
KAON_API CSRNDArray zeros<CSRNDArray>(const Shape& shape, const ArrayOptions& options);

struct DotOptions {
  bool transpose_a = false, transpose_b = false;
};

// The product of a csr matrix, or of its transpose, with a dense one, of one dtype; sums of 16-bit floats in float32.
// Each element is a sum in the order of what is stored. While recording, gradients flow to `b` alone: StateError at the
// backward where a's data needs one. Throws ShapeError, TypeError, DeviceError; IndexError when it runs, for contents
// of `a` that name no element. Result: NDArray, or RowSparseNDArray with the columns of `a` that have elements, for
// transpose_a alone (ValueError); that one blocks until the indices of `a` are computed.
template <class Result = NDArray>
Result dot(const CSRNDArray& a, const NDArray& b, const DotOptions& options = {});
template <>
KAON_API NDArray dot<NDArray>(const CSRNDArray& a, const NDArray& b, const DotOptions& options);
template <>
KAON_API RowSparseNDArray dot<RowSparseNDArray>(const CSRNDArray& a, const NDArray& b, const DotOptions& options);

// The rows of `a` at `indices` (k,), in their order; rows that `a` does not store are zero, and stored in the result,
// unless `a` stores none.
// Blocks until both index arrays are computed. Throws ShapeError, and IndexError for an index outside of [0, n).
KAON_API RowSparseNDArray retain(const RowSparseNDArray& a, const NDArray& indices);

// The sum, which stores what either stores, in ascending order. Blocks until the indices of both are computed. Throws
// ShapeError, TypeError, DeviceError.
KAON_API RowSparseNDArray elemwise_add(const RowSparseNDArray& a, const RowSparseNDArray& b);
KAON_API CSRNDArray elemwise_add(const CSRNDArray& a, const CSRNDArray& b);

// Rows of values (k, ...) for the row indices (k,) as an array of `shape`: rows with one index are added up, in order,
// and stored in ascending order. Blocks until the indices are computed. Throws as the constructor, and IndexError for
// an index outside of [0, shape[0]).
KAON_API RowSparseNDArray sum_rows(const NDArray& values, const NDArray& indices, const Shape& shape);

KAON_API RowSparseNDArray operator*(const RowSparseNDArray& a, double factor);
KAON_API CSRNDArray operator*(const CSRNDArray& a, double factor);

// The sum of squares of a matrix (m, n) along axis 0, (n,), or 1, (m,); keepdims: (1, n), (m, 1). Dense. Throws
// ShapeError, and ValueError for another axis.
KAON_API NDArray square_sum(const RowSparseNDArray& a, int axis, bool keepdims = false);

// How many elements are stored, int64: (1,), or of each column (axis 0) or row (axis 1). Throws ValueError.
KAON_API NDArray getnnz(const CSRNDArray& a, std::optional<int> axis = {});

// x where the condition is not zero, else y: dense arrays of the condition's shape.
KAON_API NDArray where(const CSRNDArray& condition, const NDArray& x, const NDArray& y);

// --- Updates of the rows of a dense weight, and of its states, that the gradient stores: weight decay and momentum
// reach these rows alone, whose indices must differ. sgd and adam with lazy_update = false change all rows, as with a
// dense gradient. The rules are those of the operators of these names in nd. Throw as these do, IndexError when they
// run.
KAON_API void sgd_update(const NDArray& weight, const RowSparseNDArray& grad, const op::SGDUpdate& op);
KAON_API void sgd_mom_update(const NDArray& weight, const RowSparseNDArray& grad, const NDArray& mom,
                             const op::SGDMomUpdate& op);
KAON_API void adam_update(const NDArray& weight, const RowSparseNDArray& grad, const NDArray& mean, const NDArray& var,
                          const op::AdamUpdate& op);
KAON_API void ftrl_update(const NDArray& weight, const RowSparseNDArray& grad, const NDArray& z, const NDArray& n,
                          const op::FtrlUpdate& op);
KAON_API void adagrad_update(const NDArray& weight, const RowSparseNDArray& grad, const NDArray& history,
                             const op::SparseAdagradUpdate& op);
KAON_API void group_adagrad_update(const NDArray& weight, const RowSparseNDArray& grad, const NDArray& history,
                                   const op::GroupAdagradUpdate& op);

// --- files

using AnyArray = std::variant<NDArray, RowSparseNDArray, CSRNDArray>;
using NamedAnyArrays = std::vector<std::pair<std::string, AnyArray>>;

// As nd_file::save and nd_file::load, for arrays of every storage, in version 2 of the format. load throws IoError also
// for sparse arrays whose parts do not fit together.
KAON_API void save(const std::filesystem::path& file, const NamedAnyArrays& arrays);
KAON_API NamedAnyArrays load(const std::filesystem::path& file);

// "<CSRNDArray 2x3 @cpu(0)>".
KAON_API std::string to_string(const RowSparseNDArray& array);
KAON_API std::string to_string(const CSRNDArray& array);
KAON_API std::ostream& operator<<(std::ostream& out, const RowSparseNDArray& array);
KAON_API std::ostream& operator<<(std::ostream& out, const CSRNDArray& array);

}  // namespace sparse
}  // namespace kaon
