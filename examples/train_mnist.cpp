// The main job: a LeNet learns handwritten digits, asynchronously. Prints for each epoch the loss, the accuracy on the
// training and on the held-out digits and the images per second; then what hybridizing gains; then that the exported
// model, loaded again, has the same accuracy. Writes lenet-symbol.json and lenet-<epochs>.params (MXNet reads them),
// mnist_run.svg (loss and accuracy) and mnist_run.trace.json (some steps of the last epoch; opens in Perfetto). With
// --ranks several processes learn together, and the first of them does all the rest.
#include <fmt/format.h>

#include "ranks.h"
#include "train_options.h"
#include "train_record.h"

using namespace examples;
namespace fs = std::filesystem;

namespace {

// `history` is that of the rank that prints, and null on the others.
Task<void> train(LeNetTraining& training, int epochs, gluon::data::Dataset held_out, History* history) {
  for (int e = 1; e <= epochs; ++e) {
    if (!history) {
      StepListener nobody;
      co_await training.epoch(nobody);
      continue;
    }
    EpochWatch watch(fmt::format("epoch {}/{}", e, epochs), training.steps_per_epoch(), e == epochs);
    const EpochResult result = co_await training.epoch(watch);
    watch.end(result);
    const double accuracy = co_await evaluate(training.net(), held_out);
    fmt::print("  held-out accuracy {:.2f} %\n", 100 * accuracy);

    const double steps = double(training.steps_per_epoch());
    for (double loss : watch.losses()) {
      history->step.push_back(double(history->step.size() + 1) / steps);
      history->step_loss.push_back(loss);
    }
    history->loss.push_back(result.loss);
    history->accuracy.push_back(100 * result.accuracy);
    history->held_out.push_back(100 * accuracy);
  }
}

// One line of the table: seconds for so many forwards, before and after.
template <class Net>
void compare(const char* name, Net net, const NDArray& x, int forwards) {
  auto seconds = [&] {
    net(x);  // infers shapes; hybridized: traces and plans
    return time_all([&] {
      for (int i = 0; i < forwards; ++i) net(x);
    });
  };
  net.initialize(init::Xavier());
  const double before = seconds();
  net.hybridize({.static_alloc = true, .static_shape = true});
  const double after = seconds();
  fmt::print("  {:<30}{:>16.4f} sec{:>17.4f} sec{:>9.2f}\n", name, before, after, before / after);
}

void run(const ProgramOptions& o) {
  Engine engine({.threads = o.threads});
  EngineScope scope(engine);
  TrainingOptions t = o.training;
  if (o.ranks > 1) t.world = join_ranks(o.ranks);
  const gluon::data::Dataset train_digits = digits(o.data, true), held_out = digits(o.data, false);
  LeNetTraining training(train_digits, t);
  if (t.world.defined() && t.world.rank() > 0) return sync_wait(train(training, t.epochs, held_out, nullptr));

  fs::create_directories(o.out);
  const fs::path out = o.out;
  fmt::print("{} digits to learn from, {} held out; {}, {}{} engine threads, seed {}\n", train_digits.size(),
             held_out.size(),
             t.imperative ? "imperative"
             : t.exact    ? "hybridized (exact)"
                          : "hybridized",
             o.ranks > 1 ? fmt::format("{} ranks of ", o.ranks) : "", engine.stats().threads, t.seed);

  History history;
  sync_wait(train(training, t.epochs, held_out, &history));
  draw(history, out / "mnist_run.svg");
  engine.profiler().write(out / "mnist_run.trace.json");

  if (o.forwards > 0) {
    fmt::print("\n  {:<30}{:>20}{:>21}{:>9}\n", fmt::format("{} forwards, waitall", o.forwards), "before hybridizing",
               "after hybridizing", "ratio");
    compare("LeNet, 16 digits", LeNet(), nd.random_normal({16, 1, 28, 28}), o.forwards);
    compare("MLP 512-256-128-2, 1 sample", seed_mlp(), nd.random_normal({1, 512}), o.forwards);
  }

  LeNet net = training.net();
  if (t.imperative) {  // a model file is a trace
    net.hybridize();
    net(nd.zeros({1, 1, 28, 28}));
  }
  net.export_model((out / "lenet").string(), t.epochs);
  const std::string parameters = fmt::format("lenet-{:04}.params", t.epochs);
  auto back = gluon::SymbolBlock::imports(out / "lenet-symbol.json", {"data"}, out / parameters);
  const double accuracy = sync_wait(evaluate(back, held_out));
  fmt::print("\nexported and loaded again: held-out accuracy {:.2f} % ({})\n", 100 * accuracy,
             100 * accuracy == history.held_out.back() ? "the same" : "not the same");
  fmt::print("in {}: lenet-symbol.json, {}, mnist_run.svg, mnist_run.trace.json\n",
             fs::absolute(out).lexically_normal().string(), parameters);
}

}  // namespace

// Returns 0; 1 when a folder or file is missing, truncated or cannot be written, or a rank fails; 2 for a bad option.
int main(int argc, char** argv) {
  return run_program(
      "train_mnist", usage, [&] { return parse_options(argc, argv); },
      [&](const ProgramOptions& o) {
        if (o.ranks > 1 && !is_rank()) start_ranks(o.ranks, argv);
        run(o);
      });
}
