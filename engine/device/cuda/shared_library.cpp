#include "kaon/engine/device/cuda/shared_library.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include "kaon/engine/error.h"

namespace kaon::cuda {

SharedLibrary::SharedLibrary(const char* purpose, std::initializer_list<std::string> files) {
  std::string reasons;
  for (const std::string& file : files) {
    library_ = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library_) {
      file_ = file;
      return;
    }
    reasons += fmt::format("; {}", dlerror());
  }
  throw DeviceError(fmt::format("[{}] cannot be loaded, and {} on a GPU need it{}", *files.begin(), purpose, reasons));
}

SharedLibrary::Function SharedLibrary::function(const char* name) const {
  void* address = dlsym(library_, name);
  if (!address) throw DeviceError(fmt::format("[{}] has no function {}: expected a newer version", file_, name));
  return Function(address);
}

}  // namespace kaon::cuda
