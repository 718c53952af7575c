#include "kaon/gluon/data/text.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <unordered_map>

#include "kaon/engine/error.h"
#include "kaon/gluon/data/internal/text_words.h"
#include "kaon/ops/array/file_io.h"

namespace kaon::gluon::data::text {

namespace fs = std::filesystem;

TokenCounts count_tokens_from_str(std::string_view text, char token_delim, char seq_delim) {
  std::unordered_map<std::string_view, int64_t> counts;
  const char delimiters[] = {token_delim, seq_delim};
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find_first_of({delimiters, 2}, begin), text.size());
    if (end > begin) ++counts[text.substr(begin, end - begin)];
    begin = end + 1;
  }
  return TokenCounts(counts.begin(), counts.end());
}

struct Vocabulary::Data {
  std::vector<std::string> tokens, reserved;
  std::unordered_map<std::string_view, int64_t> indices;  // of the tokens
};

Vocabulary::Vocabulary(const TokenCounts& counts, const VocabularyOptions& o) {
  if (o.min_freq < 1) throw ValueError(fmt::format("[Vocabulary] min_freq must be at least 1, got {}", o.min_freq));
  if (o.most_freq_count.value_or(0) < 0) {
    throw ValueError(fmt::format("[Vocabulary] most_freq_count must not be negative, got {}", *o.most_freq_count));
  }
  auto data = std::make_shared<Data>();
  std::set<std::string_view> known{o.unknown_token};
  data->tokens.push_back(o.unknown_token);
  data->reserved = o.reserved_tokens;
  for (const std::string& token : o.reserved_tokens) {
    if (!known.insert(token).second) {
      throw ValueError(fmt::format("[Vocabulary] reserved tokens: '{}' comes twice, or is the unknown token", token));
    }
    data->tokens.push_back(token);
  }
  std::vector<const TokenCounts::value_type*> counted;
  for (const auto& entry : counts) {
    if (entry.second >= o.min_freq && !known.count(entry.first)) counted.push_back(&entry);
  }
  std::stable_sort(counted.begin(), counted.end(), [](auto* a, auto* b) { return a->second > b->second; });
  if (o.most_freq_count) counted.resize(std::min(counted.size(), size_t(*o.most_freq_count)));
  for (const auto* entry : counted) data->tokens.push_back(entry->first);
  for (size_t i = 0; i < data->tokens.size(); ++i) data->indices.emplace(data->tokens[i], int64_t(i));
  data_ = std::move(data);
}

int64_t Vocabulary::size() const { return int64_t(data_->tokens.size()); }
const std::vector<std::string>& Vocabulary::idx_to_token() const { return data_->tokens; }
const std::vector<std::string>& Vocabulary::reserved_tokens() const { return data_->reserved; }

int64_t Vocabulary::to_index(std::string_view token) const {
  const auto at = data_->indices.find(token);
  return at == data_->indices.end() ? 0 : at->second;
}

std::vector<int64_t> Vocabulary::to_indices(const std::vector<std::string>& tokens) const {
  std::vector<int64_t> indices;
  for (const std::string& token : tokens) indices.push_back(to_index(token));
  return indices;
}

const std::string& Vocabulary::to_token(int64_t index) const {
  if (index < 0 || index >= size()) {
    throw IndexError(fmt::format("[Vocabulary] expected an index from 0 to {}, got {}", size() - 1, index));
  }
  return data_->tokens[size_t(index)];
}

std::vector<std::string> Vocabulary::to_tokens(const std::vector<int64_t>& indices) const {
  std::vector<std::string> tokens;
  for (int64_t i : indices) tokens.push_back(to_token(i));
  return tokens;
}

struct WikiText::Read {
  Read(const char* name, const char* number, const fs::path& root, const WikiTextOptions& options);
  Vocabulary vocabulary;
  std::shared_ptr<const TokenCounts> frequencies;
  int64_t seq_len, samples;
  std::shared_ptr<const std::vector<int32_t>> tokens;
};

namespace {

constexpr const char* end_of_sentence = "<eos>";

fs::path find(const char* name, const char* number, const fs::path& root, const std::string& segment) {
  const std::map<std::string, std::string> files{
      {"train", "wiki.train.tokens"}, {"validation", "wiki.valid.tokens"}, {"test", "wiki.test.tokens"}};
  const auto file = files.find(segment);
  if (file == files.end()) {
    throw ValueError(fmt::format("[{}] expected the segment 'train', 'validation' or 'test', got '{}'", name, segment));
  }
  const std::string folder = fmt::format("wikitext-{}", number);
  std::error_code error;
  for (const fs::path& where : {root, root / folder}) {
    if (fs::exists(where / file->second, error)) return where / file->second;
  }
  throw IoError(
      fmt::format("[{0}] {1}: expected a file {2} in it or in its folder {3}, of {3}-v1.zip from "
                  "https://apache-mxnet.s3-accelerate.dualstack.amazonaws.com/gluon/dataset/{3}/{3}-v1.zip, found "
                  "neither",
                  name, root.string(), file->second, folder));
}

}  // namespace

WikiText::Read::Read(const char* name, const char* number, const fs::path& root, const WikiTextOptions& o)
    : seq_len(o.seq_len) {
  if (seq_len < 1) throw ValueError(fmt::format("[{}] seq_len must be at least 1, got {}", name, seq_len));
  const fs::path file = find(name, number, root, o.segment);
  std::string content;
  try {
    content = ops::read_file(file);
  } catch (const IoError& e) {
    throw IoError(fmt::format("[{}] {}", name, e.what()));
  }
  if (const size_t at = data::detail::find_no_utf8(content); at != content.npos) {
    throw IoError(fmt::format("[{}] {}: expected UTF-8, got byte {:#04x} at byte {}", name, file.string(),
                              uint8_t(content[at]), at));
  }
  data::detail::unify_newlines(content);
  frequencies = std::make_shared<const TokenCounts>(count_tokens_from_str(content));
  vocabulary = o.vocab ? *o.vocab : Vocabulary(*frequencies, {.reserved_tokens = {end_of_sentence}});
  std::vector<int32_t> all;
  const int32_t end = int32_t(vocabulary.to_index(end_of_sentence));
  data::detail::for_each_line_of_words(content, [&](const std::vector<std::string_view>& words) {
    for (std::string_view word : words) all.push_back(int32_t(vocabulary.to_index(word)));
    all.push_back(end);
  });
  samples = all.empty() ? 0 : (int64_t(all.size()) - 1) / seq_len;
  tokens = std::make_shared<const std::vector<int32_t>>(std::move(all));
}

WikiText::WikiText(Read read)
    : Dataset(read.samples,
              [tokens = read.tokens, n = read.seq_len](int64_t i) {
                const int32_t* const first = tokens->data() + i * n;
                return Sample(HostTensor::view(tokens, first, Shape(n), DType::int32),
                              HostTensor::view(tokens, first + 1, Shape(n), DType::int32));
              }),
      vocabulary_(read.vocabulary),
      frequencies_(read.frequencies) {}

WikiText2::WikiText2(const fs::path& root, const WikiTextOptions& options)
    : WikiText(Read("WikiText2", "2", root, options)) {}
WikiText103::WikiText103(const fs::path& root, const WikiTextOptions& options)
    : WikiText(Read("WikiText103", "103", root, options)) {}

}  // namespace kaon::gluon::data::text
