// Training of language models: tokens a second of an LSTM and a small GPT, one JSON line for each round.
// Usage: bench_language [threads] [rounds].
#include <kaon/gluon/model_zoo/gpt.h>

#include <cmath>

#include "kaon/bench/common.h"
#include "kaon/kaon.h"

using namespace kaon;
namespace nn = kaon::gluon::nn;
namespace rnn = kaon::gluon::rnn;

namespace {

constexpr int64_t batch = 16, alphabet = 76, steps = 60;

struct LSTMModel : gluon::HybridBlock<LSTMModel> {
  LSTMModel()
      : embedding(child("embedding", nn::Embedding(alphabet, 32))),
        lstm(child("lstm", rnn::LSTM(128))),
        output(child("output", nn::Dense(alphabet, {.flatten = false}))) {}
  auto hybrid_forward(auto, auto x) { return output(lstm(embedding(x))); }
  nn::Embedding embedding;
  rnn::LSTM lstm;
  nn::Dense output;
};

template <class Net>
void run(const char* name, Net net, const Shape& shape, int threads, int rounds) {
  net.initialize(init::Xavier());
  gluon::Trainer trainer(net.collect_params(), optimizer::Adam({.learning_rate = 1e-3}));
  gluon::TrainingStep step(net, gluon::loss::SoftmaxCrossEntropyLoss(), trainer);
  const NDArray x = nd.random_randint(0, alphabet, shape).astype(DType::float32);
  for (int r = -1; r < rounds; ++r) {  // the first one is not counted
    const double taken = bench::seconds([&] {
      for (int64_t i = 0; i < steps; ++i) step(x, x);
      nd.waitall();
    });
    if (r < 0) continue;
    fmt::print("{{\"model\": \"{}\", \"threads\": {}, \"tokens_per_s\": {:.0f}}}\n", name, threads,
               double(steps * shape.size()) / taken);
  }
}

}  // namespace

int main(int argc, char** argv) {
  const int threads = argc > 1 ? std::stoi(argv[1]) : 2, rounds = argc > 2 ? std::stoi(argv[2]) : 5;
  Engine::set_default_options({.threads = threads});
  run("lstm", LSTMModel(), {32, batch}, threads, rounds);
  run("gpt",
      gluon::model_zoo::text::GPT(
          {.vocab_size = alphabet, .context = 64, .units = 64, .num_layers = 2, .num_heads = 4, .dropout = 0.1}),
      {batch, 64}, threads, rounds);
}
