// Vocabularies and WikiText beside MXNet 1.9.1: tests/data/wikitext/answers.json, which make_wikitext.py has written.
#include <boost/json.hpp>
#include <catch2/catch.hpp>

#include "kaon/gluon/data/data_loader.h"
#include "kaon/gluon/data/text.h"
#include "kaon/tests/support/files.h"

namespace text_test {

using namespace kaon;
using namespace kaon::gluon::data;
using namespace kaon::test;
using Catch::Matchers::Contains;
using Catch::Matchers::Equals;
namespace json = boost::json;

namespace {

json::value answers() { return json::parse(bytes_of(data_file("wikitext") / "answers.json")); }

text::TokenCounts counts_of(const json::value& v) {
  text::TokenCounts counts;
  for (const auto& [token, n] : v.as_object()) counts[token] = n.as_int64();
  return counts;
}

template <class T>
std::vector<T> values(const HostTensor& t) {
  return std::vector<T>(t.as<T>(), t.as<T>() + t.size());
}

std::vector<std::string> strings(const json::value& list) { return json::value_to<std::vector<std::string>>(list); }

}  // namespace

TEST_CASE("vocabulary: MXNet's indices", "[gluon]") {
  const json::value all = answers();
  const text::TokenCounts counts = counts_of(all.at("counts"));
  for (const json::value& v : all.at("vocabularies").as_array()) {
    text::VocabularyOptions options;
    const json::object& given = v.at("options").as_object();
    if (given.contains("min_freq")) options.min_freq = given.at("min_freq").as_int64();
    if (given.contains("most_freq_count")) options.most_freq_count = given.at("most_freq_count").as_int64();
    if (given.contains("unknown_token")) options.unknown_token = given.at("unknown_token").as_string();
    if (given.contains("reserved_tokens")) options.reserved_tokens = strings(given.at("reserved_tokens"));
    const text::Vocabulary vocab(counts, options);
    CHECK_THAT(vocab.idx_to_token(), Equals(strings(v.at("tokens"))));
    for (int64_t i = 0; i < vocab.size(); ++i) CHECK(vocab.to_index(vocab.to_token(i)) == i);
    CHECK(vocab.to_index("nowhere") == 0);
    CHECK(vocab.unknown_token() == options.unknown_token);
    CHECK(vocab.reserved_tokens() == options.reserved_tokens);
  }
  CHECK(text::count_tokens_from_str(" a  b\na c\n\n") == text::TokenCounts{{"a", 2}, {"b", 1}, {"c", 1}});
  CHECK(text::count_tokens_from_str("a|b;a", '|', ';') == text::TokenCounts{{"a", 2}, {"b", 1}});
  CHECK(text::count_tokens_from_str("").empty());
}

TEST_CASE("vocabulary: what it refuses", "[gluon]") {
  const text::Vocabulary vocab({{"a", 1}});
  CHECK(vocab.to_indices({"a", "b"}) == std::vector<int64_t>{1, 0});
  CHECK(vocab.to_tokens({1, 0}) == std::vector<std::string>{"a", "<unk>"});
  CHECK_THROWS_WITH(vocab.to_token(2), Contains("0 to 1") && Contains("got 2"));
  CHECK_THROWS_AS(vocab.to_tokens({-1}), IndexError);
  CHECK_THROWS_WITH(text::Vocabulary({}, {.min_freq = 0}), Contains("min_freq") && Contains("got 0"));
  CHECK_THROWS_WITH(text::Vocabulary({}, {.most_freq_count = -2}), Contains("most_freq_count") && Contains("got -2"));
  CHECK_THROWS_WITH(text::Vocabulary({}, {.reserved_tokens = {"x", "x"}}), Contains("'x' comes twice"));
  CHECK_THROWS_AS(text::Vocabulary({}, {.reserved_tokens = {"<unk>"}}), ValueError);
}

TEST_CASE("wikitext: MXNet's samples", "[gluon]") {
  const json::value all = answers();
  const text::Vocabulary of_train = text::WikiText2(data_file("wikitext")).vocabulary();
  for (const json::value& v : all.at("datasets").as_array()) {
    text::WikiTextOptions options{.segment = std::string(v.at("segment").as_string()),
                                  .seq_len = v.at("seq_len").as_int64()};
    if (!v.at("own").as_bool()) options.vocab = of_train;
    const text::WikiText2 dataset(data_file("wikitext"), options);
    INFO(options.segment << " " << options.seq_len);
    CHECK_THAT(dataset.vocabulary().idx_to_token(), Equals(strings(v.at("tokens"))));
    CHECK(dataset.frequencies() == counts_of(v.at("frequencies")));
    const json::array& samples = v.at("samples").as_array();
    REQUIRE(dataset.size() == int64_t(samples.size()));
    for (int64_t i = 0; i < dataset.size(); ++i) {
      const Sample s = dataset.get(i);
      CHECK(s.data.shape() == Shape(options.seq_len));
      CHECK_THAT(values<int32_t>(s.data), Equals(json::value_to<std::vector<int32_t>>(samples[size_t(i)].at(0))));
      CHECK_THAT(values<int32_t>(s.label), Equals(json::value_to<std::vector<int32_t>>(samples[size_t(i)].at(1))));
    }
  }
}

TEST_CASE("wikitext: folders, batches, and files that are not whole", "[gluon]") {
  ScratchFolder folder;
  const auto message = [&](const text::WikiTextOptions& options, const fs::path& root) -> std::string {
    try {
      text::WikiText103(root, options);
    } catch (const IoError& e) {
      return e.what();
    }
    return "nothing thrown";
  };
  for (const char* segment : {"train", "validation", "test"}) {
    const std::string file = "wiki." + (segment == std::string("validation") ? "valid" : std::string(segment));
    CHECK_THAT(message({.segment = segment}, folder / ""), Contains("[WikiText103]") && Contains(file + ".tokens") &&
                                                               Contains((folder / "").string()) &&
                                                               Contains("wikitext-103-v1.zip from https://"));
  }
  CHECK_THAT(message({}, folder / "nowhere"), Contains("nowhere") && Contains("found neither"));
  CHECK_THROWS_WITH(text::WikiText2(folder / "", {.segment = "valid"}),
                    Contains("'validation'") && Contains("'valid'"));
  CHECK_THROWS_WITH(text::WikiText2(folder / "", {.seq_len = 0}), Contains("seq_len") && Contains("got 0"));

  fs::create_directories(folder / "wikitext-103");
  const fs::path file = folder / "wikitext-103/wiki.train.tokens";
  const auto written = [&](const std::string& bytes) { std::ofstream(file, std::ios::binary) << bytes; };
  written("a b\nc a d\n");
  const text::WikiText103 dataset(folder / "", {.seq_len = 2});
  CHECK(dataset.vocabulary().idx_to_token() == std::vector<std::string>{"<unk>", "<eos>", "a", "b", "c", "d"});
  for (int threads : {0, 1, 2}) {
    Engine engine({.threads = threads});
    EngineScope scope(engine);
    for (Batch& batch : DataLoader(dataset, {.batch_size = 3}).sync()) {
      CHECK(batch.data.shape() == Shape(3, 2));
      CHECK(batch.data.asvector<int32_t>() == std::vector<int32_t>{2, 3, 1, 4, 2, 5});
      CHECK(batch.label.asvector<int32_t>() == std::vector<int32_t>{3, 1, 4, 2, 5, 1});
    }
  }
  for (const char* little : {"", "\n \n", "a"}) {
    written(little);
    CHECK(text::WikiText103(folder / "", {.seq_len = 2}).size() == 0);
  }
  for (const char* wrong : {"a b \xff", "a b \xc3", "a b \xe0\x80\x80", "a b \xed\xa0\x80", "a b \xf5\x80\x80\x80"}) {
    written(wrong);
    CHECK_THAT(message({}, folder / ""), Contains(file.string()) && Contains("UTF-8") && Contains("at byte 4"));
  }
  const std::string whole = bytes_of(data_file("wikitext") / "wiki.train.tokens");
  std::mt19937 random(3);
  for (int i = 0; i < 300; ++i) {  // any bytes are a text, or refused
    written(mutate(whole, random));
    try {
      const text::WikiText103 changed(folder / "", {.seq_len = 3});
      for (int64_t k = 0; k < changed.size(); ++k) CHECK(changed.get(k).label.size() == 3);
    } catch (const IoError& e) {
      CHECK_THAT(e.what(), Contains("expected UTF-8"));
    }
  }
}

}  // namespace text_test
