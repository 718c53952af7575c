// Pushing an operation: it is queued at all its vars atomically.
#pragma once

#include "kaon/engine/engine.h"

namespace kaon::engine {

// Takes over a node whose type, label, accesses and body are set. Throws as Engine::push. Thread safety: any thread.
void submit(Engine::Impl& engine, OpNode& op);

}  // namespace kaon::engine
