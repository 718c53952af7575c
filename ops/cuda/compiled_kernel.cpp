#include "kaon/ops/cuda/compiled_kernel.h"

#include <fmt/format.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>

#include "kaon/engine/device/cuda/cuda_device.h"
#include "kaon/engine/device/cuda/nvrtc.h"
#include "kaon/engine/error.h"
#include "kaon/ops/array/file_io.h"
#include "kaon/ops/cuda/kernel_prelude.h"

namespace kaon::cuda {
namespace {

namespace fs = std::filesystem;

fs::path cache_folder() {
  const auto variable = [](const char* name) {
    const char* value = std::getenv(name);
    return fs::path(value ? value : "");
  };
  if (fs::path own = variable("KAON_CACHE_DIR"); !own.empty()) return own;
  if (fs::path all = variable("XDG_CACHE_HOME"); !all.empty()) return all / "kaon";
  const fs::path home = variable("HOME");
  return home.empty() ? home : home / ".cache" / "kaon";
}

// FNV-1a.
uint64_t hash_of(std::string_view text) {
  uint64_t hash = 0xcbf29ce484222325;
  for (char c : text) hash = (hash ^ uint8_t(c)) * 0x100000001b3;
  return hash;
}

// A file: this, the key, the code. The key is all that the code depends on, so equal hashes do no harm.
struct FileHead {
  char magic[16] = "kaon kernel 1";
  uint64_t key_bytes, code_bytes, code_hash;
};

std::optional<std::string> read_code(const fs::path& file, const std::string& key) {
  try {
    const std::string all = read_file(file);
    FileHead head, expected;
    if (all.size() < sizeof head) return {};
    std::memcpy(&head, all.data(), sizeof head);
    if (std::memcmp(head.magic, expected.magic, sizeof head.magic) != 0) return {};
    if (head.key_bytes != key.size() || all.size() - sizeof head - key.size() != head.code_bytes) return {};
    if (all.compare(sizeof head, key.size(), key) != 0) return {};
    std::string code = all.substr(sizeof head + key.size());
    if (hash_of(code) != head.code_hash) return {};
    return code;
  } catch (const IoError&) {  // no such file, or not readable
    return {};
  }
}

void write_code(const fs::path& file, const std::string& key, const std::string& code) {
  try {
    std::error_code failure;
    fs::create_directories(file.parent_path(), failure);
    if (failure) return;
    FileHead head;
    head.key_bytes = key.size();
    head.code_bytes = code.size();
    head.code_hash = hash_of(code);
    AtomicFile writer(file);
    writer.write(&head, sizeof head);
    writer.write(key.data(), key.size());
    writer.write(code.data(), code.size());
    writer.commit();
  } catch (const IoError&) {  // a full disk, a folder without permission: this is only a cache
  }
}

struct Entry {
  std::mutex mutex;  // held while it is compiled
  cudaKernel_t kernel = nullptr;
};

cudaKernel_t load(const std::string& code, const char* name) {
  cudaLibrary_t library = nullptr;
  check(cudaLibraryLoadData(&library, code.data(), nullptr, nullptr, 0, nullptr, nullptr, 0), name);
  cudaKernel_t kernel = nullptr;
  check(cudaLibraryGetKernel(&kernel, library, name), name);
  return kernel;
}

}  // namespace

cudaKernel_t compiled_kernel(const std::string& source, const char* name, int device) {
  static std::mutex mutex;
  static auto* entries = new std::map<std::pair<std::string, std::string>, Entry>;  // by compiler and source
  const std::string compiler = compiler_name(device);
  std::unique_lock lock(mutex);
  Entry& entry = (*entries)[{compiler, source}];
  lock.unlock();
  std::lock_guard compiling(entry.mutex);
  if (entry.kernel) return entry.kernel;
  const std::string key = fmt::format("{}\n{}{}", compiler, kernel_prelude(), source);
  const fs::path folder = cache_folder();
  const fs::path file = folder / fmt::format("{:016x}.kernel", hash_of(key));
  if (!folder.empty()) {
    if (const std::optional<std::string> code = read_code(file, key)) {
      try {
        return entry.kernel = load(*code, name);
      } catch (const DeviceError&) {  // the driver refuses the cached code: compiled again
      }
    }
  }
  const std::string code = compile(kernel_prelude() + source, name, device);
  entry.kernel = load(code, name);
  if (!folder.empty()) write_code(file, key, code);
  return entry.kernel;
}

void prepare_kernel(const std::string& source, const char* name, int device) {
  const DeviceScope scope(device);
  cudaFuncAttributes attributes;  // reading them loads the code
  const cudaKernel_t kernel = compiled_kernel(source, name, device);
  check(cudaFuncGetAttributes(&attributes, reinterpret_cast<const void*>(kernel)), name);
}

}  // namespace kaon::cuda
