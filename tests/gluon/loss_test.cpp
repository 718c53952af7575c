#include "kaon/gluon/loss.h"

#include "kaon/gluon/nn/dense.h"
#include "kaon/gluon/optimizer.h"
#include "kaon/gluon/trainer.h"
#include "kaon/gluon/training_step.h"
#include "kaon/graph/autograd.h"
#include "kaon/tests/gluon/support.h"

namespace loss_test {

using namespace kaon;
using namespace kaon::test;
namespace loss = kaon::gluon::loss;
namespace nn = kaon::gluon::nn;

namespace {
double total(const NDArray& a) {
  double sum = 0;
  for (double v : values(a)) sum += v;
  return sum;
}

// Both runs of a loss: values, and the gradient of the prediction.
template <class L>
void check_both(L loss, const NDArray& pred, const NDArray& label) {
  NDArray p = pred.copy();
  p.attach_grad();
  loss.hybridize(false);
  NDArray eager = autograd::record([&] { return loss(p, label); });
  eager.backward();
  auto gradient = values(p.grad());
  loss.hybridize();
  NDArray hybrid = autograd::record([&] { return loss(p, label); });
  hybrid.backward();
  INFO(loss.class_name());
  CHECK(eager.shape() == Shape(pred.shape()[0]));
  require_close(hybrid, values(eager));
  require_close(p.grad(), gradient);
}
}  // namespace

TEST_CASE("loss: L1 and L2 with weights", "[gluon]") {
  NDArray out = nd.array({1, 2, 3, 4}), label = nd.array({1, 3, 5, 7}), w = nd.array({0.5, 1.0, 0.5, 1.0});
  CHECK(total(loss::L1Loss()(out, label)) == Approx(6));
  CHECK(total(loss::L1Loss({.weight = 0.5})(out, label)) == Approx(3));
  CHECK(total(loss::L1Loss()(out, label, w)) == Approx(5));
  CHECK(total(loss::L2Loss()(out, label)) == Approx(7));
  CHECK(total(loss::L2Loss({.weight = 0.25})(out, label)) == Approx(1.75));
  CHECK(total(loss::L2Loss()(out, label, w)) == Approx(6));
  // the mean over all axes but the batch's; labels take the shape of predictions
  require_close(loss::L1Loss()(nd.array({{1, 2}, {3, 4}}), nd.array({0, 0, 0, 0})), {1.5, 3.5});
}

TEST_CASE("loss: softmax cross entropy", "[gluon]") {
  NDArray out = nd.array({{0, 2}, {1, 4}}), label = nd.array({0, 1});
  loss::SoftmaxCrossEntropyLoss ce;
  require_close(ce(out, label), {2.12692809, 0.04858733});
  require_close(ce(out, label, nd.array({0.5, 1.0}, {2, 1})), {1.06346405, 0.04858733});
  require_close(loss::SoftmaxCELoss({.sparse_label = false})(out, nd.array({{1, 0}, {0, 1}})),
                {2.12692809, 0.04858733});
  require_close(loss::SoftmaxCELoss({.from_logits = true})(nd.log_softmax(out), label), {2.12692809, 0.04858733});
  require_close(ce(out, nd.array({0, 1}, {2}, {.dtype = DType::int32})), {2.12692809, 0.04858733});
  // the gradient is softmax - onehot
  NDArray p = out.copy();
  p.attach_grad();
  autograd::record([&] { return ce(p, label); }).backward();
  double a = 1 / (1 + std::exp(2.0)), b = 1 / (1 + std::exp(3.0));
  require_close(p.grad(), {a - 1, 1 - a, b, -b});
}

TEST_CASE("loss: binary cross entropy equals softmax cross entropy of two classes", "[gluon]") {
  NDArray x = nd.random_normal({20, 1}, {.scale = 3});
  NDArray label = x > 0.3;
  NDArray two = nd.concat(op::Concat{.dim = 1}, nd.zeros_like(x), x);
  auto expected = values(loss::SoftmaxCELoss()(two, label.reshape({20})));
  require_close(loss::SigmoidBCELoss()(x, label), expected, 1e-4, 1e-5);
  require_close(loss::SigmoidBCELoss({.from_sigmoid = true})(nd.sigmoid(x), label), expected, 1e-3, 1e-5);
  require_close(loss::LogisticLoss({.label_format = loss::LabelFormat::binary})(x, label), expected, 1e-4, 1e-5);
  require_close(loss::LogisticLoss()(x, label * 2 - 1), expected, 1e-4, 1e-5);
  require_close(loss::SigmoidBCELoss()(nd.array({-1000.0, 1000.0}, {2, 1}), nd.array({0, 1}, {2, 1})), {0, 0});
}

TEST_CASE("loss: Huber, hinge and divergence by hand", "[gluon]") {
  NDArray pred = nd.array({0.0, 0.5, 3.0, -3.0}), label = nd.zeros({4});
  require_close(loss::HuberLoss()(pred, label), {0, 0.125, 2.5, 2.5});
  require_close(loss::HuberLoss({.rho = 4})(pred, label), {0, 0.03125, 1.125, 1.125});
  NDArray sign = nd.array({1, 1, -1, -1});
  require_close(loss::HingeLoss()(pred, sign), {1, 0.5, 4, 0});
  require_close(loss::SquaredHingeLoss()(pred, sign), {1, 0.25, 16, 0});
  NDArray p = nd.array({{0.25, 0.75}}), q = nd.array({{0.5, 0.5}});
  double kl = 0.5 * std::log(0.5 / 0.25) + 0.5 * std::log(0.5 / 0.75);
  require_close(loss::KLDivLoss()(nd.log(p), q), {kl});
  require_close(loss::KLDivLoss({.from_logits = false})(nd.log(p), q), {kl});
  CHECK_THROWS_AS(loss::HuberLoss({.rho = 0}), ValueError);
}

TEST_CASE("loss: weights of samples broadcast to the elements, and never the other way round", "[gluon]") {
  NDArray pred = nd.array({{0, 2}, {1, 4}}), label = nd.array({0, 1}), target = nd.array({{1, 0}, {0, 3}});
  for (bool hybrid : {false, true}) {
    loss::SoftmaxCELoss ce;
    loss::L1Loss l1;
    ce.hybridize(hybrid);
    l1.hybridize(hybrid);
    CHECK_THROWS_AS(ce(pred, label, nd.array({0.5, 1.0})), ShapeError);  // (batch,) beside (batch, 1)
    CHECK_THROWS_AS(ce(pred, label, nd.ones({2, 2})), ShapeError);
    require_close(ce(pred, label, nd.array({2.0})), {2 * 2.12692809, 2 * 0.04858733});
    require_close(l1(pred, target), {1.5, 1});
    require_close(l1(pred, target, nd.array({1, 10}, {2, 1})), {1.5, 10});
    require_close(l1(pred, target, nd.array({1, 10}, {1, 2})), {10.5, 5.5});
    NDArray weight = nd.array({1, 10}, {2, 1});
    weight.attach_grad();
    autograd::record([&] { return l1(pred, target, weight); }).backward();
    require_close(weight.grad(), {1.5, 1});
  }
}

TEST_CASE("loss: hybridized equals imperative", "[gluon]") {
  NDArray pred = nd.random_normal({6, 3}), label = nd.random_uniform({6, 3}), classes = nd.array({0, 1, 2, 2, 1, 0});
  check_both(loss::L1Loss(), pred, label);
  check_both(loss::L2Loss(), pred, label);
  check_both(loss::SigmoidBCELoss(), pred, label);
  check_both(loss::SoftmaxCELoss(), pred, classes);
  check_both(loss::KLDivLoss({.from_logits = false}), pred, label);
  check_both(loss::HuberLoss({.rho = 0.5}), pred, label);
  check_both(loss::HingeLoss(), pred, label);
  check_both(loss::SquaredHingeLoss(), pred, label);
  check_both(loss::LogisticLoss(), pred, label);
}

TEST_CASE("loss: options that do not fit", "[gluon]") {
  using Catch::Matchers::Contains;
  CHECK_THROWS_WITH(loss::SoftmaxCELoss({.label_smoothing = 1.5}),
                    "[SoftmaxCrossEntropyLoss] label_smoothing must be from 0 to 1, got 1.5");
  CHECK_THROWS_WITH(loss::SoftmaxCELoss({.sparse_label = false, .ignore_label = 3}),
                    "[SoftmaxCrossEntropyLoss] ignore_label 3 is a class number, which needs sparse_label");
  CHECK_THROWS_WITH(loss::SoftmaxCELoss({}, nd.ones({2, 2})),
                    "[SoftmaxCrossEntropyLoss] class weights must have shape (classes,), got (2, 2)");
  CHECK_THROWS_WITH(loss::SmoothL1Loss({.beta = -1}), "[SmoothL1Loss] beta must not be negative, got -1");
  const NDArray x = nd.ones({2, 3}), c = nd.array({0, 1});
  CHECK_THROWS_AS(loss::SoftmaxCELoss({}, nd.ones({4}))(x, c), ShapeError);
  const std::vector<NDArray> two{x, x};
  CHECK_THROWS_WITH(loss::SigmoidBCELoss()(x, x, two, x),
                    Contains("sample_weight is an array, or an empty list for none; got a list of 2 arrays"));
  CHECK_THROWS_AS(loss::SDMLLoss()(x, nd.ones({3, 3})), ShapeError);
}

TEST_CASE("loss: batches of one sample, and of labels that are all ignored", "[gluon]") {
  for (bool hybrid : {false, true}) {
    loss::SDMLLoss sdml;
    loss::SoftmaxCELoss ce({.ignore_label = -1});
    sdml.hybridize(hybrid);
    ce.hybridize(hybrid);
    const NDArray x = nd.array({{1, 2, 3}});
    require_close(sdml(x, x + 1), {0.7 * std::log(0.7)});
    NDArray pred = nd.array({{0, 2}, {1, 4}});
    pred.attach_grad();
    NDArray y = autograd::record([&] { return ce(pred, nd.array({-1, -1})); });
    y.backward();
    require_close(y, {0, 0});
    require_close(pred.grad(), {0, 0, 0, 0});
    const NDArray zero = nd.zeros({1, 3});
    require_close(loss::CosineEmbeddingLoss()(zero, x, nd.array({1})), {1});
  }
}

TEST_CASE("loss: in a training step", "[gluon]") {
  random::seed(5);
  const NDArray x = nd.random_normal({4, 5}), y = nd.random_uniform({4, 3}), c = nd.array({0, 1, 2, -1});
  const NDArray sequences = nd.random_normal({4, 6, 5}), spelled = nd.array({0, 1, 1, -1, 1, 0, 0, -1}, {4, 2});
  auto check = [](auto loss, const NDArray& data, const NDArray& label) {
    std::vector<std::vector<double>> ends;
    for (bool whole : {false, true}) {
      nn::Dense net(3, {.flatten = false, .in_units = 5});
      net.initialize(init::Constant(0.1));
      gluon::Trainer trainer(net.collect_params(), optimizer::SGD({.learning_rate = 0.1}));
      gluon::TrainingStep step(net, loss, trainer, {.static_alloc = true, .static_shape = true, .exact = true});
      for (int i = 0; i < 2; ++i) {
        if (whole) {
          step(data, label);
        } else {
          autograd::record([&] { return loss(net(data), label); }).backward();
          trainer.step(data.shape()[0]);
        }
      }
      ends.push_back(values(net.weight.data()));
    }
    require_close(ends[1], ends[0]);
    CHECK(ends[0] != std::vector<double>(ends[0].size(), double(0.1f)));
  };
  check(loss::L1Loss(), x, y);
  check(loss::L2Loss(), x, y);
  check(loss::SmoothL1Loss(), x, y);
  check(loss::HuberLoss(), x, y);
  check(loss::PoissonNLLLoss({.compute_full = true}), x, y);
  check(loss::SigmoidBCELoss(), x, y);
  check(loss::HingeLoss(), x, y);
  check(loss::SquaredHingeLoss(), x, y);
  check(loss::LogisticLoss(), x, y);
  check(loss::KLDivLoss({.from_logits = false}), x, y);
  check(loss::SoftmaxCELoss({.label_smoothing = 0.1, .ignore_label = -1}), x, c);
  check(loss::SoftmaxCELoss({.ignore_label = -1}, nd.array({1, 2, 3})), x, c);
  check(loss::SDMLLoss(), x, y);
  check(loss::CTCLoss(), sequences, spelled);
  // other arguments come out of the label
  check([l = loss::TripletLoss()](const auto& pred, const auto& label) { return l(pred, label, label * 0.5 + 0.25); },
        x, y);
}

}  // namespace loss_test
