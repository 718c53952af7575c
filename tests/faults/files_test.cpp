// Files that cannot be written to the end: as on a full disk.
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>

#include "kaon/gluon/trainer.h"
#include "kaon/interchange/onnx.h"
#include "kaon/ops/ndarray_file.h"
#include "kaon/tests/gluon/hybrid/hybrid_support.h"

namespace files_test {

using namespace kaon;
using namespace kaon::test;

namespace {

// No file grows beyond so many bytes.
class FullDisk {
 public:
  explicit FullDisk(size_t bytes) {
    signal(SIGXFSZ, SIG_IGN);
    getrlimit(RLIMIT_FSIZE, &before_);
    rlimit now = before_;
    now.rlim_cur = bytes;
    setrlimit(RLIMIT_FSIZE, &now);
  }
  ~FullDisk() { setrlimit(RLIMIT_FSIZE, &before_); }

 private:
  rlimit before_{};
};

std::string content(const std::filesystem::path& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

// A folder of its own, whose files `save` writes: where one cannot be written IoError, and the folder is as before.
void check_writes(const char* name, const std::function<void(const std::filesystem::path&)>& save) {
  INFO(name);
  const auto folder = std::filesystem::temp_directory_path() / ("kaon_files_" + std::to_string(getpid()));
  std::filesystem::create_directory(folder);
  save(folder);
  const auto files = [&] {
    std::vector<std::pair<std::string, std::string>> all;
    for (const auto& f : std::filesystem::directory_iterator(folder)) {
      all.emplace_back(f.path().filename().string(), content(f.path()));
    }
    std::sort(all.begin(), all.end());
    return all;
  };
  const auto written = files();
  size_t largest = 0;
  for (const auto& [file, text] : written) largest = std::max(largest, text.size());
  REQUIRE(largest > 0);
  for (size_t room = 0; room < largest; room += std::max<size_t>(1, largest / 16)) {
    INFO("room for " << room << " of " << largest << " bytes");
    bool is_io_error = false;
    {
      const FullDisk full(room);
      try {
        save(folder);
      } catch (const IoError&) {
        is_io_error = true;
      }
    }
    CHECK(is_io_error);
    CHECK(files() == written);
  }
  save(folder);
  CHECK(files() == written);
  std::filesystem::remove_all(folder);
}

}  // namespace

TEST_CASE("faults: a file that cannot be written throws IoError and leaves the old one", "[faults]") {
  const NDArray a = numbers({300, 20});
  nn::HybridSequential net(nn::Dense(60, {.in_units = 50}), nn::BatchNorm({.in_channels = 60}));
  net.initialize();
  net.hybridize();
  const NDArray x = numbers({2, 50});
  gluon::Trainer trainer(net.collect_params(), optimizer::Adam({.learning_rate = 0.01}));
  autograd::record([&] { return net(x); }).backward();
  trainer.step(2);
  nd.waitall();
  check_writes("arrays", [&](const auto& folder) { nd_file::save(folder / "a.nd", {{"a", a}}); });
  check_writes("parameters", [&](const auto& folder) { net.save_parameters(folder / "net.params"); });
  check_writes("optimizer states", [&](const auto& folder) { trainer.save_states(folder / "net.states"); });
  check_writes("a symbol", [&](const auto& folder) { net(sym.var("data")).save(folder / "net.json"); });
  net(x).wait_to_read();
  check_writes("a model", [&](const auto& folder) { net.export_model(folder / "net", 1); });
  check_writes("an ONNX model and its arrays",
               [&](const auto& folder) { onnx::save(net, folder / "net.onnx", {.max_file_bytes = 0}); });
}

}  // namespace files_test
