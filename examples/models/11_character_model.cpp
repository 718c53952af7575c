// A character model: an LSTM learns from a text which character comes next, and then writes.
// Prints how many bits a character costs it, which are 8 in a file, and 200 characters that it draws one after the
// other, each from the states that the last one left. Ends with 1 unless it has learned. An argument is another text.
#include <cmath>
#include <random>

#include "text.h"

using namespace kaon;
namespace nn = kaon::gluon::nn;
namespace rnn = kaon::gluon::rnn;

// Scores of the next character for characters (length, batch), and the states after the last one.
struct CharacterModel : gluon::HybridBlock<CharacterModel> {
  explicit CharacterModel(int64_t alphabet)
      : embedding(child("embedding", nn::Embedding(alphabet, 32))),
        lstm(child("lstm", rnn::LSTM(128))),
        output(child("output", nn::Dense(alphabet, {.flatten = false}))) {}

  auto hybrid_forward(auto, auto characters, const auto& states) {
    auto [y, next] = lstm(embedding(characters), states);
    return std::pair(output(y), next);
  }

  nn::Embedding embedding;
  rnn::LSTM lstm;
  nn::Dense output;
};

// Trains on `batch` pieces of the text side by side, `length` characters at a time. Returns the bits of a character.
double train(CharacterModel net, const Text& text, int epochs) {
  const int64_t batch = 16, length = 32, piece = int64_t(text.codes.size() - 1) / batch;
  const NDArray from = nd.transpose(text.pieces(0, batch, piece)), to = nd.transpose(text.pieces(1, batch, piece));
  gluon::loss::SoftmaxCrossEntropyLoss loss_fn;
  gluon::Trainer trainer(net.collect_params(), optimizer::Adam({.learning_rate = 0.01}));
  double bits = 0;
  for (int epoch = 1; epoch <= epochs; ++epoch) {
    std::vector<NDArray> states = net.lstm.begin_state(batch);
    NDArray sum = nd.zeros({});
    int64_t steps = 0;
    for (int64_t t = 0; t + length <= piece; t += length, ++steps) {
      for (NDArray& s : states) s = s.detach();  // gradients end where a step begins, states go on
      NDArray loss = autograd::record([&] {
        auto [scores, next] = net(nd.slice(from, {t}, {t + length}), states);
        states = next;
        return loss_fn(scores, nd.slice(to, {t}, {t + length}));
      });
      loss.backward();
      trainer.step(length);
      sum = sum + loss.mean();
    }
    bits = sum.asscalar<float>() / double(steps) / std::log(2.0);
    if (epoch == 1 || epoch % 5 == 0) fmt::print("epoch {:2}: {:.2f} bits a character\n", epoch, bits);
  }
  return bits;
}

std::string write(const CharacterModel& net, const Text& text, const std::string& begin, int count) {
  std::mt19937 random(7);
  std::string written = begin;
  std::vector<NDArray> states = net.lstm.begin_state(1);
  for (int i = 0; i + 1 < int(begin.size()) + count; ++i) {
    const float code = text.code(written[size_t(i)]);
    auto [scores, next] = net(nd.array({{code}}), states);
    states = next;
    if (i + 1 < int(begin.size())) continue;
    // below 1, likely characters come more often than it has learned
    const auto chances = nd.softmax(scores / 0.7).asvector<float>();
    written += text.alphabet[std::discrete_distribution<size_t>(chances.begin(), chances.end())(random)];
  }
  return written;
}

int main(int argc, char** argv) {
  random::seed(7);
  const Text text(argc > 1 ? argv[1] : KAON_DATA_DIR "/../LICENSE");
  CharacterModel net(int64_t(text.alphabet.size()));
  net.initialize(init::Xavier());
  net.hybridize({.static_alloc = true, .static_shape = true});
  fmt::print("{} characters, {} different ones\n", text.codes.size(), text.alphabet.size());
  const double bits = train(net, text, 20);
  fmt::print("\n{}\n", write(net, text, "The", 200));
  return bits < 2 ? 0 : 1;
}
