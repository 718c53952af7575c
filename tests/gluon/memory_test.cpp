// What plans take in memory, beside an imperative run.
#include "kaon/engine/storage.h"
#include "kaon/gluon/block_node.h"
#include "kaon/gluon/model_zoo/resnet.h"
#include "kaon/tests/gluon/hybrid_support.h"

using namespace kaon;
using namespace kaon::test;

namespace {

struct LeNet : gluon::HybridBlock<LeNet> {
  nn::Conv2D conv1 = child("conv1", nn::Conv2D(6, {.kernel_size = 5}));
  nn::MaxPool2D pool1 = child("pool1", nn::MaxPool2D({.pool_size = 2}));
  nn::Conv2D conv2 = child("conv2", nn::Conv2D(16, {.kernel_size = 5}));
  nn::MaxPool2D pool2 = child("pool2", nn::MaxPool2D({.pool_size = 2}));
  nn::Dense fc1 = child("fc1", nn::Dense(120)), fc2 = child("fc2", nn::Dense(84)), fc3 = child("fc3", nn::Dense(10));
  LeNet() : HybridBlock("lenet") {}
  auto hybrid_forward(auto F, auto x) {
    x = pool2(F.relu(conv2(pool1(F.relu(conv1(x))))));
    return fc3(F.relu(fc2(F.relu(fc1(F.flatten(x))))));
  }
};

nn::HybridSequential mlp() {
  return nn::HybridSequential(nn::Dense(256, {.activation = "relu"}), nn::Dense(128, {.activation = "relu"}),
                              nn::Dense(10));
}
nn::TransformerEncoderCell encoder() { return nn::TransformerEncoderCell(64, 128, 4, {.dropout = 0.1}); }
gluon::model_zoo::vision::ResNetV1 resnet() {
  return gluon::model_zoo::vision::resnet18_v1({.classes = 10, .thumbnail = true});
}

// The most that `work` has alive beyond what was there before.
template <class Work>
size_t peak_of(Work work) {
  nd.waitall();
  Storage& storage = Storage::cpu();
  const StorageStats before = storage.stats();
  const size_t filler = before.peak - before.live;  // the highest mark is where we begin
  void* p = storage.allocate(filler);
  const size_t begin = storage.stats().live;
  work();
  nd.waitall();
  const size_t peak = storage.stats().peak;
  storage.free(p, filler);
  return peak > begin ? peak - begin : 0;
}

struct Peaks {
  size_t imperative, hybrid, planned;
};

// Of a prediction, or of a forward and a backward. The engine is serial, so that the imperative run frees at once, and
// the arena goes back to the storage between the calls, so that it counts.
template <class Net>
Peaks peaks(Net net, const Shape& shape, bool training) {
  Engine engine({.threads = 0});
  EngineScope scope(engine);
  ready(net);
  NDArray x = numbers(shape);
  auto step = [&] {
    if (!training) {
      net(x).wait_to_read();
    } else {
      NDArray y = autograd::record([&] { return net(x); });
      y.backward();
    }
  };
  step();  // parameters, gradients, scratch of kernels
  Peaks result{};
  result.imperative = peak_of(step);
  net.hybridize();
  step();  // makes the plan
  result.hybrid = peak_of(step);
  result.planned = net.node()->traces.back().graph->plan()->memory().arena_bytes;
  return result;
}

template <class Net>
void compare(const char* name, Net make, const Shape& shape) {
  for (bool training : {false, true}) {
    const Peaks p = peaks(make(), shape, training);
    INFO(name << (training ? ", training" : ", prediction"));
    CHECK(p.planned > 0);
    CHECK(p.planned <= p.imperative);
    CHECK(p.hybrid <= p.imperative + p.planned);  // what one kernel needs for itself comes beside the arena
  }
}

}  // namespace

TEST_CASE("users row 23: plans take no more memory than an imperative run at its peak", "[gluon]") {
  compare("MLP", mlp, {64, 784});
  compare("LeNet", [] { return LeNet(); }, {16, 1, 28, 28});
  compare("ResNet-18", resnet, {2, 3, 32, 32});
  compare("transformer block", encoder, {4, 16, 64});
}

TEST_CASE("users row 23: in the steady state no memory is taken from the storage, outputs dropped", "[gluon]") {
  auto check = [](auto net, const Shape& shape) {
    ready(net);
    net.hybridize({.static_alloc = true, .static_shape = true});
    NDArray x = numbers(shape);
    auto calls = [&](int n) {
      for (int i = 0; i < n; ++i) {
        net(x).wait_to_read();
        autograd::record([&] { return net(x); }).backward();
        nd.waitall();
      }
    };
    calls(3);
    const StorageStats before = Storage::cpu().stats();
    calls(10);
    const StorageStats after = Storage::cpu().stats();
    CHECK(after.reserved == before.reserved);
    CHECK(after.live == before.live);
  };
  check(mlp(), {16, 20});
  check(LeNet(), {2, 1, 28, 28});
  check(encoder(), {2, 8, 64});
}

TEST_CASE("users row 31: the plan of a last short batch reuses the memory of the first", "[gluon]") {
  LeNet net = ready(LeNet());
  net.hybridize({.static_alloc = true});
  const NDArray full = numbers({128, 1, 28, 28}), rest = numbers({104, 1, 28, 28});
  auto reserved_after = [&](const NDArray& x) {
    for (int i = 0; i < 3; ++i) net(x).wait_to_read();
    nd.waitall();
    return Storage::cpu().stats().reserved;
  };
  nd.waitall();
  Storage::cpu().trim();
  const size_t before = Storage::cpu().stats().reserved, one = reserved_after(full), both = reserved_after(rest);
  CHECK(net.node()->traces.back().graph->stats().misses == 2);
  CHECK(one - before >= net.node()->traces.back().graph->plan()->memory().arena_bytes);
  CHECK(double(both - one) < 0.1 * double(one - before));
}
