// Functions of two arrays, element by element, broadcasting: dimensions are matched from the right, and one of
// size 1 is repeated. Both arrays have one dtype, which is that of the result; comparisons give 0 and 1 in it.
// mod has the sign of the divisor and is 0 for a divisor of 0; integer division truncates, and gives 0 likewise.
// logaddexp = log(e^a + e^b) without overflow, of floating dtypes; equal infinities share its gradient, half each.
#pragma once

#include "kaon/ops/binary_kind.h"
#include "kaon/ops/operator/op_def.h"
#include "kaon/ops/scalar_kind.h"

namespace kaon {

void infer_binary(BinaryKind kind, InferContext& c);
void grad_binary(BinaryKind kind, GradContext& g);
FusedForms fused_binary(BinaryKind kind, const RegisterKernels& k);
void run_binary(BinaryKind kind, KernelContext& c);
void run_binary_cuda(BinaryKind kind, KernelContext& c);

struct BinaryInfo {
  std::string_view name;
  Names aliases;
  bool in_mxnet = true;
};

// In the order of BinaryKind.
inline constexpr std::array<BinaryInfo, size_t(binary_kinds)> binary_table{{
    {"broadcast_add", {"elemwise_add", "broadcast_plus", "_plus", "_Plus", "_add", "_grad_add"}},
    {"broadcast_sub", {"elemwise_sub", "broadcast_minus", "_minus", "_Minus", "_sub"}},
    {"broadcast_mul", {"elemwise_mul", "_mul", "_Mul"}},
    {"broadcast_div", {"elemwise_div", "_div", "_Div"}},
    {"broadcast_mod", {"_mod", "_Mod"}},
    {"broadcast_power", {"_power", "_Power"}},
    {"broadcast_maximum", {"_maximum", "_Maximum"}},
    {"broadcast_minimum", {"_minimum", "_Minimum"}},
    {"broadcast_hypot", {"_hypot"}},
    {"logaddexp", {}, false},
    {"broadcast_equal", {"_equal", "_Equal"}},
    {"broadcast_not_equal", {"_not_equal", "_Not_Equal"}},
    {"broadcast_greater", {"_greater", "_Greater"}},
    {"broadcast_greater_equal", {"_greater_equal", "_Greater_Equal"}},
    {"broadcast_lesser", {"_lesser", "_Lesser"}},
    {"broadcast_lesser_equal", {"_lesser_equal", "_Lesser_Equal"}},
    {"broadcast_logical_and", {"_logical_and", "_Logical_And"}},
    {"broadcast_logical_or", {"_logical_or", "_Logical_Or"}},
    {"broadcast_logical_xor", {"_logical_xor", "_Logical_Xor"}},
}};

template <BinaryKind K>
struct Binary {
  static constexpr OpTraits traits{.name = binary_table[size_t(K)].name,
                                   .inputs = {"lhs", "rhs"},
                                   .inplace = 0,
                                   .pointwise = true,
                                   .any_layout = true,
                                   .in_mxnet = binary_table[size_t(K)].in_mxnet,
                                   .flat = is_logical(K),
                                   .aliases = binary_table[size_t(K)].aliases};
  static constexpr void fields(auto) {}
  static const OpDef def;
  void infer(InferContext& c) const { infer_binary(K, c); }
  void grad(GradContext& g) const requires(!is_logical(K)) { grad_binary(K, g); }
  FusedForms fused_forms(const RegisterKernels& k) const { return fused_binary(K, k); }
  std::optional<CudaExpression> cuda_expression(const ExpressionArgs& a) const {
    return binary_expression(K, a.type(), a.in[0], a.in[1]);
  }
};
template <BinaryKind K>
void run_cpu(const Binary<K>&, KernelContext& c) {
  run_binary(K, c);
}
template <BinaryKind K>
void run_cuda(const Binary<K>&, KernelContext& c) {
  run_binary_cuda(K, c);
}
template <BinaryKind K>
constinit const OpDef Binary<K>::def = make_op_def<Binary<K>>();

using BroadcastAdd = Binary<BinaryKind::add>;
using BroadcastSub = Binary<BinaryKind::sub>;
using BroadcastMul = Binary<BinaryKind::mul>;
using BroadcastDiv = Binary<BinaryKind::div>;
using BroadcastMod = Binary<BinaryKind::mod>;
using BroadcastPower = Binary<BinaryKind::power>;
using BroadcastMaximum = Binary<BinaryKind::maximum>;
using BroadcastMinimum = Binary<BinaryKind::minimum>;
using BroadcastHypot = Binary<BinaryKind::hypot>;
using LogAddExp = Binary<BinaryKind::logaddexp>;
using BroadcastEqual = Binary<BinaryKind::equal>;
using BroadcastNotEqual = Binary<BinaryKind::not_equal>;
using BroadcastGreater = Binary<BinaryKind::greater>;
using BroadcastGreaterEqual = Binary<BinaryKind::greater_equal>;
using BroadcastLesser = Binary<BinaryKind::lesser>;
using BroadcastLesserEqual = Binary<BinaryKind::lesser_equal>;
using BroadcastLogicalAnd = Binary<BinaryKind::logical_and>;
using BroadcastLogicalOr = Binary<BinaryKind::logical_or>;
using BroadcastLogicalXor = Binary<BinaryKind::logical_xor>;

}  // namespace kaon
