// The command line of train_mnist.
#pragma once

#include <algorithm>
#include <cmath>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "command_line.h"
#include "lenet.h"

namespace examples {

struct ProgramOptions {
  TrainingOptions training;
  std::string data = KAON_DATA_DIR "/mnist-10k";
  std::string out = ".";
  int threads = -1;
  int ranks = 1;
  int forwards = 1000;
  bool help = false;
};

inline constexpr const char* usage = R"(usage: train_mnist [options]
Trains a LeNet on handwritten digits, compares it before and after hybridizing, exports it and loads it again.

  --data DIR         folder with the four MNIST files, plain or .gz (default: the 10,000 digits that come with Kaon)
  --out DIR          where the model, the chart and the trace are written (default: the current folder)
  --epochs N         passes over the training digits (default 5)
  --batch-size N     digits per step, of all ranks together (default 32)
  --learning-rate R  at the first step; falls linearly to 0 (default 0.02)
  --seed N           of the parameters and of the order of the digits (default 1)
  --threads N        threads of the engine; 0: each operator runs where it is called (default: all cores)
  --ranks N          processes that learn together on this machine, each from its part of every batch; they are started
                     by mpirun, unless this one was (default 1)
  --forwards N       forwards timed before and after hybridizing; 0: none (default 1000)
  --imperative       do not hybridize
  --exact            hybridize with the imperative kernels, for the same bits
  --help             print this
)";

// `--name value` and `--name=value`. Throws UsageError.
inline ProgramOptions parse_options(int argc, char** argv) {
  ProgramOptions o;
  TrainingOptions& t = o.training;
  struct Option {
    std::string_view name;
    bool has_value;
    std::function<void(std::string_view)> set;
  };
  const std::vector<Option> options = {
      {"--data", true, [&](auto v) { o.data = v; }},
      {"--out", true, [&](auto v) { o.out = v; }},
      {"--epochs", true, [&](auto v) { t.epochs = parse_number("--epochs", v, 1, 10000); }},
      {"--batch-size", true, [&](auto v) { t.batch_size = parse_number<int64_t>("--batch-size", v, 1, 65536); }},
      {"--learning-rate", true, [&](auto v) { t.learning_rate = parse_number("--learning-rate", v, 1e-9, 1e3); }},
      {"--seed", true, [&](auto v) { t.seed = parse_number<uint64_t>("--seed", v, 0, UINT64_MAX); }},
      {"--threads", true, [&](auto v) { o.threads = parse_number("--threads", v, 0, 256); }},
      {"--ranks", true, [&](auto v) { o.ranks = parse_number("--ranks", v, 1, 1024); }},
      {"--forwards", true, [&](auto v) { o.forwards = parse_number("--forwards", v, 0, 1000000); }},
      {"--imperative", false, [&](auto) { t.imperative = true; }},
      {"--exact", false, [&](auto) { t.exact = true; }},
      {"--help", false, [&](auto) { o.help = true; }},
  };
  for (int i = 1; i < argc; ++i) {
    const std::string_view argument = argv[i];
    const size_t equals = argument.find('=');
    const std::string_view name = argument.substr(0, equals);
    const auto option =
        std::find_if(options.begin(), options.end(), [&](const Option& each) { return each.name == name; });
    if (option == options.end()) throw UsageError(fmt::format("unknown option '{}'", argument));
    if (!option->has_value && equals != std::string_view::npos)
      throw UsageError(fmt::format("{} takes no value", name));
    std::string_view value;
    if (equals != std::string_view::npos) {
      value = argument.substr(equals + 1);
    } else if (option->has_value) {
      if (++i == argc) throw UsageError(fmt::format("{} needs a value", name));
      value = argv[i];
    }
    option->set(value);
  }
  if (t.imperative && t.exact) throw UsageError("--exact is about hybridizing and --imperative turns that off");
  if (t.batch_size % o.ranks != 0) {
    throw UsageError(fmt::format("--batch-size {} must be a multiple of --ranks {}", t.batch_size, o.ranks));
  }
  return o;
}

}  // namespace examples
