// Mixed precision: nets whose products are of 16-bit floats while all else stays float32; losses in a scale, so that
// small gradients of float16 do not become 0. MXNet's amp.
//
//     net.hybridize();
//     net(x);
//     auto mixed = amp::convert_hybrid_block(net);  // the parameters of net, float32
//     gluon::Trainer trainer(mixed.collect_params(), optimizer::SGD());
//     amp::init_trainer(trainer);
//     autograd::record([&] { return amp::scale_loss(loss_fn(mixed(x), y), trainer); }).backward();
//     trainer.step(batch_size);
#pragma once

#include "kaon/engine/api.h"
#include "kaon/gluon/symbol_block.h"
#include "kaon/gluon/trainer.h"

namespace KAON_API kaon {
namespace amp {

// From now on step() takes gradients of scale_loss(). Where one of them is not finite, weights and states stay as they
// are and the scale falls, without a wait; a TrainingStep scales its loss itself. bfloat16 has the range of float32 and
// needs no scale. Nothing blocks. Throws ValueError for options out of range, StateError for an optimizer whose rule
// takes no factor, and the second time.
KAON_API void init_trainer(gluon::Trainer& trainer, const LossScaleOptions& options = {});

// loss times the scale, in the loss's dtype; recorded. Losses of float16 are better cast to float32 before: the scale
// falls until they fit. Throws StateError before init_trainer().
KAON_API NDArray scale_loss(const NDArray& loss, gluon::Trainer& trainer);

// Divides the gradients by the scale, so that the program can look at them, or change them, before step(). Throws
// StateError before init_trainer(), when that is done already, and for a row_sparse gradient.
KAON_API void unscale(gluon::Trainer& trainer);

// An operator that is computed in float32 where its attribute has one of these values.
struct ConditionalOp {
  std::string name, attribute;
  std::vector<std::string> values;
};

struct ConvertOptions {
  DType target_dtype = DType::float16;  // or bfloat16
  // By name or alias, in place of the lists below.
  std::optional<std::vector<std::string>> target_dtype_ops{}, fp32_ops{};
  std::optional<std::vector<ConditionalOp>> conditional_fp32_ops{};
  std::vector<std::string> excluded_sym_names{};  // nodes that are computed in float32
  // Parameters that are only read in target_dtype are of that dtype: for predictions, with half of the memory.
  bool cast_optional_params = false;
};

// Names of operators: whose inputs are cast to 16-bit floats, as products; to float32, as sums, exponentials and
// losses; to the widest of their dtypes. Any other operator takes what comes. MXNet's lists, and operators that it
// lacks. Thread safety: any thread.
KAON_API const std::vector<std::string>& list_lp16_ops();
KAON_API const std::vector<std::string>& list_fp32_ops();
KAON_API const std::vector<std::string>& list_widest_type_cast();
KAON_API const std::vector<ConditionalOp>& list_conditional_fp32_ops();

// A program of float32 with casts (amp_cast, amp_multicast), each value cast once to a dtype. Inputs named in `data`
// stay as they are with cast_optional_params too; where that is empty, these are the variables of no `__dtype__`.
// Throws ValueError for a name that is no operator, an operator in two lists, a node that the program lacks, and
// another target_dtype; TypeError where dtypes do not fit, naming the node. Thread safety: as composing Symbols.
KAON_API Symbol convert_symbol(const Symbol& program, const ConvertOptions& options = {},
                               const std::vector<std::string>& data = {});

// The same of a hybridized net that has been called: a block that computes what its latest call did, with the
// parameters of the net themselves, so that training it trains the net; with cast_optional_params some are copies.
// Throws StateError before a call, and for a net that reads shapes. Thread safety: no other thread calls the net.
KAON_API gluon::SymbolBlock convert_hybrid_block(const gluon::Block& net, const ConvertOptions& options = {});

namespace detail {
// Of the state of a scale: a copy, which later steps do not change.
KAON_API NDArray scale_of(const NDArray& state, DType dtype);
}  // namespace detail

}  // namespace amp
}  // namespace kaon
