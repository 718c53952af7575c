#include "loader_training.h"

#include <cmath>

#include "kaon/gluon/data/data_loader.h"
#include "kaon/gluon/loss.h"
#include "kaon/gluon/training_step.h"

namespace kaon::test {

nn::HybridSequential new_net() {
  nn::HybridSequential net(nn::Conv2D(3, {.kernel_size = 3, .padding = 1, .in_channels = 2}),
                           nn::BatchNorm({.in_channels = 3}), nn::Activation("relu"), nn::GlobalAvgPool2D(),
                           nn::Dense(2, {.in_units = 3}));
  net.initialize(init::One());
  uint32_t seed = 5;
  for (auto p : net.collect_params()) {
    if (p.grad_req() != GradReq::null) p.set_data(numbers(p.shape(), ++seed) * 0.3f);
  }
  net.hybridize();
  return net;
}

Values values_of(const nn::HybridSequential& net) {
  Values all;
  for (auto p : net.collect_params()) all.push_back(p.data().asvector<float>());
  return all;
}

namespace {
gluon::data::DataLoader new_loader() {
  gluon::data::Dataset samples(6, [](int64_t i) {
    std::vector<float> values(2 * 4 * 4);
    for (size_t k = 0; k < values.size(); ++k) values[k] = std::sin(float(k) + 40.0f * float(i));
    return gluon::data::Sample(gluon::data::HostTensor(Shape(2, 4, 4), values), int(i % 2));
  });
  return gluon::data::DataLoader(samples, {.batch_size = 2, .shuffle = true, .workers = 2, .prefetch = 2});
}
}  // namespace

std::vector<Values> train_from_loader(bool keeps_states) {
  nn::HybridSequential net = new_net();
  gluon::loss::SoftmaxCELoss loss;
  gluon::Trainer trainer(net.collect_params(), optimizer::SGD({.learning_rate = 0.1, .momentum = 0.9}));
  gluon::TrainingStep step(net, loss, trainer);
  std::vector<Values> states;
  const auto keep = [&] {
    if (keeps_states) states.push_back(values_of(net));
  };
  keep();
  const gluon::data::DataLoader loader = new_loader();
  nd.waitall();
  g_net = &net;
  struct Gone {
    ~Gone() { g_net = nullptr; }
  } gone;
  for (auto& batch : loader.sync()) {
    step(batch.data, batch.label);
    keep();
    autograd::record([&] { return loss(net(batch.data), batch.label); }).backward();
    keep();  // running statistics
    trainer.step(batch.size());
    keep();
  }
  nd.waitall();
  states.push_back(values_of(net));
  return states;
}

}  // namespace kaon::test
