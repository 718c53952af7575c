// norm: the 1-norm or 2-norm over axes.
#pragma once

#include "kaon/ops/host_device.h"
#include "kaon/ops/op.h"
#include "kaon/ops/operator/attributes.h"

namespace kaon {

struct OpDef;

// ord 1: sum |x|; ord 2: sqrt(sum x^2), accumulated in float64 so that squares do not overflow. Axes as in Reduce.
// Floating dtypes. The gradient of the 2-norm at 0 is 0.
struct Norm {
  int ord = 2;
  Shape axis{};
  std::optional<DType> out_dtype{};
  bool keepdims = false;
  static constexpr OpTraits traits{.name = "norm"};
  static constexpr void fields(auto field) {
    field("ord", &Norm::ord);
    field("axis", &Norm::axis);
    field("out_dtype", &Norm::out_dtype);
    field("keepdims", &Norm::keepdims);
  }
  static const OpDef def;
  void infer(InferContext& c) const;
  void grad(GradContext& g) const;
  bool keeps_rows(const RowQuery& q) const { return !axis.empty() && !q.names_first(axis); }
};
void run_cpu(const Norm& op, KernelContext& c);
void run_cuda(const Norm& op, KernelContext& c);

// Per element, from the head, the element and the norm; T: float, double.
struct NormGradValue {
  int ord;
  template <class T>
  HOST_DEVICE T operator()(T head, T x, T norm) const {
    if (ord == 1) return x > 0 ? head : x < 0 ? -head : x == 0 ? T(0) : x;
    return norm == 0 ? T(0) : head * (x / norm);
  }
};

// Gradient of norm: head * sign(data), or head * data / out.
struct NormGrad {
  int ord = 2;
  Shape axis{};
  static constexpr OpTraits traits{
      .name = "_backward_norm", .inputs = Names("head", "data", "out"), .inplace = 1, .in_mxnet = false};
  static constexpr void fields(auto field) {
    field("ord", &NormGrad::ord);
    field("axis", &NormGrad::axis);
  }
  static const OpDef def;
  void infer(InferContext& c) const;
  void grad(GradContext& g) const;
};
void run_cpu(const NormGrad& op, KernelContext& c);
void run_cuda(const NormGrad& op, KernelContext& c);

}  // namespace kaon
