// Embeddings with a row_sparse gradient: training them beside those with a dense one.
#include <catch2/catch.hpp>

#include "kaon/gluon/loss.h"
#include "kaon/gluon/nn/nn.h"
#include "kaon/gluon/trainer.h"
#include "kaon/gluon/training_step.h"
#include "kaon/graph/sparse_gradient.h"
#include "kaon/ops/random_state.h"
#include "kaon/tests/gluon/support.h"
#include "kaon/tests/support/files.h"

namespace row_sparse_gradient_test {

using namespace kaon;
using namespace kaon::test;
using Catch::Matchers::Contains;
using gluon::Trainer;
namespace nn = kaon::gluon::nn;

namespace {

constexpr int64_t rows = 6, width = 3;

nn::Embedding make(bool sparse_grad, DType dtype = DType::float32) {
  nn::Embedding net(rows, width, {.dtype = dtype, .sparse_grad = sparse_grad});
  net.initialize();
  net.weight.set_data(nd.cast(nd.arange(1, rows * width + 1).reshape({rows, width}), dtype));
  return net;
}

void backward(nn::Embedding& net, const NDArray& ids) {
  autograd::record([&] { return nd.square(net(ids)); }).backward();
}

// Three steps; each looks other rows up, the last one row twice.
void train(nn::Embedding& net, Trainer& trainer) {
  for (const NDArray& ids : {nd.array({1, 4}), nd.array({4, 2}), nd.array({1, 1})}) {
    backward(net, ids);
    trainer.step(2);
  }
}

std::vector<double> trained(bool sparse_grad, const optimizer::Optimizer& o, DType dtype = DType::float32) {
  nn::Embedding net = make(sparse_grad, dtype);
  Trainer trainer(net.collect_params(), o);
  train(net, trainer);
  return net.weight.data().asvector<double>();
}

template <class Options>
Options with(Options o) {
  o.wd = 0.125;
  o.learning_rate = 0.0625;
  return o;
}

}  // namespace

TEST_CASE("row_sparse gradients: without lazy updates all rows change, as by a dense gradient", "[gluon]") {
  const std::pair<const char*, optimizer::Optimizer> optimizers[] = {
      {"sgd", optimizer::SGD(with(optimizer::SGDOptions{}))},
      {"momentum", optimizer::SGD(with(optimizer::SGDOptions{.momentum = 0.5}))},
      {"adam", optimizer::Adam(with(optimizer::AdamOptions{}))},
      {"rmsprop", optimizer::RMSProp(with(optimizer::RMSPropOptions{}))},
      {"lamb", optimizer::LAMB(with(optimizer::LAMBOptions{}))}};
  for (const auto& [name, o] : optimizers) {
    INFO(name);
    CHECK(trained(true, o) == trained(false, o));
  }
}

TEST_CASE("row_sparse gradients: lazy updates change the rows that were looked up", "[gluon]") {
  // Row by row: of a table of that row alone, trained in the steps that look it up. Adam counts the steps of the table.
  const std::vector<std::vector<int>> steps{{}, {0, 2}, {1}, {}, {0, 1}, {}};
  const auto check = [&](const optimizer::Optimizer& lazy, const optimizer::Optimizer& dense, DType dtype) {
    const std::vector<double> got = trained(true, lazy, dtype);
    for (int64_t row = 0; row < rows; ++row) {
      nn::Embedding net(1, width, {.dtype = dtype});
      net.initialize();
      net.weight.set_data(make(false, dtype).weight.data().slice(row, row + 1));
      Trainer trainer(net.collect_params(), dense);
      for (const int step : steps[size_t(row)]) {
        backward(net, step == 2 ? nd.zeros({2}) : nd.zeros({1}));
        trainer.step(2);
      }
      const std::vector<double> expected = net.weight.data().asvector<double>();
      for (int64_t i = 0; i < width; ++i) {
        INFO("row " << row << ", element " << i);
        CHECK(got[size_t(row * width + i)] == expected[size_t(i)]);
      }
    }
  };
  for (const DType t : {DType::float32, DType::float16, DType::float64}) {
    INFO(name_of(t));
    check(optimizer::SGD(with(optimizer::SGDOptions{.lazy_update = true})),
          optimizer::SGD(with(optimizer::SGDOptions{})), t);
    const optimizer::SGDOptions momentum = with(optimizer::SGDOptions{.momentum = 0.5, .multi_precision = true});
    optimizer::SGDOptions lazy = momentum;
    lazy.lazy_update = true;
    check(optimizer::SGD(lazy), optimizer::SGD(momentum), t);
    check(optimizer::AdaGrad(with(optimizer::AdaGradOptions{})), optimizer::AdaGrad(with(optimizer::AdaGradOptions{})),
          t);
    check(optimizer::Ftrl(with(optimizer::FtrlOptions{})), optimizer::Ftrl(with(optimizer::FtrlOptions{})), t);
  }
  // With beta1 = beta2 = 0 its rate does not depend on the count.
  const optimizer::AdamOptions adam = with(optimizer::AdamOptions{.beta1 = 0, .beta2 = 0});
  optimizer::AdamOptions lazy = adam;
  lazy.lazy_update = true;
  check(optimizer::Adam(lazy), optimizer::Adam(adam), DType::float32);
}

TEST_CASE("row_sparse gradients: beside dense parameters, with saved states", "[gluon]") {
  ScratchFolder folder;
  const auto options = [] { return with(optimizer::SGDOptions{.momentum = 0.5, .lazy_update = true}); };
  nn::Embedding net = make(true), again = make(true);
  nn::Dense dense(1, {.flatten = false, .in_units = width});
  dense.initialize(init::One());
  gluon::ParameterDict both;
  both.update(net.collect_params()), both.update(dense.collect_params());
  Trainer trainer(both, optimizer::SGD(options()));
  autograd::record([&] { return dense(net(nd.array({2}))); }).backward();
  trainer.step(1);
  CHECK(dense.weight.data().asvector<float>() != std::vector<float>(width, 1));
  const std::vector<float> w = net.weight.data().asvector<float>(), before = make(true).weight.data().asvector<float>();
  for (size_t i = 0; i < w.size(); ++i) CHECK((w[i] != before[i]) == (i / width == 2));

  Trainer first(again.collect_params(), optimizer::SGD(options()));
  train(again, first);
  first.save_states(folder / "states");
  nn::Embedding other = make(true);
  other.weight.set_data(again.weight.data());
  Trainer second(other.collect_params(), optimizer::SGD(options()));
  second.load_states(folder / "states");
  train(again, first), train(other, second);
  CHECK(again.weight.data().asvector<float>() == other.weight.data().asvector<float>());
}

TEST_CASE("row_sparse gradients: a parameter's gradient", "[gluon]") {
  nn::Embedding net = make(true);
  CHECK(net.weight.has_row_sparse_grad());
  CHECK_FALSE(make(false).weight.has_row_sparse_grad());
  backward(net, nd.array({4, 1}));
  CHECK(net.weight.row_sparse_grad().indices().asvector<int>() == std::vector{1, 4});
  CHECK_THROWS_WITH(net.weight.grad(), Contains("the gradient of weight") && Contains("call row_sparse_grad()"));
  CHECK_THROWS_WITH(make(false).weight.row_sparse_grad(), Contains("[row_sparse_grad]"));
  net.weight.zero_grad();
  CHECK(net.weight.row_sparse_grad().indices().size() == 0);
  net.cast(DType::float64);
  backward(net, nd.array({3}));
  CHECK(net.weight.row_sparse_grad().dtype() == DType::float64);
  net.weight.set_grad_req(GradReq::add);
  for (int i = 0; i < 2; ++i) backward(net, nd.array({i}));
  CHECK(net.weight.row_sparse_grad().indices().asvector<int>() == std::vector{0, 1});
  Trainer trainer(net.collect_params(), optimizer::SGD());
  trainer.step(1);
  CHECK_THROWS_WITH(trainer.step(1), Contains("has not been written by backward() since the last step"));
}

namespace {

// Two looks at one table, and a head of its own for each output.
struct Looks : gluon::HybridBlock<Looks> {
  explicit Looks(DType dtype) : table(child("table", make(true, dtype))) {}
  nn::Embedding table;
  auto hybrid_forward(auto F, auto first, auto second) {
    auto a = table(first), b = table(second);
    return std::vector{F.sum(F.square(a)), F.sum(F.sin(b)), F.sum(a) * F.sum(b)};
  }
};

struct Rows {
  std::vector<int> indices;
  std::vector<double> values;
  bool operator==(const Rows&) const = default;
};
Rows rows_of(const nn::Embedding& e) {
  const sparse::RowSparseNDArray g = e.weight.row_sparse_grad();
  return {g.indices().asvector<int>(), g.data().asvector<double>()};
}

// What all backwards leave, for one head, another, and all.
std::vector<Rows> rows_of_looks(Looks& net, GradReq req) {
  std::vector<Rows> all;
  net.table.weight.set_grad_req(req);
  const NDArray first = nd.array({{4, 1}, {4, 0}}), second = nd.array({1, 5, 5});
  for (int round = 0; round < 2; ++round) {
    for (const std::vector<size_t>& heads : {std::vector<size_t>{0}, {1}, {0, 1, 2}, {2}}) {
      const auto y = autograd::record([&] { return net(first, second); });
      std::vector<NDArray> chosen;
      for (size_t i : heads) chosen.push_back(y[i]);
      autograd::backward(chosen, {}, round == 1);
      if (round == 1) autograd::backward(chosen);
      all.push_back(rows_of(net.table));
    }
  }
  return all;
}

}  // namespace

TEST_CASE("row_sparse gradients: of hybridized blocks, bit for bit those of imperative ones", "[gluon]") {
  for (const DType t : {DType::float32, DType::float16, DType::float64}) {
    for (const GradReq req : {GradReq::write, GradReq::add}) {
      for (const HybridizeOptions& options : {HybridizeOptions{.exact = true},
                                              {.static_alloc = true, .static_shape = true, .exact = true},
                                              {.exact = true, .mirror = true},
                                              {.exact = true, .verify = 9}}) {
        Looks eager(t), hybrid(t);
        hybrid.hybridize(options);
        INFO(name_of(t) << (req == GradReq::add ? " add" : " write"));
        CHECK(rows_of_looks(hybrid, req) == rows_of_looks(eager, req));
      }
    }
  }
}

TEST_CASE("row_sparse gradients: a hybridized block learns what an imperative one does", "[gluon]") {
  const std::pair<const char*, optimizer::Optimizer> optimizers[] = {
      {"sgd", optimizer::SGD(with(optimizer::SGDOptions{.momentum = 0.5}))},
      {"lazy sgd", optimizer::SGD(with(optimizer::SGDOptions{.momentum = 0.5, .lazy_update = true}))},
      {"lazy adam", optimizer::Adam(with(optimizer::AdamOptions{.lazy_update = true}))},
      {"adagrad", optimizer::AdaGrad(with(optimizer::AdaGradOptions{}))}};
  for (const auto& [name, o] : optimizers) {
    INFO(name);
    nn::Embedding net = make(true);
    net.hybridize();
    Trainer trainer(net.collect_params(), o);
    train(net, trainer);
    CHECK(net.weight.data().asvector<double>() == trained(true, o));
  }
  nn::Embedding net = make(true);
  net.hybridize();
  backward(net, nd.zeros({0}));
  CHECK(net.weight.row_sparse_grad().indices().size() == 0);
  backward(net, nd.array({7, -1}));  // clipped to the last row and the first
  CHECK(net.weight.row_sparse_grad().indices().asvector<int>() == std::vector{0, 5});
}

TEST_CASE("row_sparse gradients: asked for by name they are dense, of hybridized blocks too", "[gluon]") {
  for (const bool create_graph : {false, true}) {
    std::vector<std::vector<float>> both;
    for (const bool hybrid : {false, true}) {
      nn::Embedding net = make(true);
      if (hybrid) net.hybridize();
      const NDArray w = net.weight.data();
      const NDArray g = autograd::record([&] {
        const NDArray y = nd.sum(nd.square(net(nd.array({4, 1, 4}))));
        return autograd::grad(y, w, create_graph);
      });
      CHECK(g.shape() == Shape(rows, width));
      both.push_back(g.asvector<float>());
    }
    CHECK(both[0] == both[1]);
  }
}

TEST_CASE("row_sparse gradients: hybridized training gives MXNet's weights", "[gluon]") {
  // MXNet 1.9.1: the same steps of a hybridized Embedding with sparse_grad.
  struct Golden {
    const char* name;
    optimizer::Optimizer optimizer;
    std::vector<float> weights;
  };
  const Golden all[] = {{"lazy sgd",
                         optimizer::SGD(with(optimizer::SGDOptions{.momentum = 0.5, .lazy_update = true})),
                         {1, 2, 3, 3.08422852f, 3.85528564f, 4.62634277f, 6.5078125f, 7.4375f, 8.3671875f, 10, 11, 12,
                          10.7791138f, 11.6082764f, 12.437439f, 16, 17, 18}},
                        {"lazy adam",
                         optimizer::Adam(with(optimizer::AdamOptions{.lazy_update = true})),
                         {1, 2, 3, 3.88531017f, 4.88532686f, 5.88533831f, 6.95349121f, 7.95349121f, 8.95349121f, 10, 11,
                          12, 12.8750076f, 13.8750067f, 14.8750067f, 16, 17, 18}},
                        {"sgd",
                         optimizer::SGD(with(optimizer::SGDOptions{.momentum = 0.5})),
                         {0.967040539f, 1.93408108f, 2.90112162f, 2.99287224f, 3.7410903f, 4.48930836f, 6.12155199f,
                          6.99605942f, 7.87056684f, 9.67040539f, 10.6374454f, 11.6044865f, 10.0414906f, 10.8139124f,
                          11.5863342f, 15.4726486f, 16.4396896f, 17.4067307f}}};
  for (const Golden& golden : all) {
    INFO(golden.name);
    nn::Embedding net = make(true);
    net.hybridize();
    Trainer trainer(net.collect_params(), golden.optimizer);
    train(net, trainer);
    const std::vector<float> got = net.weight.data().asvector<float>();
    for (size_t i = 0; i < got.size(); ++i) CHECK(got[i] == Approx(golden.weights[i]).epsilon(1e-6));
  }
}

namespace {
struct Tied : gluon::HybridBlock<Tied> {
  nn::Embedding table = child("table", make(true));
  auto hybrid_forward(auto F, auto ids) { return F.dot(table(ids), F(table.weight), {.transpose_b = true}); }
};
}  // namespace

TEST_CASE("row_sparse gradients: a dense one beside them is refused, hybridized or not", "[gluon]") {
  for (const bool hybrid : {false, true}) {
    Tied net;
    if (hybrid) net.hybridize();
    const NDArray y = autograd::record([&] { return net(nd.array({4, 1})); });
    CHECK_THROWS_WITH(y.backward(), Contains("a dense gradient has arrived at an array (6, 3)") &&
                                        Contains("that reads it as it is"));
  }
}

TEST_CASE("row_sparse gradients: a training step makes them dense, or refuses", "[gluon]") {
  const NDArray ids = nd.array({4, 1}), label = nd.zeros({2, width});
  const auto stepped = [&](bool sparse_grad) {
    nn::Embedding net = make(sparse_grad);
    Trainer trainer(net.collect_params(), optimizer::SGD(with(optimizer::SGDOptions{.momentum = 0.5})));
    gluon::TrainingStep step(net, gluon::loss::L2Loss(), trainer);
    for (int i = 0; i < 3; ++i) step(ids, label);
    return net.weight.data().asvector<double>();
  };
  CHECK(stepped(true) == stepped(false));
  nn::Embedding other = make(true);
  Trainer trainer(other.collect_params(), optimizer::SGD({.lazy_update = true}));
  gluon::TrainingStep step(other, gluon::loss::L2Loss(), trainer);
  CHECK_THROWS_WITH(step(ids, label), Contains("[TrainingStep] the gradient of weight is row_sparse") &&
                                          Contains("changes the rows that it stores alone") &&
                                          Contains("make the Embedding without sparse_grad"));
}

}  // namespace row_sparse_gradient_test
