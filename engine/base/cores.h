// How many cores there are for the threads of an engine.
#pragma once

namespace kaon::engine {

// Those in the affinity mask of the calling thread, which threads that it starts inherit (taskset, a rank that mpirun
// has bound); where the system does not tell, all of the machine. At least 1. Thread safety: any thread.
int available_cores() noexcept;

}  // namespace kaon::engine
