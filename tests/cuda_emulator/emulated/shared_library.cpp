// In place of engine/device/cuda/shared_library.cpp: CUDA's libraries are in the emulator, which this library is linked
// to.
#include "kaon/engine/device/cuda/shared_library.h"

#include <dlfcn.h>

#include "kaon/engine/error.h"

namespace {
const char in_this_library = 0;
}

namespace kaon::cuda {

SharedLibrary::SharedLibrary(const char*, std::initializer_list<std::string> files) : file_(*files.begin()) {
  Dl_info self{};
  dladdr(&in_this_library, &self);
  library_ = dlopen(self.dli_fname, RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD);
}

SharedLibrary::Function SharedLibrary::function(const char* name) const {
  void* address = dlsym(library_, name);
  if (!address) throw DeviceError("[" + file_ + "] has no function " + name + " in the emulator");
  return Function(address);
}

}  // namespace kaon::cuda
