// Arithmetic of arrays of several dtypes: off, as in MXNet, unless promote_types() or an operator of NumPy's front end
// asks for it.
#pragma once

#include <utility>

#include "kaon/engine/api.h"
#include "kaon/engine/task.h"
#include "kaon/engine/thread_context.h"
#include "kaon/ops/dtype.h"

namespace KAON_API kaon {

// The dtype to which arrays of dtypes a and b are brought. A floating dtype wins over integers, and these over bool; of
// two of one kind the wider wins; float16 and bfloat16 become float32. Integers of different sign become the signed
// dtype that holds both; beside uint64 there is none: float64. The rule is NumPy's among integers and PyTorch's beside
// floating dtypes, which NumPy widens. docs/guide.md has the table. Thread safety: any thread.
KAON_API DType result_type(DType a, DType b);

namespace ops {
// While it lives, operators of this thread, or coroutine, promote. Not for users: promote_types() also takes
// coroutines.
class PromotionScope {
 public:
  PromotionScope() : saved_(engine::thread_context().promotes) { engine::thread_context().promotes = true; }
  ~PromotionScope() { engine::thread_context().promotes = saved_; }
  PromotionScope(const PromotionScope&) = delete;
  PromotionScope& operator=(const PromotionScope&) = delete;

 private:
  bool saved_;
};
}  // namespace ops

// Calls fn, or the coroutine that it returns, and gives its result. Meanwhile arithmetic, comparisons and choices of
// NDArrays of several dtypes, which are refused otherwise, cast their inputs to result_type first: + - * / % and nd's
// functions of two arrays, where, dot and the other products, and x += y where x's kind of dtype holds the result.
// Gradients come back in the dtypes of the inputs. A trace that is made meanwhile has the casts in its graph and keeps
// them; numbers take the dtype of their array as ever. Symbols do not promote: they have no dtypes before they are
// bound.
template <class F>
auto promote_types(F&& fn) {
  return engine::call_in_scope<ops::PromotionScope>(std::forward<F>(fn));
}

}  // namespace kaon
