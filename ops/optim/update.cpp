#include "kaon/ops/op_def.h"
#include "kaon/ops/optim/kernels/update_check.h"
#include "kaon/ops/optim/optim.h"

namespace kaon {

using namespace ops;

namespace {

template <class Op>
int number_of_weights(const Op& op) {
  if constexpr (requires { op.num_weights; }) return op.num_weights;
  if constexpr (requires { op.num_tensors; }) return op.num_tensors;
  return 1;
}

void expect_count(const InferContext& c, const char* name, int got, int weights) {
  if (got == weights) return;
  c.fail_value(std::string(name) + " must have a number for each of " + to_text(weights) + " weights, got " +
               to_text(got));
}

// Counts of updates are positive, and tuples have a number for each weight.
template <class Op>
void check(const Op& op, InferContext& c) {
  const int weights = number_of_weights(op);
  Op::fields([&](const char* name, auto member, bool = false) {
    if constexpr (requires { (op.*member).data(); }) expect_count(c, name, (op.*member).size(), weights);
  });
  int least = 1;
  if constexpr (requires { op.t; }) least = op.t;
  if constexpr (requires { op.step_count; }) {
    for (int i = 0; i < weights; ++i) least = std::min(least, int(op.step_count[i]));
  }
  if (least < 1) c.fail_value("updates are counted from 1, got " + to_text(least));
  check_update(c, update_call(op), weights);
}

// Of lamb_direction: u.
template <class Op>
void set_output(const Op&, InferContext& c) {
  if constexpr (Op::traits.outputs == 1) {
    c.set_output(c.shape(0), Op::form.multi_precision ? DType::float32 : c.dtype(0));
  }
}

}  // namespace

#define KAON_UPDATE(name)                                        \
  constinit const OpDef op::name::def = make_op_def<op::name>(); \
  void op::name::infer(InferContext& c) const { check(*this, c); }
KAON_UPDATE(SignSGDUpdate)
KAON_UPDATE(SignumUpdate)
KAON_UPDATE(RMSPropUpdate)
KAON_UPDATE(RMSPropAlexUpdate)
KAON_UPDATE(FtrlUpdate)
KAON_UPDATE(FTMLUpdate)
KAON_UPDATE(AdamUpdate)
KAON_UPDATE(SparseAdagradUpdate)
#undef KAON_UPDATE

// With and without float32 copies.
#define KAON_UPDATE(name)                                                \
  template <bool mp>                                                     \
  constinit const OpDef op::name<mp>::def = make_op_def<op::name<mp>>(); \
  template <bool mp>                                                     \
  void op::name<mp>::infer(InferContext& c) const {                      \
    check(*this, c);                                                     \
    set_output(*this, c);                                                \
  }                                                                      \
  template struct op::name<false>;                                       \
  template struct op::name<true>;
KAON_UPDATE(SGDUpdateOf)
KAON_UPDATE(SGDMomUpdateOf)
KAON_UPDATE(NAGMomUpdateOf)
KAON_UPDATE(AdamWUpdateOf)
KAON_UPDATE(LambPhase1Of)
KAON_UPDATE(MultiSGDUpdateOf)
KAON_UPDATE(MultiSGDMomUpdateOf)
KAON_UPDATE(PreloadedMultiSGDUpdateOf)
KAON_UPDATE(PreloadedMultiSGDMomUpdateOf)
KAON_UPDATE(MultiAdamWUpdateOf)
KAON_UPDATE(MultiLambUpdateOf)
#undef KAON_UPDATE

template <bool mp>
constinit const OpDef op::LambPhase2Of<mp>::def = make_op_def<op::LambPhase2Of<mp>>();
template <bool mp>
void op::LambPhase2Of<mp>::infer(InferContext& c) const {
  check_lamb_step(c, lr, lower_bound, upper_bound, mp);
}
template struct op::LambPhase2Of<false>;
template struct op::LambPhase2Of<true>;

template <int arrays>
constinit const OpDef op::MultiUpdate<arrays>::def = make_op_def<op::MultiUpdate<arrays>>();
template <int arrays>
void op::MultiUpdate<arrays>::infer(InferContext& c) const {
  check_multi_update(c, *this, arrays);
}
template struct op::MultiUpdate<2>;
template struct op::MultiUpdate<3>;
template struct op::MultiUpdate<4>;
template struct op::MultiUpdate<5>;
template struct op::MultiUpdate<6>;

}  // namespace kaon
