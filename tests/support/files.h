// Where the test files lie, and small helpers around them.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string>

namespace kaon::test {

namespace fs = std::filesystem;

// The folder with model files that MXNet wrote, beside the checkout; cases skip visibly where it is not there.
inline fs::path fixtures_dir() {
  const char* chosen = std::getenv("KAON_FIXTURES");
  return chosen ? fs::path(chosen) : fs::path(KAON_FIXTURES_DIR);
}
inline fs::path data_file(const std::string& name) { return fs::path(KAON_TEST_DATA_DIR) / name; }

inline std::string bytes_of(const fs::path& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

// A new folder, removed with what lies in it.
class ScratchFolder {
 public:
  ScratchFolder() : path_(fs::temp_directory_path() / ("kaon_test_" + std::to_string(std::random_device()()))) {
    fs::create_directories(path_);
  }
  ~ScratchFolder() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;
  fs::path operator/(const std::string& name) const { return path_ / name; }
  size_t count() const { return size_t(std::distance(fs::directory_iterator(path_), fs::directory_iterator())); }

 private:
  fs::path path_;
};

// `text` with one to four changes: bytes overwritten, removed, doubled, or eight bytes set to an extreme number.
template <class Random>
std::string mutate(std::string text, Random& random) {
  auto pick = [&](size_t n) { return size_t(random() % (n ? n : 1)); };
  for (size_t k = 1 + pick(4); k > 0 && !text.empty(); --k) {
    const size_t at = pick(text.size()), n = std::min(text.size() - at, 1 + pick(8));
    switch (pick(5)) {
      case 0: text[at] = char(random()); break;
      case 1: text[at] = char(text[at] ^ (1 << pick(8))); break;
      case 2: text.erase(at, n); break;
      case 3: text.insert(at, text.substr(pick(text.size()), n)); break;
      default: text.replace(at, n, n, pick(2) ? '\xff' : '\x7f');
    }
  }
  return text;
}

}  // namespace kaon::test
