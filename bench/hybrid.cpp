// What hybridize() is worth: the figures of imperative and hybridized nets, each beside what bounds it, in one run.
// bench/peers runs other libraries beside it.
#include <cstring>

#include "kaon/bench/hybrid/hybrid_parts.h"

namespace {

struct Part {
  const char* name;
  void (*measure)(int threads);
  int most_threads = 2;
};
constexpr Part parts[] = {
    {"mlp", kaon::bench::mlp},           {"pointwise", kaon::bench::pointwise}, {"lenet", kaon::bench::lenet},
    {"training", kaon::bench::training}, {"resnet", kaon::bench::resnet},       {"branches", kaon::bench::branches},
    {"layouts", kaon::bench::layouts},   {"embedding", kaon::bench::embedding}, {"loops", kaon::bench::loops},
    {"memory", kaon::bench::memory, 1},  {"start", kaon::bench::start, 1},
};

}  // namespace

int main(int argc, char** argv) {
  std::vector<int> thread_counts{1, 2};
  std::vector<Part> chosen;
  for (int i = 1; i < argc; ++i) {
    bool known = false;
    for (const Part& p : parts) {
      if (std::strcmp(argv[i], p.name) == 0) chosen.push_back(p), known = true;
    }
    if (std::strcmp(argv[i], "1") == 0 || std::strcmp(argv[i], "2") == 0) {
      thread_counts = {argv[i][0] - '0'};
      known = true;
    }
    if (!known) {
      fmt::print(stderr, "usage: {} [1|2] [part...]\nthreads of the engine; parts:", argv[0]);
      for (const Part& p : parts) fmt::print(stderr, " {}", p.name);
      fmt::print(stderr, "\n");
      return 2;
    }
  }
  if (chosen.empty()) chosen.assign(std::begin(parts), std::end(parts));
  kaon::bench::print_machine();
  for (int threads : thread_counts) {
    kaon::Engine engine({.threads = threads});
    kaon::EngineScope scope(engine);
    for (const Part& p : chosen) {
      if (threads <= p.most_threads) p.measure(threads);
    }
  }
}
