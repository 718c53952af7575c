// take and Embedding: rows of an array by index, and their gradient.
#pragma once

#include "kaon/ops/kernels/index_list.h"
#include "kaon/ops/op.h"
#include "kaon/ops/operator/attributes.h"

namespace kaon {

struct OpDef;

// a[..., indices, ...] along `axis`: the axis is replaced by the axes of indices. Indices may be floats. Gradient:
// scatter-add.
struct Take {
  int axis = 0;
  IndexMode mode = IndexMode::clip;
  static constexpr OpTraits traits{.name = "take", .inputs = Names("a", "indices"), .recomputable = true};
  static constexpr void fields(auto field) {
    field("axis", &Take::axis);
    field("mode", &Take::mode);
  }
  static const OpDef def;
  void infer(InferContext& c) const;
  void grad(GradContext& g) const;
  bool keeps_rows(const RowQuery& q) const { return q.count() == 1 && q.has_rows(1) == q.is_first(axis); }
};
void run_cpu(const Take& op, KernelContext& c);
void run_cuda(const Take& op, KernelContext& c);

// Gradient of take: zeros of `shape` with the slices of head added at the indices, in index order.
struct TakeGrad {
  Shape shape{};
  int axis = 0;
  IndexMode mode = IndexMode::clip;
  static constexpr OpTraits traits{.name = "_backward_take", .inputs = Names("head", "indices"), .in_mxnet = false};
  static constexpr void fields(auto field) {
    field("shape", &TakeGrad::shape, true);
    field("axis", &TakeGrad::axis);
    field("mode", &TakeGrad::mode);
  }
  static const OpDef def;
  void infer(InferContext& c) const;
  void grad(GradContext& g) const;
};
void run_cpu(const TakeGrad& op, KernelContext& c);
void run_cuda(const TakeGrad& op, KernelContext& c);

// Row data[i] of weight (input_dim, output_dim) for every index: data.shape + (output_dim,). Indices outside are
// clipped. The dtype is that of weight. sparse_grad = True is refused.
struct Embedding {
  int64_t input_dim = 0;
  int64_t output_dim = 0;
  DType dtype = DType::float32;
  bool sparse_grad = false;
  static constexpr OpTraits traits{
      .name = "Embedding", .inputs = Names("data", "weight"), .infers = bit(1), .recomputable = true};
  static constexpr void fields(auto field) {
    field("input_dim", &Embedding::input_dim, true);
    field("output_dim", &Embedding::output_dim, true);
    field("dtype", &Embedding::dtype);
    field("sparse_grad", &Embedding::sparse_grad);
  }
  static const OpDef def;
  void infer(InferContext& c) const;
  void grad(GradContext& g) const;
  bool keeps_rows(const RowQuery& q) const { return q.only_first_has_rows(); }
};
void run_cpu(const Embedding& op, KernelContext& c);
void run_cuda(const Embedding& op, KernelContext& c);

}  // namespace kaon
