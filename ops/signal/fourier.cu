// The steps of Fourier transforms as kernels, over many rows at a time.
#include <algorithm>

#include "kaon/ops/cuda/launch.cuh"
#include "kaon/ops/math/dispatch.h"
#include "kaon/ops/signal/kernels/fourier.h"
#include "kaon/ops/signal/signal.h"

namespace kaon {

using namespace ops;
namespace {

constexpr int64_t most_numbers = int64_t(1) << 24;  // of the rows that are transformed together

template <class T>
struct MakeRoots {
  int64_t size;
  Complex<T>* roots;
  __device__ void operator()(int64_t i) const { roots[i] = root_of_unity<T>(i, size); }
};
template <class T>
struct MakeChirps {
  int64_t n;
  Complex<T>* chirps;
  __device__ void operator()(int64_t i) const { chirps[i] = chirp<T>(i, n); }
};
template <class T>
struct MakeFilter {
  int64_t n, padded;
  Complex<T>* filter;
  __device__ void operator()(int64_t i) const { filter[i] = chirp_filter<T>(i, n, padded); }
};

// A step of each row.
template <class T>
struct Step {
  int64_t size, stride;
  const Complex<T>*roots, *x;
  Complex<T>* y;
  __device__ void operator()(int64_t i) const {
    const int64_t row = i / (size / 2);
    fourier_pair(i % (size / 2), size, stride, roots, x + row * size, y + row * size);
  }
};

template <class T>
struct Multiply {
  int64_t padded;
  const Complex<T>* filter;
  Complex<T>* z;
  __device__ void operator()(int64_t i) const {
    const Complex<T> product = z[i] * filter[i % padded];
    z[i] = {product.re, -product.im};
  }
};

// Rows of real numbers, or of pairs that are conjugated, into rows of `padded`.
template <class X, class T, bool Pairs>
struct Load {
  int64_t n, padded;
  const X* x;
  const Complex<T>* chirps;
  Complex<T>* z;
  __device__ void operator()(int64_t i) const {
    const int64_t row = i / padded, j = i % padded;
    if (j >= n) {
      z[i] = {T(0), T(0)};
      return;
    }
    Complex<T> value;
    if constexpr (Pairs) value = {T(x[2 * (row * n + j)]), -T(x[2 * (row * n + j) + 1])};
    else value = {T(x[row * n + j]), T(0)};
    z[i] = chirps ? value * chirps[j] : value;
  }
};
template <class X, class T, bool Pairs>
struct Store {
  int64_t n, padded;
  const Complex<T>*chirps, *z;
  X* y;
  __device__ void operator()(int64_t i) const {
    const int64_t row = i / n, k = i % n;
    Complex<T> value = z[row * padded + k];
    if (chirps) value = Complex<T>{value.re, -value.im} * chirps[k];
    if constexpr (Pairs) y[2 * i] = X(value.re), y[2 * i + 1] = X(value.im);
    else y[i] = X(value.re);
  }
};

// Transforms `rows` rows in x. The result is in the array that it returns, x or y.
template <class T>
Complex<T>* transformed(KernelContext& c, int64_t rows, int64_t size, const Complex<T>* roots, Complex<T>* x,
                        Complex<T>* y) {
  for (int64_t stride = 1; stride < size; stride *= 2) {
    cuda::for_each(c, rows * (size / 2), Step<T>{size, stride, roots, x, y});
    std::swap(x, y);
  }
  return x;
}

// `rows` rows of n numbers. From pairs: their conjugates are transformed, and the real parts kept.
template <class X, bool FromPairs>
void transform_rows(KernelContext& c, int64_t rows, int64_t n) {
  using T = accumulate_t<X>;
  const FourierSizes sizes(n);
  const int64_t padded = sizes.padded, together = std::clamp<int64_t>(most_numbers / padded, 1, rows);
  const auto array = [&](int64_t count) {
    return static_cast<Complex<T>*>(c.run.workspace(size_t(count) * sizeof(Complex<T>)));
  };
  Complex<T>*const roots = array(std::max<int64_t>(1, padded / 2)), *const a = array(together * padded),
                   *const b = array(together * padded);
  cuda::for_each(c, padded / 2, MakeRoots<T>{padded, roots});
  Complex<T>*chirps = nullptr, *filter = nullptr;
  if (!sizes.is_direct()) {
    chirps = array(n);
    Complex<T>*const first = array(padded), *const second = array(padded);
    cuda::for_each(c, n, MakeChirps<T>{n, chirps});
    cuda::for_each(c, padded, MakeFilter<T>{n, padded, first});
    filter = transformed(c, 1, padded, roots, first, second);
  }
  const X* const x = c.in(0).as<X>();
  X* const y = c.out().as<X>();
  for (int64_t row = 0; row < rows; row += together) {
    const int64_t count = std::min(together, rows - row), at = row * n;
    cuda::for_each(c, count * padded, Load<X, T, FromPairs>{n, padded, x + (FromPairs ? 2 * at : at), chirps, a});
    Complex<T>* z = transformed(c, count, padded, roots, a, b);
    if (filter) {
      cuda::for_each(c, count * padded, Multiply<T>{padded, filter, z});
      z = transformed(c, count, padded, roots, z, z == a ? b : a);
    }
    cuda::for_each(c, count * n, Store<X, T, !FromPairs>{n, padded, chirps, z, y + (FromPairs ? at : 2 * at)});
  }
}

}  // namespace

void run_cuda(const op::Fft&, KernelContext& c) {
  if (c.in(0).size() == 0) return;
  const int64_t n = c.in(0).shape.back();
  dispatch_float("_contrib_fft", c.out().dtype, [&]<class X>() { transform_rows<X, false>(c, c.in(0).size() / n, n); });
}

void run_cuda(const op::Ifft&, KernelContext& c) {
  if (c.out().size() == 0) return;
  const int64_t n = c.out().shape.back();
  dispatch_float("_contrib_ifft", c.out().dtype, [&]<class X>() { transform_rows<X, true>(c, c.out().size() / n, n); });
}

}  // namespace kaon
