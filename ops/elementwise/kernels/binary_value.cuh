// Functions of two numbers that are chosen while the kernel runs: cheap ones, which share a kernel that is bound by
// memory anyway.
#pragma once

#include "kaon/ops/math/scalar_math.h"

namespace kaon::cuda {

template <class T>
__device__ T cheap_value(BinaryKind kind, T a, T b) {
  using B = BinaryKind;
  switch (kind) {
    case B::sub: return binary_value<B::sub, T>(a, b);
    case B::mul: return binary_value<B::mul, T>(a, b);
    case B::maximum: return binary_value<B::maximum, T>(a, b);
    case B::minimum: return binary_value<B::minimum, T>(a, b);
    default: return binary_value<B::add, T>(a, b);
  }
}

template <class T>
__device__ bool logical_value(BinaryKind kind, T a, T b) {
  using B = BinaryKind;
  switch (kind) {
    case B::not_equal: return binary_value<B::not_equal, T>(a, b) != T(0);
    case B::greater: return binary_value<B::greater, T>(a, b) != T(0);
    case B::greater_equal: return binary_value<B::greater_equal, T>(a, b) != T(0);
    case B::lesser: return binary_value<B::lesser, T>(a, b) != T(0);
    case B::lesser_equal: return binary_value<B::lesser_equal, T>(a, b) != T(0);
    case B::logical_and: return binary_value<B::logical_and, T>(a, b) != T(0);
    case B::logical_or: return binary_value<B::logical_or, T>(a, b) != T(0);
    case B::logical_xor: return binary_value<B::logical_xor, T>(a, b) != T(0);
    default: return binary_value<B::equal, T>(a, b) != T(0);
  }
}

}  // namespace kaon::cuda
