// Texts as numbers: a vocabulary, and datasets for language models.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "kaon/engine/api.h"
#include "kaon/gluon/data/dataset.h"

namespace KAON_API kaon {
namespace gluon::data::text {

// How often each token comes.
using TokenCounts = std::map<std::string, int64_t>;

// Of the tokens between two delimiters, of which nothing is counted.
KAON_API TokenCounts count_tokens_from_str(std::string_view text, char token_delim = ' ', char seq_delim = '\n');

struct VocabularyOptions {
  std::optional<int64_t> most_freq_count{};  // as many counted tokens at most
  int64_t min_freq = 1;                      // rarer tokens are left out
  std::string unknown_token = "<unk>";
  std::vector<std::string> reserved_tokens{};
};

// Numbers of tokens: 0 is the unknown token, then come the reserved ones, then those that were counted, the most
// frequent first and of equally frequent ones the smaller first (in UTF-8). A handle; thread safety: immutable.
class Vocabulary {
 public:
  // Throws ValueError for a min_freq below 1, a negative most_freq_count, and reserved tokens that come twice or are
  // the unknown token.
  explicit Vocabulary(const TokenCounts& counts = {}, const VocabularyOptions& options = {});

  int64_t size() const;
  int64_t to_index(std::string_view token) const;  // 0 for a token that is not in it
  std::vector<int64_t> to_indices(const std::vector<std::string>& tokens) const;
  const std::string& to_token(int64_t index) const;  // throws IndexError
  std::vector<std::string> to_tokens(const std::vector<int64_t>& indices) const;
  const std::vector<std::string>& idx_to_token() const;
  const std::string& unknown_token() const { return idx_to_token()[0]; }
  const std::vector<std::string>& reserved_tokens() const;

 private:
  struct Data;
  std::shared_ptr<const Data> data_;
};

struct WikiTextOptions {
  std::string segment = "train";  // or "validation", "test"
  std::optional<Vocabulary> vocab{};
  int64_t seq_len = 35;  // tokens of a sample, wherever sentences end
};

// Reads wiki.train.tokens, wiki.valid.tokens or wiki.test.tokens in `root`, or in its folder wikitext-2: MXNet's
// gluon.contrib.data.text. The words of each line that has any, then "<eos>", one line after the other. Sample i is
// seq_len of these numbers and those that follow them by one place, both int32 (seq_len,); what is left at the end is
// left out. Without a vocabulary it has one of the words of this segment, with "<eos>" reserved; for the others, pass
// on that of the first. Blocks at the call. Throws IoError for a missing file and for one that is not UTF-8,
// ValueError for another segment and a seq_len below 1.
class WikiText : public Dataset {
 public:
  const Vocabulary& vocabulary() const { return vocabulary_; }
  const TokenCounts& frequencies() const { return *frequencies_; }  // of the segment

 protected:
  struct Read;
  explicit WikiText(Read read);

 private:
  Vocabulary vocabulary_;
  std::shared_ptr<const TokenCounts> frequencies_;
};

class WikiText2 : public WikiText {
 public:
  explicit WikiText2(const std::filesystem::path& root, const WikiTextOptions& options = {});
};
// The same of the folder wikitext-103.
class WikiText103 : public WikiText {
 public:
  explicit WikiText103(const std::filesystem::path& root, const WikiTextOptions& options = {});
};

}  // namespace gluon::data::text
}  // namespace kaon
