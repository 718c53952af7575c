#include "kaon/ops/linalg/kernels/packed_product.h"

#include <algorithm>

#include "kaon/ops/kernels/onednn_versions.h"

namespace kaon::ops {

PackedProduct::PackedProduct(int64_t m, int64_t n, int64_t k, bool transpose_b, int64_t b_stride) {
  const auto a = onednn::plain({m, k}), c = onednn::plain({m, n});
  const auto b = transpose_b ? onednn::plain({n, k}) : onednn::strided({n, k}, {1, b_stride});
  const auto desc = onednn::describe<dnnl::inner_product_forward>(onednn::engine(), onednn::attributes(),
                                                                  dnnl::prop_kind::forward_inference, a,
                                                                  onednn::any({n, k}), onednn::Desc(), c);
  const auto inner = desc.weights_desc();
  product_ =
      onednn::Primitive("inner product", desc, {{DNNL_ARG_SRC, a}, {DNNL_ARG_WEIGHTS, inner}, {DNNL_ARG_DST, c}});
  if (inner != b) to_inner_ = onednn::make_reorder(b, inner);
  size_ = inner.get_size();
}

void PackedProduct::pack(const float* b, void* packed) const {
  if (to_inner_) {
    to_inner_.run(b, packed);
  } else {
    std::copy_n(reinterpret_cast<const std::byte*>(b), size_, static_cast<std::byte*>(packed));
  }
}

}  // namespace kaon::ops
