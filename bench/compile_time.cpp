// How long does a user's program take to compile? The program in README.md, against one that includes only what its
// header brings of other libraries. Seconds of the compiler's processor time, which a busy machine changes little.
#include <sys/resource.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <stdexcept>

#include "kaon/bench/common.h"

using namespace kaon;

namespace {

std::string readme_program() {
  std::ifstream file(KAON_README);
  std::string text(std::istreambuf_iterator<char>(file), {});
  const std::string fence = "```cpp\n";
  const size_t begin = text.find(fence), end = text.find("```", begin + fence.size());
  if (begin == std::string::npos || end == std::string::npos) {
    throw std::runtime_error("[bench_compile_time] " KAON_README " has no program");
  }
  return text.substr(begin + fence.size(), end - begin - fence.size());
}

constexpr const char* other_headers = R"(
#include <fmt/format.h>
#include <algorithm>
#include <atomic>
#include <coroutine>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <source_location>
#include <span>
#include <stop_token>
#include <string>
#include <unordered_map>
#include <variant>
#include <vector>
int main() { fmt::print("{}\n", 1); }
)";

// User and system time of all children so far.
double children_seconds() {
  rusage usage{};
  getrusage(RUSAGE_CHILDREN, &usage);
  const auto seconds = [](const timeval& t) { return double(t.tv_sec) + 1e-6 * double(t.tv_usec); };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

double compile_seconds(const std::filesystem::path& source, const std::string& options) {
  const std::string command = fmt::format("{} -std=c++20 {} {} -c {} -o /dev/null", KAON_COMPILER, options,
                                          KAON_COMPILER_FLAGS, source.string());
  const double before = children_seconds();
  if (std::system(command.c_str()) != 0) throw std::runtime_error("[bench_compile_time] failed: " + command);
  return children_seconds() - before;
}

}  // namespace

int main() {
  bench::print_machine();
  const std::filesystem::path folder =
      std::filesystem::temp_directory_path() / fmt::format("kaon_bench_compile_time_{}", getpid());
  std::filesystem::create_directories(folder);
  std::ofstream(folder / "program.cpp") << readme_program();
  std::ofstream(folder / "others.cpp") << other_headers;
  for (const char* options : {"-O0", "-O2"}) {
    const std::vector<bench::Result> results =
        bench::interleave(5, {[&] { return compile_seconds(folder / "program.cpp", options); },
                              [&] { return compile_seconds(folder / "others.cpp", options); }});
    const std::string suffix = options + 1;
    bench::print("other_headers_" + suffix, results[1], "s");
    bench::print("readme_program_" + suffix, results[0], "s", "other_headers_" + suffix, results[1]);
  }
  std::filesystem::remove_all(folder);
}
