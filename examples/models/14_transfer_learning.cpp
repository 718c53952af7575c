// Transfer learning: a net that has learned the digits 0 to 4 gets a new last layer and learns 5 to 9 from 500 images,
// while its features are frozen. Prints the accuracy on images that it has not seen, and beside it that of the same net
// with features that have learned nothing; ends with 1 unless the features help and have not moved.
#include <fmt/format.h>
#include <kaon/kaon.h>

using namespace kaon;
using namespace kaon::gluon::data;
namespace nn = kaon::gluon::nn;

struct Net : gluon::HybridBlock<Net> {
  Net()
      : features(child("features", nn::HybridSequential(nn::Conv2D(8, {.kernel_size = {5, 5}, .activation = "relu"}),
                                                        nn::MaxPool2D(),
                                                        nn::Conv2D(16, {.kernel_size = {5, 5}, .activation = "relu"}),
                                                        nn::MaxPool2D(), nn::Dense(32, {.activation = "relu"})))),
        output(child("output", nn::Dense(5))) {}
  auto hybrid_forward(auto, auto x) { return output(features(x)); }

  nn::HybridSequential features;
  nn::Dense output;
};

// At most `count` images of the digits from `first` to first + 4, with labels from 0 on.
Dataset digits(bool train, int first, int64_t count) {
  const auto digit = [](const Sample& s) { return *s.label.as<int32_t>(); };
  const auto is_chosen = [=](const Sample& s) { return digit(s) >= first && digit(s) < first + 5; };
  return vision::MNIST(KAON_DATA_DIR "/mnist-10k", train).filter(is_chosen).take(count).transform([=](const Sample& s) {
    return Sample(vision::transforms::ToTensor()(s.data), digit(s) - first);
  });
}

void train(Net net, const Dataset& dataset, int epochs) {
  net.hybridize();
  gluon::Trainer trainer(net.collect_params(), optimizer::Adam({.learning_rate = 2e-3}));  // frozen ones it leaves out
  const gluon::loss::SoftmaxCrossEntropyLoss loss_fn;
  const DataLoader loader(dataset, {.batch_size = 32, .shuffle = true, .seed = 1});
  for (int epoch = 0; epoch < epochs; ++epoch) {
    for (Batch& batch : loader.sync()) {
      autograd::record([&] { return loss_fn(net(batch.data), batch.label); }).backward();
      trainer.step(batch.size());
    }
  }
}

double accuracy(const Net& net, const Dataset& dataset) {
  metric::Accuracy right;
  for (Batch& batch : DataLoader(dataset, {.batch_size = 100}).sync()) right.update(batch.label, net(batch.data));
  return right.get().second;
}

// The accuracy for 5 to 9 with a new last layer, trained alone.
double transferred(Net net) {
  net.features.collect_params().set_grad_req(GradReq::null);
  net.replace_child("output", net.output, nn::Dense(5));
  net.output.initialize(init::Xavier());
  train(net, digits(true, 5, 500), 50);
  return accuracy(net, digits(false, 5, 500));
}

int main() {
  random::seed(7);
  Net net, untaught;
  net.initialize(init::Xavier());
  untaught.initialize(init::Xavier());
  untaught(nd.zeros({1, 1, 28, 28}));  // completes the shapes
  train(net, digits(true, 0, 2000), 3);
  fmt::print("0 to 4: {:.3f}\n", accuracy(net, digits(false, 0, 500)));

  const NDArray before = net.features.collect_params()[0].data().copy();
  const double taught = transferred(net), random = transferred(untaught);
  const bool moved = nd.max(nd.abs(net.features.collect_params()[0].data() - before)).asscalar<float>() != 0;
  fmt::print("5 to 9, last layer alone: {:.3f}; on features that learned nothing: {:.3f}\n", taught, random);
  fmt::print("the features have {}\n", moved ? "moved" : "not moved");
  return !moved && taught > random && taught > 0.7 ? 0 : 1;
}
