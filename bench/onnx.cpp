// A loaded ONNX model, or a net of Kaon's own of the same sizes, timed on demand, so that a script can let several
// programs take turns:
//   bench_onnx [--threads N] [--constants] [--winograd] FILE       a model, as parameters or as constants
//   bench_onnx [--threads N] [--winograd] --own resnet18|bert|mlp  Kaon's net
// --plan prints the plan and ends. Else the program says "ready MILLISECONDS", from the file to the first result, and
// then for each line on the standard input, a number of seconds, the median of the microseconds of a call, each waited
// for. bench/onnx/peers runs it.
#include <cstdlib>
#include <iostream>

#include "kaon/bench/common.h"
#include "kaon/gluon/model_zoo/bert.h"
#include "kaon/gluon/model_zoo/resnet.h"
#include "kaon/interchange/onnx.h"
#include "kaon/kaon.h"

using namespace kaon;
namespace nn = kaon::gluon::nn;

namespace {

struct Options {
  int threads = 2;
  bool constants = false, winograd = false, plan = false;
  std::string file, own;
};

struct Run {
  std::function<std::vector<NDArray>()> call;
  std::function<std::string()> plan;
};

HybridizeOptions how(const Options& o) { return {.static_alloc = true, .static_shape = true, .winograd = o.winograd}; }

Run loaded(const Options& o) {
  onnx::Block net = onnx::load(o.file, {.trainable = !o.constants});
  net.hybridize(how(o));
  std::vector<NDArray> inputs;
  for (const onnx::ValueInfo& info : net.inputs()) {
    Shape shape = info.shape;
    for (int i = 0; i < shape.ndim(); ++i) shape[i] = std::max<int64_t>(shape[i], 1);
    inputs.push_back(is_floating(info.dtype) ? nd.random_uniform(shape, {.low = -1, .high = 1}).astype(info.dtype)
                                             : nd.ones(shape, {.dtype = info.dtype}));
  }
  return {[net, inputs] { return net.forward(inputs); }, [net] { return net.plan()->dump(); }};
}

template <class Net>
Run own_net(Net net, const NDArray& x, const Options& o) {
  net.initialize(init::Xavier());
  net.hybridize(how(o));
  return {[net, x] { return std::vector<NDArray>{net(x)}; }, [net] { return net.plan()->dump(); }};
}

Run own(const Options& o) {
  if (o.own == "resnet18") {
    return own_net(gluon::model_zoo::vision::resnet18_v1(), nd.random_uniform({1, 3, 224, 224}), o);
  }
  if (o.own == "mlp") {
    return own_net(nn::HybridSequential{nn::Dense(256, {.activation = "relu"}), nn::Dense(128, {.activation = "relu"}),
                                        nn::Dense(2)},
                   nd.random_uniform({1, 512}), o);
  }
  if (o.own != "bert") throw ValueError("bench_onnx: no net is called " + o.own);
  gluon::model_zoo::text::BERT net;
  net.initialize(init::Xavier());
  net.hybridize(how(o));
  const NDArray words = nd.ones({1, 128}), types = nd.zeros({1, 128}), length = nd.full({1}, 128);
  return {[=] {
            const auto [all, pooled] = net(words, types, length);
            return std::vector<NDArray>{all, pooled};
          },
          [net] { return net.plan()->dump(); }};
}

double microseconds(const Run& run) {
  return 1e6 * bench::seconds([&] {
           for (const NDArray& y : run.call()) y.wait_to_read();
         });
}

}  // namespace

int main(int argc, char** argv) {
  Options o;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    if (word == "--threads" && i + 1 < argc) o.threads = std::atoi(argv[++i]);
    else if (word == "--own" && i + 1 < argc) o.own = argv[++i];
    else if (word == "--constants") o.constants = true;
    else if (word == "--winograd") o.winograd = true;
    else if (word == "--plan") o.plan = true;
    else o.file = word;
  }
  if (o.file.empty() == o.own.empty()) {
    fmt::print(stderr, "usage: bench_onnx [--threads N] [--constants] [--winograd] FILE | --own resnet18|bert|mlp\n");
    return 2;
  }
  Engine engine(EngineOptions{.threads = o.threads});
  EngineScope scope(engine);
  Run run;
  const double first = 1e-3 * [&] {
    const auto begin = std::chrono::steady_clock::now();
    run = o.own.empty() ? loaded(o) : own(o);
    microseconds(run);
    return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - begin).count();
  }();
  if (o.plan) {
    fmt::print("{}\n", run.plan());
    return 0;
  }
  for (int i = 0; i < 5; ++i) microseconds(run);
  fmt::print("ready {:.1f}\n", first);
  std::fflush(stdout);
  for (double seconds = 0; std::cin >> seconds;) {
    std::vector<double> times;
    for (double sum = 0; times.size() < 3 || sum < seconds * 1e6; sum += times.back()) {
      times.push_back(microseconds(run));
    }
    fmt::print("{:.3f}\n", bench::summarize(times).median);
    std::fflush(stdout);
  }
}
