// Text files whose lines have fields with tabs between them.
#pragma once

#include <fmt/format.h>

#include <cerrno>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <vector>

#include "kaon/engine/error.h"

namespace kaon::gluon::data {

namespace detail {

// Calls fn(line, number) for each line that is not empty, without blanks at its end. Blocks. Throws IoError.
template <class F>
void for_each_line(const std::filesystem::path& file, F fn) {
  std::ifstream in(file);
  if (!in) throw IoError(fmt::format("[recordio] {}: cannot open: {}", file.string(), std::strerror(errno)));
  std::string line;
  for (int64_t number = 1; std::getline(in, line); ++number) {
    while (!line.empty() && (line.back() == '\r' || line.back() == ' ' || line.back() == '\t')) line.pop_back();
    if (!line.empty()) fn(std::string_view(line), number);
  }
}

template <class T>
bool is_number(std::string_view text, T& number) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size();
}

inline std::vector<std::string_view> fields_of(std::string_view line) {
  std::vector<std::string_view> fields;
  for (size_t tab; (tab = line.find('\t')) != line.npos; line.remove_prefix(tab + 1))
    fields.push_back(line.substr(0, tab));
  fields.push_back(line);
  return fields;
}

}  // namespace detail
}  // namespace kaon::gluon::data
