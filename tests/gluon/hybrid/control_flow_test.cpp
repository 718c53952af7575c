// Control flow in hybrid_forward: nets that go along a sequence.
#include "kaon/graph/control_flow.h"

#include "kaon/gluon/symbol_block.h"
#include "kaon/gluon/trainer.h"
#include "kaon/tests/gluon/hybrid/hybrid_support.h"
#include "kaon/tests/support/files.h"

namespace control_flow_test {

using namespace kaon;
using namespace kaon::test;
using Catch::Matchers::Contains;

namespace {

// h' = tanh(W x + U h + b)
struct RnnCell : gluon::HybridBlock<RnnCell> {
  nn::Dense from_input = child("i2h", nn::Dense(6)), from_state = child("h2h", nn::Dense(6, {.use_bias = false}));
  RnnCell() : HybridBlock("rnn") {}
  auto hybrid_forward(auto F, auto x, auto h) { return F.tanh(from_input(x) + from_state(h)); }
};

// A sequence (time, batch, features) by foreach, or written out.
struct Rnn : gluon::HybridBlock<Rnn> {
  RnnCell cell = child("cell", RnnCell());
  const bool unrolled;
  const int64_t length;  // of the sequence, where it is written out
  explicit Rnn(bool unrolled = false, int64_t length = 0) : HybridBlock("net"), unrolled(unrolled), length(length) {}
  auto hybrid_forward(auto F, auto x, auto h) {
    using A = decltype(x);
    if (!unrolled) {
      auto [outputs, last] = contrib::foreach (
          [&](const A& row, const A& state) {
            A next = cell(row, state);
            return std::pair(next, next);
          },
          x, h);
      return std::pair(outputs, last);
    }
    std::vector<A> outputs;
    for (int64_t k = 0; k < length; ++k) {
      h = cell(x[k], h);
      outputs.push_back(F.expand_dims(h, 0));
    }
    return std::pair(F.concat(outputs, {.dim = 0}), h);
  }
};

struct Result {
  std::vector<NDArray> outputs, gradients;
};
template <class Net>
Result train_once(Net& net, const NDArray& x, const NDArray& h) {
  auto [outputs, last] = autograd::record([&] { return net(x, h); });
  const std::vector<NDArray> heads{outputs, last}, weights{numbers(outputs.shape(), 8), numbers(last.shape(), 9)};
  autograd::backward(heads, weights);
  Result r{{outputs, last}, {}};
  for (const gluon::Parameter& p : net.collect_params()) r.gradients.push_back(p.grad().copy());
  return r;
}

void require_same(const Result& got, const Result& expected) {
  REQUIRE(got.outputs.size() == expected.outputs.size());
  REQUIRE(got.gradients.size() == expected.gradients.size());
  for (size_t i = 0; i < got.outputs.size(); ++i) REQUIRE(same_bits(got.outputs[i], expected.outputs[i]));
  for (size_t i = 0; i < got.gradients.size(); ++i) {
    INFO("gradient " << i);
    REQUIRE(same_bits(got.gradients[i], expected.gradients[i]));
  }
}

}  // namespace

TEST_CASE("control flow: an RNN cell by foreach: as written out, hybridized as not", "[gluon]") {
  for (int64_t n : {1, 5, 32}) {
    for (int64_t batch : {1, 3}) {
      INFO("length " << n << ", batch " << batch);
      const NDArray x = numbers({n, batch, 4}, 1), h = numbers({batch, 6}, 2);
      Rnn written = ready(Rnn(true, n)), looped = ready(Rnn());
      const Result expected = train_once(written, x, h);
      require_same(train_once(looped, x, h), expected);
      looped.hybridize({.static_alloc = true, .exact = true});
      for (int time = 0; time < 2; ++time) require_same(train_once(looped, x, h), expected);
      CHECK(same_bits(looped(x, h).first, expected.outputs[0]));
    }
  }
}

TEST_CASE("control flow: an RNN of any length, 0 too; shapes that follow; one operation", "[gluon]") {
  Engine engine;
  EngineScope scope(engine);
  Rnn net = ready(Rnn());
  net.hybridize({.exact = true});
  for (int64_t n : {3, 0, 7}) {
    const NDArray x = numbers({n, 2, 4}), h = numbers({2, 6});
    auto [outputs, last] = net(x, h);
    CHECK(outputs.shape() == Shape(n, 2, 6));
    if (n == 0) CHECK(same_bits(last, h));
  }
  CHECK(net.cell.from_input.weight.shape() == Shape(6, 4));
  const NDArray x = numbers({7, 2, 4}), h = numbers({2, 6});
  const uint64_t before = engine.stats().ops;
  net(x, h);
  CHECK(engine.stats().ops == before + 1);
  net.hybridize(false);
  CHECK(net(numbers({0, 2, 4}), h).first.shape() == Shape(0, 2, 6));
}

TEST_CASE("control flow: a net with a loop learns, hybridized bit for bit as imperatively", "[gluon]") {
  auto train = [](bool hybrid) {
    Rnn net = ready(Rnn());
    if (hybrid) net.hybridize({.static_alloc = true, .exact = true});
    gluon::Trainer trainer(net.collect_params(), optimizer::SGD({.learning_rate = 0.1, .momentum = 0.9}));
    const NDArray x = numbers({6, 8, 4}, 1), h = nd.zeros({8, 6}), target = numbers({8, 6}, 3);
    std::vector<float> losses;
    for (int step = 0; step < 20; ++step) {
      NDArray loss = autograd::record([&] { return nd.mean(nd.square(net(x, h).second - target)); });
      loss.backward();
      trainer.step(1);
      losses.push_back(loss.asscalar<float>());
    }
    return losses;
  };
  const std::vector<float> losses = train(true);
  CHECK(losses == train(false));
  CHECK(losses.back() < losses.front() * 0.8f);
}

TEST_CASE("control flow: a net with a loop is exported and comes back", "[gluon]") {
  Rnn net = ready(Rnn());
  net.hybridize({.exact = true});
  const NDArray x = numbers({3, 2, 4}), h = numbers({2, 6});
  const auto [outputs, last] = net(x, h);
  ScratchFolder folder;
  net.export_model((folder / "net").string());
  auto back = gluon::SymbolBlock::imports(folder / "net-symbol.json", {"data0", "data1"}, folder / "net-0000.params");
  back.hybridize({.exact = true});
  const auto again = back.forward({x, h});
  REQUIRE(again.size() == 2);
  CHECK(same_bits(again[0], outputs));
  CHECK(same_bits(again[1], last));
}

TEST_CASE("control flow: a SymbolBlock around a program with a loop learns too", "[gluon]") {
  const NDArray x = numbers({4, 2, 3}), h = numbers({2, 3}, 2);
  Symbol w = sym.var("w", {3, 3});
  auto [outputs, last] = contrib::foreach (
      [&](const Symbol& row, const Symbol& s) {
        Symbol next = sym.tanh(sym.dot(row + s, w));
        return std::pair(next, next);
      },
      sym.var("x"), sym.var("h"));
  gluon::SymbolBlock block(outputs, {"x", "h"});
  block.initialize(init::Uniform(0.5));
  NDArray y = autograd::record([&] { return block.forward({x, h})[0]; });
  y.backward();
  const gluon::Parameter weight = block.collect_params().get("w");
  NDArray own = weight.data().copy(), state = h;
  own.attach_grad();
  NDArray expected = autograd::record([&] {
    NDArray sum = nd.zeros({2, 3});
    for (int k = 0; k < 4; ++k) {
      state = nd.tanh(nd.dot(x[k] + state, own));
      sum = sum + state;
    }
    return sum;
  });
  expected.backward();
  require_close(weight.grad(), values(own.grad()));
}

}  // namespace control_flow_test
