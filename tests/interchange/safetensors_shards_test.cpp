// Arrays in several safetensors files with an index, which are saved over older ones.
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <random>
#include <set>
#include <thread>

#include "kaon/interchange/safetensors.h"
#include "kaon/tests/interchange/support.h"
#include "kaon/tests/support/child_process.h"

namespace safetensors_shards_test {

using namespace kaon;
using namespace kaon::test;
using Catch::Matchers::Contains;

namespace {

constexpr const char* index_name = "i.safetensors.index.json";

std::set<std::string> names_in(const fs::path& folder) {
  std::set<std::string> all;
  for (const auto& entry : fs::directory_iterator(folder)) all.insert(entry.path().filename().string());
  return all;
}

// Three shards of one array each, all of whose elements are `value`.
void save_filled(const fs::path& index, double value) {
  const auto filled = [&] { return nd.full({500}, value); };
  safetensors::save(index, {{"a", filled()}, {"b", filled()}, {"c", filled()}}, {.max_shard_bytes = 2100});
}

}  // namespace

TEST_CASE("safetensors shards: names follow from the contents, and an older index's shards go with it") {
  const ScratchFolder folder;
  save_filled(folder / index_name, 1);
  const std::set<std::string> first = names_in(folder / "");
  REQUIRE(first.size() == 4);
  int number = 0;
  for (const std::string& name : first) {
    if (name == index_name) continue;
    CHECK(name.starts_with("i-"));
    CHECK(name.find("-of-00003.safetensors") == name.size() - 21);
    number += name[name.size() - 22] - '0';
  }
  CHECK(number == 1 + 2 + 3);
  save_filled(folder / index_name, 1);
  CHECK(names_in(folder / "") == first);

  // shards of other names and of other indices stay
  save_filled(folder / "i-b.safetensors.index.json", 1);
  safetensors::save(folder / "i-0123456789abcdef-00001-of-00003.safetensors", {{"x", nd.ones({1})}});
  const auto mapped = safetensors::load(folder / index_name).arrays;
  save_filled(folder / index_name, 2);
  CHECK(names_in(folder / "").size() == 9);
  for (const std::string& name : first) CHECK(fs::exists(folder / name) == (name == index_name));
  CHECK(find(mapped, "b").asvector<float>() == std::vector<float>(500, 1));  // they have the files still
  CHECK(find(safetensors::load(folder / index_name).arrays, "c").asvector<float>() == std::vector<float>(500, 2));
  CHECK(safetensors::load(folder / "i-b.safetensors.index.json").arrays.size() == 3);

  // what another tool has written under the name goes too, but nothing else that its index names
  const ScratchFolder other;
  for (const char* name : {"m-00001-of-00002.safetensors", "m.safetensors"}) {
    safetensors::save(other / name, {{name, nd.ones({2})}});
  }
  std::ofstream(other / "m.safetensors.index.json")
      << R"({"weight_map": {"m-00001-of-00002.safetensors": "m-00001-of-00002.safetensors",)"
      << R"( "m.safetensors": "m.safetensors"}})";
  CHECK(safetensors::load(other / "m.safetensors.index.json").arrays.size() == 2);
  save_filled(other / "m.safetensors.index.json", 3);
  CHECK_FALSE(fs::exists(other / "m-00001-of-00002.safetensors"));
  CHECK(fs::exists(other / "m.safetensors"));
}

TEST_CASE("safetensors shards: an error of a shard names the index, which may be what is damaged") {
  const ScratchFolder folder;
  save_filled(folder / index_name, 1);
  std::string text;
  std::getline(std::ifstream(folder / index_name), text, '\0');
  const size_t at = text.find("-00001-of-");
  REQUIRE(at != std::string::npos);
  text[at + 1] = '9';
  std::ofstream(folder / index_name) << text;
  CHECK_THROWS_WITH(
      safetensors::load(folder / index_name),
      Contains("-90001-of-") && Contains(std::string("a file of the index ") + (folder / index_name).string()));
  CHECK_THROWS_AS(safetensors::load(folder / index_name), IoError);
}

TEST_CASE("safetensors shards: arrays that cannot be written leave no shard") {
  const ScratchFolder folder;
  fs::create_directories(folder / index_name);  // no file to replace
  CHECK_THROWS_AS(save_filled(folder / index_name, 1), IoError);
  CHECK(names_in(folder / "") == std::set<std::string>{index_name});
}

// Saves arrays that are all 1, all 2 and so on.
TEST_CASE("safetensors shards: the process that is killed", "[.]") {
  const char* folder = child_folder();
  if (!folder) return;
  for (int i = 1;; ++i) save_filled(fs::path(folder) / index_name, i);
}

TEST_CASE("safetensors shards: a process that is killed while it saves leaves an index with its own shards") {
  const ScratchFolder folder;
  const fs::path index = folder / index_name;
  std::mt19937 random(5);
  std::set<float> seen;
  for (int i = 0; i < 20; ++i) {
    const auto written = [&] { return fs::exists(index) ? fs::last_write_time(index) : fs::file_time_type(); };
    const auto before = written();
    const pid_t child = start_child("safetensors shards: the process that is killed", folder / "");
    // on a slow machine too, it has saved before it is killed
    for (int wait = 0; wait < 60'000 && written() == before; ++wait) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    std::this_thread::sleep_for(std::chrono::microseconds(random() % 100'000));
    ::kill(child, SIGKILL);
    int status = 0;
    ::waitpid(child, &status, 0);
    REQUIRE(WIFSIGNALED(status));
    const auto arrays = safetensors::load(index).arrays;
    REQUIRE(arrays.size() == 3);
    const float value = find(arrays, "a").asvector<float>()[0];
    for (const auto& [name, array] : arrays) CHECK(array.asvector<float>() == std::vector<float>(500, value));
    seen.insert(value);
  }
  CHECK(seen.size() > 1);
}

}  // namespace safetensors_shards_test
