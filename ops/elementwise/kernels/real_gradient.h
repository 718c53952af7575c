// Gradients of integers by the rules of real numbers.
#pragma once

#include <array>
#include <optional>
#include <utility>

#include "kaon/ops/functions.h"
#include "kaon/ops/op_def.h"

namespace kaon::ops {

// A pointwise call of integers in float64: its gradients are cut to integers once, as in MXNet, where integer
// arithmetic would cut each quotient of a rule. `call(input)` makes the output, where `input(i)` are the inputs.
template <class Call>
class RealGradient final : public GradContext {
 public:
  RealGradient(GradContext& integers, Call call) : integers_(integers), call_(std::move(call)) {}

  int num_inputs() const override { return integers_.num_inputs(); }
  const NDArray& input(int i) const override { return cast(inputs_[size_t(i)], integers_.input(i)); }
  const NDArray& output(int) const override {
    if (!output_) output_ = call_([this](int i) -> const NDArray& { return input(i); });
    return *output_;
  }
  const NDArray& input_like(int i) const override { return integers_.input_like(i); }
  const NDArray& head(int) const override { return cast(head_, integers_.head()); }
  bool has_head(int i) const override { return integers_.has_head(i); }
  bool wants(int i) const override { return integers_.wants(i); }
  void set(int i, NDArray gradient) override { integers_.set(i, cut(gradient)); }
  NDArray cut(const NDArray& gradient) const { return nd.cast(gradient, integers_.head().dtype()); }

 private:
  using Cached = std::optional<NDArray>;
  static const NDArray& cast(Cached& real, const NDArray& x) {
    if (!real) real = nd.cast(x, DType::float64);
    return *real;
  }

  GradContext& integers_;
  Call call_;
  mutable std::array<Cached, 2> inputs_;
  mutable Cached output_, head_;
};

}  // namespace kaon::ops
