// A word tagger: an LSTM that reads sentences in both directions says of each word what it is. Sentences differ in
// length: batchify::Pad makes batches of them, the padding has the tag -1, which the loss ignores. The sentences are
// drawn from a small grammar in which many words are noun or verb, as their neighbours say. Prints the accuracy, and F1
// for each tag, on sentences that it has not seen; ends with 1 unless it has learned. An argument is the number of
// epochs.
#include <fmt/format.h>
#include <kaon/kaon.h>

#include <random>

using namespace kaon;
using namespace kaon::gluon::data;
namespace nn = kaon::gluon::nn;
namespace rnn = kaon::gluon::rnn;

const std::vector<std::string> tags{"determiner", "adjective", "noun", "verb"};
constexpr int words = 60, ambiguous = 30;  // words 0 to 3: determiners, 4 to 13: adjectives, the last 30: noun or verb

struct Sentence {
  std::vector<float> words, tags;
  void add(float word, float tag) { words.push_back(word), tags.push_back(tag); }
};

// Phrases of a determiner, adjectives and a noun, with verbs between them.
Sentence draw(std::mt19937& random) {
  const auto up_to = [&](int n) { return float(random() % unsigned(n)); };
  Sentence s;
  for (int phrases = 1 + int(up_to(3)); phrases > 0; --phrases) {
    s.add(up_to(4), 0);
    for (float adjectives = up_to(3); adjectives > 0; --adjectives) s.add(4 + up_to(10), 1);
    s.add(14 + up_to(words - 14 - 8), 2);
    if (phrases > 1) s.add(words - ambiguous + up_to(ambiguous), 3);
  }
  return s;
}

Dataset sentences(int count, uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<Sentence> all;
  for (int i = 0; i < count; ++i) all.push_back(draw(random));
  return SimpleDataset(all, [](const Sentence& s) {
    const Shape shape{int64_t(s.words.size())};
    return std::tuple(HostTensor(shape, s.words), HostTensor(shape, s.tags), float(s.words.size()));
  });
}

DataLoader batches(const Dataset& dataset, bool shuffle) {
  return DataLoader(dataset, {.batch_size = 32, .shuffle = shuffle, .seed = 1},
                    batchify::Tuple(batchify::Pad(), batchify::Pad({.pad_val = -1}), batchify::Stack()));
}

// Words (batch, length), of which each sample has `lengths`, to scores of the tags (batch, length, tags). Both
// directions are turned at the end of each sentence, not of the padding.
struct Tagger : gluon::HybridBlock<Tagger> {
  Tagger()
      : embedding(child("embedding", nn::Embedding(words, 16))),
        forward(child("forward", rnn::LSTM(24))),
        backward(child("backward", rnn::LSTM(24))),
        output(child("output", nn::Dense(int64_t(tags.size()), {.flatten = false}))) {}

  auto hybrid_forward(auto F, auto x, auto lengths) {
    auto steps = F.transpose(embedding(x), {1, 0, 2});  // (length, batch, units)
    const auto turned = [&](auto y) { return F.SequenceReverse(y, lengths); };
    auto both = F.concat({.dim = 2}, forward(steps), turned(backward(turned(steps))));
    return output(F.transpose(both, {1, 0, 2}));
  }

  nn::Embedding embedding;
  rnn::LSTM forward, backward;
  nn::Dense output;
};

// How often a word with tag i was given tag j.
NDArray confusion(const Tagger& net, const DataLoader& loader) {
  metric::ConfusionMatrix counts(int64_t(tags.size()) + 1);  // the last row: padding
  for (Batch& batch : loader.sync()) {
    const NDArray tag = nd.argmax(net(batch[0], batch[2]), {.axis = 2});
    counts.update(nd.where(batch[1] < 0, nd.full_like(batch[1], double(tags.size())), batch[1]).reshape({-1}),
                  tag.reshape({-1}));
  }
  return counts.matrix();
}

int main(int argc, char** argv) {
  random::seed(7);
  Tagger net;
  net.initialize(init::Xavier());
  net.hybridize();
  gluon::Trainer trainer(net.collect_params(), optimizer::Adam({.learning_rate = 0.01}));
  const gluon::loss::SoftmaxCrossEntropyLoss loss_fn({.ignore_label = -1});
  gluon::TrainingStep step([&](auto x, auto y, auto lengths) { return loss_fn(net(x, lengths), y); }, trainer);
  const DataLoader train = batches(sentences(1000, 1), true), unseen = batches(sentences(300, 2), false);
  for (int epoch = 1; epoch <= (argc > 1 ? std::stoi(argv[1]) : 3); ++epoch) {
    metric::Loss loss;
    for (Batch& batch : train.sync()) loss.update({}, step(batch[0], batch[1], batch[2]));
    fmt::print("epoch {}: loss {:.4f}\n", epoch, loss.get().second);
  }

  const auto counts = confusion(net, unseen).asvector<double>();
  const size_t k = tags.size(), row = k + 1;
  double right = 0, all = 0;
  for (size_t i = 0; i < k; ++i) {
    double given = 0, is = 0;
    for (size_t j = 0; j < k; ++j) is += counts[i * row + j], given += counts[j * row + i];
    fmt::print("{:10} F1 {:.3f}\n", tags[i], 2 * counts[i * row + i] / (is + given));
    right += counts[i * row + i];
    all += is;
  }
  fmt::print("accuracy {:.3f} of {} words\n", right / all, all);
  return right / all > 0.95 ? 0 : 1;
}
