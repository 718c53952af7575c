// A program that starts itself as several ranks.
#pragma once

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <system_error>
#include <vector>

#include "kaon/comm/communicator.h"

namespace examples {

// Whether a launcher of MPI has started this process: OpenMPI's, MPICH's, or Slurm's by PMI or PMIx.
inline bool is_rank() {
  for (const char* variable : {"OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK"}) {
    if (std::getenv(variable)) return true;
  }
  return false;
}

// Becomes the launcher of `ranks` processes with this program and its arguments. Throws std::system_error where the
// launcher cannot be run.
[[noreturn]] inline void start_ranks(int ranks, char** argv) {
  std::string launcher = KAON_LAUNCH, option = "-n", count = std::to_string(ranks);
  std::string program = std::filesystem::read_symlink("/proc/self/exe").string();
  std::vector<char*> arguments = {launcher.data(), option.data(), count.data(), program.data()};
  for (char** each = argv + 1; *each; ++each) arguments.push_back(*each);
  arguments.push_back(nullptr);
  execv(launcher.c_str(), arguments.data());
  throw std::system_error(errno, std::generic_category(), launcher);
}

// The communicator of all ranks. Throws std::runtime_error for another number of them than expected.
inline kaon::comm::Communicator join_ranks(int expected) {
  const kaon::comm::Communicator world = kaon::comm::mpi();
  if (world.size() != expected) {
    throw std::runtime_error(fmt::format("--ranks {}: the launcher has started {} ranks", expected, world.size()));
  }
  return world;
}

}  // namespace examples
