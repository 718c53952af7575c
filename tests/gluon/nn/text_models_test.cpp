// The language models of the zoo: BERT against PyTorch's layers, GPT with and without its cache.
#include <cmath>
#include <fstream>
#include <sstream>

#include "kaon/gluon/model_zoo/bert.h"
#include "kaon/gluon/model_zoo/gpt.h"
#include "kaon/gluon/training_step.h"
#include "kaon/tests/gluon/hybrid/hybrid_support.h"
#include "kaon/tests/support/files.h"

namespace text_models_test {

using namespace kaon;
using namespace kaon::test;
namespace text = kaon::gluon::model_zoo::text;
using Catch::Matchers::Contains;

namespace {

text::GPT small_gpt(double dropout = 0) {
  text::GPT net({.vocab_size = 11, .context = 12, .units = 8, .num_layers = 2, .num_heads = 2, .dropout = dropout});
  random::seed(3);
  net.initialize(init::Uniform(0.5));
  return net;
}

// The lines of a file of numbers.
std::vector<std::vector<double>> rows(const std::string& file) {
  std::ifstream in(file);
  std::vector<std::vector<double>> all;
  for (std::string line; std::getline(in, line);) {
    std::istringstream numbers(line);
    all.emplace_back(std::istream_iterator<double>(numbers), std::istream_iterator<double>());
  }
  return all;
}

// Parameters as tests/data/bert.py makes them, in its order.
struct Filler {
  int count = 0;
  void fill(gluon::Parameter p, double more = 0) {
    ++count;
    std::vector<float> v(size_t(p.shape().size()));
    for (size_t j = 0; j < v.size(); ++j) v[j] = float(0.3 * std::sin(1.7 * count + 0.37 * double(j)) + more);
    p.set_data(nd.array(v, p.shape()));
  }
  void fill(const nn::Dense& dense) { fill(dense.weight), fill(dense.bias); }
  void fill(const nn::LayerNorm& norm) { fill(norm.gamma, 1), fill(norm.beta); }
};

}  // namespace

TEST_CASE("bert: what PyTorch's encoder gives with the same parameters", "[gluon]") {
  text::BERT net({.vocab_size = 11,
                  .max_length = 7,
                  .units = 8,
                  .hidden_size = 12,
                  .num_layers = 2,
                  .num_heads = 2,
                  .dropout = 0});
  net.initialize();
  Filler filler;
  for (const nn::Embedding* e : {&net.word_embed, &net.token_type_embed, &net.position_embed}) filler.fill(e->weight);
  filler.fill(net.embed_layer_norm);
  filler.fill(net.pooler);
  filler.fill(net.classifier);
  const auto decoder = net.decoder.collect_params();
  for (size_t i = 0; i < 4; ++i) filler.fill(decoder[i], i == 2);  // Dense, then LayerNorm
  filler.fill(net.decoder_bias);
  for (const auto& cell : net.cells) {
    for (const nn::Dense* d :
         {&cell.attention_cell.proj_query, &cell.attention_cell.proj_key, &cell.attention_cell.proj_value, &cell.proj})
      filler.fill(*d);
    filler.fill(cell.layer_norm);
    filler.fill(cell.ffn.ffn_1);
    filler.fill(cell.ffn.ffn_2);
    filler.fill(cell.ffn.layer_norm);
  }
  const NDArray tokens = nd.array({{1, 4, 9, 2, 10}, {3, 3, 7, 0, 0}});
  const NDArray types = nd.array({{0, 0, 1, 1, 1}, {0, 1, 1, 0, 0}});
  const NDArray lengths = nd.array({5, 3}), masked = nd.array({{1, 4}, {2, 0}});
  const auto expected = rows(data_file("bert.txt").string());
  REQUIRE(expected.size() == 4);
  for (int mode : {0, 1, 2}) {
    net.hybridize(mode > 0, {.exact = mode == 2});
    auto [x, pooled, follows, words] = net(tokens, types, lengths, masked);
    require_close(nd.SequenceMask(nd.transpose(x, {1, 0, 2}), lengths).reshape({-1}),
                  values(nd.SequenceMask(nd.transpose(nd.array(expected[0], {2, 5, 8}), {1, 0, 2}), lengths)), 1e-4,
                  1e-5);
    require_close(pooled, expected[1], 1e-4, 1e-5);
    require_close(follows, expected[2], 1e-4, 1e-5);
    require_close(words, expected[3], 1e-4, 1e-5);
    CHECK(same_bits(std::get<1>(net(tokens, types, lengths)), pooled));
  }
}

// A network inside another one, which is traced with it.
template <class Net>
struct Around : gluon::HybridBlock<Around<Net>> {
  explicit Around(const Net& net) : inner(this->child("inner", net)) {}
  auto hybrid_forward(auto, auto... x) { return inner(x...); }
  Net inner;
};

TEST_CASE("gpt and bert: sequences longer than the context", "[gluon]") {
  const auto refuses = [](auto net, const std::string& what, const auto&... more) {
    const auto call = [&](auto n, int64_t length) { n(nd.zeros({2, length}), more(length)...); };
    const std::string says = what + ", got 13: tokens (2, 13)", site = "called at text_models_test.cpp";
    Around around(net);
    for (int mode : {0, 1, 2}) {
      INFO(what << ", mode " << mode);
      net.hybridize(mode > 0, {.exact = mode == 2});
      CHECK_THROWS_WITH(call(net, 13), Contains(says) && Contains(site));
      CHECK_THROWS_WITH(call(around, 13), Contains(says));
      call(net, 12);  // from now on there is a trace
      CHECK_THROWS_WITH(call(net, 13), Contains(says) && Contains(site));
    }
    around.hybridize();
    CHECK_THROWS_WITH(call(around, 13), Contains(says));
    call(around, 12);  // its trace is used for any length
    CHECK_THROWS_WITH(call(around, 13), Contains(what) && Contains("(13, 2)"));
  };
  refuses(small_gpt(), "[GPT] a sequence is longer than the context: expected at most 12 tokens");
  auto gpt = small_gpt();
  gpt.hybridize();
  gpt(nd.zeros({2, 12}), gpt.begin_cache(2), nd.array({0}));
  CHECK_THROWS_WITH(gpt(nd.zeros({2, 13}), gpt.begin_cache(2), nd.array({0})),
                    Contains("[GPT]") && Contains("at most 12 tokens, got 13") && Contains("called at"));
  CHECK_THROWS_WITH(gpt(nd.zeros({12})), Contains("[GPT]") && Contains("(batch, length)") && Contains("(12,)"));
  const auto types = [](int64_t length) { return nd.zeros({2, length}); };
  const auto lengths = [](int64_t) { return nd.array({3, 1}); };
  const auto places = [](int64_t) { return nd.zeros({2, 1}); };
  text::BERT bert({.vocab_size = 11, .max_length = 12, .units = 8, .hidden_size = 8, .num_layers = 1, .num_heads = 2});
  bert.initialize();
  const std::string what = "[BERT] a sequence is longer than max_length: expected at most 12 tokens";
  refuses(bert, what, types, lengths);
  refuses(bert, what, types, lengths, places);

  gluon::Trainer trainer(gpt.collect_params(), optimizer::SGD());
  gluon::TrainingStep step([gpt](auto x) { return gpt(x).mean(); }, trainer);
  CHECK_THROWS_WITH(step(nd.zeros({2, 13})), Contains("[GPT]") && Contains("at most 12 tokens, got 13"));
  step(nd.zeros({2, 12}));
  CHECK_THROWS_WITH(step(nd.zeros({2, 13})), Contains("[GPT]") && Contains("at most 12 tokens") && Contains("(13, 2)"));
}

TEST_CASE("gpt: the cache changes nothing but the time", "[gluon]") {
  for (int threads : {0, 1, 2}) {
    Engine engine({.threads = threads});
    EngineScope scope(engine);
    auto net = small_gpt(0.2);  // which predictions do not drop
    const NDArray tokens = nd.array({{1, 4, 9, 2, 10, 3}, {3, 3, 7, 0, 5, 5}});
    for (bool hybridized : {false, true}) {
      net.hybridize(hybridized);
      const NDArray scores = net(tokens);
      CHECK(scores.shape() == Shape(2, 6, 11));
      std::vector<NDArray> cache = net.begin_cache(2, 7), parts;
      REQUIRE(cache.size() == 4);
      int64_t begin = 0;
      for (int64_t end : {3, 4, 6}) {  // several steps at once, one, and several that are not the first
        auto [part, next] = net(nd.slice_axis(tokens, 1, begin, end), cache, nd.array({double(begin)}));
        parts.push_back(part);
        cache = next;
        begin = end;
      }
      require_close(nd.concat(parts, {.dim = 1}), values(scores), 1e-4, 1e-5);
      for (double temperature : {0.0, 1.0}) {
        random::seed(5);
        const NDArray written = net.generate(tokens, 6, {.temperature = temperature});
        random::seed(5);
        CHECK(same_bits(written, net.generate(tokens, 6, {.temperature = temperature, .use_cache = false})));
        CHECK(written.shape() == Shape(2, 12));
      }
    }
    CHECK(net.generate(tokens, 0).shape() == tokens.shape());
    CHECK(net.generate(nd.zeros({0, 3}), 2).shape() == Shape(0, 5));
  }
}

TEST_CASE("gpt: what it refuses", "[gluon]") {
  const auto net = small_gpt();
  CHECK_THROWS_AS(net(nd.zeros({1, 13})), ShapeError);  // longer than the context
  CHECK_THROWS_WITH(net.generate(nd.zeros({1, 6}), 7), Contains("[GPT]") && Contains("6 and 7") && Contains("12"));
  CHECK_THROWS_WITH(net.generate(nd.zeros({1, 2}), 1, {.temperature = -1}), Contains("temperature must be 0 or more"));
  CHECK_THROWS_WITH(net.generate(nd.zeros({6}), 1), Contains("(batch, length)") && Contains("(6,)"));
  CHECK_THROWS_WITH(net(nd.zeros({1, 1}), std::vector{nd.zeros({1})}, nd.zeros({1})), Contains("expected 4, got 1"));
  const auto cell = ready(nn::MultiHeadAttentionCell(6, 2));
  CHECK_THROWS_WITH(cell(nd.zeros({1, 1, 6}), std::vector{nd.zeros({1})}, nd.zeros({1})),
                    Contains("keys and values") && Contains("got 1"));
  CHECK_THROWS_AS(text::GPT({.units = 10, .num_heads = 3}), ValueError);
}

TEST_CASE("gpt: float16 and float64, saved and loaded", "[gluon]") {
  const NDArray tokens = nd.array({{1, 4, 9, 2}});
  for (DType dtype : {DType::float16, DType::float64}) {
    auto net = small_gpt();
    net.cast(dtype);
    net.hybridize();
    const NDArray scores = net(tokens);
    CHECK(scores.dtype() == dtype);
    auto [same, cache] = net(tokens, net.begin_cache(1), nd.array({0}));
    CHECK(cache[0].dtype() == dtype);
    CHECK(cache[0].shape() == Shape(1, 2, 12, 4));
    require_close(same.astype(DType::float64), values(scores), 1e-2, 1e-2);
  }
}

}  // namespace text_models_test
