// The engines of a process: their places, the default engine, and what ends them at exit.
#pragma once

#include "kaon/engine/engine.h"

namespace kaon::engine {

// An engine's place, from its construction to its end.
EngineRef enter_engine(Engine& engine);
void leave_engine(const Engine& engine) noexcept;
// No engine is destroyed during the call, and `use` makes none.
void for_each_engine(FunctionRef<void(Engine&)> use);

// Engine::process_default and Engine::set_default_options.
Engine& default_engine();
void set_default_engine_options(const EngineOptions& options);

// At the end of the process: finishes all pending operations, unless exit() was called from an operation, which cannot
// wait for itself.
void finish_all_engines();

}  // namespace kaon::engine
