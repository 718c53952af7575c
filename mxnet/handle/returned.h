// Lists that C functions give out by pointer: kept for the thread until its next call that returns a list of that kind.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace kaon::mxnet {

// Thread safety: one thread.
class ReturnedTexts {
 public:
  void set(std::vector<std::string> texts) {
    texts_ = std::move(texts);
    pointers_.clear();
    for (const std::string& t : texts_) pointers_.push_back(t.c_str());
    pointers_.push_back(nullptr);  // so that an empty list has an address too
  }
  const char** data() { return pointers_.data(); }
  uint32_t size() const { return uint32_t(texts_.size()); }

 private:
  std::vector<std::string> texts_;
  std::vector<const char*> pointers_;
};

struct Returned {
  std::string text;
  ReturnedTexts texts;
  std::vector<void*> handles;
  std::vector<int> numbers;
};

// Of this thread.
Returned& returned();

}  // namespace kaon::mxnet
