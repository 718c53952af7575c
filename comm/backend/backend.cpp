#include "kaon/comm/backend/backend.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <cstdlib>

#include "kaon/engine/base/process_wide.h"

namespace kaon::comm {

namespace {

// A library of Kaon's, with the backend that it makes or the reason why there is none.
template <class B>
struct Library {
  B* backend = nullptr;
  std::string reason;

  Library(const char* name, int flags, const char* function) {
    void* library = dlopen(name, RTLD_NOW | flags);
    if (!library) {
      reason = fmt::format("{} cannot be loaded: {}", name, dlerror());
      return;
    }
    auto make = reinterpret_cast<B* (*)()>(dlsym(library, function));
    if (!make) {
      reason = fmt::format("{} does not export {}", name, function);
      return;
    }
    try {
      backend = make();
    } catch (const std::exception& e) {
      reason = e.what();
    }
  }
  B& get(const char* kind) const {
    if (!backend) throw CommError(fmt::format("[{}] {}", kind, reason));
    return *backend;
  }
};

}  // namespace

Backend& mpi_backend() {
  static constinit engine::MadeOnce<Library<Backend>> made;
  return made
      .get([] {
        const char* other = std::getenv("KAON_MPI_LIBRARY");
        // Global: MPI opens parts of itself that expect to find its symbols.
        return new Library<Backend>(other ? other : "libkaon_mpi.so", RTLD_GLOBAL, "kaon_mpi_backend");
      })
      .get("mpi");
}

GpuBackend& nccl_backend() {
  static constinit engine::MadeOnce<Library<GpuBackend>> made;
  return made.get([] { return new Library<GpuBackend>("libkaon_nccl.so", RTLD_LOCAL, "kaon_nccl_backend"); })
      .get("nccl");
}

}  // namespace kaon::comm
