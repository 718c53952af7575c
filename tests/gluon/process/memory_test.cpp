// What plans take in memory, beside an imperative run.
#include "kaon/engine/storage.h"
#include "kaon/gluon/internal/block_node.h"
#include "kaon/gluon/model_zoo/resnet.h"
#include "kaon/tests/gluon/hybrid/hybrid_support.h"

namespace memory_test {

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

// Wide layers side by side: one by one their memory is that of one, side by side that of all.
struct Wide : gluon::HybridBlock<Wide> {
  std::array<nn::Dense, 6> in{nn::Dense(2048), nn::Dense(2048), nn::Dense(2048),
                              nn::Dense(2048), nn::Dense(2048), nn::Dense(2048)};
  std::array<nn::Dense, 6> out{nn::Dense(64), nn::Dense(64), nn::Dense(64),
                               nn::Dense(64), nn::Dense(64), nn::Dense(64)};
  Wide() : HybridBlock("wide") {
    for (size_t i = 0; i < in.size(); ++i) {
      child("in" + std::to_string(i), in[i]);
      child("out" + std::to_string(i), out[i]);
    }
  }
  auto hybrid_forward(auto F, auto x) {
    std::vector<decltype(x)> parts;
    for (size_t i = 0; i < in.size(); ++i) parts.push_back(out[i](F.relu(in[i](x))));
    return F.concat(parts, {.dim = 1});
  }
};

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

// Of the net's plan in an engine with threads, where branches run side by side.
template <class Net>
size_t planned_for_threads(Net net, const Shape& shape, bool training) {
  Engine engine({.threads = 2});
  EngineScope scope(engine);
  ready(net);
  net.hybridize();
  const NDArray x = numbers(shape);
  training ? autograd::record([&] { return net(x); }).backward() : net(x).wait_to_read();
  engine.wait_all();
  return net.node()->traces.back().graph->plan()->memory().arena_bytes;
}

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
    CHECK(planned_for_threads(make(), shape, training) <= p.imperative);
    CHECK(p.hybrid <= p.imperative + p.planned);  // what one kernel needs for itself comes beside the arena
  }
}

}  // namespace

TEST_CASE("users row 23: plans take no more memory than an imperative run at its peak", "[gluon][unsanitized]") {
  compare("MLP", mlp, {64, 784});
  compare("LeNet", [] { return LeNet(); }, {16, 1, 28, 28});
  compare("ResNet-18", resnet, {2, 3, 32, 32});
  compare("transformer block", encoder, {4, 16, 64});
  compare("transformer block", encoder, {16, 16, 64});
}

TEST_CASE("memory: branches that run side by side take at most a MiB or an eighth more than one by one", "[gluon]") {
  for (int64_t batch : {1, 8, 32}) {
    const Shape shape{batch, 256};
    const size_t in_turn = peaks(Wide(), shape, false).planned;
    const size_t side_by_side = planned_for_threads(Wide(), shape, false);
    INFO("batch " << batch << ": " << in_turn << " and " << side_by_side << " bytes");
    CHECK(side_by_side <= in_turn + std::max<size_t>(in_turn / 8, 1 << 20));
    if (batch == 8) CHECK(side_by_side > in_turn);    // else nothing has run side by side
    if (batch == 32) CHECK(side_by_side == in_turn);  // it would be too much more
  }
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
    bool is_steady = false;  // a thread that has not helped yet takes scratch when it first does
    for (int i = 0; i < 20 && !is_steady; ++i) {
      const StorageStats before = Storage::cpu().stats();
      calls(10);
      const StorageStats after = Storage::cpu().stats();
      is_steady = after.reserved == before.reserved && after.live == before.live;
    }
    CHECK(is_steady);
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
    for (int i = 0; i < 3; ++i) {
      const NDArray y = net(x);
      nd.waitall();  // for the arena as well: while it is in use, the next call takes a second one
    }
    return Storage::cpu().stats().reserved;
  };
  nd.waitall();
  Storage::cpu().trim();
  const size_t before = Storage::cpu().stats().reserved, one = reserved_after(full), both = reserved_after(rest);
  CHECK(net.node()->traces.back().graph->stats().misses == 2);
  CHECK(one - before >= net.node()->traces.back().graph->plan()->memory().arena_bytes);
  CHECK(double(both - one) < 0.1 * double(one - before));
}

// Of each allocation of a call once; the others before it succeed.
TEST_CASE("memory: whichever allocation of a call fails, nothing is kept for good", "[gluon]") {
  for (int threads : {0, 1}) {
    Engine engine({.threads = threads});
    EngineScope scope(engine);
    const NDArray x = numbers({2, 16});
    nd.waitall();
    const auto live = [] { return Storage::cpu().stats().live; };
    const size_t before = live();
    for (const char* mode : {"imperative", "hybridized", "static_alloc", "recorded", "backward twice"}) {
      INFO(threads << " threads, " << mode);
      const bool hybridizes = mode != std::string("imperative"), keeps = mode == std::string("static_alloc");
      const bool twice = mode == std::string("backward twice"), records = twice || mode == std::string("recorded");
      int failed = 0, done = 0;
      for (size_t room = 0; done < 3; room += room < 8192 ? 64 : room / 16) {
        INFO("room for " << room << " bytes");
        {
          nn::HybridSequential net;  // with parameters enough that the arguments of its plan are no small block
          for (int i = 0; i < 60; ++i) net.add(nn::Dense(16, {.activation = i % 2 ? "tanh" : "relu"}));
          net.initialize(init::Xavier());
          net(x).wait_to_read();
          if (hybridizes) net.hybridize({.static_alloc = keeps, .static_shape = keeps});
          const auto call = [&] {
            if (!records) return net(x).wait_to_read();
            NDArray y = autograd::record([&] { return net(x); });
            if (twice) y.backward(nd.ones_like(y), true);
            y.backward();
            for (const auto& p : net.collect_params()) p.grad().wait_to_read();
          };
          if (room % 128 == 0) call();  // planned before, or in the call that fails
          nd.waitall();
          const auto attempt = [&] {
            try {
              call();
              return true;
            } catch (const Error&) {
              return false;
            }
          };
          Storage::cpu().set_limit(live() + room + 1);
          const bool is_done = attempt();
          CHECK_NOTHROW([&] {
            try {
              nd.waitall();
            } catch (const Error&) {  // told again
            }
          }());
          Storage::cpu().set_limit(0);
          ++(is_done ? done : failed);
          REQUIRE(attempt());  // with memory it goes on
        }
        nd.waitall();
        REQUIRE(live() == before);
      }
      CHECK(failed > 1);
    }
  }
}

}  // namespace memory_test
