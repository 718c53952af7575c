#include "kaon/gluon/loss.h"

#include "kaon/tests/gluon/support.h"

using namespace kaon;
using namespace kaon::test;
namespace loss = kaon::gluon::loss;

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
