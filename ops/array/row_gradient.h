// What a gradient rule may do beside GradContext: give rows of a gradient instead of a whole one.
#pragma once

#include "kaon/ops/op.h"

namespace kaon::ops {

// The context of a backward that stores gradients; rules ask for it by dynamic_cast, and give dense ones elsewhere.
class RowGradContext : public GradContext {
 public:
  // Whether the gradient of input i ends in an array that keeps rows of it.
  virtual bool takes_rows(int i) const = 0;
  // In place of set(): the gradient has values[j] (k, ...) added at row indices[j] (k,), of int64.
  virtual void set_rows(int i, NDArray values, NDArray indices) = 0;
  // Beside set(): the rows of input i that the call has read, indices (k,) of int64. The gradient is zero in all
  // others.
  virtual void set_rows_read(int i, NDArray indices) = 0;
};

}  // namespace kaon::ops
