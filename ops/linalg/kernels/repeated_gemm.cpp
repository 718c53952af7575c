#include "kaon/ops/linalg/kernels/repeated_gemm.h"

#include <algorithm>

#include "kaon/ops/linalg/kernels/gemv.h"
#include "kaon/ops/linalg/kernels/packed_product.h"

namespace kaon::ops {
namespace {

// The product of a piece: of the last one and of the others.
struct PieceProducts : KernelState {
  PackedProduct product[2];
  std::string implementation() const override { return product[0].implementation(); }
};

}  // namespace

template <class T>
struct RepeatedGemm<T>::Packed {
  onednn::CacheHandle<PieceProducts> products;
  const std::byte* data;  // of all pieces in turn
};

template <class T>
RepeatedGemm<T>::~RepeatedGemm() = default;

template <>
RepeatedGemm<float>::RepeatedGemm(KernelContext& c, int64_t m, int64_t n, int64_t k, const float* b, bool transpose_b,
                                  int64_t width)
    : c_(c), m_(m), n_(n), k_(k), width_(n), pieces_(1), b_(b), transpose_b_(transpose_b) {
  if (m == 0 || n == 0 || k == 0) return;
  width_ = std::clamp<int64_t>(width, 1, n), pieces_ = (n + width_ - 1) / width_;
  if (m == 1) return;
  const int64_t last = n - (pieces_ - 1) * width_;
  const onednn::Key key('r', m, n, k, transpose_b, width_);
  auto products = onednn::obtain<PieceProducts>(c, "inner product", key, [&] {
    auto made = std::make_unique<PieceProducts>();
    made->product[0] = PackedProduct(m, last, k, transpose_b, n);
    if (pieces_ > 1) made->product[1] = PackedProduct(m, width_, k, transpose_b, n);
    return made;
  });
  const size_t each = products->product[pieces_ > 1].bytes();
  auto* const data =
      static_cast<std::byte*>(c.run.workspace(each * size_t(pieces_ - 1) + products->product[0].bytes()));
  c.run.parallel_for(pieces_, 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const float* const from = b + i * width_ * (transpose_b ? k : 1);
      products->product[i + 1 < pieces_].pack(from, data + size_t(i) * each);
    }
  });
  packed_.reset(new Packed{std::move(products), data});
}

template <>
void RepeatedGemm<float>::run(int64_t piece, const float* a, float* out) const {
  const int64_t columns = columns_of(piece);
  if (m_ == 0 || n_ == 0) return;
  if (k_ == 0) return std::fill_n(out, m_ * columns, 0.f), void();
  if (packed_) {
    const PieceProducts& products = *packed_->products;
    const size_t each = products.product[pieces_ > 1].bytes();
    products.product[piece + 1 < pieces_].run(a, packed_->data + size_t(piece) * each, out);
  } else if (transpose_b_) {
    gemv(c_.run, b_ + piece * width_ * k_, a, out, columns, k_);
  } else if (is_split()) {
    gemv_transposed(b_ + piece * width_, a, out, k_, n_, 0, columns);
  } else {
    gemv_transposed(c_.run, b_, a, out, k_, n_);
  }
}

// In double there is one piece, whose rows the product splits.
template <>
RepeatedGemm<double>::RepeatedGemm(KernelContext& c, int64_t m, int64_t n, int64_t k, const double* b, bool transpose_b,
                                   int64_t)
    : c_(c), m_(m), n_(n), k_(k), width_(n), pieces_(1), b_(b), transpose_b_(false) {
  if (!transpose_b || n * k == 0) return;
  auto* const plain = static_cast<double*>(c.run.workspace(size_t(n * k) * sizeof(double)));
  for (int64_t j = 0; j < n; ++j) {
    for (int64_t p = 0; p < k; ++p) plain[p * n + j] = b[j * k + p];
  }
  b_ = plain;
}

template <>
void RepeatedGemm<double>::run(int64_t, const double* a, double* out) const {
  gemm(c_, {.a = a, .b = b_, .c = out, .m = m_, .n = n_, .k = k_});
}

template class RepeatedGemm<float>;
template class RepeatedGemm<double>;

}  // namespace kaon::ops
