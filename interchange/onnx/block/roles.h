// What a model's initializers are for: which become parameters, and which of these are kept transposed.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "kaon/interchange/onnx/format/model.h"

namespace kaon::onnx::block {

// Names of initializers by what nodes take them for.
struct Roles {
  std::set<std::string> statistics;  // running ones, of normalisations
  std::set<std::string> scales;      // of quantised tensors, and tables of packed weights: constants
  std::set<std::string> factors;     // second factors of products of matrices
  std::set<std::string> others;      // what is read otherwise too
  // Nothing but a second factor. Layers of Kaon's have these transposed, so that they are kept that way: a plan would
  // transpose them in each call.
  bool is_weight(const std::string& name) const { return factors.contains(name) && !others.contains(name); }
};

Roles roles_of(const std::vector<format::Node>& nodes);

// The memory of initializers: which of them have some for themselves. Files may say otherwise.
class OwnMemory {
 public:
  // Whether no tensor before was in these bytes.
  bool add(format::Bytes bytes) {
    const auto begin = reinterpret_cast<uintptr_t>(bytes.data()), end = begin + bytes.size();
    const auto after = ranges_.lower_bound(begin);
    if (after != ranges_.end() && after->first < end) return false;
    if (after != ranges_.begin() && std::prev(after)->second > begin) return false;
    ranges_.emplace(begin, end);
    return true;
  }

 private:
  std::map<uintptr_t, uintptr_t> ranges_;
};

}  // namespace kaon::onnx::block
