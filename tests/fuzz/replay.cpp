// Runs a fuzz target on files: each argument is one, or a folder of them. Fails when there are none.
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace {

namespace fs = std::filesystem;

size_t replay(const fs::path& path) {
  if (fs::is_directory(path)) {
    size_t n = 0;
    for (const auto& entry : fs::directory_iterator(path)) n += replay(entry.path());
    return n;
  }
  std::ifstream in(path, std::ios::binary);
  const std::string bytes{std::istreambuf_iterator<char>(in), {}};
  LLVMFuzzerTestOneInput(reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size());
  return 1;
}

}  // namespace

int main(int argc, char** argv) {
  for (int i = 1; i < argc; ++i) {
    const size_t n = fs::exists(argv[i]) ? replay(argv[i]) : 0;
    std::printf("%s: %zu files\n", argv[i], n);
    if (n == 0) return 1;
  }
  return argc < 2;
}
