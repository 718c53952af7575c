#include "kaon/ops/linalg/kernels/gemm.h"

#include <algorithm>
#include <cmath>

#include "kaon/ops/array/small_array.h"
#include "kaon/ops/kernels/onednn.h"
#include "kaon/ops/kernels/onednn_versions.h"
#include "kaon/ops/kernels/packed_weights.h"
#include "kaon/ops/kernels/scratch.h"
#include "kaon/ops/linalg/kernels/gemv.h"
#include "kaon/ops/linalg/kernels/lapack.h"

namespace kaon::ops {
namespace {

using onednn::Primitive;

// A kernel state that is only a name.
struct NamedKernel : KernelState {
  explicit NamedKernel(const char* its_name) : name(its_name) {}
  std::string implementation() const override { return name; }
  const char* name;
};
void note(const KernelContext& c, const char* name) {
  if (c.state && !*c.state) *c.state = std::make_unique<NamedKernel>(name);
}

// Blocks of C that are computed apart, by shape alone: at least 4 MFLOP each, and more when there are over 16.
struct Blocks {
  int64_t rows, columns;  // of one block
  int64_t down, across;   // how many
};

int64_t parts(int64_t total, int64_t part) { return (total + part - 1) / part; }

Blocks split(int64_t m, int64_t n, int64_t k, int64_t least_rows = 128) {
  const double flops = 2.0 * double(m) * double(n) * double(k);
  const double wanted = std::min({64.0, flops / 4e6, std::max(16.0, flops / 256e6)});
  int64_t rows = m, columns = n;
  while (double(parts(m, rows) * parts(n, columns) * 2) <= wanted) {
    // each block packs its columns of B anew: 128 rows make that cheap
    if (rows >= 2 * least_rows && (rows >= columns || columns < 256)) {
      rows = (rows / 2 + 31) / 32 * 32;
    } else if (columns >= (rows >= 128 ? 256 : 128)) {
      columns = (columns / 2 + 63) / 64 * 64;
    } else {
      break;
    }
  }
  return {rows, columns, parts(m, rows), parts(n, columns)};
}

// Blocks for a packed B, at least 1 MFLOP each. A block's columns of B should stay in the second-level cache while rows
// of A pass by, since weights of large nets come from memory; beyond that whole rows of C if possible, since parts of
// rows are copied once more.
Blocks split_packed(int64_t m, int64_t n, int64_t k) {
  constexpr int64_t cached = 512 << 10, enough = 8;
  const double flops = 2.0 * double(m) * double(n) * double(k);
  const double most = std::min(64.0, flops / 1e6), wanted = std::min(most, std::max(16.0, flops / 256e6));
  int64_t rows = m, columns = n;
  const auto halve_columns = [&] { columns = (columns / 2 + 63) / 64 * 64; };
  while (m >= 64 && columns >= 128 && columns * k * int64_t(sizeof(float)) > cached &&
         double(parts(n, columns) * 2) <= most) {
    halve_columns();
  }
  for (int64_t count = parts(n, columns); double(count * 2) <= wanted; count = parts(m, rows) * parts(n, columns)) {
    if (rows >= 64) {
      rows = (rows / 2 + 15) / 16 * 16;
    } else if (columns >= 128 && count < enough) {
      halve_columns();
    } else {
      break;
    }
  }
  return {rows, columns, parts(m, rows), parts(n, columns)};
}

// A (m, k) times B (n, k) transposed. oneDNN's sgemm is slow here for 12 to 100 rows; its matmul is not, provided that
// the block of C is dense.
struct TransposedProducts : KernelState {
  Primitive block[2][2];  // [last row of blocks][last column of blocks]
  std::string implementation() const override { return block[1][1].implementation(); }
};

std::unique_ptr<TransposedProducts> make_transposed(const Blocks& s, int64_t m, int64_t n, int64_t k) {
  auto made = std::make_unique<TransposedProducts>();
  for (int bottom = 0; bottom < 2; ++bottom) {
    for (int right = 0; right < 2; ++right) {
      if ((bottom == 0 && s.down == 1) || (right == 0 && s.across == 1)) continue;
      const int64_t rows = bottom ? m - (s.down - 1) * s.rows : s.rows;
      const int64_t columns = right ? n - (s.across - 1) * s.columns : s.columns;
      const auto a = onednn::plain({rows, k});
      const auto b = onednn::strided({k, columns}, {1, k});
      const auto out = onednn::plain({rows, columns});
      const auto desc = onednn::describe<dnnl::matmul>(onednn::engine(), onednn::attributes(), a, b, out);
      made->block[bottom][right] =
          Primitive("matmul", desc, {{DNNL_ARG_SRC, a}, {DNNL_ARG_WEIGHTS, b}, {DNNL_ARG_DST, out}});
    }
  }
  return made;
}

// Runs one block; a block that is narrower than C goes through a dense copy.
void run_transposed(const Primitive& product, const float* a, const float* b, float* out, int64_t rows, int64_t columns,
                    int64_t stride) {
  if (columns == stride) return product.run(a, b, out);
  const Scratch dense(size_t(rows * columns) * sizeof(float));
  product.run(a, b, dense.as<float>());
  for (int64_t i = 0; i < rows; ++i) std::copy_n(dense.as<float>() + i * columns, columns, out + i * stride);
}

// A (m, k) times a B that plans keep in the layout which oneDNN's inner product likes best.
struct PackedProducts : KernelState {
  Primitive block[2][2], to_inner[2][2];  // as above; the bias, when there is one, last
  std::string implementation() const override { return block[1][1].implementation() + " packed"; }
};

std::unique_ptr<PackedProducts> make_packed(const Blocks& s, const Gemm<float>& g, bool bias) {
  auto made = std::make_unique<PackedProducts>();
  for (int bottom = 0; bottom < 2; ++bottom) {
    for (int right = 0; right < 2; ++right) {
      if ((bottom == 0 && s.down == 1) || (right == 0 && s.across == 1)) continue;
      const int64_t rows = bottom ? g.m - (s.down - 1) * s.rows : s.rows;
      const int64_t columns = right ? g.n - (s.across - 1) * s.columns : s.columns;
      const auto a = onednn::plain({rows, g.k}), out = onednn::plain({rows, columns});
      const auto b = g.transpose_b ? onednn::plain({columns, g.k}) : onednn::strided({columns, g.k}, {1, g.n});
      const auto shift = bias ? onednn::plain({columns}) : onednn::Desc();
      const auto desc = onednn::describe<dnnl::inner_product_forward>(onednn::engine(), onednn::attributes(),
                                                                      dnnl::prop_kind::forward_inference, a,
                                                                      onednn::any({columns, g.k}), shift, out);
      const auto inner = desc.weights_desc();
      std::vector<Primitive::Argument> args{{DNNL_ARG_SRC, a}, {DNNL_ARG_WEIGHTS, inner}, {DNNL_ARG_DST, out}};
      if (bias) args.push_back({DNNL_ARG_BIAS, shift});
      made->block[bottom][right] = Primitive("inner product", desc, std::move(args));
      if (inner != b) made->to_inner[bottom][right] = onednn::make_reorder(b, inner);
    }
  }
  return made;
}

// Columns of a transposed A that a block copies before sgemm reads them. Where rows of A are some 256 numbers apart,
// their lines share a few places of the first cache, and sgemm fetches each more than once: the copies make it 1.3 to
// 2.4 times as fast (AVX2, 512 to 2,048 columns, 16 to 512 of B).
constexpr int64_t panel = 64;
bool has_panels(const Gemm<float>& g) { return g.transpose_a && g.m % 256 == 0 && g.n >= 16; }

void blas_block(const Gemm<float>& g, const float* a, const float* b, float* c, int64_t rows, int64_t columns) {
  const onednn::SingleThreadTeam team;
  const auto multiply = [&](int64_t m, int64_t k, const float* left, int64_t stride, const float* right, float beta,
                            float* to) {
    dnnl_sgemm(g.transpose_a ? 'T' : 'N', g.transpose_b ? 'T' : 'N', m, columns, k, 1.f, left, stride, right,
               g.transpose_b ? g.k : g.n, beta, to, g.n);
  };
  if (!has_panels(g)) return multiply(rows, g.k, a, g.transpose_a ? g.m : g.k, b, 0.f, c);
  const int64_t depth = std::min<int64_t>(g.k, 1024);  // so that the copy stays in the second cache
  const Scratch copy(size_t(panel * depth) * sizeof(float));
  for (int64_t row = 0; row < rows; row += panel) {
    const int64_t m = std::min(panel, rows - row);
    for (int64_t p = 0; p < g.k; p += depth) {
      const int64_t k = std::min(depth, g.k - p);
      for (int64_t i = 0; i < k; ++i) std::copy_n(a + (p + i) * g.m + row, m, copy.as<float>() + i * m);
      multiply(m, k, copy.as<float>(), m, b + (g.transpose_b ? p : p * g.n), p > 0 ? 1.f : 0.f, c + row * g.n);
    }
  }
}

// Column-major, C's transpose is op(B)' op(A)'.
void blas_block(const Gemm<double>& g, const double* a, const double* b, double* c, int64_t rows, int64_t columns) {
  const int m = int(rows), n = int(columns), k = int(g.k), ldc = int(g.n);
  const int lda = int(g.transpose_a ? g.m : g.k), ldb = int(g.transpose_b ? g.k : g.n);
  const double one = 1, zero = 0;
  Lapack<double>::get().gemm(g.transpose_b ? "T" : "N", g.transpose_a ? "T" : "N", &n, &m, &k, &one, b, &ldb, a, &lda,
                             &zero, c, &ldc, 1, 1);
}
bool has_blas(const Gemm<double>& g) { return std::max({g.m, g.n, g.k}) <= INT32_MAX && Lapack<double>::find(); }

// One of many small products, which a call of a library would take longer to begin than to compute.
constexpr int64_t small_product = 512;
template <class T>
void small_block(const Gemm<T>& g, const T* a, const T* b, T* c) {
  const int64_t row = g.transpose_a ? 1 : g.k, next = g.transpose_a ? g.m : 1;
  const int64_t down = g.transpose_b ? 1 : g.n, across = g.transpose_b ? g.k : 1;
  for (int64_t i = 0; i < g.m; ++i) {
    for (int64_t j = 0; j < g.n; ++j) {
      T sum = 0;
      for (int64_t p = 0; p < g.k; ++p) sum += a[i * row + p * next] * b[p * down + j * across];
      c[i * g.n + j] = sum;
    }
  }
}

// The block of C at this row and column.
template <class T>
void finish(const Gemm<T>& g, const Epilogue<T>& e, int64_t row, int64_t column, int64_t rows, int64_t columns) {
  const int64_t at = row * g.n + column;
  finish_rows(g.c + at, g.n, g.c + at, g.n, rows, columns, e.at(column, at));
}

void packed_gemm(KernelContext& c, const Gemm<float>& g) {
  const Blocks s = split_packed(g.m, g.n, g.k);
  Epilogue<float> epilogue = g.epilogue;
  const float* const bias = epilogue.take_bias();
  const onednn::Key key('p', g.m, g.n, g.k, g.transpose_b, bias != nullptr);
  const auto set = onednn::obtain<PackedProducts>(c, "inner product", key, [&] { return make_packed(s, g, bias); });
  // packed columns of B for the blocks above and for the last row of blocks, mostly the same
  SmallArray<PackedWeights> b(size_t(s.across * std::min<int64_t>(s.down, 2)), [&](size_t i) {
    const int64_t column = int64_t(i) % s.across * s.columns;
    const bool bottom = s.down == 1 || int64_t(i) >= s.across, right = int64_t(i) % s.across == s.across - 1;
    return PackedWeights(c, set->to_inner[bottom][right], g.b + (g.transpose_b ? column * g.k : column));
  });
  c.run.parallel_for(s.down * s.across, 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t row = i / s.across * s.rows, column = i % s.across * s.columns;
      const int64_t rows = std::min(s.rows, g.m - row), columns = std::min(s.columns, g.n - column);
      const int bottom = i / s.across == s.down - 1, right = i % s.across == s.across - 1;
      const float* const inner = b.data()[i % s.across + (bottom && s.down > 1 ? s.across : 0)].data();
      const bool is_dense = columns == g.n;
      const int64_t at = row * g.n + column;
      const Scratch staging(is_dense ? 0 : size_t(rows * columns) * sizeof(float));
      float* const out = is_dense ? g.c + at : staging.as<float>();
      if (bias) {
        set->block[bottom][right].run(g.a + row * g.k, inner, out, bias + column);
      } else {
        set->block[bottom][right].run(g.a + row * g.k, inner, out);
      }
      finish_rows(out, columns, g.c + at, g.n, rows, columns, epilogue.at(column, at));
    }
  });
}

// Rows [begin, end) of C with B as (k, n): walks B in rows, in blocks that stay in the cache.
void double_rows(const Gemm<double>& g, const double* b, int64_t begin, int64_t end) {
  constexpr int64_t depth = 64, width = 256;
  std::fill(g.c + begin * g.n, g.c + end * g.n, 0.0);
  for (int64_t j0 = 0; j0 < g.n; j0 += width) {
    const int64_t j1 = std::min(g.n, j0 + width);
    for (int64_t p0 = 0; p0 < g.k; p0 += depth) {
      const int64_t p1 = std::min(g.k, p0 + depth);
      for (int64_t i = begin; i < end; ++i) {
        double* c = g.c + i * g.n;
        for (int64_t p = p0; p < p1; ++p) {
          const double a = g.transpose_a ? g.a[p * g.m + i] : g.a[i * g.k + p];
          const double* row = b + p * g.n;
          for (int64_t j = j0; j < j1; ++j) c[j] += a * row[j];
        }
      }
    }
  }
  finish(g, g.epilogue, begin, 0, end - begin, g.n);
}

// product(i, A, B, C, rows, columns) for each block of C, and the epilogue.
template <class T, class Product>
void each_block(RunContext& run, const Gemm<T>& g, const Blocks& s, Product&& product) {
  run.parallel_for(s.down * s.across, 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t row = i / s.across * s.rows, column = i % s.across * s.columns;
      const int64_t rows = std::min(s.rows, g.m - row), columns = std::min(s.columns, g.n - column);
      const T* a = g.a + (g.transpose_a ? row : row * g.k);
      const T* b = g.b + (g.transpose_b ? column * g.k : column);
      product(i, a, b, g.c + row * g.n + column, rows, columns);
      finish(g, g.epilogue, row, column, rows, columns);
    }
  });
}

// B (n, k) as (k, n).
const double* untransposed(KernelContext& c, const Gemm<double>& g) {
  if (!g.transpose_b) return g.b;
  double* b = static_cast<double*>(c.run.workspace(size_t(g.k * g.n) * sizeof(double)));
  for (int64_t j = 0; j < g.n; ++j) {
    for (int64_t p = 0; p < g.k; ++p) b[p * g.n + j] = g.b[j * g.k + p];
  }
  return b;
}

template <class T>
void batch_of(KernelContext& c, const Gemm<T>& first, int64_t batch) {
  for (int64_t i = 0; i < batch; ++i) {
    Gemm<T> g = first;
    g.a += i * g.m * g.k;
    g.b += i * g.k * g.n;
    g.c += i * g.m * g.n;
    gemm(c, g);
  }
}

}  // namespace

void gemm(KernelContext& c, const Gemm<float>& g) {
  if (g.m == 0 || g.n == 0) return;
  if (g.k == 0) {
    std::fill_n(g.c, g.m * g.n, 0.f);
    return finish(g, g.epilogue, 0, 0, g.m, g.n);
  }
  if (g.m == 1 || g.n == 1) note(c, "gemv (own)");
  if (g.m == 1 && g.transpose_b) return gemv(c.run, g.b, g.a, g.c, g.n, g.k, g.epilogue);
  if (g.m == 1) {
    gemv_transposed(c.run, g.b, g.a, g.c, g.k, g.n);
    return finish(g, g.epilogue, 0, 0, 1, g.n);
  }
  if (g.n == 1) {
    if (g.transpose_a) {
      gemv_transposed(c.run, g.a, g.b, g.c, g.k, g.m);
    } else {
      gemv(c.run, g.a, g.b, g.c, g.m, g.k);
    }
    return finish(g, g.epilogue, 0, 0, g.m, 1);
  }
  if (!c.exact && !g.transpose_a && c.source_of(g.b).buffer) return packed_gemm(c, g);
  const Blocks s = split(g.m, g.n, g.k, has_panels(g) ? panel : 128);
  if (g.transpose_b && !g.transpose_a && s.rows >= 12) {
    const auto set = onednn::obtain<TransposedProducts>(c, "matmul", onednn::Key('m', g.m, g.n, g.k),
                                                        [&] { return make_transposed(s, g.m, g.n, g.k); });
    each_block(c.run, g, s, [&](int64_t i, const float* a, const float* b, float* out, int64_t rows, int64_t columns) {
      const Primitive& product = set->block[i / s.across == s.down - 1][i % s.across == s.across - 1];
      run_transposed(product, a, b, out, rows, columns, g.n);
    });
  } else {
    note(c, "sgemm");
    each_block(c.run, g, s, [&](int64_t, const float* a, const float* b, float* out, int64_t rows, int64_t columns) {
      blas_block(g, a, b, out, rows, columns);
    });
  }
}

void gemm(KernelContext& c, const Gemm<double>& g) {
  if (g.m == 0 || g.n == 0) return;
  if (g.m > 1 && g.k > 0 && has_blas(g)) {
    note(c, "dgemm");
    return each_block(c.run, g, split(g.m, g.n, g.k),
                      [&](int64_t, const double* a, const double* b, double* out, int64_t rows, int64_t columns) {
                        blas_block(g, a, b, out, rows, columns);
                      });
  }
  note(c, "gemm in double (own)");
  const double* b = untransposed(c, g);
  const int64_t grain = std::max<int64_t>(1, 40000 / std::max<int64_t>(1, g.n * g.k));
  c.run.parallel_for(g.m, grain, [&](int64_t begin, int64_t end) { double_rows(g, b, begin, end); });
}

namespace {

// Products that are not worth a division among threads each.
template <class T>
void small_batch(KernelContext& c, const Gemm<T>& g, int64_t batch, double flops) {
  const int64_t grain = std::max<int64_t>(1, int64_t(4e6 / flops));
  const bool is_small = g.m * g.n * g.k <= small_product;
  c.run.parallel_for(batch, is_small ? std::min<int64_t>(grain, 4096) : grain, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const T *const a = g.a + i * g.m * g.k, *const b = g.b + i * g.k * g.n;
      T* const out = g.c + i * g.m * g.n;
      if (is_small) {
        small_block(g, a, b, out);
      } else {
        blas_block(g, a, b, out, g.m, g.n);
      }
    }
  });
}

template <class T>
void batch_products(KernelContext& c, const Gemm<T>& first, int64_t batch, bool has_library) {
  const double flops = 2.0 * double(first.m) * double(first.n) * double(first.k);
  if (flops > 8e6 || flops == 0 || !has_library) return batch_of(c, first, batch);
  note(c, sizeof(T) == 4 ? "sgemm" : "dgemm");
  small_batch(c, first, batch, flops);
}

}  // namespace

void batch_gemm(KernelContext& c, const Gemm<float>& first, int64_t batch) { batch_products(c, first, batch, true); }
void batch_gemm(KernelContext& c, const Gemm<double>& first, int64_t batch) {
  batch_products(c, first, batch, has_blas(first));
}

double gemm_flops(const Shape& a, const Shape& b, const Shape& c, int64_t batch) {
  // each of m, n and k is in two of the sizes, and the batch in all three
  const double product = double(a.size()) * double(b.size()) * double(c.size());
  return 2 * std::sqrt(product / std::max<double>(1, double(batch)));
}

}  // namespace kaon::ops
