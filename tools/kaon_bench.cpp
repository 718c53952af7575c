// kaon-bench: latency and throughput of a net, by threads and batch.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "kaon/engine/engine.h"
#include "kaon/ops/functions.h"
#include "kaon/tools/tool.h"

using namespace kaon;

namespace {

using Clock = std::chrono::steady_clock;

struct Figures {
  double median_ms, p90_ms, per_second;
  size_t calls;
};

// Calls one after another, each until its results are there; the first ones, which plan, are not counted.
Figures measure(const tools::Model& model, const std::vector<NDArray>& inputs, double seconds) {
  const auto call = [&] {
    const auto begin = Clock::now();
    for (const NDArray& result : model.forward(inputs)) result.wait_to_read();
    return std::chrono::duration<double>(Clock::now() - begin).count();
  };
  for (int i = 0; i < 3; ++i) call();
  std::vector<double> times;
  const auto begin = Clock::now();
  while (times.size() < 5 || std::chrono::duration<double>(Clock::now() - begin).count() < seconds)
    times.push_back(call());
  const double whole = std::chrono::duration<double>(Clock::now() - begin).count();
  std::sort(times.begin(), times.end());
  const double batch = inputs.empty() || inputs[0].ndim() == 0 ? 1 : double(inputs[0].shape()[0]);
  return {times[times.size() / 2] * 1e3, times[times.size() * 9 / 10] * 1e3, batch * double(times.size()) / whole,
          times.size()};
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Measures a net (ONNX, or symbol.json of MXNet or Kaon): latency of a call and items in a second.",
               "kaon-bench");
  std::string file, params, dtype;
  std::vector<std::string> shapes;
  std::vector<int64_t> batches;
  std::vector<int> threads{Engine::current().stats().threads};
  double seconds = 1;
  app.add_option("file", file, "The net")->required();
  app.add_option("--params", params,
                 "Its weights, of any kind; default: the file beside it with the name of an export");
  app.add_option("--shape", shapes, "The shape of each input, as data=1,3,224,224; of one input without its name")
      ->required();
  app.add_option("--dtype", dtype, "Of the inputs; default: what an ONNX model says, else float32");
  app.add_option("--batch", batches, "First dimensions to measure, as 1,8,32; default: those of the shapes")
      ->delimiter(',')
      ->check(CLI::Range(int64_t(1), int64_t(1) << 31));
  app.add_option("--threads", threads, "Numbers of threads to measure, as 1,2; default: the cores that it may run on")
      ->delimiter(',')
      ->check(CLI::Range(1, 1024));
  app.add_option("--seconds", seconds, "For each row")->capture_default_str()->check(tools::positive_number());
  return tools::run_tool(app, argc, argv, [&] {
    if (!dtype.empty()) tools::parse_dtype(dtype, "--dtype");  // before the heading
    fmt::print("{:>8} {:>6} {:>12} {:>12} {:>12} {:>8}\n", "threads", "batch", "median ms", "90% ms", "items/s",
               "calls");
    for (const int n : threads) {
      Engine engine(EngineOptions{.threads = n});
      EngineScope scope(engine);
      tools::Model model = tools::open_model(file, params);
      if (!model.is_onnx) model.block.initialize(init::Uniform(0.07));  // what no file gives
      model.block.hybridize({.static_alloc = true, .static_shape = true});
      const std::vector<Shape> given = tools::parse_shapes(shapes, model);
      for (const int64_t batch : batches.empty() ? std::vector<int64_t>{0} : batches) {
        std::vector<NDArray> inputs;
        for (size_t i = 0; i < given.size(); ++i) {
          Shape shape = given[i];
          if (shape.ndim() == 0)
            throw ValueError(fmt::format("--shape: none for the input '{}'{}", model.inputs[i], model.hint));
          if (batch > 0) shape[0] = batch;
          inputs.push_back(
              nd.ones(shape, {.dtype = dtype.empty() ? model.dtypes[i] : tools::parse_dtype(dtype, "--dtype")}));
        }
        const Figures f = measure(model, inputs, seconds);
        fmt::print("{:>8} {:>6} {:>12.3f} {:>12.3f} {:>12.1f} {:>8}\n", n, inputs.empty() ? 1 : inputs[0].shape()[0],
                   f.median_ms, f.p90_ms, f.per_second, f.calls);
      }
    }
  });
}
