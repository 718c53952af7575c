// NumpyFunctions<A>: functions of arrays that users of NumPy and PyTorch look for. A part of the list in functions.h.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "kaon/engine/api.h"
#include "kaon/ops/array_functions.h"

namespace KAON_API kaon {

namespace ops {
KAON_API NDArray nonzero(const NDArray& data, const std::source_location& site);
KAON_API std::vector<NDArray> unique(const NDArray& data, const std::source_location& site);
KAON_API NDArray delete_at(const NDArray& data, const NDArray& positions, const std::optional<int>& axis,
                           const std::source_location& site);
KAON_API NDArray bincount(const NDArray& data, const NDArray* weights, int64_t minlength,
                          const std::source_location& site);
}  // namespace ops

template <class A>
class NumpyFunctions : public ArrayFunctions<A> {
  using Base = ArrayFunctions<A>;

 public:
  using Base::call;
  using Site = std::source_location;
  // clang-format off
  // --- what kind of number: bool, of every dtype
  A isnan(const In<A>& x) const { return call(op::IsNan{}, x); }  // NaN
  A isinf(const In<A>& x) const { return call(op::IsInf{}, x); }  // infinite
  A isfinite(const In<A>& x) const { return call(op::IsFinite{}, x); }  // neither
  A isposinf(const In<A>& x) const { return call(op::IsPosInf{}, x); }  // infinity
  A isneginf(const In<A>& x) const { return call(op::IsNegInf{}, x); }  // minus infinity
  A nan_to_num(const In<A>& x, const op::NanToNum& op = {}) const { return call(op, x); }  // NaN and infinities replaced
  // --- arithmetic of arrays of any two dtypes, cast to result_type first
  A _npi_add(const In<A>& lhs, const In<A>& rhs) const { return call(op::PromotingAdd{}, lhs, rhs); }
  A _npi_subtract(const In<A>& lhs, const In<A>& rhs) const { return call(op::PromotingSubtract{}, lhs, rhs); }
  A _npi_multiply(const In<A>& lhs, const In<A>& rhs) const { return call(op::PromotingMultiply{}, lhs, rhs); }
  A _npi_mod(const In<A>& lhs, const In<A>& rhs) const { return call(op::PromotingMod{}, lhs, rhs); }
  A _npi_power(const In<A>& lhs, const In<A>& rhs) const { return call(op::PromotingPower{}, lhs, rhs); }
  // --- comparisons as NumPy has them: bool
  A _npi_equal(const In<A>& lhs, const In<A>& rhs) const { return call(op::CompareEqual{}, lhs, rhs); }
  A _npi_not_equal(const In<A>& lhs, const In<A>& rhs) const { return call(op::CompareNotEqual{}, lhs, rhs); }
  A _npi_greater(const In<A>& lhs, const In<A>& rhs) const { return call(op::CompareGreater{}, lhs, rhs); }
  A _npi_greater_equal(const In<A>& lhs, const In<A>& rhs) const { return call(op::CompareGreaterEqual{}, lhs, rhs); }
  A _npi_less(const In<A>& lhs, const In<A>& rhs) const { return call(op::CompareLess{}, lhs, rhs); }
  A _npi_less_equal(const In<A>& lhs, const In<A>& rhs) const { return call(op::CompareLessEqual{}, lhs, rhs); }
  A _npi_equal_scalar(const In<A>& x, const op::CompareEqualScalar& op) const { return call(op, x); }
  A _npi_not_equal_scalar(const In<A>& x, const op::CompareNotEqualScalar& op) const { return call(op, x); }
  A _npi_greater_scalar(const In<A>& x, const op::CompareGreaterScalar& op) const { return call(op, x); }
  A _npi_greater_equal_scalar(const In<A>& x, const op::CompareGreaterEqualScalar& op) const { return call(op, x); }
  A _npi_less_scalar(const In<A>& x, const op::CompareLessScalar& op) const { return call(op, x); }
  A _npi_less_equal_scalar(const In<A>& x, const op::CompareLessEqualScalar& op) const { return call(op, x); }
  A _npi_logical_not(const In<A>& x) const { return call(op::NumpyLogicalNot{}, x); }
  A _np_reshape(const In<A>& a, const op::NumpyReshape& op) const { return call(op, a); }
  A _npx_reshape(const In<A>& a, const op::NpxReshape& op) const { return call(op, a); }  // codes -1 to -6
  // --- bits of integers and bool, two arrays that broadcast; shifts of integers
  A bitwise_and(const In<A>& lhs, const In<A>& rhs) const { return call(op::BitwiseAnd{}, lhs, rhs); }  // lhs & rhs
  A bitwise_or(const In<A>& lhs, const In<A>& rhs) const { return call(op::BitwiseOr{}, lhs, rhs); }  // lhs | rhs
  A bitwise_xor(const In<A>& lhs, const In<A>& rhs) const { return call(op::BitwiseXor{}, lhs, rhs); }  // lhs ^ rhs
  A bitwise_not(const In<A>& x) const { return call(op::BitwiseNot{}, x); }  // ~x
  A left_shift(const In<A>& lhs, const In<A>& rhs) const { return call(op::LeftShift{}, lhs, rhs); }  // lhs << rhs
  A right_shift(const In<A>& lhs, const In<A>& rhs) const { return call(op::RightShift{}, lhs, rhs); }  // lhs >> rhs
  A lcm(const In<A>& lhs, const In<A>& rhs) const { return call(op::Lcm{}, lhs, rhs); }  // least common multiple
  A _npi_lcm_scalar(const In<A>& x, const op::LcmScalar& op) const { return call(op, x); }
  A _npi_bitwise_and_scalar(const In<A>& x, const op::BitwiseAndScalar& op) const { return call(op, x); }
  A _npi_bitwise_or_scalar(const In<A>& x, const op::BitwiseOrScalar& op) const { return call(op, x); }
  A _npi_bitwise_xor_scalar(const In<A>& x, const op::BitwiseXorScalar& op) const { return call(op, x); }
  // --- choices that broadcast, and with numbers
  A broadcast_where(const In<A>& condition, const In<A>& x, const In<A>& y) const { return call(op::BroadcastWhere{}, condition, x, y); }
  using Base::where;  // the one of equal shapes
  A where(const In<A>& condition, const In<A>& x, double y) const { return call(op::WhereScalarY{.scalar = y}, condition, x); }
  A where(const In<A>& condition, double x, const In<A>& y) const { return call(op::WhereScalarX{.scalar = x}, condition, y); }
  A where(const In<A>& condition, double x, double y) const { return call(op::WhereScalars{.x = x, .y = y}, condition); }
  // --- two arrays of reals that broadcast; fmod, fmax and fmin of integers too
  A arctan2(const In<A>& x1, const In<A>& x2) const { return call(op::Arctan2{}, x1, x2); }  // the angle of the point (x2, x1)
  A copysign(const In<A>& x1, const In<A>& x2) const { return call(op::Copysign{}, x1, x2); }  // |x1| with the sign of x2
  A fmod(const In<A>& x1, const In<A>& x2) const { return call(op::Fmod{}, x1, x2); }  // remainder of x1 / x2, with the sign of x1
  A fmax(const In<A>& x1, const In<A>& x2) const { return call(op::Fmax{}, x1, x2); }  // the larger number; NaN where both are
  A fmin(const In<A>& x1, const In<A>& x2) const { return call(op::Fmin{}, x1, x2); }  // the smaller one
  A ldexp(const In<A>& x1, const In<A>& x2) const { return call(op::Ldexp{}, x1, x2); }  // x1 2^x2
  A true_divide(const In<A>& lhs, const In<A>& rhs) const { return call(op::TrueDivide{}, lhs, rhs); }  // lhs / rhs of any dtypes; integers in float32
  A _npi_true_divide_scalar(const In<A>& x, const op::TrueDivideScalar& op) const { return call(op, x); }
  A _npi_rtrue_divide_scalar(const In<A>& x, const op::RTrueDivideScalar& op) const { return call(op, x); }
  A floor_divide(const In<A>& lhs, const In<A>& rhs) const { return call(op::FloorDivide{}, lhs, rhs); }  // floor(lhs / rhs); integers too
  A _npi_arctan2_scalar(const In<A>& x, const op::Arctan2Scalar& op) const { return call(op, x); }
  A _npi_rarctan2_scalar(const In<A>& x, const op::RArctan2Scalar& op) const { return call(op, x); }
  A _npi_copysign_scalar(const In<A>& x, const op::CopysignScalar& op) const { return call(op, x); }
  A _npi_rcopysign_scalar(const In<A>& x, const op::RCopysignScalar& op) const { return call(op, x); }
  A _npi_ldexp_scalar(const In<A>& x, const op::LdexpScalar& op) const { return call(op, x); }
  A _npi_rldexp_scalar(const In<A>& x, const op::RLdexpScalar& op) const { return call(op, x); }
  // --- products, the largest and the smallest element up to each one
  A cumprod(const In<A>& a, const op::CumProd& op = {}) const { return call(op, a); }  // products, as cumsum
  std::vector<A> cummax(const In<A>& x, const op::CumMax& op = {}) const { return call_many(2, op, x); }  // the largest so far, its index
  std::vector<A> cummin(const In<A>& x, const op::CumMin& op = {}) const { return call_many(2, op, x); }
  A _product_scan(const In<A>& x, const op::ProductScan& op) const { return call(op, x); }
  A _backward_product_scan(const In<A>& head, const In<A>& x, const op::ProductScanGrad& op) const { return call(op, head, x); }
  A _extreme_scan(const In<A>& x, const op::ExtremeScan& op) const { return call(op, x); }
  // --- statistics, over op.axis or all elements, of every dtype; logsumexp floating
  A any(const In<A>& x, const op::Any& op = {}) const { return call(op, x); }  // is one not 0: bool
  A any(const In<A>& x, ops::Axes auto axes, bool keepdims = false) const { return call(op::Any{.axis = Shape(axes), .keepdims = keepdims}, x); }
  A all(const In<A>& x, const op::All& op = {}) const { return call(op, x); }  // are all: bool
  A all(const In<A>& x, ops::Axes auto axes, bool keepdims = false) const { return call(op::All{.axis = Shape(axes), .keepdims = keepdims}, x); }
  A var(const In<A>& a, const op::Var& op = {}) const { return call(op, a); }  // mean of (a - mean)^2
  A var(const In<A>& a, ops::Axes auto axes, bool keepdims = false) const { return call(op::Var{.axis = Shape(axes), .keepdims = keepdims}, a); }
  A std(const In<A>& a, const op::Std& op = {}) const { return call(op, a); }  // its root
  A std(const In<A>& a, ops::Axes auto axes, bool keepdims = false) const { return call(op::Std{.axis = Shape(axes), .keepdims = keepdims}, a); }
  A logsumexp(const In<A>& x, const op::LogSumExp& op = {}) const { return call(op, x); }  // log(sum(e^x))
  A quantile(const In<A>& a, double q, op::Quantile op = {}) const { return op.q = q, call(op, a); }  // q in [0, 1]
  A quantile(const In<A>& a, const In<A>& q, op::Quantile op = {}) const { return op.q.reset(), call(op, a, q); }
  A percentile(const In<A>& a, double q, op::Percentile op = {}) const { return op.q_scalar = q, call(op, a); }  // q in [0, 100]
  A percentile(const In<A>& a, const In<A>& q, op::Percentile op = {}) const { return op.q_scalar.reset(), call(op, a, q); }
  A median(const In<A>& a, const op::Median& op = {}) const { return call(op, a); }
  A median(const In<A>& a, ops::Axes auto axes, bool keepdims = false) const { return call(op::Median{.axis = Shape(axes), .keepdims = keepdims}, a); }
  std::vector<A> histogram(const In<A>& data, int bins, double low, double high) const {  // counts, edges
    return call_many(2, op::Histogram{.bin_cnt = bins, .range = ops::Interval{low, high}}, data);
  }
  std::vector<A> histogram(const In<A>& data, const In<A>& bins) const { return call_many(2, op::Histogram{}, data, bins); }  // of these edges
  A isclose(const In<A>& a, const In<A>& b, const op::IsClose& op = {}) const { return call(op, a, b); }  // |a - b| <= atol + rtol |b|: bool
  A allclose(const In<A>& a, const In<A>& b, const op::AllClose& op = {}) const { return call(op, a, b); }  // 1 if all are
  A array_equal(const In<A>& a, const In<A>& b) const { return all(call(op::BroadcastEqual{}, a, b)); }  // one shape, as they broadcast: bool (1,)
  // as NumPy: sums of bool in int64, means of integers in float32, argmax in int64; from op.initial
  A _np_sum(const In<A>& a, const op::NumpySum& op = {}) const { return call(op, a); }
  A _npi_mean(const In<A>& a, const op::NumpyMean& op = {}) const { return call(op, a); }
  A _np_prod(const In<A>& a, const op::NumpyProd& op = {}) const { return call(op, a); }
  A _np_max(const In<A>& a, const op::NumpyMax& op = {}) const { return call(op, a); }
  A _np_min(const In<A>& a, const op::NumpyMin& op = {}) const { return call(op, a); }
  A _npi_argmax(const In<A>& x, const op::NumpyArgMax& op = {}) const { return call(op, x); }
  A _npi_argmin(const In<A>& x, const op::NumpyArgMin& op = {}) const { return call(op, x); }
  // --- results whose size depends on values: these wait for them. TraceError in a trace and for Symbols, as boolean_mask

  // The positions of elements other than 0, int64 (number, dimensions); nd.split cuts them into one array for each axis.
  A nonzero(const In<A>& x) const {
    if constexpr (std::same_as<A, NDArray>) return ops::nonzero(x.array(), x.site());
    else ops::refuse_in_trace("nonzero");
  }
  // The different elements of the flattened array in order, NaN last and once; and, int64, where each is first, which of
  // them each element of x is, in x's shape, and how often each is there. A gradient goes to the first ones.
  std::vector<A> unique(const In<A>& x) const {
    if constexpr (std::same_as<A, NDArray>) return ops::unique(x.array(), x.site());
    else ops::refuse_in_trace("unique");
  }
  // How often each of 0, 1, ... is among the 1-D whole numbers x, int64, or the sums of their weights; `minlength`
  // numbers at least. ValueError for a negative one.
  A bincount(const In<A>& x, int64_t minlength = 0) const {
    if constexpr (std::same_as<A, NDArray>) return ops::bincount(x.array(), nullptr, minlength, x.site());
    else ops::refuse_in_trace("bincount");
  }
  A bincount(const In<A>& x, const In<A>& weights, int64_t minlength = 0) const {
    if constexpr (std::same_as<A, NDArray>) return ops::bincount(x.array(), &weights.array(), minlength, x.site());
    else ops::refuse_in_trace("bincount");
  }
  // --- elements found, gathered and scattered along an axis, with an index for each; other arrangements
  A searchsorted(const In<A>& sorted, const In<A>& values, const op::SearchSorted& op = {}) const { return call(op, sorted, values); }  // where values belong, int64
  A take_along_axis(const In<A>& data, const In<A>& indices, const op::TakeAlongAxis& op = {}) const { return call(op, data, indices); }
  A put_along_axis(const In<A>& data, const In<A>& indices, const In<A>& values, const op::PutAlongAxis& op = {}) const { return call(op, data, indices, values); }
  A index_add(const In<A>& data, const In<A>& index, const In<A>& values, const op::IndexAdd& op = {}) const { return call(op, data, index, values); }
  A tril(const In<A>& x, int k = 0) const { return call(op::Tril{.k = k}, x); }  // zeros above diagonal k
  A triu(const In<A>& x, int k = 0) const { return call(op::Triu{.k = k}, x); }  // zeros below it
  A roll(const In<A>& x, const Shape& shift, const std::optional<Shape>& axis = {}) const {  // moved along axes; no axis: flattened
    return call(op::Roll{.shift = shift, .axis = axis}, x);
  }
  A rot90(const In<A>& x, const op::Rot90& op = {}) const { return call(op, x); }  // turned by k right angles
  A diff(const In<A>& a, const op::Diff& op = {}) const { return call(op, a); }  // differences of neighbours
  A _difference(const In<A>& x, const op::Difference& op) const { return call(op, x); }
  A moveaxis(const In<A>& a, const Shape& source, const Shape& destination) const {
    return call(op::MoveAxis{.source = source, .destination = destination}, a);
  }
  std::vector<A> meshgrid(std::span<const A> arrays, op::Meshgrid op = {}, const std::source_location& site = std::source_location::current()) const {
    return op.num_args = int(arrays.size()), call_list_many(op.num_args, op, arrays, site);
  }
  // --- arrays stacked, split, padded and edited
  A column_stack(std::span<const A> arrays, const Site& site = Site::current()) const { return call_array_list(op::ColumnStack{.num_args = int(arrays.size())}, arrays, site); }  // along axis 1, vectors as columns
  A hstack(std::span<const A> arrays, const Site& site = Site::current()) const { return call_array_list(op::HStack{.num_args = int(arrays.size())}, arrays, site); }  // along axis 1; vectors along axis 0
  A vstack(std::span<const A> arrays, const Site& site = Site::current()) const { return call_array_list(op::VStack{.num_args = int(arrays.size())}, arrays, site); }  // along axis 0, vectors as rows
  A dstack(std::span<const A> arrays, const Site& site = Site::current()) const { return call_array_list(op::DStack{.num_args = int(arrays.size())}, arrays, site); }  // along axis 2
  std::vector<A> atleast_1d(std::span<const A> arrays, const Site& site = Site::current()) const { return call_list_many(int(arrays.size()), op::AtLeast1d{.num_args = int(arrays.size())}, arrays, site); }  // with so many dimensions at least
  std::vector<A> atleast_2d(std::span<const A> arrays, const Site& site = Site::current()) const { return call_list_many(int(arrays.size()), op::AtLeast2d{.num_args = int(arrays.size())}, arrays, site); }  // axes of 1 before theirs
  std::vector<A> atleast_3d(std::span<const A> arrays, const Site& site = Site::current()) const { return call_list_many(int(arrays.size()), op::AtLeast3d{.num_args = int(arrays.size())}, arrays, site); }  // a matrix (m, n) becomes (m, n, 1)
  std::vector<A> hsplit(const In<A>& x, const op::HSplit& op) const { return call_many(op.num_outputs(), op, x); }  // along axis 1
  std::vector<A> dsplit(const In<A>& x, const op::DSplit& op) const { return call_many(op.num_outputs(), op, x); }  // along axis 2
  A _npi_pad(const In<A>& x, const op::NumpyPad& op) const { return call(op, x); }  // any number of axes
  A _npi_boolean_mask_assign_scalar(const In<A>& data, const In<A>& mask, const op::MaskAssignScalar& op) const { return call(op, data, mask); }
  A _npi_insert_scalar(const In<A>& arr, const op::InsertScalar& op) const { return call(op, arr); }
  A _npi_insert_scalar(const In<A>& arr, const In<A>& values, const op::InsertScalar& op) const { return call(op, arr, values); }
  A _npi_insert_slice(const In<A>& arr, const op::InsertSlice& op) const { return call(op, arr); }
  A _npi_insert_slice(const In<A>& arr, const In<A>& values, const op::InsertSlice& op) const { return call(op, arr, values); }
  A _npi_insert_tensor(const In<A>& arr, const In<A>& obj, const op::InsertTensor& op) const { return call(op, arr, obj); }
  A _npi_insert_tensor(const In<A>& arr, const In<A>& values, const In<A>& obj, const op::InsertTensor& op) const { return call(op, arr, values, obj); }
  A _npi_delete(const In<A>& arr, const op::Delete& op) const { return call(op, arr); }  // without an index or a slice
  // Without the slices at the whole numbers obj, of which some may be equal: waits for them, and is refused in a trace.
  A _npi_delete(const In<A>& arr, const In<A>& obj, const std::optional<int>& axis) const {
    if constexpr (std::same_as<A, NDArray>) return ops::delete_at(arr.array(), obj.array(), axis, arr.site());
    else ops::refuse_in_trace("_npi_delete");
  }
  // --- diagonals, without elements outside of a matrix
  A _np_diag(const In<A>& x, const op::NumpyDiag& op = {}) const { return call(op, x); }
  A diagflat(const In<A>& x, int k = 0) const { return call(op::DiagFlat{.k = k}, x); }
  A diagonal(const In<A>& x, const op::Diagonal& op = {}) const { return call(op, x); }
  A trace(const In<A>& x, const op::Trace& op = {}) const { return call(op, x); }  // the sum of a diagonal
  A diag_indices_from(const In<A>& x) const { return call(op::DiagIndicesFrom{}, x); }  // int64 (dimensions, n)
  A full_like(const In<A>& x, double fill_value, op::FullLike op = {}) const { return op.fill_value = fill_value, call(op, x); }
  // --- numbers rounded, averaged, looked up; linear algebra
  A around(const In<A>& x, int decimals = 0) const { return call(op::Around{.decimals = decimals}, x); }  // halves to even
  A polyval(const In<A>& p, const In<A>& x) const { return call(op::Polyval{}, p, x); }  // p[0] the highest coefficient
  A interp(const In<A>& x, const In<A>& xp, const In<A>& fp, const op::Interp& op = {}) const { return call(op, x, xp, fp); }
  A isin(const In<A>& element, const In<A>& test_elements, bool invert = false) const { return call(op::IsIn{.invert = invert}, element, test_elements); }
  A ediff1d(const In<A>& x, const op::EDiff1d& op = {}) const { return call(op, x); }
  A ediff1d(const In<A>& x, const In<A>& ends, const op::EDiff1d& op) const { return call(op, x, ends); }
  A ediff1d(const In<A>& x, const In<A>& to_begin, const In<A>& to_end, op::EDiff1d op = {}) const { return op.to_begin_arr_given = op.to_end_arr_given = true, call(op, x, to_begin, to_end); }
  A average(const In<A>& a, op::Average op = {}) const { return op.weighted = op.returned = false, call(op, a); }
  A average(const In<A>& a, const In<A>& weights, op::Average op = {}) const { return op.returned = false, call(op, a, weights); }
  A nanmean(const In<A>& x, const op::NanMean& op = {}) const { return call(op, x); }
  A nanmax(const In<A>& x, const op::NanMax& op = {}) const { return call(op, x); }
  A nanmin(const In<A>& x, const op::NanMin& op = {}) const { return call(op, x); }
  A cov(const In<A>& m, const op::Cov& op = {}) const { return call(op, m); }  // covariances of rows
  A _np_dot(const In<A>& a, const In<A>& b) const { return call(op::NumpyDot{}, a, b); }
  A cross(const In<A>& a, const In<A>& b, int axis = -1) const { return call(op::Cross{.axis = axis}, a, b); }
  A _npi_norm(const In<A>& x, const op::NumpyNorm& op = {}) const { return call(op, x); }
  A linalg_norm(const In<A>& x, const op::LinalgNorm& op = {}) const { return call(op, x); }  // of every order
  A _npi_pinv(const In<A>& a, const In<A>& rcond, const op::Pinv& op = {}) const { return call(op, a, rcond); }
  A linalg_pinv(const In<A>& a, double rcond = 1e-15) const { return call(op::PinvScalarRcond{.rcond = rcond}, a); }  // the pseudo-inverse; singular values up to rcond times the largest count as 0
  A linalg_tensorinv(const In<A>& a, int ind = 2) const { return call(op::TensorInv{.ind = ind}, a); }
  A linalg_tensorsolve(const In<A>& a, const In<A>& b, const Shape& a_axes = {}) const { return call(op::TensorSolve{.a_axes = a_axes}, a, b); }
  std::vector<A> linalg_eigh(const In<A>& a, const op::Eigh& op = {}) const { return call_many(2, op, a); }  // values, vectors in columns
  A linalg_eigvalsh(const In<A>& a, const op::Eigvalsh& op = {}) const { return call(op, a); }
  std::vector<A> linalg_eig(const In<A>& a) const { return call_many(2, op::Eig{}, a); }  // on the CPU; ValueError unless real
  A linalg_eigvals(const In<A>& a) const { return call(op::Eigvals{}, a); }
  // clang-format on

 protected:
  using Base::call_array_list;
  using Base::call_list;
  using Base::call_list_many;
  using Base::call_many;
};

}  // namespace kaon
