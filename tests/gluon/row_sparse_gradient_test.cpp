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

TEST_CASE("row_sparse gradients: hybridized blocks predict, and refuse to train", "[gluon]") {
  nn::Embedding net = make(true);
  const NDArray ids = nd.array({4, 1});
  const std::vector<float> expected = net(ids).asvector<float>();
  net.hybridize();
  CHECK(net(ids).asvector<float>() == expected);
  CHECK_THROWS_WITH(backward(net, ids), Contains("a dense gradient has arrived at an array (6, 3)") &&
                                            Contains("not in a hybridized block"));
  nn::Embedding other = make(true);
  Trainer trainer(other.collect_params(), optimizer::SGD());
  gluon::TrainingStep step(other, gluon::loss::L2Loss(), trainer);
  CHECK_THROWS_WITH(step(ids, nd.zeros({2, width})), Contains("[TrainingStep] the gradient of weight") &&
                                                         Contains("make the Embedding without sparse_grad"));
}
