// ONNX models whose arrays are stored in a second file.
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <random>
#include <set>
#include <thread>

#include "kaon/interchange/onnx.h"
#include "kaon/interchange/onnx/format/model.h"
#include "kaon/kaon.h"
#include "kaon/tests/support/child_process.h"

namespace onnx_external_test {

using namespace kaon;
using namespace kaon::test;
namespace fs = std::filesystem;
namespace nn = kaon::gluon::nn;

namespace {

struct Folder {
  fs::path path = fs::temp_directory_path() / ("kaon_onnx_external_" + std::to_string(std::random_device()()));
  Folder() { fs::create_directories(path); }
  ~Folder() { fs::remove_all(path); }
  std::set<std::string> names() const {
    std::set<std::string> all;
    for (const auto& entry : fs::directory_iterator(path)) all.insert(entry.path().filename().string());
    return all;
  }
};

// Dense layers of 300 to 700 and on to 5, with a bias each: weights of 820, 2,400 and 14 KB, biases of 2,800 and 20
// bytes.
nn::HybridSequential some_net(int64_t first = 300) {
  nn::HybridSequential net;
  net.add(nn::Dense(700, {.in_units = first}), nn::Dense(900, {.in_units = 700}), nn::Dense(5, {.in_units = 900}));
  net.initialize(init::Xavier());
  net.hybridize();
  net(nd.ones({2, first}));
  return net;
}

std::string bytes_of(const fs::path& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

}  // namespace

TEST_CASE("onnx external: large arrays are aligned in one file, small ones in the model, and the net is the same") {
  Folder folder;
  const auto net = some_net();
  const NDArray x = nd.random_normal({2, 300});
  const fs::path file = folder.path / "net.onnx";
  onnx::save(net, file, {.batch_name = "n", .max_file_bytes = 100'000});
  REQUIRE(folder.names().size() == 2);
  CHECK(fs::file_size(file) < 10'000);
  std::set<std::string> locations;
  uint64_t end = 0;
  int inside = 0;
  for (const auto& t : onnx::format::read_model(file).graph.initializers) {
    if (t.location.empty()) {
      ++inside;
      CHECK(t.bytes.size() < 1024);
      continue;
    }
    locations.insert(t.location);
    CHECK(t.external_length == t.bytes.size());
    CHECK(t.external_offset % (t.bytes.size() >= 1 << 20 ? 65536 : 4096) == 0);
    CHECK(t.external_offset >= end);
    end = t.external_offset + t.external_length;
  }
  REQUIRE(locations.size() == 1);
  CHECK(folder.names() == std::set<std::string>{"net.onnx", *locations.begin()});
  CHECK(inside > 0);
  CHECK(fs::file_size(folder.path / *locations.begin()) == end);
  onnx::Block back = onnx::load(file);
  CHECK(back(x).asvector<float>() == net(x).asvector<float>());
}

TEST_CASE("onnx external: at any size, all arrays, and none where the model is small enough") {
  Folder folder;
  const auto net = some_net();
  const NDArray x = nd.random_normal({2, 300});
  onnx::save(net, folder.path / "all.onnx", {.max_file_bytes = 0, .min_external_bytes = 0});
  for (const auto& t : onnx::format::read_model(folder.path / "all.onnx").graph.initializers) {
    CHECK(t.location.starts_with("all.onnx."));
  }
  CHECK(onnx::load(folder.path / "all.onnx")(x).asvector<float>() == net(x).asvector<float>());
  onnx::save(net, folder.path / "one.onnx", {.max_file_bytes = 4'000'000});
  CHECK(folder.names().size() == 3);
  CHECK(onnx::load(folder.path / "one.onnx")(x).asvector<float>() == net(x).asvector<float>());
}

TEST_CASE("onnx external: the second file's name follows from its contents, and an older model's goes with it") {
  Folder folder;
  const fs::path file = folder.path / "net.onnx";
  const onnx::SaveOptions beside{.max_file_bytes = 0};
  const auto net = some_net();
  onnx::save(net, file, beside);
  const std::set<std::string> first = folder.names();
  const std::string model = bytes_of(file);
  onnx::save(net, file, beside);
  CHECK(folder.names() == first);
  CHECK(bytes_of(file) == model);
  // a model of another name keeps its own file, a strange one stays
  onnx::save(net, folder.path / "other.onnx", beside);
  std::ofstream(folder.path / "net.onnx.0123456789abcdef.data") << "of somebody else";
  onnx::Block mapped = onnx::load(file);
  const NDArray x = nd.random_normal({2, 300});
  const auto before = net(x).asvector<float>();
  onnx::save(some_net(), file, beside);
  CHECK(folder.names().size() == 5);
  for (const std::string& name : first) CHECK(fs::exists(folder.path / name) == (name == "net.onnx"));
  CHECK(mapped(x).asvector<float>() == before);  // it has the file still
  CHECK(onnx::load(folder.path / "other.onnx")(x).asvector<float>() == before);
  onnx::save(net, file);  // inside again
  CHECK(folder.names().size() == 4);
  CHECK(onnx::load(file)(x).asvector<float>() == before);
}

TEST_CASE("onnx external: a model that cannot be written leaves the old one and no second file") {
  Folder folder;
  fs::create_directories(folder.path / "net.onnx");  // no file to replace
  CHECK_THROWS_AS(onnx::save(some_net(), folder.path / "net.onnx", {.max_file_bytes = 0}), IoError);
  CHECK(folder.names() == std::set<std::string>{"net.onnx"});
}

TEST_CASE("onnx external: a second file that is cut short or gone is refused by name") {
  Folder folder;
  const fs::path file = folder.path / "net.onnx";
  onnx::save(some_net(), file, {.max_file_bytes = 0});
  std::string data;
  for (const std::string& name : folder.names()) {
    if (name.ends_with(".data")) data = name;
  }
  fs::resize_file(folder.path / data, fs::file_size(folder.path / data) - 1);
  CHECK_THROWS_WITH(onnx::load(file), Catch::Contains("external data"));
  fs::remove(folder.path / data);
  CHECK_THROWS_WITH(onnx::load(file), Catch::Contains(data));
}

// Saves nets whose weights are all 1, all 2 and so on.
TEST_CASE("onnx external: the process that is killed", "[.]") {
  const char* folder = child_folder();
  if (!folder) return;
  nn::Dense net(40, {.use_bias = false, .in_units = 50});
  net.initialize();
  net.hybridize();
  net(nd.ones({1, 50}));
  for (int i = 1;; ++i) {
    net.collect_params().begin()->set_data(nd.full({40, 50}, i));
    onnx::save(net, fs::path(folder) / "net.onnx", {.max_file_bytes = 0});
  }
}

TEST_CASE("onnx external: a process that is killed while it saves leaves a model with its own arrays") {
  Folder folder;
  const fs::path file = folder.path / "net.onnx";
  std::mt19937 random(3);
  std::set<float> seen;
  for (int i = 0; i < 12; ++i) {
    const pid_t child = start_child("onnx external: the process that is killed", folder.path);
    // on a slow machine too, it has saved before it is killed
    for (int wait = 0; i == 0 && wait < 6000 && !fs::exists(file); ++wait) {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    std::this_thread::sleep_for(std::chrono::microseconds(20'000 + random() % 100'000));
    ::kill(child, SIGKILL);
    int status = 0;
    ::waitpid(child, &status, 0);
    REQUIRE(WIFSIGNALED(status));
    const std::vector<float> y = onnx::load(file)(nd.ones({1, 50})).asvector<float>();
    CHECK(y == std::vector<float>(40, y[0]));
    seen.insert(y[0]);
  }
  CHECK(seen.size() > 1);
}

}  // namespace onnx_external_test
