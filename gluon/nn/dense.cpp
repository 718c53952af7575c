#include "kaon/gluon/nn/dense.h"

#include <fmt/format.h>

#include <limits>

namespace kaon::gluon::nn {

Dense::Dense(int64_t units, const DenseOptions& options)
    : HybridBlock("dense"), units_(int(units)), flatten_(options.flatten) {
  if (units < 1 || units > std::numeric_limits<int>::max()) {
    throw ValueError(fmt::format("[Dense] units must be positive, got {}", units));
  }
  if (options.in_units < 0)
    throw ValueError(fmt::format("[Dense] in_units must not be negative, got {}", options.in_units));
  weight = param("weight", {units, options.in_units}, {.dtype = options.dtype, .init = options.weight_initializer});
  if (options.use_bias) bias = param("bias", {units}, {.dtype = options.dtype, .init = options.bias_initializer});
  if (options.activation.is_set()) activation_ = child(options.activation.name(), Activation(options.activation));
}

}  // namespace kaon::gluon::nn
