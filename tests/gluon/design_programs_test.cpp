// The two programs of the design's first section, as they stand there but for the name of main(): they compile and run.
#include <kaon/kaon.h>

#include <catch2/catch.hpp>

#include "kaon/tests/support/files.h"

namespace design {

// --- the first program
namespace nn = kaon::gluon::nn;
using namespace kaon;

struct Net : gluon::HybridBlock<Net> {
  nn::Conv2D conv1 = child("conv1", nn::Conv2D(6, {.kernel_size = 5}));
  nn::MaxPool2D pool1 = child("pool1", nn::MaxPool2D({.pool_size = 2}));
  nn::Conv2D conv2 = child("conv2", nn::Conv2D(16, {.kernel_size = 5}));
  nn::MaxPool2D pool2 = child("pool2", nn::MaxPool2D({.pool_size = 2}));
  nn::Dense fc1 = child("fc1", nn::Dense(120));
  nn::Dense fc2 = child("fc2", nn::Dense(84));
  gluon::Parameter fc3_weight = param("fc3_weight", {10, 84});

  auto hybrid_forward(auto F, auto x) {  // F is nd or sym; x is an NDArray or a Symbol
    x = pool1(F.relu(conv1(x)));
    x = pool2(F.relu(conv2(x)));
    x = F.reshape(x, {0, -1});  // 0 copies a dimension, -1 infers it
    x = F.relu(fc1(x));
    x = F.relu(fc2(x));
    return F.dot(x, F(fc3_weight), {.transpose_b = true});
  }
};

void design_main() {
  Net net;
  net.initialize(init::Xavier());
  NDArray x = nd.random_normal({16, 1, 28, 28});
  net(x);  // imperative: five layers pushed, nothing waited for
  net.hybridize({.static_alloc = true, .static_shape = true});
  net(x);                                    // traced once, then one submission per call
  fmt::print("{}\n", net(sym.var("data")));  // a Symbol in, a Symbol out
  net.export_model("model", 1);              // model-symbol.json, model-0001.params: the files MXNet reads
  auto back = gluon::SymbolBlock::imports("model-symbol.json", {"data"}, "model-0001.params");
  nd.waitall();
}

// --- the second program
Task<void> train(Net net, gluon::data::DataLoader loader) {
  gluon::Trainer trainer(net.collect_params(), optimizer::SGD({.learning_rate = 0.02, .momentum = 0.9}));
  gluon::loss::SoftmaxCrossEntropyLoss loss_fn;
  auto batches = loader.batches();  // decodes and prefetches on the io pool while the net computes
  while (auto batch = co_await batches.next()) {
    NDArray loss = autograd::record([&] { return loss_fn(net(batch->data), batch->label); });
    loss.backward();
    trainer.step(batch->size());  // pushes only: nothing waits
    if (trainer.steps() % 100 == 0) fmt::print("{:.4f}\n", co_await loss.mean().item<float>());
  }
  co_await Engine::current().idle();
}

}  // namespace design

namespace kaon::test {
namespace {

// The programs write where they are started.
class WorkingFolder {
 public:
  explicit WorkingFolder(const fs::path& folder) : saved_(fs::current_path()) { fs::current_path(folder); }
  ~WorkingFolder() { fs::current_path(saved_); }
  WorkingFolder(const WorkingFolder&) = delete;
  WorkingFolder& operator=(const WorkingFolder&) = delete;

 private:
  fs::path saved_;
};

}  // namespace

TEST_CASE("design: the first program runs and leaves a model that can be loaded") {
  ScratchFolder folder;
  {
    WorkingFolder here(folder / "");
    design::design_main();
  }
  REQUIRE(fs::exists(folder / "model-symbol.json"));
  auto back = gluon::SymbolBlock::imports(folder / "model-symbol.json", {"data"}, folder / "model-0001.params");
  CHECK(back(nd.zeros({2, 1, 28, 28})).shape() == Shape(2, 10));
}

TEST_CASE("design: the second program changes every parameter and ends with an idle engine") {
  using gluon::data::HostTensor;
  using gluon::data::Sample;
  random::seed(1);
  auto image = [](int64_t i) { return HostTensor(Shape(1, 28, 28), std::vector<float>(28 * 28, float(i % 10) / 10)); };
  gluon::data::Dataset images(20, [image](int64_t i) { return Sample(image(i), HostTensor(int(i % 10))); });
  design::Net net;
  net.initialize(init::Xavier());
  net(nd.zeros({1, 1, 28, 28}));
  std::vector<std::vector<float>> before;
  for (const gluon::Parameter& p : net.collect_params()) before.push_back(p.data().asvector<float>());

  net.hybridize({.static_alloc = true, .static_shape = true});
  sync_wait(design::train(net, gluon::data::DataLoader(images, {.batch_size = 4, .shuffle = true})));

  const EngineStats stats = Engine::current().stats();
  CHECK(stats.completed == stats.ops);
  size_t i = 0;
  for (const gluon::Parameter& p : net.collect_params()) {
    INFO(p.name());
    CHECK(p.data().asvector<float>() != before[i++]);
  }
}

}  // namespace kaon::test
