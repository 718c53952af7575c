// Estimator: the loop is the one that a program would write, and can be paused, stopped and gone on with.
#include "kaon/gluon/estimator/estimator.h"

#include <thread>

#include "kaon/gluon/estimator/handlers.h"
#include "kaon/gluon/loss.h"
#include "kaon/gluon/metric.h"
#include "kaon/gluon/nn/nn.h"
#include "kaon/ops/ndarray_file.h"
#include "kaon/ops/random_state.h"
#include "kaon/tests/gluon/support.h"
#include "kaon/tests/support/files.h"

namespace estimator_test {

using namespace kaon;
using namespace kaon::test;
using Catch::Matchers::Contains;
namespace nn = kaon::gluon::nn;
namespace data = kaon::gluon::data;

namespace {

data::DataLoader loader(bool shuffle = true) {
  return data::DataLoader(
      data::Dataset(
          10,
          [](int64_t i) {
            return data::Sample(data::HostTensor({2}, std::vector<float>{float(i) / 10, float(i % 3)}), int(i > 4));
          }),
      {.batch_size = 3, .shuffle = shuffle, .seed = 4});
}

nn::HybridSequential made() {
  random::seed(7);
  nn::HybridSequential net(nn::Dense(4, {.activation = "tanh"}), nn::Dropout(0.2), nn::Dense(2));
  net.initialize(init::Xavier());
  return net;
}

std::vector<double> all(const gluon::Block& net) {
  std::vector<double> numbers;
  for (const auto& p : net.collect_params()) {
    for (double v : values(p.data())) numbers.push_back(v);
  }
  return numbers;
}

optimizer::Adam adam() { return optimizer::Adam({.learning_rate = 0.05}); }

// Calls a function after each batch.
struct AfterBatch final : gluon::EventHandler {
  explicit AfterBatch(std::function<void(gluon::Estimator&)> fn) : fn(std::move(fn)) {}
  Task<void> batch_end(gluon::Estimator& e, const data::Batch&, const gluon::BatchResult&) override {
    fn(e);
    co_return;
  }
  std::function<void(gluon::Estimator&)> fn;
};

// A net that is no HybridBlock.
struct Plain : gluon::Block {
  nn::Dense dense = child("dense", nn::Dense(2));
  NDArray operator()(const NDArray& x) { return dense(x); }
};

}  // namespace

TEST_CASE("estimator: trains bit for bit as the loop that a program would write", "[gluon]") {
  for (int threads : {0, 1, 2}) {
    Engine engine({.threads = threads});
    EngineScope scope(engine);
    const gluon::loss::SoftmaxCrossEntropyLoss loss;
    nn::HybridSequential by_hand = made();
    gluon::Trainer own(by_hand.collect_params(), adam());
    gluon::TrainingStep step(
        [&](auto x, auto y) {
          auto p = by_hand(x);
          return std::pair(loss(p, y), p);
        },
        own);
    metric::Accuracy accuracy;
    for (int epoch = 0; epoch < 3; ++epoch) {
      accuracy.reset();
      for (data::Batch& batch : data::SyncBatches(loader().batches(uint64_t(epoch)))) {
        step(batch.data, batch.label);
        accuracy.update(batch.label, step.outputs()[0]);
      }
    }

    nn::HybridSequential net = made();
    gluon::Trainer trainer(net.collect_params(), adam());
    gluon::Estimator estimator(net, loss, trainer, {metric::Accuracy()}, {metric::Accuracy()});
    std::vector<std::string> lines;
    estimator.add_handler(std::make_shared<gluon::ValidationHandler>(loader(false)));
    estimator.add_handler(
        std::make_shared<gluon::LoggingHandler>(2, [&](const std::string& line) { lines.push_back(line); }));
    sync_wait(estimator.fit(loader(), {.epochs = 3}));
    CHECK(all(net) == all(by_hand));
    CHECK(estimator.epoch() == 3);
    CHECK(estimator.train_metrics()[0].get().second == accuracy.get().second);
    REQUIRE(lines.size() == 9);
    CHECK_THAT(lines[0], Contains("[epoch 1, batch 2] train loss ") && Contains(", train accuracy "));
    CHECK_THAT(lines[8], Contains("[epoch 3] ") && Contains(", validation loss ") && Contains("validation accuracy "));
    sync_wait(estimator.fit(loader(), {.epochs = 3}));  // they are trained already
    CHECK(all(net) == all(by_hand));
    sync_wait(estimator.fit(loader(), {.batches = 6}));  // one epoch of four, and two batches
    CHECK(estimator.epoch() == 4);
    CHECK(estimator.batch() == 2);
    CHECK(trainer.steps() == 18);
  }
}

TEST_CASE("estimator: paused, resumed and stopped from other threads", "[gluon][async]") {
  nn::HybridSequential net = made();
  gluon::Trainer trainer(net.collect_params(), adam());
  gluon::Estimator estimator(net, gluon::loss::SoftmaxCrossEntropyLoss(), trainer);
  std::atomic<int64_t> batches = 0;
  estimator.add_handler(std::make_shared<AfterBatch>([&](gluon::Estimator& e) {
    if (++batches == 5) e.pause();
    if (batches == 9) e.stop();
  }));
  std::thread other([&] {
    while (batches < 5) std::this_thread::yield();
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    CHECK(batches == 5);  // nothing goes on
    estimator.resume();
  });
  sync_wait(estimator.fit(loader(), {.epochs = 100}));
  other.join();
  CHECK(batches == 9);
  CHECK(estimator.is_stopped());
  CHECK(estimator.epoch() == 2);

  estimator.stop();
  sync_wait(estimator.fit(loader(), {.epochs = 100}));  // stopped before
  CHECK(batches == 9);
  CHECK(estimator.is_stopped());
  estimator.pause();
  std::thread stopping([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    estimator.stop();
  });
  sync_wait(estimator.fit(loader(), {.epochs = 100}));  // paused at once
  stopping.join();
  CHECK(batches == 9);
}

TEST_CASE("estimator: goes on from a checkpoint with the same bits, and keeps the newest and the best", "[gluon]") {
  const ScratchFolder folder;
  nn::HybridSequential whole = made();
  const gluon::loss::SoftmaxCrossEntropyLoss loss;
  {
    gluon::Trainer trainer(whole.collect_params(), adam());
    gluon::Estimator estimator(whole, loss, trainer);
    sync_wait(estimator.fit(loader(), {.epochs = 6}));
  }
  const auto train = [&](const nn::HybridSequential& net, int64_t epochs, bool resumes) {
    gluon::Trainer trainer(net.collect_params(), adam());
    gluon::Estimator estimator(net, loss, trainer);
    auto checkpoints = std::make_shared<gluon::CheckpointHandler>(folder / "c", "net", 1, 2);
    checkpoints->save_best(estimator.train_loss());
    estimator.add_handler(checkpoints);
    CHECK(checkpoints->resume(estimator) == resumes);
    if (epochs == 7) trainer.set_learning_rate(50);  // it becomes worse: the best file stays
    sync_wait(estimator.fit(loader(), {.epochs = epochs}));
  };
  train(made(), 4, false);
  nn::HybridSequential resumed = made();
  random::seed(1234);
  train(resumed, 6, true);
  CHECK(all(resumed) == all(whole));
  std::vector<std::string> names;
  for (const auto& f : std::filesystem::directory_iterator(folder / "c")) names.push_back(f.path().filename().string());
  std::sort(names.begin(), names.end());
  const auto best = [&] {
    std::vector<double> numbers;
    for (const auto& [name, array] : nd_file::load(folder / "c" / "net-best.params"))
      numbers.push_back(values(array)[0]);
    return numbers;
  };
  const std::vector<double> before = best();
  train(made(), 7, true);
  CHECK(best() == before);
  CHECK(names == std::vector<std::string>{"net-0005.params", "net-0006.params", "net-best.params"});
}

TEST_CASE("estimator: stops early, and takes blocks that are not traced", "[gluon]") {
  Plain net;
  net.initialize(init::Xavier());
  gluon::Trainer trainer(net.collect_params(), optimizer::SGD({.learning_rate = 0}));
  // Epochs that MXNet 1.9.1 trains: the first is better than nothing, then `patience` are not, at least one.
  for (const auto& [patience, epochs] : {std::pair(0, 2), std::pair(1, 2), std::pair(2, 3), std::pair(3, 4)}) {
    gluon::Estimator estimator(net, gluon::loss::SoftmaxCrossEntropyLoss(), trainer, {metric::Accuracy()});
    auto early =
        std::make_shared<gluon::EarlyStoppingHandler>(estimator.train_metrics()[0], gluon::Better::higher, patience);
    estimator.add_handler(early);
    sync_wait(estimator.fit(loader(), {.epochs = 50}));
    CHECK(estimator.epoch() == epochs);
    CHECK(early->best() >= 0);
  }
}

TEST_CASE("estimator: what is wrong is said, and training can go on", "[gluon]") {
  nn::HybridSequential net = made();
  gluon::Trainer trainer(net.collect_params(), adam());
  gluon::Estimator estimator(net, gluon::loss::SoftmaxCrossEntropyLoss(), trainer);
  CHECK_THROWS_WITH(sync_wait(estimator.fit(loader(), {})), Contains("epochs or batches must be above 0"));
  CHECK_THROWS_AS(estimator.add_handler(nullptr), ValueError);
  const metric::Accuracy shared;
  CHECK_THROWS_WITH(gluon::Estimator(net, gluon::loss::SoftmaxCrossEntropyLoss(), trainer, {shared}, {shared}),
                    Contains("accuracy is in both lists"));
  CHECK_THROWS_AS(estimator.set_epoch(-1), ValueError);
  CHECK_THROWS_AS(gluon::EarlyStoppingHandler(estimator.train_loss(), gluon::Better::lower, -1), ValueError);
  CHECK_THROWS_AS(gluon::ValidationHandler(loader(), 0), ValueError);
  const ScratchFolder folder;
  CHECK_THROWS_AS(gluon::CheckpointHandler("/proc/none/here"), IoError);
  CHECK_THROWS_AS(gluon::CheckpointHandler(folder / "x", "a/b"), ValueError);
  int calls = 0;
  estimator.add_handler(std::make_shared<AfterBatch>([&](gluon::Estimator& e) {
    if (++calls == 2) throw Error("enough of this");
    if (calls == 3) CHECK_THROWS_WITH(sync_wait(e.fit(loader(), {.epochs = 1})), Contains("running already"));
  }));
  CHECK_THROWS_WITH(sync_wait(estimator.fit(loader(), {.epochs = 1})), Contains("enough of this"));
  CHECK(estimator.epoch() == 0);
  sync_wait(estimator.fit(loader(), {.epochs = 1}));
  CHECK(estimator.epoch() == 1);
  data::DataLoader broken(data::Dataset(4, [](int64_t i) -> data::Sample { throw IoError(fmt::format("no {}", i)); }),
                          {.batch_size = 2});
  CHECK_THROWS_WITH(sync_wait(estimator.fit(broken, {.epochs = 2})), Contains("no 0"));
}

}  // namespace estimator_test
