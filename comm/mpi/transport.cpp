#include "kaon/comm/mpi/transport.h"

#include <mpi.h>

#include <string>
#include <vector>

namespace kaon::comm {

namespace {

// A parameter of the library, empty where it has no such one (MPI 3.1, 14.3).
std::string parameter(const char* name) {
  int index = 0, count = 0;
  MPI_T_cvar_handle handle;
  if (MPI_T_cvar_get_index(name, &index) != MPI_SUCCESS) return {};
  if (MPI_T_cvar_handle_alloc(index, nullptr, &handle, &count) != MPI_SUCCESS) return {};
  std::vector<char> text(size_t(count) + 1);
  const bool is_read = count > 0 && MPI_T_cvar_read(handle, text.data()) == MPI_SUCCESS;
  MPI_T_cvar_handle_free(&handle);
  return is_read ? text.data() : std::string();
}

}  // namespace

bool uses_shared_memory() {
  int provided = 0;
  if (MPI_T_init_thread(MPI_THREAD_MULTIPLE, &provided) != MPI_SUCCESS) return false;
  // Ways by name, those that may be used or, behind a ^, those that may not; both of OpenMPI's names for memory.
  const std::string ways = parameter("btl");
  MPI_T_finalize();
  const bool names_memory = ways.find("vader") != std::string::npos || ways.find("sm") != std::string::npos;
  return ways.empty() || names_memory != ways.starts_with('^');
}

}  // namespace kaon::comm
