#include "kaon/gluon/nn/basic.h"

#include <fmt/format.h>

namespace kaon::gluon::nn {

Dropout::Dropout(double rate, const DropoutOptions& options)
    : HybridBlock("dropout"), rate_(rate), axes_(options.axes) {
  if (!(rate >= 0 && rate <= 1)) throw ValueError(fmt::format("[Dropout] rate must lie in [0, 1], got {}", rate));
}

Embedding::Embedding(int64_t input_dim, int64_t output_dim, const EmbeddingOptions& options)
    : HybridBlock("embedding"), input_dim_(input_dim), output_dim_(output_dim), sparse_grad_(options.sparse_grad) {
  if (input_dim < 1 || output_dim < 1) {
    throw ValueError(fmt::format("[Embedding] both dimensions must be positive, got {} and {}", input_dim, output_dim));
  }
  weight = param("weight", {input_dim, output_dim},
                 {.dtype = options.dtype, .init = options.weight_initializer, .row_sparse_grad = options.sparse_grad});
}

Flatten::Flatten() : HybridBlock("flatten") {}
Identity::Identity() : HybridBlock("identity") {}

}  // namespace kaon::gluon::nn
