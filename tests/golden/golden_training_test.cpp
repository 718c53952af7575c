// 50 steps of training beside MXNet 1.9.1, which has written data/training.params by make_training.py: every optimizer
// setting, imperative, hybridized, exact and as TrainingStep.
#include <catch2/catch.hpp>
#include <cmath>
#include <functional>
#include <map>

#include "kaon/gluon/loss.h"
#include "kaon/gluon/lr_scheduler.h"
#include "kaon/gluon/nn/nn.h"
#include "kaon/gluon/optimizer.h"
#include "kaon/gluon/trainer.h"
#include "kaon/gluon/training_step.h"
#include "kaon/graph/autograd.h"
#include "kaon/ops/ndarray_file.h"
#include "kaon/tests/golden/golden_file.h"
#include "kaon/tests/support/files.h"

namespace golden_training_test {

using namespace kaon;
using namespace kaon::test;
namespace nn = kaon::gluon::nn;

namespace {

constexpr int steps = 50, batch = 4;

using Arrays = std::map<std::string, NDArray>;

const Arrays& arrays() {
  static const Arrays* all = [] {
    auto* map = new Arrays;
    for (auto& [name, array] : nd_file::load(golden_dir() / "training.params")) map->emplace(name, array);
    return map;
  }();
  return *all;
}

// Those under `prefix`, without it.
Arrays under(const std::string& prefix) {
  Arrays found;
  for (const auto& [name, array] : arrays()) {
    if (name.starts_with(prefix)) found.emplace(name.substr(prefix.size()), array);
  }
  return found;
}

nn::HybridSequential make_net(const std::string& name) {
  if (name == "mlp") {
    return nn::HybridSequential(nn::Dense(8, {.activation = "tanh"}), nn::BatchNorm(),
                                nn::Dense(6, {.activation = "softrelu"}), nn::LayerNorm(), nn::Dense(4));
  }
  return nn::HybridSequential(nn::Conv2D(4, {.kernel_size = 3, .padding = 1, .use_bias = false}),
                              nn::BatchNorm({.momentum = 0.8, .epsilon = 1e-4}), nn::Activation("sigmoid"),
                              nn::AvgPool2D({.pool_size = 2, .strides = 2}),
                              nn::Conv2D(3, {.kernel_size = 2, .use_bias = false}), nn::GELU(), nn::Flatten(),
                              nn::Dense(3));
}

struct Setting {
  const char* name;
  std::function<optimizer::Optimizer()> make;
};

using namespace optimizer;

constexpr double beta2 = 1 - 1.0 / 1024, epsilon = 1.0 / 1024;

// As in make_training.py.
const Setting settings[] = {
    {"sgd", [] { return SGD({.learning_rate = 0.125}); }},
    {"sgd_wd", [] { return SGD({.learning_rate = 0.125, .wd = 0.0625}); }},
    {"sgd_momentum", [] { return SGD({.learning_rate = 0.0625, .momentum = 0.875}); }},
    {"sgd_momentum_wd", [] { return SGD({.learning_rate = 0.0625, .momentum = 0.875, .wd = 0.03125}); }},
    {"sgd_clip", [] { return SGD({.learning_rate = 0.5, .wd = 0.0078125, .clip_gradient = 0.015625}); }},
    {"sgd_all",
     [] { return SGD({.learning_rate = 0.25, .momentum = 0.75, .wd = 0.015625, .clip_gradient = 0.0078125}); }},
    {"adam", [] { return Adam({.learning_rate = 0.0078125}); }},
    {"adam_wd", [] { return Adam({.learning_rate = 0.0078125, .beta1 = 0.875, .beta2 = beta2, .wd = 0.0625}); }},
    {"adam_all",
     [] {
       return Adam({.learning_rate = 0.015625,
                    .beta1 = 0.75,
                    .beta2 = 0.9375,
                    .epsilon = 0.0009765625,
                    .wd = 0.03125,
                    .clip_gradient = 0.0078125});
     }},
    {"sgd_factor",
     [] {
       return SGD({.momentum = 0.5,
                   .lr_scheduler = lr_scheduler::FactorScheduler({.step = 7,
                                                                  .factor = 0.5,
                                                                  .stop_factor_lr = 0.015625,
                                                                  .base_lr = 0.125,
                                                                  .warmup_steps = 5,
                                                                  .warmup_begin_lr = 0.03125})});
     }},
    {"sgd_multi_factor",
     [] {
       return SGD(
           {.momentum = 0.5,
            .lr_scheduler = lr_scheduler::MultiFactorScheduler({.step = {5, 12, 30},
                                                                .factor = 0.375,
                                                                .base_lr = 0.125,
                                                                .warmup_steps = 4,
                                                                .warmup_begin_lr = 0.015625,
                                                                .warmup_mode = lr_scheduler::WarmupMode::constant})});
     }},
    {"sgd_poly",
     [] {
       return SGD({.wd = 0.015625,
                   .lr_scheduler = lr_scheduler::PolyScheduler(
                       {.max_update = 40, .base_lr = 0.125, .pwr = 2, .final_lr = 0.0078125, .warmup_steps = 6})});
     }},
    {"adam_cosine",
     [] {
       return Adam({.beta1 = 0.875,
                    .beta2 = beta2,
                    .lr_scheduler = lr_scheduler::CosineScheduler({.max_update = 45,
                                                                   .base_lr = 0.0078125,
                                                                   .final_lr = 0.0009765625,
                                                                   .warmup_steps = 5,
                                                                   .warmup_begin_lr = 0.0001220703125})});
     }},
    {"nag", [] { return NAG({.learning_rate = 0.0625, .momentum = 0.875}); }},
    {"nag_plain", [] { return NAG({.learning_rate = 0.125, .wd = 0.0625}); }},
    {"signum", [] { return Signum({.learning_rate = 1.0 / 1024, .momentum = 0.75, .wd_lh = 0.125, .wd = 0.0625}); }},
    {"signsgd", [] { return Signum({.learning_rate = 1.0 / 1024, .momentum = 0, .wd = 0.125}); }},
    {"adagrad", [] { return AdaGrad({.learning_rate = 0.0625, .wd = 0.0625}); }},
    {"groupadagrad", [] { return GroupAdaGrad({.learning_rate = 0.0625, .eps = epsilon, .clip_gradient = 0.125}); }},
    {"adadelta", [] { return AdaDelta({.rho = 0.875, .epsilon = epsilon, .wd = 0.0078125}); }},
    {"rmsprop",
     [] { return RMSProp({.learning_rate = 0.0078125, .gamma1 = 0.875, .epsilon = epsilon, .wd = 0.03125}); }},
    {"rmsprop_centered",
     [] {
       return RMSProp({.learning_rate = 0.0078125,
                       .gamma1 = 0.875,
                       .gamma2 = 0.75,
                       .epsilon = epsilon,
                       .centered = true,
                       .clip_weights = 0.75});
     }},
    {"ftrl", [] { return Ftrl({.learning_rate = 0.25, .lamda1 = epsilon, .beta = 0.5, .wd = 0.0078125}); }},
    {"ftml",
     [] {
       return FTML({.learning_rate = 0.015625, .beta1 = 0.5, .beta2 = 0.9375, .epsilon = epsilon, .wd = 0.03125});
     }},
    {"adamax", [] { return Adamax({.learning_rate = 0.0078125, .beta1 = 0.875, .beta2 = 0.9375, .wd = 0.03125}); }},
    {"nadam",
     [] {
       return Nadam({.learning_rate = 0.0078125,
                     .beta1 = 0.875,
                     .beta2 = 0.9375,
                     .epsilon = epsilon,
                     .schedule_decay = 0.25,
                     .wd = 0.03125});
     }},
    {"dcasgd", [] { return DCASGD({.learning_rate = 0.125, .lamda = 0.5, .wd = 0.03125}); }},
    {"lars",
     [] { return LARS({.learning_rate = 0.125, .momentum = 0.75, .eta = 0.125, .eps = epsilon, .wd = 0.03125}); }},
    {"lbsgd",
     [] {
       return LBSGD({.learning_rate = 0.03125,
                     .momentum = 0.75,
                     .warmup_strategy = WarmupStrategy::power2,
                     .warmup_epochs = 3,
                     .batch_scale = 2,
                     .updates_per_epoch = 8,
                     .wd = 0.03125});
     }},
    {"lamb",
     [] {
       return LAMB({.learning_rate = 0.015625, .beta1 = 0.875, .beta2 = 0.9375, .epsilon = epsilon, .wd = 0.0625});
     }},
    {"lamb_bounds",
     [] {
       return LAMB({.learning_rate = 0.015625,
                    .beta1 = 0.875,
                    .beta2 = 0.9375,
                    .lower_bound = 0.5,
                    .upper_bound = 2,
                    .bias_correction = false,
                    .wd = 0.0625});
     }},
    {"sgd_multipliers", [] { return SGD({.learning_rate = 0.125, .momentum = 0.5, .wd = 0.03125}); }},
    {"adam_multipliers",
     [] { return Adam({.learning_rate = 0.0078125, .beta1 = 0.875, .beta2 = beta2, .wd = 0.03125}); }},
};

enum class Way { imperative, hybridized, exact, step, exact_step };

struct Trained {
  Arrays parameters;
  std::vector<double> losses;
};

Trained train(const std::string& name, const Setting& setting, DType dtype, Way way) {
  const ScratchFolder folder;
  nn::HybridSequential net = make_net(name);
  NamedArrays initial;
  for (const auto& [key, array] : under(name + "/init/")) initial.emplace_back(key, array.astype(dtype));
  nd_file::save(folder / "initial.params", initial);
  net.cast(dtype);
  net.load_parameters(folder / "initial.params");
  const gluon::ParameterDict all = net.collect_params();
  if (std::string_view(setting.name).ends_with("multipliers")) {
    const gluon::ParameterDict weights = net.collect_params(".*weight"), biases = net.collect_params(".*bias");
    weights.set_lr_mult(0.5), weights.set_wd_mult(2);
    biases.set_lr_mult(2), biases.set_wd_mult(0);
  }
  if (std::string_view(setting.name) == "groupadagrad") {  // MXNet's takes matrices only
    for (gluon::Parameter p : all) {
      if (p.shape().ndim() != 2) p.set_grad_req(GradReq::null);
    }
  }
  const gluon::loss::SoftmaxCrossEntropyLoss criterion;
  gluon::Trainer trainer(all, setting.make());
  const bool exact = way == Way::exact || way == Way::exact_step;
  const HybridizeOptions options{.static_alloc = true, .static_shape = true, .exact = exact};
  std::optional<gluon::TrainingStep> whole;
  if (way == Way::step || way == Way::exact_step) whole.emplace(net, criterion, trainer, options);
  if (way == Way::hybridized || way == Way::exact) {
    net.hybridize(options);
    gluon::loss::SoftmaxCrossEntropyLoss(criterion).hybridize(options);
  }
  const NDArray data = arrays().at(name + "/x").astype(dtype), label = arrays().at(name + "/y").astype(dtype);
  std::vector<NDArray> losses;
  for (int i = 0; i < steps; ++i) {
    const NDArray x = data.slice(i * batch, (i + 1) * batch), y = label.slice(i * batch, (i + 1) * batch);
    NDArray loss;
    if (whole) {
      loss = (*whole)(x, y);
    } else {
      loss = autograd::record([&] { return criterion(net(x), y); });
      loss.backward();
      trainer.step(batch);
    }
    losses.push_back(loss.mean());
  }
  Trained t;
  for (const NDArray& l : losses) t.losses.push_back(l.asscalar<double>());
  net.save_parameters(folder / "trained.params");
  for (auto& [key, array] : nd_file::load(folder / "trained.params")) t.parameters.emplace(key, array);
  return t;
}

// The largest difference, as a part of the largest element.
double difference(const NDArray& got, const NDArray& wanted) {
  const auto a = got.asvector<double>(), b = wanted.asvector<double>();
  REQUIRE(a.size() == b.size());
  double worst = 0, largest = 1e-3;
  for (size_t i = 0; i < a.size(); ++i) {
    worst = std::max(worst, std::isfinite(a[i]) ? std::abs(a[i] - b[i]) : INFINITY);
    largest = std::max(largest, std::abs(b[i]));
  }
  return worst / largest;
}

void check_training(const std::string& net, DType dtype) {
  // MXNet keeps the betas as float32: of the defaults 1 - beta2 is 1e-5 off.
  for (const Setting& setting : settings) {
    const std::string_view name = setting.name;
    const bool is_rough = name == "adam" || name == "lars" || name.starts_with("lamb");  // and their norms
    const double bound = dtype != DType::float64 ? 2e-4 : is_rough ? 3e-5 : 1e-6;
    const std::string prefix = net + "/" + setting.name + "/" + std::string(name_of(dtype)) + "/";
    Arrays wanted = under(prefix);
    if (wanted.empty() && dtype == DType::float64) continue;  // MXNet has float32 states there
    if (wanted.empty() && name == "groupadagrad") continue;   // of conv it trains but one matrix
    const auto losses = wanted.at("losses").asvector<double>();
    wanted.erase("losses");
    for (Way way : {Way::imperative, Way::hybridized, Way::exact, Way::step, Way::exact_step}) {
      INFO(prefix << ", way " << int(way));
      const Trained got = train(net, setting, dtype, way);
      REQUIRE(got.parameters.size() == wanted.size());
      for (const auto& [key, array] : wanted) {
        INFO(key);
        CHECK(got.parameters.at(key).dtype() == dtype);
        CHECK(difference(got.parameters.at(key), array) <= bound);
      }
      for (int i = 0; i < steps; ++i) {
        INFO("step " << i);
        CHECK(std::abs(got.losses[size_t(i)] - losses.at(size_t(i))) <= bound * losses[size_t(i)]);
      }
    }
  }
}

}  // namespace

TEST_CASE("golden: 50 steps of a dense net with every optimizer setting, float64", "[golden]") {
  check_training("mlp", DType::float64);
}
TEST_CASE("golden: 50 steps of a dense net with every optimizer setting, float32", "[golden]") {
  check_training("mlp", DType::float32);
}
TEST_CASE("golden: 50 steps of a convolutional net with every optimizer setting, float64", "[golden]") {
  check_training("conv", DType::float64);
}
TEST_CASE("golden: 50 steps of a convolutional net with every optimizer setting, float32", "[golden]") {
  check_training("conv", DType::float32);
}

}  // namespace golden_training_test
