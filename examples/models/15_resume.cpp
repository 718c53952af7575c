// Training that stops and goes on: digits with augmentation and dropout, a checkpoint after each epoch, and an end when
// the validation has not improved for two epochs. A second run goes on from the checkpoint of epoch 2 and ends with
// parameters that have the same bits as those of the first. Prints the accuracies; ends with 1 if any bit differs.
#include <fmt/format.h>
#include <kaon/kaon.h>

using namespace kaon;
using namespace kaon::gluon::data;
namespace nn = kaon::gluon::nn;
namespace transforms = kaon::gluon::data::vision::transforms;

nn::HybridSequential make_net() {
  nn::HybridSequential net(nn::Conv2D(8, {.kernel_size = {5, 5}, .activation = "relu"}), nn::MaxPool2D(),
                           nn::Dropout(0.2), nn::Dense(32, {.activation = "relu"}), nn::Dense(10));
  net.hybridize();
  return net;
}

struct Run {
  nn::HybridSequential net = make_net();
  gluon::Trainer trainer{net.collect_params(), optimizer::Adam({.learning_rate = 2e-3})};

  // What an epoch depends on: parameters, states of the optimizer and the number of the epoch, which seeds all that is
  // random in it.
  void save(const std::string& name) const {
    net.save_parameters(name + ".params");
    trainer.save_states(name + ".states");
  }
  void load(const std::string& name) {
    net.load_parameters(name + ".params");
    trainer.load_states(name + ".states");
  }

  void train(const DataLoader& loader, uint64_t epoch) {
    random::seed(epoch);  // dropout; the loader's order and augmentation depend on its own seed and the epoch
    loader.set_next_epoch(epoch);
    const gluon::loss::SoftmaxCrossEntropyLoss loss_fn;
    for (Batch& batch : loader.sync()) {
      autograd::record([&] { return loss_fn(net(batch.data), batch.label); }).backward();
      trainer.step(batch.size());
    }
  }
};

double accuracy(const nn::HybridSequential& net, const DataLoader& loader) {
  metric::Accuracy right;
  for (Batch& batch : loader.sync()) right.update(batch.label, net(batch.data));
  return right.get().second;
}

DataLoader digits(bool train, const transforms::Compose& transform, int64_t count) {
  const Dataset images = vision::MNIST(KAON_DATA_DIR "/mnist-10k", train).transform_first(transform);
  return DataLoader(images.take(count), {.batch_size = 50, .shuffle = train, .seed = 1});
}

// Trains from epoch `first` on, until the validation has not improved for two epochs, or for `epochs`.
void train(Run& run, const DataLoader& loader, const DataLoader& validation, uint64_t first, uint64_t epochs) {
  double best = 0;
  for (uint64_t epoch = first, best_epoch = first; epoch < epochs && epoch <= best_epoch + 2; ++epoch) {
    run.train(loader, epoch);
    const double now = accuracy(run.net, validation);
    fmt::print("epoch {}: accuracy {:.3f}\n", epoch, now);
    if (now > best) best = now, best_epoch = epoch;
    run.save(fmt::format("epoch-{}", epoch));
  }
}

int main(int argc, char** argv) {
  const uint64_t epochs = argc > 1 ? std::stoul(argv[1]) : 5;
  const DataLoader loader = digits(
      true, transforms::Compose({transforms::RandomResizedCrop(28, {.scale = {0.8, 1}}), transforms::ToTensor()}),
      2000);
  const DataLoader validation = digits(false, transforms::Compose({transforms::ToTensor()}), 500);
  Run run;
  random::seed(7);
  run.net.initialize(init::Xavier());
  train(run, loader, validation, 0, epochs);

  fmt::print("from the checkpoint of epoch 2:\n");
  Run resumed;
  resumed.load("epoch-2");
  train(resumed, loader, validation, 3, epochs);
  const auto expected = run.net.collect_params(), got = resumed.net.collect_params();
  bool is_same = true;
  for (size_t i = 0; i < expected.size(); ++i) {
    is_same = is_same && expected[i].data().asvector<float>() == got[i].data().asvector<float>();
  }
  fmt::print("the parameters are {}\n", is_same ? "the same" : "others");
  return is_same ? 0 : 1;
}
