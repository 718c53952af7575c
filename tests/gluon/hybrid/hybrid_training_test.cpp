// Training hybridized is training: bit-equal with the imperative kernels, close with the faster ones.
#include <fmt/format.h>

#include "kaon/gluon/loss.h"
#include "kaon/gluon/trainer.h"
#include "kaon/graph/hybrid/cached_graph.h"
#include "kaon/tests/gluon/hybrid/hybrid_support.h"

namespace hybrid_training_test {

using namespace kaon;
using namespace kaon::graph;
using namespace kaon::test;
using Catch::Matchers::Contains;

namespace {

enum class Run { imperative, exact, fast };

void prepare(gluon::Block net, Run run) {
  if (run != Run::imperative) net.hybridize({.static_alloc = true, .static_shape = true, .exact = run == Run::exact});
}

// The network of the seeds, a little smaller.
struct LeNet : gluon::HybridBlock<LeNet> {
  nn::Conv2D conv1 = child("conv1", nn::Conv2D(4, {.kernel_size = 5}));
  nn::MaxPool2D pool1 = child("pool1", nn::MaxPool2D({.pool_size = 2}));
  nn::Conv2D conv2 = child("conv2", nn::Conv2D(6, {.kernel_size = 3}));
  nn::MaxPool2D pool2 = child("pool2", nn::MaxPool2D({.pool_size = 2}));
  nn::Dense fc1 = child("fc1", nn::Dense(20));
  gluon::Parameter fc2_weight = param("fc2_weight", {10, 20});
  LeNet() : HybridBlock("lenet") {}
  auto hybrid_forward(auto F, auto x) {
    x = pool1(F.relu(conv1(x)));
    x = pool2(F.relu(conv2(x)));
    x = F.reshape(x, {0, -1});
    x = F.relu(fc1(x));
    return F.dot(x, F(fc2_weight), {.transpose_b = true});
  }
};

nn::HybridSequential dropout_mlp() {
  return nn::HybridSequential(nn::Dense(32, {.activation = "relu"}), nn::Dropout(0.4),
                              nn::Dense(16, {.activation = "tanh"}), nn::Dropout(0.2), nn::Dense(10));
}

// The parameters after `steps` of plain gradient descent, one seed.
template <class Make>
std::vector<std::vector<double>> train(Make make, const Shape& shape, Run run, int threads, int steps = 20) {
  Engine engine({.threads = threads});
  EngineScope scope(engine);
  auto net = ready(make(), 7);
  gluon::loss::SoftmaxCrossEntropyLoss loss_fn;
  prepare(net, run);
  prepare(loss_fn, run);
  for (int i = 0; i < steps; ++i) {
    NDArray x = numbers(shape, uint32_t(i + 1)), label = nd.floor((numbers({shape[0]}, uint32_t(100 + i)) + 1) * 5);
    NDArray loss = autograd::record([&] { return loss_fn(net(x), label); });
    loss.backward();
    for (const gluon::Parameter& p : net.collect_params()) {
      if (p.grad_req() != GradReq::null) nd.sgd_update(p.data(), p.grad(), {.lr = 0.05 / double(shape[0])});
    }
    if (i % 7 == 3) net(x);  // a prediction in between
  }
  std::vector<std::vector<double>> result;
  for (const gluon::Parameter& p : net.collect_params()) result.push_back(values(p.data()));
  engine.wait_all();
  return result;
}

template <class Make>
void check_training(Make make, const Shape& shape) {
  auto expected = train(make, shape, Run::imperative, 0);
  for (Run run : {Run::imperative, Run::exact}) {
    for (int threads : {0, 1, 2}) {
      INFO(threads << " threads, " << (run == Run::exact ? "hybridized" : "imperative"));
      REQUIRE(train(make, shape, run, threads) == expected);  // every bit
    }
  }
  auto fast = train(make, shape, Run::fast, 2);
  REQUIRE(fast == train(make, shape, Run::fast, 0));
  for (size_t i = 0; i < fast.size(); ++i) require_close(fast[i], expected[i], 1e-3, 1e-5);
}

}  // namespace

TEST_CASE("training: 20 steps of an MLP with Dropout are the same bits on any engine, imperative or hybridized",
          "[gluon]") {
  check_training(dropout_mlp, {16, 12});
}

TEST_CASE("training: 20 steps of LeNet are the same bits on any engine, imperative or hybridized", "[gluon]") {
  check_training([] { return LeNet(); }, {4, 1, 18, 18});
}

TEST_CASE("training: 20 steps with BatchNorm are the same bits, running statistics included", "[gluon]") {
  check_training(
      [] {
        return nn::HybridSequential(nn::Conv2D(4, {.kernel_size = 3}), nn::BatchNorm(), nn::Activation("relu"),
                                    nn::Dense(10));
      },
      {4, 2, 8, 8});
}

TEST_CASE("hybrid: one operation per forward and one per backward", "[gluon]") {
  Engine engine;  // of its own: what other cases have left running pushes elsewhere
  EngineScope scope(engine);
  auto check = [&](auto net, const Shape& shape) {
    net.initialize();
    net.hybridize({.static_alloc = true, .static_shape = true});
    NDArray x = numbers(shape);
    for (int i = 0; i < 4; ++i) {
      autograd::record([&] { return net(x); }).backward();
      nd.waitall();
      uint64_t before = engine.stats().ops;
      NDArray y = autograd::record([&] { return net(x); });
      uint64_t forward = engine.stats().ops;
      y.backward();
      uint64_t backward = engine.stats().ops;
      net(x);
      CHECK(forward == before + 1);
      CHECK(backward == forward + 1);
      CHECK(engine.stats().ops == backward + 1);
    }
    // and with a trainer: one more
    gluon::Trainer trainer(net.collect_params(), optimizer::SGD({.learning_rate = 0.1, .momentum = 0.9}));
    for (int i = 0; i < 3; ++i) {
      uint64_t before = engine.stats().ops;
      autograd::record([&] { return net(x); }).backward();
      trainer.step(shape[0]);
      if (i) CHECK(engine.stats().ops == before + 3);
    }
  };
  SECTION("one layer") { check(nn::Dense(5), {4, 3}); }
  SECTION("several layers") { check(Mlp(), {4, 3}); }
  SECTION("Dropout") { check(dropout_mlp(), {4, 3}); }
  SECTION("BatchNorm") { check(nn::HybridSequential(nn::Dense(6), nn::BatchNorm(), nn::Dense(2)), {4, 3}); }
  SECTION("images") { check(LeNet(), {2, 1, 18, 18}); }
}

TEST_CASE("hybrid: every intermediate lies in the arena that the plan reports", "[gluon]") {
  LeNet net = ready(LeNet());
  NDArray x = numbers({4, 1, 18, 18});
  net(x);
  for (bool exact : {false, true}) {
    CachedGraph graph(
        net(sym.var("data")),
        {"data", "conv1_weight", "conv1_bias", "conv2_weight", "conv2_bias", "fc1_weight", "fc1_bias", "fc2_weight"},
        {.static_alloc = true, .exact = exact}, "lenet");
    std::vector<NDArray> arrays{x};
    for (const std::string& name : std::vector(graph.input_names().begin() + 1, graph.input_names().end())) {
      arrays.push_back(net.collect_params().get(name).data());
    }
    std::vector<const NDArray*> pointers;
    for (const NDArray& a : arrays) pointers.push_back(&a);
    autograd::record([&] { return graph.call(pointers, std::source_location::current()); });
    auto plan = graph.plan();
    plan->memory().check(plan->graph());
    const std::string memory = graph.report()->memory();
    CHECK_THAT(memory, Contains(fmt::format("arena {} bytes", plan->memory().arena_bytes)));
    CHECK_THAT(memory, Contains("conv1_fwd"));
    CHECK(plan->memory().arena_bytes < plan->memory().unplanned_bytes);
    nd.waitall();
  }
}

namespace {
struct Mixed : gluon::HybridBlock<Mixed> {
  nn::Dense fc = child("fc", nn::Dense(8));
  nn::BatchNorm bn = child("bn", nn::BatchNorm());
  nn::Dropout drop = child("drop", nn::Dropout(0.5));
  auto hybrid_forward(auto F, auto x) {
    x = drop(bn(fc(x)));
    return autograd::is_training() ? F.tanh(x) : x * 2;
  }
};
}  // namespace

TEST_CASE("users row 20: train, eval, train, eval with Dropout, BatchNorm and a branch on the mode", "[gluon]") {
  auto run = [](bool hybrid) {
    Mixed net = ready(Mixed());
    if (hybrid) net.hybridize({.static_alloc = true, .exact = true});
    std::vector<NDArray> results;
    for (int i = 0; i < 6; ++i) {
      NDArray x = numbers({6, 5}, uint32_t(i));
      results.push_back(i % 2 ? net(x) : autograd::record([&] { return net(x); }));
      if (i % 2 == 0) {
        results.back().backward();
        results.push_back(net.fc.weight.grad().copy());
      }
    }
    for (const auto& p : net.collect_params()) results.push_back(p.data());
    return results;
  };
  auto imperative = run(false), hybrid = run(true);
  for (size_t i = 0; i < imperative.size(); ++i) {
    INFO("result " << i);
    CHECK(same_bits(imperative[i], hybrid[i]));
  }
}

TEST_CASE("users row 28: 100 training steps leave the same running statistics", "[gluon]") {
  auto run = [](bool hybrid) {
    nn::BatchNorm bn({.momentum = 0.7});
    ready(bn);
    if (hybrid) bn.hybridize({.static_alloc = true, .exact = true});
    for (uint32_t i = 0; i < 100; ++i) autograd::record([&] { return bn(numbers({4, 3, 2, 2}, i) * 3 + 1); });
    return std::pair(values(bn.running_mean.data()), values(bn.running_var.data()));
  };
  CHECK(run(true) == run(false));
}

TEST_CASE("hybrid: a failed input leaves running statistics as they were", "[gluon]") {
  for (bool hybrid : {false, true}) {
    nn::BatchNorm bn;
    ready(bn);
    NDArray x = numbers({4, 3});
    bn(x);
    if (hybrid) bn.hybridize({.static_alloc = true});
    NDArray mean = bn.running_mean.data().copy();
    NDArray failed = nd.zeros({4, 3});
    Engine::current().push({write(failed.var())}, [](RunContext&) { throw ValueError("broken batch"); });
    NDArray y = autograd::train_mode([&] { return bn(failed); });
    CHECK_THROWS_WITH(y.wait_to_read(), Contains("broken batch"));
    CHECK(same_bits(bn.running_mean.data(), mean));
    autograd::train_mode([&] { return bn(x); }).wait_to_read();
    CHECK_FALSE(same_bits(bn.running_mean.data(), mean));
  }
}

TEST_CASE("hybrid: test_hybrid_static_memory: two outstanding calls, in three modes", "[gluon]") {
  auto run = [](int mode) {
    LeNet net = ready(LeNet());
    if (mode) net.hybridize({.static_alloc = mode >= 2, .static_shape = mode == 3, .exact = true});
    NDArray x = numbers({2, 1, 18, 18});
    x.attach_grad();
    NDArray y = autograd::record([&] { return net(x) + net(x); });
    y.backward();
    std::vector<NDArray> all{y, x.grad()};
    for (const auto& p : net.collect_params()) all.push_back(p.grad());
    return all;
  };
  auto expected = run(0);
  for (int mode : {1, 2, 3}) {
    auto got = run(mode);
    for (size_t i = 0; i < got.size(); ++i) require_close(got[i], values(expected[i]), 1e-5, 1e-6);
  }
}

TEST_CASE("hybrid: test_hybrid_static_memory_switching: batch sizes and modes take turns", "[gluon]") {
  for (bool static_alloc : {false, true}) {
    LeNet reference = ready(LeNet()), net = ready(LeNet());
    net.hybridize({.static_alloc = static_alloc, .static_shape = static_alloc, .exact = true});
    for (int round = 0; round < 3; ++round) {
      for (int batch : {4, 2}) {
        NDArray x = numbers({batch, 1, 18, 18}, uint32_t(round));
        CHECK(same_bits(net(x), reference(x)));
        autograd::record([&] { return net(x); }).backward();
        autograd::record([&] { return reference(x); }).backward();
        CHECK(same_bits(net.conv1.weight.grad(), reference.conv1.weight.grad()));
      }
    }
  }
}

TEST_CASE("users row 31: a last short batch makes one more plan and no more", "[gluon][traces]") {
  Mlp reference = ready(Mlp()), net = ready(Mlp());
  net.hybridize({.static_alloc = true, .exact = true});
  NDArray data = numbers({1000, 6});
  for (int epoch = 0; epoch < 2; ++epoch) {
    for (int64_t at = 0; at < 1000; at += 128) {
      NDArray batch = data.slice(at, std::min<int64_t>(at + 128, 1000));
      CHECK(same_bits(net(batch), reference(batch)));
    }
  }
  CHECK(*net.symbols == 1);
}

TEST_CASE("users row 22: grad_req add over several backwards, hybridized", "[gluon]") {
  for (int k : {1, 2, 5}) {
    Mlp net = ready(Mlp());
    NDArray x = numbers({3, 5});
    net(x);
    auto gradient = [&](GradReq req, int times) {
      net.collect_params().set_grad_req(req);
      for (int i = 0; i < times; ++i) autograd::record([&] { return net(x); }).backward();
      return net.fc1.weight.grad().copy();
    };
    NDArray once = gradient(GradReq::write, k);
    net.hybridize({.static_alloc = true, .exact = true});
    CHECK(same_bits(gradient(GradReq::write, k), once));
    require_close(gradient(GradReq::add, k), values(once * k), 1e-6);
  }
}

}  // namespace hybrid_training_test
