// What Kaon makes of a GPU: its figures, each beside what bounds it or what it is compared with, in one run.
#include <cstring>

#include "kaon/bench/gpu/gpu_parts.h"
#include "kaon/engine/device/gpu.h"

namespace {

struct Part {
  const char* name;
  void (*measure)(const kaon::bench::GpuRun& run);
};
constexpr Part parts[] = {
    {"matmul", kaon::bench::matmul}, {"pointwise", kaon::bench::pointwise}, {"resnet", kaon::bench::resnet},
    {"mlp", kaon::bench::mlp},       {"overlap", kaon::bench::overlap},     {"launch", kaon::bench::launch},
};

}  // namespace

int main(int argc, char** argv) {
  kaon::bench::GpuRun run{.small = false};
  std::vector<Part> chosen;
  for (int i = 1; i < argc; ++i) {
    bool known = std::strcmp(argv[i], "--small") == 0;
    run.small |= known;
    for (const Part& p : parts) {
      if (std::strcmp(argv[i], p.name) == 0) chosen.push_back(p), known = true;
    }
    if (!known) {
      fmt::print(stderr, "usage: {} [--small] [part...]\n--small: sizes that an emulated GPU can do; parts:", argv[0]);
      for (const Part& p : parts) fmt::print(stderr, " {}", p.name);
      fmt::print(stderr, "\n");
      return 2;
    }
  }
  if (chosen.empty()) chosen.assign(std::begin(parts), std::end(parts));
  if (kaon::gpu_count() == 0) {
    const std::string reason = kaon::gpu_unavailable_reason();
    fmt::print(stderr, "bench_gpu: no GPU: {}\n", reason);
    fmt::print("{{\"name\": \"gpu\", \"skipped\": \"{}\"}}\n", kaon::bench::json_text(reason));
    return 0;
  }
  kaon::bench::further_fields() =
      fmt::format(", \"gpu\": \"{}\"", kaon::bench::json_text(kaon::engine::gpu_driver(0).name()));
  kaon::bench::print_machine();
  for (const Part& p : chosen) {
    p.measure(run);
    std::fflush(stdout);  // a part that fails leaves the figures of those before it
  }
}
