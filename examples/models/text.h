// A text as numbers: what the examples of language models read.
#pragma once

#include <fmt/format.h>
#include <kaon/kaon.h>

#include <fstream>
#include <iterator>
#include <map>
#include <string>
#include <vector>

struct Text {
  std::string alphabet;      // its characters, each once
  std::vector<float> codes;  // of its characters: places in the alphabet

  // Throws IoError for a file that cannot be read, or is empty.
  explicit Text(const std::string& file) {
    std::ifstream in(file, std::ios::binary);
    const std::string characters{std::istreambuf_iterator<char>(in), {}};
    if (characters.empty()) throw kaon::IoError(fmt::format("{} cannot be read, or is empty", file));
    std::map<char, float> code;
    for (char c : characters) code[c] = 0;
    for (auto& [c, n] : code) n = float(alphabet.size()), alphabet += c;
    for (char c : characters) codes.push_back(code[c]);
  }

  float code(char c) const { return float(alphabet.find(c)); }
  // `batch` pieces of the text that follow each other, from character `first` on: (batch, length).
  kaon::NDArray pieces(int64_t first, int64_t batch, int64_t length) const {
    const auto begin = codes.begin() + first;
    return kaon::nd.array(std::vector<float>(begin, begin + batch * length), {batch, length});
  }
  std::string decode(const kaon::NDArray& tokens) const {
    std::string text;
    for (float c : tokens.asvector<float>()) text += alphabet[size_t(c)];
    return text;
  }
};
