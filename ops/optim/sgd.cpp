#include "kaon/ops/optim/optim.h"

#include "kaon/ops/op_def.h"
#include "kaon/ops/optim/kernels/update_rules.h"

namespace kaon {

constinit const OpDef SGDUpdate::def = make_op_def<SGDUpdate>();
constinit const OpDef SGDMomUpdate::def = make_op_def<SGDMomUpdate>();
constinit const OpDef MultiSGDUpdate::def = make_op_def<MultiSGDUpdate>();
constinit const OpDef MultiSGDMomUpdate::def = make_op_def<MultiSGDMomUpdate>();

void SGDUpdate::infer(InferContext& c) const { infer_update(c, rule_of(*this), lr, wd); }
void run_cpu(const SGDUpdate& op, KernelContext& c) { run_update(rule_of(op), op.lr, op.wd, c); }

void SGDMomUpdate::infer(InferContext& c) const { infer_update(c, rule_of(*this), lr, wd); }
void run_cpu(const SGDMomUpdate& op, KernelContext& c) { run_update(rule_of(op), op.lr, op.wd, c); }

void MultiSGDUpdate::infer(InferContext& c) const { infer_multi_update(c, rule_of(*this), 2); }
void run_cpu(const MultiSGDUpdate& op, KernelContext& c) { run_multi_update(rule_of(op), 2, c); }

void MultiSGDMomUpdate::infer(InferContext& c) const { infer_multi_update(c, rule_of(*this), 3); }
void run_cpu(const MultiSGDMomUpdate& op, KernelContext& c) { run_multi_update(rule_of(op), 3, c); }

}  // namespace kaon
