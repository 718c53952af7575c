// The product of a csr matrix and a dense one on the CPU. A light header.
#pragma once

#include "kaon/ops/op.h"

namespace kaon {

struct OpDef;

namespace op {
// data (k,), indices (k,), indptr (m + 1,) of a matrix (m, columns), or with `transpose` of its transpose, times dense.
// Called with arrays on the CPU only.
struct CsrDot {
  int64_t columns = 0;
  bool transpose = false;
  static constexpr OpTraits traits{
      .name = "_csr_dot", .inputs = ops::Names("data", "indices", "indptr", "dense"), .in_mxnet = false};
  static constexpr void fields(auto field) {
    field("columns", &CsrDot::columns, true);
    field("transpose", &CsrDot::transpose);
  }
  static const OpDef def;
  void infer(InferContext& c) const;
  void grad(GradContext& g) const;
};
}  // namespace op
void run_cpu(const op::CsrDot& op, KernelContext& c);

namespace ops {

// Whether a kernel may read the parts of a csr matrix: indptr begins at 0, ends at k and never falls; indices are in
// [0, columns).
bool is_valid_csr(const int64_t* indptr, int64_t rows, const int64_t* indices, int64_t k, int64_t columns);

}  // namespace ops
}  // namespace kaon
