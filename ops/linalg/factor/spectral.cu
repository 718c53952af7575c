// L Q by reflections, and eigenvalues and singular values by Jacobi's rotations, on CUDA, in double. Right for every
// size, and fast for batches of small matrices.
#include "kaon/ops/linalg/factor/factor.h"
#include "kaon/ops/linalg/factor/kernels/batch_cuda.cuh"

namespace kaon {

using namespace ops;
namespace {

constexpr double epsilon = std::numeric_limits<double>::epsilon();
constexpr int most_sweeps = 60;

// element(k) of elements of T as double, and back.
template <class T>
struct Widen {
  const T* from;
  double* to;
  __device__ void operator()(int64_t k) const { to[k] = double(from[k]); }
};
template <class T>
struct Narrow {
  const double* from;
  T* to;
  __device__ void operator()(int64_t k) const { to[k] = T(from[k]); }
};

double* widened(KernelContext& c, const TensorView& x) {
  double* const to = cuda::scratch<double>(c, x.size());
  if (x.dtype == DType::float64) {
    cuda::copy_bytes(c, x.data, to, x.bytes());
  } else {
    cuda::for_each(c, x.size(), Widen<float>{x.as<const float>(), to});
  }
  return to;
}
void narrow(KernelContext& c, const double* from, const TensorView& x) {
  if (!x.data) return;
  if (x.dtype == DType::float64) {
    cuda::copy_bytes(c, from, x.data, x.bytes());
  } else {
    cuda::for_each(c, x.size(), Narrow<float>{from, x.as<float>()});
  }
}

// The sum of body(k) for k in [0, n), the same for all threads of the block.
template <class F>
__device__ double sum_in_block(int64_t n, double* shared, F&& body) {
  double sum = 0;
  for (int64_t k = threadIdx.x; k < n; k += blockDim.x) sum += body(k);
  shared[threadIdx.x] = sum;
  __syncthreads();
  for (unsigned half = blockDim.x / 2; half > 0; half /= 2) {
    if (threadIdx.x < half) shared[threadIdx.x] += shared[threadIdx.x + half];
    __syncthreads();
  }
  sum = shared[0];
  __syncthreads();
  return sum;
}

// The rotation that makes two orthogonal: their squares are a and b, their product is c.
struct Rotation {
  double cosine, sine;
  __device__ Rotation(double a, double b, double c) {
    const double ratio = (b - a) / (2 * c);
    const double tangent = (ratio < 0 ? -1 : 1) / (::fabs(ratio) + ::sqrt(ratio * ratio + 1));
    cosine = 1 / ::sqrt(tangent * tangent + 1);
    sine = tangent * cosine;
  }
  __device__ void apply(double& p, double& q) const {
    const double kept = p;
    p = cosine * kept - sine * q;
    q = sine * kept + cosine * q;
  }
};

__device__ bool is_finite(double x) { return x - x == 0; }

// The sign that makes the element of largest magnitude positive.
__device__ double sign_of_largest(const double* x, int64_t n) {
  double most = 0;
  for (int64_t k = 0; k < n; ++k) {
    if (::fabs(x[k]) > ::fabs(most)) most = x[k];
  }
  return most < 0 ? -1 : 1;
}

// Row i of A is reflected to L's, and its vector v with v[i] = 1 is kept behind it.
__global__ void __launch_bounds__(cuda::block)
    lq_kernel(double* all, double* all_q, double* all_l, double* all_factors, int64_t batch, int64_t m, int64_t n) {
  __shared__ double shared[cuda::block];
  for (int64_t b = blockIdx.x; b < batch; b += gridDim.x) {
    double *const a = all + b * m * n, *const q = all_q + b * m * n, *const l = all_l + b * m * m;
    double* const factors = all_factors + b * m;
    for (int64_t i = 0; i < m; ++i) {
      double* const v = a + i * n;
      const double behind = sum_in_block(n - i - 1, shared, [&](int64_t k) { return v[i + 1 + k] * v[i + 1 + k]; });
      const double first = v[i];
      double length = first, factor = 0;
      if (behind != 0) {
        length = first > 0 ? -::sqrt(first * first + behind) : ::sqrt(first * first + behind);
        factor = (length - first) / length;
      }
      __syncthreads();
      cuda::each_in_block(factor == 0 ? 0 : n - i - 1, [&](int64_t k) { v[i + 1 + k] /= first - length; });
      if (threadIdx.x == 0) v[i] = length, factors[i] = factor;
      cuda::each_in_block(m - i - 1, [&](int64_t r) {
        double* const row = a + (i + 1 + r) * n;
        double sum = row[i];
        for (int64_t k = i + 1; k < n; ++k) sum += v[k] * row[k];
        row[i] -= factor * sum;
        for (int64_t k = i + 1; k < n; ++k) row[k] -= factor * sum * v[k];
      });
    }
    cuda::each_in_block(m * m, [&](int64_t k) { l[k] = k % m <= k / m ? a[k / m * n + k % m] : 0; });
    cuda::each_in_block(m, [&](int64_t r) {
      double* const row = q + r * n;
      for (int64_t k = 0; k < n; ++k) row[k] = k == r ? 1 : 0;
      for (int64_t i = m; i-- > 0;) {
        const double* const v = a + i * n;
        double sum = row[i];
        for (int64_t k = i + 1; k < n; ++k) sum += v[k] * row[k];
        row[i] -= factors[i] * sum;
        for (int64_t k = i + 1; k < n; ++k) row[k] -= factors[i] * sum * v[k];
      }
    });
  }
}

// A becomes diagonal; the rows of `turned` are its eigenvectors, and go to `u` in the order of the eigenvalues.
__global__ void __launch_bounds__(cuda::block)
    eigen_kernel(double* all, double* all_turned, double* all_u, double* all_values, int64_t batch, int64_t n) {
  __shared__ double shared[cuda::block];
  for (int64_t b = blockIdx.x; b < batch; b += gridDim.x) {
    double *const a = all + b * n * n, *const turned = all_turned + b * n * n;
    double *const u = all_u + b * n * n, *const values = all_values + b * n;
    cuda::each_in_block(n * n, [&](int64_t k) {
      const int64_t i = k / n, j = k % n;
      if (j > i) a[k] = a[j * n + i];
      turned[k] = i == j ? 1 : 0;
    });
    const double squares = sum_in_block(n * n, shared, [&](int64_t k) { return a[k] * a[k]; });
    const double negligible = epsilon * ::sqrt(squares) / double(n);
    bool changed = is_finite(squares);
    for (int sweep = 0; changed && sweep < most_sweeps; ++sweep) {
      changed = false;
      for (int64_t p = 0; p < n; ++p) {
        for (int64_t q = p + 1; q < n; ++q) {
          const double between = a[p * n + q];
          if (::fabs(between) <= negligible) continue;
          const Rotation turn(a[p * n + p], a[q * n + q], between);
          changed = true;
          __syncthreads();
          cuda::each_in_block(n, [&](int64_t k) {
            turn.apply(a[p * n + k], a[q * n + k]);
            turn.apply(turned[p * n + k], turned[q * n + k]);
          });
          cuda::each_in_block(n, [&](int64_t k) { turn.apply(a[k * n + p], a[k * n + q]); });
        }
      }
    }
    cuda::each_in_block(n, [&](int64_t i) {
      const double value = is_finite(squares) ? a[i * n + i] : cuda::not_a_number<double>();
      int64_t rank = 0;
      for (int64_t k = 0; k < n; ++k) {
        const double other = a[k * n + k];
        if (!is_finite(squares) ? k < i : other < value || (other == value && k < i)) ++rank;
      }
      values[rank] = value;
      const double sign = is_finite(squares) ? sign_of_largest(turned + i * n, n) : value;
      for (int64_t k = 0; k < n; ++k) u[rank * n + k] = sign * turned[i * n + k];
    });
  }
}

// A direction that is orthogonal to the first `count` rows, which have length 1, becomes row `count`.
__device__ void complete(double* rows, int64_t count, int64_t n) {
  double* const row = rows + count * n;
  for (int64_t axis = 0; axis < n; ++axis) {
    for (int64_t k = 0; k < n; ++k) row[k] = k == axis ? 1 : 0;
    for (int again = 0; again < 2; ++again) {
      for (int64_t i = 0; i < count; ++i) {
        double along = 0;
        for (int64_t k = 0; k < n; ++k) along += rows[i * n + k] * row[k];
        for (int64_t k = 0; k < n; ++k) row[k] -= along * rows[i * n + k];
      }
    }
    double square = 0;
    for (int64_t k = 0; k < n; ++k) square += row[k] * row[k];
    if (square * double(n) < 0.5) continue;  // the best of all axes has 1 / n and more
    for (int64_t k = 0; k < n; ++k) row[k] /= ::sqrt(square);
    return;
  }
}

struct SvdCall {
  int64_t batch, k, n;
  bool is_transposed;             // V is `left`, else `right`
  double *w, *turned, *lengths;   // (k, n), (k, k), (k)
  double *left, *values, *right;  // (k, k), (k), (k, n)
};

// The rows of w become orthogonal by rotations, of which `turned` is the product; their lengths are the singular
// values, in whose order `left` has the rows of `turned`, and `right` those of w with length 1.
__global__ void __launch_bounds__(cuda::block) svd_kernel(SvdCall c) {
  __shared__ double shared[cuda::block];
  const int64_t k = c.k, n = c.n;
  for (int64_t b = blockIdx.x; b < c.batch; b += gridDim.x) {
    double *const w = c.w + b * k * n, *const turned = c.turned + b * k * k, *const lengths = c.lengths + b * k;
    double *const left = c.left + b * k * k, *const right = c.right + b * k * n, *const values = c.values + b * k;
    cuda::each_in_block(k * k, [&](int64_t i) { turned[i] = i / k == i % k ? 1 : 0; });
    const bool finite = is_finite(sum_in_block(k * n, shared, [&](int64_t i) { return w[i] * w[i]; }));
    bool changed = finite;
    for (int sweep = 0; changed && sweep < most_sweeps; ++sweep) {
      changed = false;
      for (int64_t p = 0; p < k; ++p) {
        for (int64_t q = p + 1; q < k; ++q) {
          double *const x = w + p * n, *const y = w + q * n;
          const double xx = sum_in_block(n, shared, [&](int64_t i) { return x[i] * x[i]; });
          const double yy = sum_in_block(n, shared, [&](int64_t i) { return y[i] * y[i]; });
          const double xy = sum_in_block(n, shared, [&](int64_t i) { return x[i] * y[i]; });
          if (xy == 0 || ::fabs(xy) <= 4 * epsilon * ::sqrt(xx) * ::sqrt(yy)) continue;
          const Rotation turn(xx, yy, xy);
          changed = true;
          cuda::each_in_block(n, [&](int64_t i) { turn.apply(x[i], y[i]); });
          cuda::each_in_block(k, [&](int64_t i) { turn.apply(turned[p * k + i], turned[q * k + i]); });
        }
      }
    }
    cuda::each_in_block(k, [&](int64_t i) {
      double square = 0;
      for (int64_t j = 0; j < n; ++j) square += w[i * n + j] * w[i * n + j];
      lengths[i] = finite ? ::sqrt(square) : cuda::not_a_number<double>();
    });
    cuda::each_in_block(k, [&](int64_t i) {
      const double length = lengths[i];
      int64_t rank = 0;
      for (int64_t j = 0; j < k; ++j) {
        if (!finite ? j < i : lengths[j] > length || (lengths[j] == length && j < i)) ++rank;
      }
      values[rank] = length;
      for (int64_t j = 0; j < n; ++j) right[rank * n + j] = length == 0 ? 0 : w[i * n + j] / length;
      for (int64_t j = 0; j < k; ++j) left[rank * k + j] = finite ? turned[i * k + j] : length;
    });
    for (int64_t i = 0; i < k && threadIdx.x == 0; ++i) {
      if (values[i] == 0) complete(right, i, n);
    }
    __syncthreads();
    cuda::each_in_block(k, [&](int64_t i) {
      const double sign = c.is_transposed ? sign_of_largest(left + i * k, k) : sign_of_largest(right + i * n, n);
      for (int64_t j = 0; j < n; ++j) right[i * n + j] *= sign;
      for (int64_t j = 0; j < k; ++j) left[i * k + j] *= sign;
    });
  }
}

// to (batch, columns, rows) from (batch, rows, columns).
struct Turn {
  const double* from;
  double* to;
  int64_t rows, columns;
  __device__ void operator()(int64_t index) const {
    const int64_t b = index / (rows * columns), i = index / columns % rows, j = index % columns;
    to[(b * columns + j) * rows + i] = from[index];
  }
};

double* turned(KernelContext& c, const double* from, int64_t batch, int64_t rows, int64_t columns) {
  double* const to = cuda::scratch<double>(c, batch * rows * columns);
  cuda::for_each(c, batch * rows * columns, Turn{from, to, rows, columns});
  return to;
}

}  // namespace

void run_cuda(const op::LinalgGelqf&, KernelContext& c) {
  const Shape& s = c.in(0).shape;
  const int64_t batch = s.product(0, s.ndim() - 2), m = s[s.ndim() - 2], n = s.back();
  double *const a = widened(c, c.in(0)), *const q = cuda::scratch<double>(c, batch * m * n);
  double *const l = cuda::scratch<double>(c, batch * m * m), *const factors = cuda::scratch<double>(c, batch * m);
  cuda::launch_batch(c, batch, lq_kernel, a, q, l, factors, batch, m, n);
  narrow(c, q, c.out(0)), narrow(c, l, c.out(1));
}

void run_cuda(const op::LinalgSyevd&, KernelContext& c) {
  const Shape& s = c.in(0).shape;
  const int64_t batch = s.product(0, s.ndim() - 2), n = s.back();
  double *const a = widened(c, c.in(0)), *const turns = cuda::scratch<double>(c, batch * n * n);
  double *const u = cuda::scratch<double>(c, batch * n * n), *const values = cuda::scratch<double>(c, batch * n);
  cuda::launch_batch(c, n == 0 ? 0 : batch, eigen_kernel, a, turns, u, values, batch, n);
  narrow(c, u, c.out(0)), narrow(c, values, c.out(1));
}

void run_cuda(const op::LinalgSvd&, KernelContext& c) {
  const Shape& s = c.in(0).shape;
  const int64_t batch = s.product(0, s.ndim() - 2), rows = s[s.ndim() - 2], columns = s.back();
  const bool is_tall = rows > columns;
  const int64_t k = is_tall ? columns : rows, n = is_tall ? rows : columns;
  double* const a = widened(c, c.in(0));
  const auto take = [&](int64_t size) { return cuda::scratch<double>(c, batch * size); };
  SvdCall call{batch, k, n, is_tall, nullptr, take(k * k), take(k), take(k * k), take(k), take(k * n)};
  call.w = is_tall ? turned(c, a, batch, rows, columns) : a;
  cuda::launch_batch(c, k == 0 ? 0 : batch, svd_kernel, call);
  narrow(c, turned(c, is_tall ? call.right : call.left, batch, k, is_tall ? n : k), c.out(0));
  narrow(c, call.values, c.out(1));
  narrow(c, is_tall ? call.left : call.right, c.out(2));
}

}  // namespace kaon
