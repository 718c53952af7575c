// What the LeNet of train_mnist reaches on the held-out digits: 5 epochs from each of 5 seeds, one line each, then the
// median. The baseline is the project's aim, 97.5 %.
#include "kaon/bench/common.h"
#include "kaon/examples/lenet.h"

using namespace examples;

int main() {
  bench::print_machine();
  const std::filesystem::path folder = KAON_DATA_DIR "/mnist-10k";
  const gluon::data::Dataset train = digits(folder, true), held_out = digits(folder, false);
  std::vector<double> accuracies;
  StepListener nobody;
  for (uint64_t seed = 1; seed <= 5; ++seed) {
    const TrainingOptions options{.seed = seed};
    LeNetTraining training(train, options);
    const double seconds = bench::seconds([&] {
      for (int e = 0; e < options.epochs; ++e) sync_wait(training.epoch(nobody));
    });
    accuracies.push_back(100 * sync_wait(evaluate(training.net(), held_out)));
    fmt::print(
        "{{\"name\": \"mnist_accuracy_seed{}\", \"median\": {:.2f}, \"unit\": \"%\", \"runs\": 1, \"seconds\": "
        "{:.2f}}}\n",
        seed, accuracies.back(), seconds);
  }
  const bench::Result aim{.median = 97.5, .min = 97.5, .max = 97.5, .runs = 1};
  bench::print("mnist_accuracy", bench::summarize(accuracies), "%", "aim_97.5", aim);
}
