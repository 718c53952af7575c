// Nets, trainers, tapes and loaders that outlive their engine; nets on another device of the host.
#include <optional>

#include "kaon/engine/generator.h"
#include "kaon/gluon/data/data_loader.h"
#include "kaon/gluon/loss.h"
#include "kaon/gluon/training_step.h"
#include "kaon/gluon/util/progress_bar.h"
#include "kaon/tests/engine/support.h"
#include "kaon/tests/gluon/hybrid/hybrid_support.h"
#include "kaon/tests/support/files.h"

namespace engine_end_test {

using namespace kaon;
using namespace kaon::test;
using Catch::Matchers::Contains;
using gluon::loss::L2Loss;

namespace {

nn::HybridSequential small_net() {
  nn::HybridSequential net(nn::Dense(8, {.activation = "tanh", .in_units = 4}), nn::Dense(2, {.in_units = 8}));
  net.initialize(init::Normal(0.5));
  return net;
}

const auto ended = Contains("the engine of this array has ended");

}  // namespace

TEST_CASE("engine end: a net is saved, and trained again after another initialize()", "[gluon]") {
  for (const bool hybrid : {false, true}) {
    INFO("hybrid " << hybrid);
    std::optional<nn::HybridSequential> net;
    std::optional<gluon::Trainer> trainer;
    std::vector<double> weight;
    {
      Engine engine({.threads = 2});
      EngineScope scope(engine);
      net.emplace(small_net());
      if (hybrid) net->hybridize({.static_alloc = true, .static_shape = true});
      trainer.emplace(net->collect_params(), optimizer::Adam());
      const NDArray x = nd.ones({3, 4});
      for (int i = 0; i < 6; ++i) {
        autograd::record([&] { return (*net)(x); }).backward();
        trainer->step(3);
      }
      for (int i = 0; i < 10; ++i) (*net)(x);  // its plan reads the parameters from call to call
      weight = values(net->collect_params()[0].data());
    }
    CHECK(values(net->collect_params()[0].data()) == weight);
    CHECK_THROWS_WITH((*net)(nd.ones({3, 4})), ended);
    CHECK_THROWS_AS((*net)(nd.ones({3, 4})), StateError);
    CHECK_THROWS_WITH(autograd::record([&] { return (*net)(nd.ones({3, 4})); }), ended);
    CHECK_THROWS_AS(trainer->step(1), StateError);
    const ScratchFolder folder;
    net->save_parameters(folder / "net.params");
    auto other = small_net();
    other.load_parameters(folder / "net.params");
    CHECK(values(other.collect_params()[0].data()) == weight);
    // from here on in the engine that is current
    net->initialize(init::Normal(0.5), cpu(), true);
    net->load_parameters(folder / "net.params");
    const NDArray x = nd.ones({3, 4});
    require_close((*net)(x), values(other(x)));
    gluon::Trainer again(net->collect_params(), optimizer::Adam());
    autograd::record([&] { return (*net)(x); }).backward();
    again.step(3);
    CHECK(values(net->collect_params()[0].data()) != weight);
  }
}

TEST_CASE("engine end: a training step and a trainer say so, and are destroyed", "[gluon]") {
  struct Training {
    nn::HybridSequential net = small_net();
    L2Loss loss;
    gluon::Trainer trainer{net.collect_params(), optimizer::SGD({.learning_rate = 0.1, .momentum = 0.9})};
    gluon::TrainingStep step{net, loss, trainer};
  };
  for (const bool is_used : {true, false}) {
    std::optional<Training> training;
    NDArray loss;
    {
      Engine engine({.threads = 2});
      EngineScope scope(engine);
      training.emplace();
      for (int i = 0; i < 5; ++i) loss = training->step(nd.ones({3, 4}), nd.zeros({3, 2}));
    }
    CHECK(loss.shape().size() == 3);
    CHECK(values(loss).size() == 3);
    if (!is_used) continue;
    CHECK_THROWS_WITH(training->step(nd.ones({3, 4}), nd.zeros({3, 2})), ended);
    CHECK_THROWS_AS(training->step(nd.ones({5, 4}), nd.zeros({5, 2})), StateError);
    const ScratchFolder folder;
    CHECK_NOTHROW(training->trainer.save_states(folder / "trainer.states"));
  }
}

TEST_CASE("engine end: a tape can be destroyed, and its backward says so", "[gluon]") {
  for (const bool hybrid : {false, true}) {
    NDArray x, y;
    {
      Engine engine({.threads = 2});
      EngineScope scope(engine);
      auto net = small_net();
      if (hybrid) net.hybridize();
      x = nd.ones({3, 4});
      x.attach_grad();
      y = autograd::record([&] { return net(x).sum(); });
    }
    CHECK_THROWS_WITH(y.backward(), ended);
    CHECK_THROWS_AS(autograd::record([&] { return x * 2; }), StateError);
    CHECK(values(x.grad()) == std::vector<double>(12, 0.0));
  }
}

TEST_CASE("engine end: a loader's batches end with StateError, and what waits for room is given back", "[gluon]") {
  using namespace gluon::data;
  Watchdog watchdog(60s);
  const Dataset numbers(100, [](int64_t i) { return Sample(HostTensor(Shape(2), std::vector<float>{float(i), 1})); });
  for (const int workers : {0, 2}) {
    INFO("workers " << workers);
    const DataLoader loader(numbers, {.batch_size = 2, .workers = workers, .prefetch = 2});
    std::optional<AsyncGenerator<Batch>> read, dropped;
    auto next = [](AsyncGenerator<Batch>& batches) -> Task<bool> {
      std::optional<Batch> batch = co_await batches.next();
      co_return batch.has_value();
    };
    {
      Engine engine({.threads = 1});
      EngineScope scope(engine);
      read.emplace(loader.batches());
      dropped.emplace(loader.batches());
      for (int i = 0; i < 3; ++i) {
        CHECK(sync_wait(next(*read)));
        CHECK(sync_wait(next(*dropped)));
      }
      std::this_thread::sleep_for(10ms);  // the window is full: the workers wait for room
    }
    dropped.reset();
    CHECK_THROWS_WITH(sync_wait(next(*read)), ended);
    read.reset();
    int count = 0;  // another epoch, in the engine that is current
    for (Batch& batch : loader.sync()) count += int(batch.size());
    CHECK(count == 100);
  }
}

TEST_CASE("engine end: a progress bar goes on", "[gluon]") {
  std::optional<gluon::ProgressBar> bar;
  std::FILE* out = std::tmpfile();
  {
    Engine engine({.threads = 1});
    EngineScope scope(engine);
    bar.emplace("epoch", 3, gluon::ProgressOptions{.out = out, .is_terminal = true});
    nd.ones({3});
    bar->step();
  }
  CHECK_NOTHROW(bar->step());
  CHECK_NOTHROW(bar->line());
  bar.reset();
  std::fclose(out);
}

TEST_CASE("device: a net on cpu(1) is trained and saved as one on cpu(0)", "[gluon]") {
  const ScratchFolder folder;
  std::vector<std::vector<double>> results;
  for (const Device device : {cpu(0), cpu(1)}) {
    for (const bool hybrid : {false, true}) {
      random::seed(5);
      nn::HybridSequential net(nn::Dense(8, {.activation = "tanh", .in_units = 4}), nn::Dense(2, {.in_units = 8}));
      net.initialize(init::Normal(0.5), device);
      if (hybrid) net.hybridize();
      const NDArray x = nd.ones({3, 4}, {.device = device}), label = nd.zeros({3, 2}, {.device = device});
      gluon::Trainer trainer(net.collect_params(), optimizer::Adam());
      L2Loss loss;
      gluon::TrainingStep step(net, loss, trainer, {.exact = true});
      for (int i = 0; i < 3; ++i) {
        autograd::record([&] { return loss(net(x), label); }).backward();
        trainer.step(3);
        CHECK(step(x, label).device() == device);
      }
      CHECK(net(x).device() == device);
      CHECK_THROWS_AS(net(x.as_in_context(cpu(2))), DeviceError);
      net.save_parameters(folder / "net.params");
      auto back = small_net();
      back.load_parameters(folder / "net.params");
      results.push_back(values(back(nd.ones({3, 4}))));
      net.collect_params().reset_ctx(cpu(2));
      require_close(net(nd.ones({3, 4}, {.device = cpu(2)})), results.back());
      // a gradient comes back to the device that the value came from
      NDArray w = nd.ones({2}, {.device = device});
      w.attach_grad();
      autograd::record([&] { return (w.as_in_context(cpu(3)) * 3).sum(); }).backward();
      CHECK(w.grad().device() == device);
      CHECK(values(w.grad()) == std::vector<double>{3, 3});
    }
  }
  for (const auto& r : results) require_close(r, results.front());
}

}  // namespace engine_end_test
