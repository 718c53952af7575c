// Lists that C functions give out by pointer: kept for the thread until its next call that returns a list of that kind.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "kaon/ops/shape.h"

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

// Shapes as a list of lists, -1 for a rank that is not known.
class ReturnedShapes {
 public:
  void set(const std::vector<Shape>& shapes, int64_t unknown) {
    dims_.clear();
    ndims_.clear();
    pointers_.clear();
    for (const Shape& s : shapes) {
      std::vector<int>& dims = dims_.emplace_back();
      for (const int64_t d : s) dims.push_back(int(d < 0 ? unknown : d));
      ndims_.push_back(s.ndim() < 0 ? int(unknown) : s.ndim());
    }
    for (const std::vector<int>& d : dims_) pointers_.push_back(d.data());
  }
  uint32_t size() const { return uint32_t(ndims_.size()); }
  const int* ndims() const { return ndims_.data(); }
  const int** data() { return pointers_.data(); }

 private:
  std::vector<std::vector<int>> dims_;
  std::vector<int> ndims_;
  std::vector<const int*> pointers_;
};

struct Returned {
  std::string text;
  ReturnedTexts texts;
  std::vector<void*> handles;
  std::vector<int> numbers;
  ReturnedShapes arguments, outputs, auxiliary_states;  // of inference: valid together
};

// Of this thread.
Returned& returned();

}  // namespace kaon::mxnet
