// The seed of random operators, and how far its numbers have been used.
#pragma once

#include "kaon/ops/view.h"

namespace kaon::random {

// Sets the seed and starts its numbers from the first. Same seed, same pushes: same numbers, whatever the number of
// threads. Process-wide. Thread safety: any thread.
void seed(uint64_t value);

// The next `count` numbers. Called when an operator is pushed.
RandomKey draw(uint64_t count);

}  // namespace kaon::random
