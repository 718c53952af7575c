// Bytes that nets take; and a process of its own from its start to its first result.
#include <cstdio>
#include <filesystem>

#include "kaon/bench/hybrid/hybrid_parts.h"
#include "kaon/engine/error.h"
#include "kaon/engine/storage.h"
#include "kaon/gluon/internal/block_node.h"

namespace kaon::bench {
namespace {

bool succeeds(const std::function<void()>& run, size_t limit) {
  Storage::cpu().set_limit(limit);
  bool done = true;
  try {
    run();
  } catch (const MemoryError&) {
    done = false;
  } catch (const AggregateError&) {  // of several operations
    done = false;
  }
  try {
    nd.waitall();
  } catch (const Error&) {  // the same failure, told again
  }
  Storage::cpu().set_limit(0);
  return done;
}

// The least live memory above `base` in which `run` succeeds, to 1 %: its peak, scratch memory included.
size_t least_memory(const std::function<void()>& run, size_t base) {
  size_t enough = 4096;
  while (!succeeds(run, base + enough)) enough *= 2;
  size_t too_little = enough / 2;
  while (enough - too_little > enough / 100) {
    const size_t middle = too_little + (enough - too_little) / 2;
    (succeeds(run, base + middle) ? enough : too_little) = middle;
  }
  return enough;
}

// Predictions of a net that `make` gives, in bytes above its parameters and its input.
template <class Make>
void measure(const char* name, const Make& make, const Shape& shape) {
  const NDArray x = nd.random_uniform(shape);
  std::string line;
  size_t imperative = 0, planned = 0;
  for (const char* mode : {"imperative", "hybridized", "static_alloc"}) {
    auto net = make();
    net.initialize(init::Xavier());
    net(x).wait_to_read();
    nd.waitall();  // what nets before it had is given back
    const size_t base = Storage::cpu().stats().live;
    const bool hybridized = mode != std::string("imperative"), keeps = mode == std::string("static_alloc");
    if (hybridized) net.hybridize({.static_alloc = keeps, .static_shape = keeps});
    const size_t bytes = least_memory([&] { net(x).wait_to_read(); }, base);
    line += fmt::format(", \"{}\": {}", mode, bytes);
    if (!hybridized) imperative = bytes;
    if (hybridized) planned = net.node()->traces.back().graph->plan()->memory().arena_bytes;
  }
  fmt::print(
      "{{\"name\": \"memory_{}\"{}, \"planned\": {}, \"unit\": \"bytes\", \"baseline\": \"imperative\", \"ratio\": "
      "{:.3f}}}\n",
      name, line, planned, double(planned) / double(imperative));
}

// What the plan of a recorded call takes, forward and backward, without and with values computed twice.
template <class Make>
void measure_training(const char* name, const Make& make, const Shape& shape) {
  const NDArray x = nd.random_uniform(shape);
  size_t bytes[2];
  for (bool mirror : {false, true}) {
    auto net = make();
    net.initialize(init::Xavier());
    net.hybridize({.mirror = mirror});
    autograd::record([&] { return net(x); }).wait_to_read();
    bytes[mirror] = net.node()->traces.back().graph->plan()->memory().arena_bytes;
  }
  fmt::print(
      "{{\"name\": \"memory_training_{}\", \"planned\": {}, \"mirror\": {}, \"unit\": \"bytes\", \"baseline\": "
      "\"planned\", \"ratio\": {:.3f}}}\n",
      name, bytes[0], bytes[1], double(bytes[1]) / double(bytes[0]));
}

// Runs bench_start and reads what it prints.
struct Start {
  double ms = 0, rss_mb = 0;
};
Start start_process() {
  const auto program = std::filesystem::read_symlink("/proc/self/exe").replace_filename("bench_start");
  double first_result = 0;
  Start s;
  const double begin = std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
  FILE* output = popen(("'" + program.string() + "'").c_str(), "r");
  if (!output || std::fscanf(output, "%lf %lf", &first_result, &s.rss_mb) != 2) {
    throw std::runtime_error(program.string() + ": does not run; build it first");
  }
  pclose(output);
  s.ms = (first_result - begin) * per_ms;
  return s;
}

}  // namespace

void memory(int) {
  Engine engine({.threads = 0});  // one order, one peak
  EngineScope scope(engine);
  namespace vision = gluon::model_zoo::vision;
  measure("mlp_b64", [] { return examples::seed_mlp(); }, {64, 512});
  measure("lenet_b64", [] { return examples::LeNet(); }, {64, 1, 28, 28});
  measure("resnet18_b1", [] { return vision::resnet18_v1(); }, {1, 3, 224, 224});
  measure("resnet50_b1", [] { return vision::resnet50_v1(); }, {1, 3, 224, 224});
  measure("transformer_b8", [] { return gluon::nn::TransformerEncoderCell(256, 1024, 8); }, {8, 64, 256});
  measure_training("mlp_b64", [] { return examples::seed_mlp(); }, {64, 512});
  measure_training("lenet_b64", [] { return examples::LeNet(); }, {64, 1, 28, 28});
  measure_training("resnet18_b1", [] { return vision::resnet18_v1(); }, {1, 3, 224, 224});
  measure_training("resnet50_b1", [] { return vision::resnet50_v1(); }, {1, 3, 224, 224});
  measure_training("transformer_b8", [] { return gluon::nn::TransformerEncoderCell(256, 1024, 8); }, {8, 64, 256});
}

void start(int) {
  std::vector<double> ms, rss;
  for (int i = 0; i < 21; ++i) {
    const Start s = start_process();
    ms.push_back(s.ms);
    rss.push_back(s.rss_mb);
  }
  print("start_to_first_result", summarize(ms), "ms", "", {}, 20);
  print("start_peak_rss", summarize(rss), "MB", "", {}, 25);
}

}  // namespace kaon::bench
