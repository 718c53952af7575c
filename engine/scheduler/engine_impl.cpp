#include "kaon/engine/scheduler/engine_impl.h"

#include <algorithm>

#include "kaon/engine/base/cores.h"

namespace kaon {

using namespace engine;
namespace {

bool is_by_arrival(const EngineOptions& options) { return options.schedule.kind == Schedule::Kind::arrival; }

EngineOptions on_this_machine(EngineOptions options) {
  // on a single core a spinning thread takes it from one that has work
  if (available_cores() < 2) options.spin = {};
  return options;
}

int num_threads(const EngineOptions& options) {
  if (!is_by_arrival(options)) return 1;  // one slot: the thread that holds it runs operations
  return options.threads >= 0 ? options.threads : available_cores();
}

}  // namespace

Engine::Impl::Impl(Engine& engine, const EngineOptions& o, uint32_t forks)
    : self(engine),
      forks(forks),
      options(on_this_machine(o)),
      ready(num_threads(o), o.schedule),
      runner(*this),
      waits(*this),
      deadlocks(*this),
      backpressure(*this),
      memory(*this),
      io(forks == no_process ? 0 : std::max(1, o.io_threads)),
      workers(*this, num_threads(o), is_by_arrival(o) && num_threads(o) > 0) {}

void Engine::Impl::throw_gone(const char* op, const std::string& where) const {
  if (forks == no_process) {
    throw StateError(
        "[" + std::string(op) +
        "] the engine of this array has ended: its values can be read, but no operation takes it; an array "
        "that is to be used longer is made outside of the EngineScope, or from these values: "
        "nd.array(x.asvector<float>(), x.shape())" +
        where);
  }
  throw StateError("[" + std::string(op) +
                   "] this process was forked from the one that has the engine's threads: use arrays made here" +
                   where);
}

void Engine::Impl::check_finished(const Var& var) const {
  if (var.is_readable()) return;
  throw StateError(
      "[engine] the array was still being written when this process was forked: only what its parent had "
      "finished by then can be read here");
}

}  // namespace kaon
