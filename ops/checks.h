// Looking for a program's mistakes while it runs.
#pragma once

#include "kaon/engine/api.h"

namespace KAON_API kaon {

// What every operator on the CPU looks for. Meant for finding mistakes, not for production: results are read once more.
// Plans of hybridized blocks and training steps that are made meanwhile compare every call with an imperative run
// (HybridizeOptions::verify), which makes these checks, so that they name the operator and not what it was fused into.
struct Checks {
  // The first operator whose floating result has a NaN, while no input has one, fails with ValueError.
  bool nan = false;
  // The same with an infinity or a NaN. Masks of attention have infinities by intention.
  bool infinity = false;
  // An index or a label out of range fails with IndexError where it would be clipped or skipped: take, pick, Embedding,
  // batch_take, one_hot, SoftmaxOutput, softmax_cross_entropy and the losses that use them.
  bool indices = false;

  friend bool operator==(const Checks&, const Checks&) = default;
};

// Sets the checks of the process; operators that are running may not see it. KAON_CHECK=nan,infinity,indices in the
// environment does the same for a program as it is. Thread safety: any thread.
KAON_API void set_checks(const Checks& checks);

// The checks that are made. Throws ValueError where KAON_CHECK has another word, as operators do then. Thread safety:
// any thread.
KAON_API Checks checks();

}  // namespace kaon
