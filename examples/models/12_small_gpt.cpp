// A small GPT learns from a text which character comes next, and then writes: with a cache of keys and values, and
// without one, where each character costs a pass over all before it. Prints perplexity and speed; ends with 1 unless
// both ways write the same. Arguments: a text, and the number of epochs.
#include <kaon/gluon/model_zoo/gpt.h>

#include <chrono>
#include <cmath>

#include "text.h"

using namespace kaon;
using gluon::model_zoo::text::GPT;

double seconds() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

// Returns the perplexity of the last epoch: among how many characters, equally likely, one would have to guess.
double train(GPT net, const Text& text, int epochs) {
  const int64_t batch = 16, length = 64, steps = int64_t(text.codes.size() - 1) / (batch * length);
  gluon::Trainer trainer(net.collect_params(), optimizer::Adam({.learning_rate = 2e-3}));
  gluon::TrainingStep step(net, gluon::loss::SoftmaxCrossEntropyLoss(), trainer);
  double perplexity = 0;
  for (int epoch = 1; epoch <= epochs; ++epoch) {
    const double start = seconds();
    metric::Loss loss;
    for (int64_t i = 0; i < steps; ++i) {
      const int64_t first = i * batch * length;
      loss.update({}, step(text.pieces(first, batch, length), text.pieces(first + 1, batch, length)));
    }
    perplexity = std::exp(loss.get().second);
    fmt::print("epoch {:2}: perplexity {:6.2f}, {:.0f} tokens/s\n", epoch, perplexity,
               double(steps * batch * length) / (seconds() - start));
  }
  return perplexity;
}

std::string write(const GPT& net, const Text& text, const std::string& begin, bool use_cache) {
  random::seed(7);  // the same draws
  std::vector<float> codes;
  for (char c : begin) codes.push_back(text.code(c));
  const int64_t count = 100;
  const double start = seconds();
  const NDArray tokens = nd.array(codes, {1, int64_t(codes.size())});
  std::string written = text.decode(net.generate(tokens, count, {.temperature = 0.7, .use_cache = use_cache}));
  fmt::print("{} cache: {:.0f} tokens/s\n", use_cache ? "with" : "without", double(count) / (seconds() - start));
  return written;
}

int main(int argc, char** argv) {
  random::seed(7);
  const Text text(argc > 1 ? argv[1] : KAON_DATA_DIR "/../LICENSE");
  GPT net({.vocab_size = int64_t(text.alphabet.size()),
           .context = 128,
           .units = 64,
           .num_layers = 2,
           .num_heads = 4,
           .dropout = 0.1});
  net.initialize(init::Normal(0.05));
  net.hybridize();
  const double perplexity = train(net, text, argc > 2 ? std::stoi(argv[2]) : 30);
  const std::string cached = write(net, text, "The ", true), plain = write(net, text, "The ", false);
  fmt::print("\n{}\n", cached);
  return cached == plain && perplexity < 8 ? 0 : 1;
}
