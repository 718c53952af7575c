// The strided copies of the operators that only move elements, for the kernels of all devices.
#pragma once

#include "kaon/ops/kernels/strided_copy.h"
#include "kaon/ops/math/dispatch.h"

namespace kaon {

namespace op {
struct Transpose;
struct SwapAxis;
struct Slice;
struct SliceAxis;
struct SliceLike;
struct SliceGrad;
struct SliceAssign;
struct SliceAssignScalar;
struct BroadcastTo;
struct BroadcastAxis;
struct BroadcastLike;
struct Repeat;
struct Tile;
struct Reverse;
}  // namespace op

}  // namespace kaon

namespace kaon::ops {

// Copies from input 0 to output 0.
StridedCopy copy_of(const op::Transpose& op, const KernelContext& c);
StridedCopy copy_of(const op::SwapAxis& op, const KernelContext& c);
StridedCopy copy_of(const op::Slice& op, const KernelContext& c);
StridedCopy copy_of(const op::SliceAxis& op, const KernelContext& c);
StridedCopy copy_of(const op::SliceLike& op, const KernelContext& c);
StridedCopy copy_of(const op::SliceGrad& op, const KernelContext& c);  // the rest is zero
StridedCopy copy_of(const op::BroadcastTo& op, const KernelContext& c);
StridedCopy copy_of(const op::BroadcastAxis& op, const KernelContext& c);
StridedCopy copy_of(const op::BroadcastLike& op, const KernelContext& c);
StridedCopy copy_of(const op::Repeat& op, const KernelContext& c);
StridedCopy copy_of(const op::Tile& op, const KernelContext& c);
StridedCopy copy_of(const op::Reverse& op, const KernelContext& c);

// Copies from input 1, or from one element, to a region of output 0, whose rest is input 0.
StridedCopy copy_of(const op::SliceAssign& op, const KernelContext& c);
StridedCopy copy_of(const op::SliceAssignScalar& op, const KernelContext& c);

// The permutations of transpose and SwapAxis, with axes counted from the front. Throw ShapeError.
Shape permutation_of(const op::Transpose& op, int ndim);
Shape permutation_of(const op::SwapAxis& op, int ndim);

// The shape with dimensions of 1 in front.
Shape padded_left(const Shape& shape, int ndim);

// The bits of a number in a dtype, lowest first.
inline uint64_t element_bits(double value, DType dtype) {
  uint64_t bits = 0;
  dispatch_all("fill", dtype, [&]<class T>() {
    const T element = T(static_cast<accumulate_t<T>>(value));
    std::memcpy(&bits, &element, sizeof element);
  });
  return bits;
}

}  // namespace kaon::ops
