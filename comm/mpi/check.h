// Errors of MPI's functions as Kaon's.
#pragma once

#include <fmt/format.h>
#include <mpi.h>

#include <string_view>

#include "kaon/comm/communicator.h"

namespace kaon::comm {

// Throws CommError with MPI's text, after the name of the call.
inline void check(int code, const char* what) {
  if (code == MPI_SUCCESS) return;
  char text[MPI_MAX_ERROR_STRING] = "";
  int length = 0;
  MPI_Error_string(code, text, &length);
  throw CommError(fmt::format("[{}] MPI: {}", what, std::string_view(text, size_t(length))));
}

}  // namespace kaon::comm
