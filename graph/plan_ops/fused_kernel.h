// The operator that replaces a group of pointwise operators on a GPU, with a kernel compiled for it.
#pragma once

#include <string>
#include <vector>

#include "kaon/ops/op.h"

namespace kaon {

struct OpDef;

}  // namespace kaon

namespace kaon::graph {

// The kernel `fused`, to be compiled at run time: fused(n, aligned, inputs..., outputs...) computes n elements, `pack`
// of them together. `aligned`: pointers of arrays that are read and written in packs are multiples of these packs'
// bytes. One object for each text, as long as the process. Thread safety: immutable.
struct KernelSource {
  std::string text;  // CUDA C++, after kernel_prelude()
  int pack = 1;
  std::vector<DType> inputs, outputs;
  std::vector<bool> packed;  // by input: read in packs

  static const KernelSource* intern(KernelSource source);
};

}  // namespace kaon::graph

namespace kaon {

namespace op {
// Outputs of one shape. Exists in plans only.
struct FusedKernel {
  const graph::KernelSource* source = nullptr;
  Shape shape;
  bool takes_over = false;  // output 0 may take the memory of input 0
  static constexpr OpTraits traits{.name = "_fused_kernel", .in_mxnet = false};
  static constexpr OpTraits in_place_traits{.name = "_fused_kernel", .inplace = 0, .in_mxnet = false};
  static constexpr void fields(auto) {}  // never in files
  static const OpDef def;
  int num_inputs() const { return source ? int(source->inputs.size()) : 0; }
  int num_outputs() const { return source ? int(source->outputs.size()) : 1; }
  const OpTraits& traits_of() const { return takes_over ? in_place_traits : traits; }
  void infer(InferContext& c) const;
  friend bool operator==(const FusedKernel&, const FusedKernel&) = default;
};
// Compiles; throws DeviceError. Beside the operator: it is found by its first argument alone.
void prepare_cuda(const FusedKernel& op, int device);
}  // namespace op
void run_cpu(const op::FusedKernel& op, KernelContext& c);  // throws StateError
void run_cuda(const op::FusedKernel& op, KernelContext& c);

}  // namespace kaon
