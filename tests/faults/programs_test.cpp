// Programs, in each of which any allocation may fail.
#include <unistd.h>
#include <boost/asio/bind_executor.hpp>
#include <boost/asio/io_context.hpp>
#include <catch2/catch.hpp>
#include <filesystem>

#include "harness.h"
#include "kaon/asio.h"
#include "kaon/engine/task.h"
#include "kaon/engine/when.h"
#include "kaon/gluon/data/data_loader.h"
#include "kaon/gluon/loss.h"
#include "kaon/gluon/metric.h"
#include "kaon/gluon/nn/nn.h"
#include "kaon/gluon/symbol_block.h"
#include "kaon/gluon/training_step.h"
#include "kaon/graph/control_flow.h"
#include "kaon/tests/gluon/hybrid/hybrid_support.h"

using namespace kaon;
using namespace kaon::test;

namespace {

std::filesystem::path scratch(const char* name) {
  return std::filesystem::temp_directory_path() / ("kaon_faults_" + std::to_string(getpid()) + name);
}

Results read(const NDArray& a) { return a.asvector<float>(); }

nn::HybridSequential small_net() {
  nn::HybridSequential net(nn::Dense(6, {.activation = "relu", .in_units = 5}), nn::Dense(3, {.in_units = 6}));
  net.initialize(init::One());
  return net;
}

Results forward(const HybridizeOptions* options) {
  nn::HybridSequential net = small_net();
  if (options) net.hybridize(*options);
  const NDArray x = numbers({2, 5});
  net(x).wait_to_read();
  return read(net(x));
}

Results gradients(bool hybridized) {
  nn::HybridSequential net = small_net();
  if (hybridized) net.hybridize({.static_alloc = true});
  const NDArray x = numbers({2, 5});
  autograd::record([&] { return net(x) * 2; }).backward();
  Results all;
  for (auto p : net.collect_params()) {
    const Results g = read(p.grad());
    all.insert(all.end(), g.begin(), g.end());
  }
  return all;
}

Results training(bool fused) {
  nn::HybridSequential net = small_net();
  gluon::loss::L2Loss loss;
  gluon::Trainer trainer(net.collect_params(), optimizer::Adam({.learning_rate = 0.1}));
  const NDArray x = numbers({2, 5}), y = numbers({2, 3}, 2);
  gluon::TrainingStep step(net, loss, trainer);
  for (int i = 0; i < 2; ++i) {
    if (fused) {
      step(x, y).wait_to_read();
    } else {
      autograd::record([&] { return loss(net(x), y); }).backward();
      trainer.step(2);
    }
    nd.waitall();
  }
  return read(net(x));
}

struct Loop : gluon::HybridBlock<Loop> {
  auto hybrid_forward(auto F, auto x) {
    using A = decltype(x);
    const A first = F.zeros_like(F.sum(x, {.axis = {0}}));
    return contrib::foreach ([&](const A& row, const A& state) { return std::pair(row + state, row * 2 + state); }, x,
                             first)
        .second;
  }
};

Task<Results> load(gluon::data::DataLoader loader) {
  Results all;
  auto batches = loader.batches();
  while (auto batch = co_await batches.next()) {
    const std::vector<float> values = co_await batch->data.host<float>();
    all.insert(all.end(), values.begin(), values.end());
  }
  co_return all;
}

gluon::data::Dataset pairs(int64_t size) {
  return gluon::data::Dataset(size, [](int64_t i) {
    return gluon::data::Sample(gluon::data::HostTensor(Shape(2), std::vector<float>{float(i), float(-i)}), int(i));
  });
}

Task<float> sum_later(NDArray x) {
  NDArray y = co_await (x * 2);
  co_return co_await y.sum().item<float>();
}

struct Program {
  const char* name;
  Results (*run)();
};

const Program programs[] = {
    {"arithmetic",
     [] {
       return read((nd.ones({3, 4}) + 2) * nd.arange(4) - 1);
     }},
    {"products and reductions",
     [] {
       return read(nd.sum(nd.dot(numbers({40, 30}), numbers({30, 20})), {.axis = {1}}));
     }},
    {"views and writes",
     [] {
       NDArray a = numbers({4, 5});
       a[1] += 3;
       a.slice_assign({0, 0}, {2, 2}, 7);
       return read(a.reshape({2, 10}).transpose());
     }},
    {"many small arrays",
     [] {
       std::vector<NDArray> all;
       for (int i = 0; i < 200; ++i) all.push_back(nd.ones({16}) * float(i));
       return read(nd.concat(all, {.dim = 0}).sum());
     }},
    {"a convolution",
     [] {
       return read(nd.Convolution(numbers({1, 2, 8, 8}), numbers({3, 2, 3, 3}), numbers({3}),
                                  {.kernel = {3, 3}, .num_filter = 3}));
     }},
    {"autograd",
     [] {
       NDArray x = numbers({3, 3});
       x.attach_grad();
       autograd::record([&] { return nd.exp(x) * x; }).backward();
       return read(x.grad());
     }},
    {"imperative forward", [] { return forward(nullptr); }},
    {"hybridized forward",
     [] {
       const HybridizeOptions options;
       return forward(&options);
     }},
    {"static_alloc",
     [] {
       const HybridizeOptions options{.static_alloc = true, .static_shape = true};
       return forward(&options);
     }},
    {"exact",
     [] {
       const HybridizeOptions options{.exact = true};
       return forward(&options);
     }},
    {"gradients", [] { return gradients(false); }},
    {"hybridized gradients", [] { return gradients(true); }},
    {"training", [] { return training(false); }},
    {"TrainingStep", [] { return training(true); }},
    {"foreach",
     [] {
       return read(Loop()(numbers({4, 3})));
     }},
    {"hybridized foreach",
     [] {
       Loop loop;
       loop.hybridize();
       return read(loop(numbers({4, 3})));
     }},
    {"parameters in a file",
     [] {
       const auto file = scratch(".params");
       nn::HybridSequential net = small_net(), other = small_net();
       net.save_parameters(file);
       other.load_parameters(file);
       std::filesystem::remove(file);
       return read(other(numbers({2, 5})));
     }},
    {"an exported model",
     [] {
       const auto file = scratch("");
       nn::HybridSequential net = small_net();
       net.hybridize();
       net(numbers({2, 5})).wait_to_read();
       net.export_model(file, 0);
       auto back =
           gluon::SymbolBlock::imports(file.string() + "-symbol.json", {"data"}, file.string() + "-0000.params");
       return read(back(numbers({2, 5})));
     }},
    {"a loader", [] { return sync_wait(load(gluon::data::DataLoader(pairs(7), {.batch_size = 3}))); }},
    {"a Task",
     [] {
       return Results{sync_wait(sum_later(nd.ones({8, 8})))};
     }},
    {"Tasks side by side",
     [] {
       std::vector<Task<float>> all;
       for (int i = 0; i < 3; ++i) all.push_back(sum_later(nd.ones({8, 8}) * float(i)));
       return sync_wait(when_all(std::move(all)));
     }},
    {"a metric",
     [] {
       metric::Accuracy accuracy;
       accuracy.update(nd.array({0, 1, 1}), numbers({3, 2}));
       return Results{float(accuracy.get().second)};
     }},
};

}  // namespace

TEST_CASE("faults: programs bear that an allocation fails, and leave nothing behind", "[faults]") {
  Engine engine({.threads = 0});
  EngineScope scope(engine);
  for (const Program& p : programs) {
    DYNAMIC_SECTION(p.name) { survives(p.name, p.run, {.most = 12}); }
  }
}

TEST_CASE("faults: programs bear that any allocation fails", "[faults][slow]") {
  const int threads = GENERATE(0, 2);
  Engine engine({.threads = threads});
  EngineScope scope(engine);
  for (const Program& p : programs) {
    DYNAMIC_SECTION(p.name) { survives(p.name, p.run, {.most = 0}); }
  }
}
