#include "kaon/comm/backend/backend.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <cstdlib>

#include "kaon/engine/base/process_wide.h"

namespace kaon::comm {

namespace {
struct Library {
  Backend* backend = nullptr;
  std::string reason;

  Library() {
    const char* other = std::getenv("KAON_MPI_LIBRARY");
    const char* name = other ? other : "libkaon_mpi.so";
    // Global: MPI opens parts of itself that expect to find its symbols.
    void* library = dlopen(name, RTLD_NOW | RTLD_GLOBAL);
    if (!library) {
      reason = fmt::format("{} cannot be loaded: {}", name, dlerror());
      return;
    }
    auto make = reinterpret_cast<Backend* (*)()>(dlsym(library, "kaon_mpi_backend"));
    if (!make) {
      reason = fmt::format("{} does not export kaon_mpi_backend", name);
      return;
    }
    try {
      backend = make();
    } catch (const std::exception& e) {
      reason = e.what();
    }
  }
};
}  // namespace

Backend& mpi_backend() {
  static constinit engine::MadeOnce<Library> made;
  Library& library = made.get([] { return new Library; });
  if (!library.backend) throw CommError(fmt::format("[mpi] {}", library.reason));
  return *library.backend;
}

}  // namespace kaon::comm
