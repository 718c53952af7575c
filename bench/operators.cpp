// CPU operators on about a thousand and about a million elements, in microseconds a call. Small calls are pushed one
// after the other and waited for at the end; with `each`, and where an array is large, each is waited for before the
// next. bench/peers_operators runs PyTorch's beside them.
#include <algorithm>
#include <cstring>
#include <string_view>

#include "kaon/bench/common.h"
#include "kaon/bench/operators/operators_parts.h"

namespace kaon::bench {
namespace {

constexpr int64_t sizes[] = {1000, 1'000'000};
constexpr int rounds = 7;
constexpr double least_seconds = 0.004;  // of a round

struct Part {
  const char* name;
  Cases (*cases)(int64_t n);
};
constexpr Part parts[] = {{"elementwise", elementwise}, {"reductions", reductions}, {"searching", searching},
                          {"indexing", indexing},       {"matrices", matrices},     {"layers", layers},
                          {"sequences", sequences},     {"draws", draws},           {"images", images}};

double seconds_of(const Case& c, int calls, bool each) {
  return seconds([&] {
    for (int i = 0; i < calls; ++i) {
      c.call();
      if (each) nd.waitall();
    }
    nd.waitall();
  });
}

void measure(const Case& c, int64_t n, bool each) {
  seconds_of(c, 2, true);
  int calls = 1;
  double took = seconds_of(c, calls, each);
  while (took < least_seconds && calls < 1 << 14) {
    calls = std::clamp(int(calls * 1.2 * least_seconds / std::max(took, 1e-9)), calls + 1, calls * 16);
    took = seconds_of(c, calls, each);
  }
  std::vector<double> us;
  for (int r = 0; r < rounds; ++r) us.push_back(seconds_of(c, calls, each) * 1e6 / calls);
  print(fmt::format("{}_{}", c.name, n), summarize(us), "us");
}

int run(int argc, char** argv) {
  int threads = int(std::thread::hardware_concurrency());
  bool each = false;
  std::vector<std::string_view> chosen;  // parts and operators
  for (int i = 1; i < argc; ++i) {
    if (std::strcmp(argv[i], "each") == 0) each = true;
    else if (argv[i][0] >= '0' && argv[i][0] <= '9') threads = std::atoi(argv[i]);
    else chosen.push_back(argv[i]);
  }
  const auto is_chosen = [&](std::string_view name) { return std::ranges::find(chosen, name) != chosen.end(); };
  int measured = 0;
  print_machine();
  Engine engine({.threads = threads});
  EngineScope scope(engine);
  for (const Part& part : parts) {
    for (int64_t n : sizes) {
      for (const Case& c : part.cases(n)) {
        if (!chosen.empty() && !is_chosen(part.name) && !is_chosen(c.name)) continue;
        measure(c, n, each || n > sizes[0]);
        ++measured;
      }
    }
  }
  if (measured > 0) return 0;
  fmt::print(stderr, "usage: {} [threads] [each] [part or operator...]\nparts:", argv[0]);
  for (const Part& part : parts) fmt::print(stderr, " {}", part.name);
  fmt::print(stderr, "\n");
  return 2;
}

}  // namespace
}  // namespace kaon::bench

int main(int argc, char** argv) { return kaon::bench::run(argc, argv); }
