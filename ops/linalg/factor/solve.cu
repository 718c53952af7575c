// Cholesky's and L U factors on CUDA, and what is solved by them. Right for every size, and fast for batches of small
// matrices.
#include "kaon/ops/linalg/factor/factor.h"
#include "kaon/ops/linalg/factor/kernels/batch_cuda.cuh"

namespace kaon {

using namespace ops;
namespace {

struct Sizes {
  int64_t batch, rows, columns;
  explicit Sizes(const Shape& s) : batch(s.product(0, s.ndim() - 2)), rows(s[s.ndim() - 2]), columns(s.back()) {}
  int64_t size() const { return rows * columns; }
};

template <class Kernel>
void in_float_or_double(DType dtype, Kernel&& kernel) {
  if (dtype == DType::float64) {
    kernel.template operator()<double>();
  } else {
    kernel.template operator()<float>();
  }
}

template <class T>
__global__ void __launch_bounds__(cuda::block) cholesky_kernel(T* all, int64_t batch, int64_t n) {
  for (int64_t b = blockIdx.x; b < batch; b += gridDim.x) {
    T* const a = all + b * n * n;
    for (int64_t j = 0; j < n; ++j) {
      const int64_t rest = n - j - 1;
      if (threadIdx.x == 0) {
        T& pivot = a[j * n + j];
        pivot = pivot > 0 || pivot != pivot ? ::sqrt(pivot) : cuda::not_a_number<T>();
      }
      __syncthreads();
      cuda::each_in_block(rest, [&](int64_t i) { a[(j + 1 + i) * n + j] /= a[j * n + j]; });
      cuda::each_in_block(rest * rest, [&](int64_t k) {
        const int64_t row = j + 1 + k / rest, column = j + 1 + k % rest;
        if (column <= row) a[row * n + column] -= a[row * n + j] * a[column * n + j];
      });
    }
    const bool failed = n > 0 && a[n * n - 1] != a[n * n - 1];
    __syncthreads();
    cuda::each_in_block(n * n, [&](int64_t k) {
      if (k % n > k / n) {
        a[k] = 0;
      } else if (failed) {
        a[k] = cuda::not_a_number<T>();
      }
    });
  }
}

// L U in place, with the row that each row was exchanged with.
template <class T>
__global__ void __launch_bounds__(cuda::block) lu_kernel(T* all, int* all_pivots, int64_t batch, int64_t n) {
  for (int64_t b = blockIdx.x; b < batch; b += gridDim.x) {
    T* const a = all + b * n * n;
    int* const pivots = all_pivots + b * n;
    for (int64_t j = 0; j < n; ++j) {
      const int64_t rest = n - j - 1;
      if (threadIdx.x == 0) {
        int64_t most = j;
        for (int64_t i = j + 1; i < n; ++i) {
          if (::fabs(a[i * n + j]) > ::fabs(a[most * n + j])) most = i;
        }
        pivots[j] = int(most);
      }
      __syncthreads();
      const int64_t other = pivots[j];
      cuda::each_in_block(other == j ? 0 : n, [&](int64_t k) {
        const T kept = a[j * n + k];
        a[j * n + k] = a[other * n + k];
        a[other * n + k] = kept;
      });
      const T pivot = a[j * n + j];
      cuda::each_in_block(pivot == 0 ? 0 : rest, [&](int64_t i) { a[(j + 1 + i) * n + j] /= pivot; });
      cuda::each_in_block(rest * rest, [&](int64_t k) {
        const int64_t row = j + 1 + k / rest, column = j + 1 + k % rest;
        a[row * n + column] -= a[row * n + j] * a[j * n + column];
      });
    }
  }
}

// A vector of a right side: element k at x[k * step].
template <class T>
struct Vector {
  T* x;
  int64_t step;
  __device__ T& operator[](int64_t k) const { return x[k * step]; }
};

// One vector of a triangular system, in place. E(i, k) is the element of the matrix that is solved by.
template <class T, class Element>
__device__ void solve_triangle(Vector<T> x, int64_t n, bool lower, bool unit, const Element& e) {
  for (int64_t step = 0; step < n; ++step) {
    const int64_t i = lower ? step : n - 1 - step;
    T sum = x[i];
    for (int64_t k = lower ? 0 : i + 1; k < (lower ? i : n); ++k) sum -= e(i, k) * x[k];
    x[i] = unit ? sum : sum / e(i, i);
  }
}

template <class T>
struct SolveTriangle {
  const T* a;
  T* all;
  int64_t n, m;  // m vectors for each matrix
  bool transpose, right, lower;
  T alpha;
  __device__ void operator()(int64_t index) const {
    const int64_t b = index / m, vector = index % m;
    const T* const matrix = a + b * n * n;
    T* const x = all + b * n * m;
    const Vector<T> v = right ? Vector<T>{x + vector * n, 1} : Vector<T>{x + vector, m};
    for (int64_t k = 0; k < n; ++k) v[k] *= alpha;
    const bool turned = transpose != right;
    solve_triangle(v, n, lower != turned, false,
                   [&](int64_t i, int64_t k) { return turned ? matrix[k * n + i] : matrix[i * n + k]; });
  }
};

template <class T>
struct SolveByLu {
  const T* lu;
  const int* pivots;
  T* all;
  int64_t n, m;
  __device__ void operator()(int64_t index) const {
    const int64_t b = index / m, vector = index % m;
    const T* const matrix = lu + b * n * n;
    const Vector<T> x{all + b * n * m + vector, m};
    bool singular = false;
    for (int64_t k = 0; k < n; ++k) {
      singular = singular || matrix[k * n + k] == 0;
      const int64_t other = pivots[b * n + k];
      const T kept = x[k];
      x[k] = x[other];
      x[other] = kept;
    }
    const auto element = [&](int64_t i, int64_t k) { return matrix[i * n + k]; };
    solve_triangle(x, n, true, true, element);
    solve_triangle(x, n, false, false, element);
    for (int64_t k = 0; k < n && singular; ++k) x[k] = cuda::not_a_number<T>();
  }
};

template <class T>
struct Identity {
  T* all;
  int64_t n;
  __device__ void operator()(int64_t k) const { all[k] = k / n % n == k % n ? T(1) : T(0); }
};

// Column j of L^-1.
template <class T>
struct InvertColumn {
  const T* l;
  T* inverse;
  int64_t n;
  __device__ void operator()(int64_t index) const {
    const int64_t b = index / n, j = index % n;
    const T* const matrix = l + b * n * n;
    const Vector<T> x{inverse + b * n * n + j, n};
    for (int64_t i = 0; i < n; ++i) x[i] = i == j ? T(1) : T(0);
    solve_triangle(x, n, true, false, [&](int64_t i, int64_t k) { return matrix[i * n + k]; });
  }
};

// (L^-1)^T L^-1.
template <class T>
struct InverseSquare {
  const T* inverse;
  T* out;
  int64_t n;
  __device__ void operator()(int64_t index) const {
    const int64_t b = index / (n * n), i = index / n % n, j = index % n;
    const T* const w = inverse + b * n * n;
    T sum = 0;
    for (int64_t k = i > j ? i : j; k < n; ++k) sum += w[k * n + i] * w[k * n + j];
    out[index] = sum;
  }
};

template <class T>
struct TransposeEach {
  const T* from;
  T* to;
  int64_t n;
  __device__ void operator()(int64_t k) const { to[k / (n * n) * n * n + k % n * n + k / n % n] = from[k]; }
};

// The transposes of square matrices.
template <class T>
T* transposed(KernelContext& c, const Sizes& s, const T* from) {
  T* const to = cuda::scratch<T>(c, s.batch * s.size());
  cuda::for_each(c, s.batch * s.size(), TransposeEach<T>{from, to, s.rows});
  return to;
}

template <class T>
struct Determinant {
  const T* lu;
  const int* pivots;
  int64_t n;
  T *value, *sign, *log;  // each may be null
  __device__ void operator()(int64_t b) const {
    double product = 1, its_sign = 1, sum = 0;
    for (int64_t k = 0; k < n; ++k) {
      const double factor = double(lu[(b * n + k) * n + k]) * (pivots[b * n + k] == k ? 1 : -1);
      product *= factor;
      its_sign = factor > 0 ? its_sign : factor < 0 ? -its_sign : factor;
      sum += ::log(::fabs(factor));
    }
    if (value) value[b] = T(product);
    if (sign) sign[b] = T(its_sign);
    if (log) log[b] = T(sum);
  }
};

template <class T>
struct DeviceFactors {
  DeviceFactors(KernelContext& c, const Sizes& s)
      : lu(cuda::scratch<T>(c, s.batch * s.size())), pivots(cuda::scratch<int>(c, s.batch * s.rows)) {
    cuda::copy_bytes(c, c.in(0).data, lu, c.in(0).bytes());
    cuda::launch_batch(c, s.size() == 0 ? 0 : s.batch, lu_kernel<T>, lu, pivots, s.batch, s.rows);
  }
  T* lu;
  int* pivots;
};

template <class T>
void solve_all(KernelContext& c, const Sizes& s, int64_t columns) {
  const DeviceFactors<T> f(c, s);
  cuda::for_each(c, s.batch * columns, SolveByLu<T>{f.lu, f.pivots, c.out().as<T>(), s.rows, columns});
}

}  // namespace

void run_cuda(const op::LinalgPotrf& op, KernelContext& c) {
  in_float_or_double(c.out().dtype, [&]<class T>() {
    const Sizes s(c.out().shape);
    T* l = c.out().as<T>();
    if (op.lower) {
      cuda::copy_bytes(c, c.in(0).data, l, c.out().bytes());
    } else {
      l = transposed(c, s, c.in(0).as<const T>());
    }
    cuda::launch_batch(c, s.size() == 0 ? 0 : s.batch, cholesky_kernel<T>, l, s.batch, s.rows);
    if (!op.lower) cuda::for_each(c, s.batch * s.size(), TransposeEach<T>{l, c.out().as<T>(), s.rows});
  });
}

void run_cuda(const op::LinalgPotri& op, KernelContext& c) {
  in_float_or_double(c.out().dtype, [&]<class T>() {
    const Sizes s(c.out().shape);
    const T* const l = op.lower ? c.in(0).as<const T>() : transposed(c, s, c.in(0).as<const T>());
    T* const inverse = cuda::scratch<T>(c, s.batch * s.size());
    cuda::for_each(c, s.batch * s.rows, InvertColumn<T>{l, inverse, s.rows});
    cuda::for_each(c, s.batch * s.size(), InverseSquare<T>{inverse, c.out().as<T>(), s.rows});
  });
}

void run_cuda(const op::LinalgTrsm& op, KernelContext& c) {
  in_float_or_double(c.out().dtype, [&]<class T>() {
    const Sizes a(c.in(0).shape), b(c.out().shape);
    const int64_t m = op.rightside ? b.rows : b.columns;
    cuda::copy_bytes(c, c.in(1).data, c.out().data, c.out().bytes());
    cuda::for_each(c, b.batch * m,
                   SolveTriangle<T>{c.in(0).as<const T>(), c.out().as<T>(), a.rows, m, op.transpose, op.rightside,
                                    op.lower, T(op.alpha)});
  });
}

void run_cuda(const op::LinalgSolve&, KernelContext& c) {
  in_float_or_double(c.out().dtype, [&]<class T>() {
    const Sizes s(c.in(0).shape);
    cuda::copy_bytes(c, c.in(1).data, c.out().data, c.out().bytes());
    solve_all<T>(c, s, c.in(1).shape.ndim() < c.in(0).shape.ndim() ? 1 : c.in(1).shape.back());
  });
}

void run_cuda(const op::LinalgInverse&, KernelContext& c) {
  in_float_or_double(c.out().dtype, [&]<class T>() {
    const Sizes s(c.out().shape);
    cuda::for_each(c, c.out().size(), Identity<T>{c.out().as<T>(), s.rows});
    solve_all<T>(c, s, s.rows);
  });
}

void run_cuda(const op::LinalgDet&, KernelContext& c) {
  in_float_or_double(c.out().dtype, [&]<class T>() {
    const Sizes s(c.in(0).shape);
    const DeviceFactors<T> f(c, s);
    cuda::for_each(c, s.batch, Determinant<T>{f.lu, f.pivots, s.rows, c.out().as<T>(), nullptr, nullptr});
  });
}

void run_cuda(const op::LinalgSlogdet&, KernelContext& c) {
  in_float_or_double(c.in(0).dtype, [&]<class T>() {
    const Sizes s(c.in(0).shape);
    const DeviceFactors<T> f(c, s);
    cuda::for_each(c, s.batch, Determinant<T>{f.lu, f.pivots, s.rows, nullptr, c.out(0).as<T>(), c.out(1).as<T>()});
  });
}

}  // namespace kaon
