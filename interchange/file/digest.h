// A digest of the contents of a file, which names it.
#pragma once

#include <fmt/format.h>

#include <bit>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

namespace kaon::interchange {

// 64 bits of the contents. No protection against contents that are made to have the same one.
class Digest {
 public:
  void add(std::string_view bytes) {
    uint64_t word = 0;
    for (; bytes.size() >= sizeof word; bytes.remove_prefix(sizeof word)) {
      std::memcpy(&word, bytes.data(), sizeof word);
      add(word);
    }
    word = 0;
    if (!bytes.empty()) std::memcpy(&word, bytes.data(), bytes.size());
    add(word);
  }
  void add(uint64_t word) {
    word = std::rotl(word * 0x87c37b91114253d5, 31) * 0x4cf5ad432745937f;
    state_ = std::rotl(state_ ^ word, 27) * 5 + 0x52dce729;
  }
  std::string text() const {
    uint64_t h = state_;
    h = (h ^ h >> 33) * 0xff51afd7ed558ccd;
    h = (h ^ h >> 33) * 0xc4ceb9fe1a85ec53;
    return fmt::format("{:016x}", h ^ h >> 33);
  }

 private:
  uint64_t state_ = 0;
};

}  // namespace kaon::interchange
