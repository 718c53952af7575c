// Running kernels inside a piece of parallel_for.
#pragma once

#include "kaon/engine/run_context.h"

namespace kaon {

class Engine;

// Calls body, inside a piece of parallel_for, with a context of its own: its workspace ends with the piece, and its
// parallel_for is the engine's. Thread safety: any thread that runs a piece of an operation of this engine.
void run_piece(Engine& engine, FunctionRef<void(RunContext&)> body);

}  // namespace kaon
