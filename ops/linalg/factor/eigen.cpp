// Eigenvalues of matrices that need not be symmetric.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "kaon/ops/kernels/scratch.h"
#include "kaon/ops/linalg/factor/factor.h"
#include "kaon/ops/linalg/factor/kernels/matrices.h"
#include "kaon/ops/op_def.h"

namespace kaon {

using namespace ops;

constinit const OpDef op::Eig::def = make_op_def<op::Eig>();

namespace {

double general_eigen_flops(const Matrices& a) { return 25 * double(a.size()) * double(a.rows); }

}  // namespace

double op::Eig::flops(std::span<const TensorMeta> inputs, std::span<const TensorMeta>) const {
  const Matrices a(inputs[0].shape);
  return double(a.batch) * general_eigen_flops(a);
}

void op::Eig::infer(InferContext& c) const {
  expect_square(c);
  expect_factorable(c);
  constexpr int64_t most = 46340;  // LAPACK counts n^2 elements with 32 bits
  const int64_t n = c.shape(0).back();
  if (n > most) c.fail(fmt::format("the matrices must have at most {} rows, got {}", most, c.describe_inputs()));
  c.set_output(0, of_batch(c.shape(0), {n}), c.dtype());
  c.set_output(1, c.shape(0), c.dtype());
}

void run_cpu(const op::Eig&, KernelContext& c) {
  in_float_or_double(c.out(0).dtype, [&]<class T>() {
    const Matrices m(c.in(0).shape);
    if (m.rows == 0) return;
    const int n = int(m.rows), lwork = 4 * n;
    const int64_t size = m.size();
    each_matrix(c.run, m.batch, general_eigen_flops(m), [&](const Columns&, int64_t i) {
      const Scratch memory(size_t(lwork + 2 * m.rows + 2 * size) * sizeof(T));
      T *const work = memory.as<T>(), *const real = work + lwork, *const imaginary = real + n, *const a = imaginary + n,
               *const vectors = a + size;
      bool is_finite = true;
      for (int64_t k = 0; k < size; ++k) {  // column-major
        a[k] = c.in(0).as<const T>()[i * size + k % n * n + k / n];
        is_finite &= std::isfinite(a[k]);
      }
      T* const values = c.out(0).as<T>() + i * n;
      T* const out = c.out(1).data ? c.out(1).as<T>() + i * size : nullptr;
      if (!is_finite) {
        std::fill_n(values, n, std::numeric_limits<T>::quiet_NaN());
        if (out) std::fill_n(out, size, std::numeric_limits<T>::quiet_NaN());
        return;
      }
      int info = 0;
      Lapack<T>::get().geev("N", out ? "V" : "N", &n, a, &n, real, imaginary, nullptr, &n, vectors, &n, work, &lwork,
                            &info, 1, 1);
      if (info != 0) fail_matrix(op::Eig::def, i, "has eigenvalues that were not found");
      if (std::any_of(imaginary, imaginary + n, [](T v) { return v != 0; })) {
        fail_matrix(op::Eig::def, i, "has eigenvalues that are not real");
      }
      std::copy_n(real, n, values);
      for (int64_t k = 0; out && k < n; ++k) {
        const T* const v = vectors + k * n;
        const T most = *std::max_element(v, v + n, [](T x, T y) { return std::fabs(x) < std::fabs(y); });
        for (int64_t j = 0; j < n; ++j) out[j * n + k] = most < 0 ? -v[j] : v[j];
      }
    });
  });
}

}  // namespace kaon
