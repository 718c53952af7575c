#include "kaon/ops/optim/optim.h"

#include "kaon/ops/op_def.h"
#include "kaon/ops/optim/kernels/update_rules.h"

namespace kaon {

using namespace ops;

constinit const OpDef op::SGDUpdate::def = make_op_def<op::SGDUpdate>();
constinit const OpDef op::SGDMomUpdate::def = make_op_def<op::SGDMomUpdate>();
constinit const OpDef op::MultiSGDUpdate::def = make_op_def<op::MultiSGDUpdate>();
constinit const OpDef op::MultiSGDMomUpdate::def = make_op_def<op::MultiSGDMomUpdate>();

void op::SGDUpdate::infer(InferContext& c) const { infer_update(c, rule_of(*this), lr, wd); }
void run_cpu(const op::SGDUpdate& op, KernelContext& c) { run_update(rule_of(op), op.lr, op.wd, c); }

void op::SGDMomUpdate::infer(InferContext& c) const { infer_update(c, rule_of(*this), lr, wd); }
void run_cpu(const op::SGDMomUpdate& op, KernelContext& c) { run_update(rule_of(op), op.lr, op.wd, c); }

void op::MultiSGDUpdate::infer(InferContext& c) const { infer_multi_update(c, rule_of(*this), 2); }
void run_cpu(const op::MultiSGDUpdate& op, KernelContext& c) { run_multi_update(rule_of(op), 2, c); }

void op::MultiSGDMomUpdate::infer(InferContext& c) const { infer_multi_update(c, rule_of(*this), 3); }
void run_cpu(const op::MultiSGDMomUpdate& op, KernelContext& c) { run_multi_update(rule_of(op), 3, c); }

}  // namespace kaon
