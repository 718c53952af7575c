// parallel_for: one operation's iterations on several workers, in pieces of `grain`.
#pragma once

#include <cstdint>

#include "kaon/engine/engine.h"

namespace kaon::engine {

// As RunContext::parallel_for, which says what it promises.
void parallel_for(Engine::Impl& engine, int64_t n, int64_t grain, FunctionRef<void(int64_t, int64_t)> body);

}  // namespace kaon::engine
