// By which way MPI's messages go.
#pragma once

namespace kaon::comm {

// Whether ranks of one machine meet in its memory, as they do unless OpenMPI has been told to leave that way out
// (`--mca btl tcp,self`). After MPI_Init. Thread safety: any thread.
bool uses_shared_memory();

}  // namespace kaon::comm
