#include "kaon/ops/optim/optim.h"

#include "kaon/ops/op_def.h"
#include "kaon/ops/optim/kernels/update_rules.h"

namespace kaon {

using namespace ops;

constinit const OpDef op::AdamUpdate::def = make_op_def<op::AdamUpdate>();
constinit const OpDef op::MultiAdamUpdate::def = make_op_def<op::MultiAdamUpdate>();

void op::AdamUpdate::infer(InferContext& c) const { infer_update(c, rule_of(*this), lr, wd); }
void run_cpu(const op::AdamUpdate& op, KernelContext& c) { run_update(rule_of(op), op.lr, op.wd, c); }

void op::MultiAdamUpdate::infer(InferContext& c) const { infer_multi_update(c, rule_of(*this), 4); }
void run_cpu(const op::MultiAdamUpdate& op, KernelContext& c) { run_multi_update(rule_of(op), 4, c); }

}  // namespace kaon
