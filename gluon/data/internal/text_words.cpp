#include "kaon/gluon/data/internal/text_words.h"

#include <cstdint>

namespace kaon::gluon::data::detail {

Character character_at(std::string_view text, size_t at) {
  const auto byte = [&](size_t i) { return uint8_t(text[at + i]); };
  const uint8_t first = byte(0);
  if (first < 0x80) return {first, 1};
  const size_t bytes = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
  if (first < 0xc2 || first > 0xf4 || at + bytes > text.size()) return {0, 0};
  char32_t code = first & (0x7f >> bytes);
  for (size_t i = 1; i < bytes; ++i) {
    if ((byte(i) & 0xc0) != 0x80) return {0, 0};
    code = code << 6 | (byte(i) & 0x3f);
  }
  constexpr char32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
  if (code < least[bytes] || code > 0x10ffff || (code >= 0xd800 && code < 0xe000)) return {0, 0};
  return {code, bytes};
}

size_t find_no_utf8(std::string_view text) {
  for (size_t at = 0; at < text.size();) {
    const Character c = character_at(text, at);
    if (c.bytes == 0) return at;
    at += c.bytes;
  }
  return text.npos;
}

void unify_newlines(std::string& text) {
  size_t to = 0;
  for (size_t from = 0; from < text.size(); ++from) {
    const bool is_return = text[from] == '\r';
    if (is_return && from + 1 < text.size() && text[from + 1] == '\n') continue;
    text[to++] = is_return ? '\n' : text[from];
  }
  text.resize(to);
}

bool ends_line(char32_t c) {
  return (c >= 0x0a && c <= 0x0d) || (c >= 0x1c && c <= 0x1e) || c == 0x85 || c == 0x2028 || c == 0x2029;
}

bool is_space(char32_t c) {
  return ends_line(c) || c == 0x09 || c == 0x1f || c == 0x20 || c == 0xa0 || c == 0x1680 ||
         (c >= 0x2000 && c <= 0x200a) || c == 0x202f || c == 0x205f || c == 0x3000;
}

}  // namespace kaon::gluon::data::detail
