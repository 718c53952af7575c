// Text in UTF-8 as Python splits it: lines, and the words in them.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace kaon::gluon::data::detail {

// The first byte that is not part of a character in UTF-8, or npos.
size_t find_no_utf8(std::string_view text);

// "\r\n" and "\r" to "\n", as files of text are read.
void unify_newlines(std::string& text);

// Calls fn(words) for each line that has any. Lines end as str.splitlines() says, words as str.split() does, at all
// white space of Unicode. `text` is UTF-8.
template <class F>
void for_each_line_of_words(std::string_view text, F fn);

struct Character {
  char32_t code;
  size_t bytes;  // 1 to 4; 0: no UTF-8
};
Character character_at(std::string_view text, size_t at);
bool ends_line(char32_t c);
bool is_space(char32_t c);

template <class F>
void for_each_line_of_words(std::string_view text, F fn) {
  std::vector<std::string_view> words;
  size_t begin = 0;
  const auto end_word = [&](size_t at) {
    if (at > begin) words.push_back(text.substr(begin, at - begin));
  };
  const auto end_line = [&] {
    if (!words.empty()) fn(words);
    words.clear();
  };
  for (size_t at = 0; at < text.size();) {
    const Character c = character_at(text, at);
    const bool is_end = ends_line(c.code);
    if (is_end || is_space(c.code)) {
      end_word(at);
      begin = at + c.bytes;
    }
    if (is_end) end_line();
    at += c.bytes;
  }
  end_word(text.size());
  end_line();
}

}  // namespace kaon::gluon::data::detail
