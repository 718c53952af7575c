#include "kaon/ops/fused/block.h"

#include "kaon/ops/fused/block_kernels.h"
#include "kaon/ops/op_def.h"
#include "kaon/ops/operator/fused_forms.h"

namespace kaon {

FusedForms block_forms(const OpDef& def, const void* attrs) {
  return def.fused_forms ? def.fused_forms(attrs, block_kernels().registers) : FusedForms();
}

const BlockMoves& block_moves() { return block_kernels().moves; }

}  // namespace kaon
