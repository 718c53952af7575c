// MessageMemory: where what other ranks send arrives.
#pragma once

#include <cstddef>
#include <memory>

namespace kaon::comm {

// On whole cache lines, as arrays are: the kernel's copy from another rank's memory takes five times as long on an AMD
// EPYC (Zen 3) where it begins 1 to 63 bytes further on in its page than what it is copied from.
class MessageMemory {
 public:
  MessageMemory() = default;
  explicit MessageMemory(size_t bytes) : lines_(new Line[(bytes + sizeof(Line) - 1) / sizeof(Line)]) {}

  explicit operator bool() const { return lines_ != nullptr; }
  std::byte* data() const { return lines_[0].bytes; }

 private:
  struct alignas(64) Line {
    std::byte bytes[64];
  };
  std::unique_ptr<Line[]> lines_;
};

}  // namespace kaon::comm
