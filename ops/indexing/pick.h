// pick, batch_take and one_hot: one element per index along an axis.
#pragma once

#include "kaon/ops/kernels/index_list.h"
#include "kaon/ops/op.h"
#include "kaon/ops/operator/attributes.h"

namespace kaon {

struct OpDef;

// out[..., ...] = data[..., index[..., ...], ...]: one element of each run along `axis`. index has the shape of data
// without that axis, or with size 1 there. Modes clip and wrap.
struct Pick {
  int axis = -1;
  bool keepdims = false;
  IndexMode mode = IndexMode::clip;
  static constexpr OpTraits traits{.name = "pick",
                                   .inputs = Names("data", "index"),
                                   .recomputable = true,
                                   .aliases = Names("choose_element_0index")};
  static constexpr void fields(auto field) {
    field("axis", &Pick::axis);
    field("keepdims", &Pick::keepdims);
    field("mode", &Pick::mode);
  }
  static const OpDef def;
  void infer(InferContext& c) const;
  void grad(GradContext& g) const;
  bool keeps_rows(const RowQuery& q) const { return q.all_have_rows() && !q.is_first(axis); }
};
void run_cpu(const Pick& op, KernelContext& c);
void run_cuda(const Pick& op, KernelContext& c);

// Gradient of pick: zeros of `shape` with head at the picked elements.
struct PickGrad {
  Shape shape{};
  int axis = -1;
  IndexMode mode = IndexMode::clip;
  static constexpr OpTraits traits{.name = "_backward_pick", .inputs = Names("head", "index"), .in_mxnet = false};
  static constexpr void fields(auto field) {
    field("shape", &PickGrad::shape, true);
    field("axis", &PickGrad::axis);
    field("mode", &PickGrad::mode);
  }
  static const OpDef def;
  void infer(InferContext& c) const;
  void grad(GradContext& g) const;
};
void run_cpu(const PickGrad& op, KernelContext& c);
void run_cuda(const PickGrad& op, KernelContext& c);

// out[i] = a[i, indices[i]]; indices outside are clipped.
struct BatchTake {
  static constexpr OpTraits traits{.name = "batch_take", .inputs = Names("a", "indices")};
  static constexpr void fields(auto) {}
  static const OpDef def;
  void infer(InferContext& c) const;
  void grad(GradContext& g) const;
  bool keeps_rows(const RowQuery& q) const { return q.all_have_rows(); }
};
void run_cpu(const BatchTake& op, KernelContext& c);
void run_cuda(const BatchTake& op, KernelContext& c);

// indices.shape + (depth,): on_value at the index, off_value elsewhere and everywhere for an index outside. Gradient:
// none.
struct OneHot {
  int64_t depth = 0;
  double on_value = 1;
  double off_value = 0;
  DType dtype = DType::float32;
  static constexpr OpTraits traits{.name = "one_hot", .inputs = Names("indices"), .flat = true};
  static constexpr void fields(auto field) {
    field("depth", &OneHot::depth, true);
    field("on_value", &OneHot::on_value);
    field("off_value", &OneHot::off_value);
    field("dtype", &OneHot::dtype);
  }
  static const OpDef def;
  void infer(InferContext& c) const;
  bool keeps_rows(const RowQuery& q) const { return q.all_have_rows(); }
};
void run_cpu(const OneHot& op, KernelContext& c);
void run_cuda(const OneHot& op, KernelContext& c);

}  // namespace kaon
