// Fourier transforms of rows, on the CPU.
#include <fmt/format.h>

#include <cmath>
#include <memory>

#include "kaon/ops/functions.h"
#include "kaon/ops/kernels/as_float32.h"
#include "kaon/ops/op_def.h"
#include "kaon/ops/signal/kernels/fourier.h"
#include "kaon/ops/signal/signal.h"

namespace kaon {

using namespace ops;

constinit const OpDef op::Fft::def = make_op_def<op::Fft>();
constinit const OpDef op::Ifft::def = make_op_def<op::Ifft>();

namespace {

constexpr int64_t longest = int64_t(1) << 31;  // squares of indices stay below 2^63
constexpr int64_t fourier_grain = 16384;       // numbers that one task transforms

// What all rows of a call share.
template <class T>
struct Tables {
  FourierSizes sizes;
  Complex<T>* roots;
  Complex<T>* chirps = nullptr;
  Complex<T>* filter = nullptr;
};

// Transforms the `size` numbers in x. The result is in the array that it returns, x or y.
template <class T>
Complex<T>* transformed(int64_t size, const Complex<T>* roots, Complex<T>* x, Complex<T>* y) {
  for (int64_t stride = 1; stride < size; stride *= 2) {
    for (int64_t p = 0; p < size / 2; p += stride) {
      for (int64_t i = p; i < p + stride; ++i) fourier_pair(i, size, stride, roots, x, y);
    }
    std::swap(x, y);
  }
  return x;
}

template <class T>
Tables<T> make_tables(RunContext& run, int64_t n) {
  Tables<T> t{.sizes = FourierSizes(n), .roots = nullptr};
  const int64_t padded = t.sizes.padded;
  const auto array = [&](int64_t count) {
    return static_cast<Complex<T>*>(run.workspace(size_t(count) * sizeof(Complex<T>)));
  };
  t.roots = array(std::max<int64_t>(1, padded / 2));
  run.parallel_for(padded / 2, fourier_grain, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) t.roots[i] = root_of_unity<T>(i, padded);
  });
  if (t.sizes.is_direct()) return t;
  t.chirps = array(n);
  Complex<T>*const filter = array(padded), *const other = array(padded);
  run.parallel_for(n, fourier_grain, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) t.chirps[i] = chirp<T>(i, n);
  });
  run.parallel_for(padded, fourier_grain, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) filter[i] = chirp_filter<T>(i, n, padded);
  });
  t.filter = transformed(padded, t.roots, filter, other);
  return t;
}

// load(row, j) gives number j of a row, store(row, k, z) takes number k of its transform.
template <class T, class Load, class Store>
void transform_rows(RunContext& run, int64_t rows, int64_t n, const Load& load, const Store& store) {
  const Tables<T> t = make_tables<T>(run, n);
  const int64_t padded = t.sizes.padded;
  run.parallel_for(rows, std::max<int64_t>(1, fourier_grain / padded), [&](int64_t begin, int64_t end) {
    const auto memory = std::make_unique_for_overwrite<Complex<T>[]>(size_t(2 * padded));
    Complex<T>*const a = memory.get(), *const b = a + padded;
    for (int64_t row = begin; row < end; ++row) {
      if (t.sizes.is_direct()) {
        for (int64_t j = 0; j < n; ++j) a[j] = load(row, j);
        const Complex<T>* const z = transformed(padded, t.roots, a, b);
        for (int64_t k = 0; k < n; ++k) store(row, k, z[k]);
        continue;
      }
      for (int64_t j = 0; j < n; ++j) a[j] = load(row, j) * t.chirps[j];
      for (int64_t j = n; j < padded; ++j) a[j] = {T(0), T(0)};
      Complex<T>* const z = transformed(padded, t.roots, a, b);
      for (int64_t j = 0; j < padded; ++j) {  // the inverse transform is the conjugate of that of the conjugate
        z[j] = z[j] * t.filter[j];
        z[j].im = -z[j].im;
      }
      const Complex<T>* const y = transformed(padded, t.roots, z, z == a ? b : a);
      for (int64_t k = 0; k < n; ++k) store(row, k, Complex<T>{y[k].re, -y[k].im} * t.chirps[k]);
    }
  });
}

double transform_flops(const Shape& real, int64_t length) {
  const double n = double(FourierSizes(length).padded);
  return double(real.size()) / double(std::max<int64_t>(1, length)) * 5 * n * std::log2(std::max(n, 2.0));
}

void check_compute_size(const InferContext& c, int64_t size) {
  if (size < 1) c.fail_value(fmt::format("compute_size must be at least 1, got {}", size));
}

}  // namespace

void op::Fft::infer(InferContext& c) const {
  c.expect_floating();
  c.expect_ndim_at_least(0, 1);
  check_compute_size(c, compute_size);
  Shape out = c.shape(0);
  if (out.back() >= longest) c.fail(fmt::format("rows must be shorter than {}, got {}", longest, out.str()));
  out[out.ndim() - 1] *= 2;
  c.set_output(out, c.dtype());
}

// The transposed map of each is the other.
void op::Fft::grad(GradContext& g) const {
  if (g.wants(0)) g.set(0, nd.ifft(g.head()));
}

double op::Fft::flops(std::span<const TensorMeta> inputs, std::span<const TensorMeta>) const {
  return transform_flops(inputs[0].shape, inputs[0].shape.back());
}

void run_cpu(const op::Fft&, KernelContext& context) {
  if (context.in(0).size() == 0) return;
  in_float_or_double(context, [&]<class T>(KernelContext& c) {
    const int64_t n = c.in(0).shape.back();
    const T* const x = c.in(0).as<T>();
    T* const y = c.out().as<T>();
    transform_rows<T>(
        c.run, c.in(0).size() / n, n,
        [&](int64_t row, int64_t j) {
          return Complex<T>{x[row * n + j], T(0)};
        },
        [&](int64_t row, int64_t k, Complex<T> z) {
          T* const pair = y + 2 * (row * n + k);
          pair[0] = z.re, pair[1] = z.im;
        });
  });
}

void op::Ifft::infer(InferContext& c) const {
  c.expect_floating();
  c.expect_ndim_at_least(0, 1);
  check_compute_size(c, compute_size);
  Shape out = c.shape(0);
  if (out.back() % 2 != 0) c.fail(fmt::format("rows must be of pairs, an even number, got {}", out.str()));
  if (out.back() / 2 >= longest) c.fail(fmt::format("rows must have fewer than {} pairs, got {}", longest, out.str()));
  out[out.ndim() - 1] /= 2;
  c.set_output(out, c.dtype());
}

void op::Ifft::grad(GradContext& g) const {
  if (g.wants(0)) g.set(0, nd.fft(g.head()));
}

double op::Ifft::flops(std::span<const TensorMeta>, std::span<const TensorMeta> outputs) const {
  return transform_flops(outputs[0].shape, outputs[0].shape.back());
}

void run_cpu(const op::Ifft&, KernelContext& context) {
  if (context.out().size() == 0) return;
  in_float_or_double(context, [&]<class T>(KernelContext& c) {
    const int64_t n = c.out().shape.back();
    const T* const x = c.in(0).as<T>();
    T* const y = c.out().as<T>();
    transform_rows<T>(
        c.run, c.out().size() / n, n,
        [&](int64_t row, int64_t j) {
          const T* const pair = x + 2 * (row * n + j);
          return Complex<T>{pair[0], -pair[1]};
        },
        [&](int64_t row, int64_t k, Complex<T> z) { y[row * n + k] = z.re; });
  });
}

}  // namespace kaon
