// Numbers that follow from sizes, found from what they are for some sizes.
#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <vector>

namespace kaon::onnx::exporting {

using Sizes = std::vector<int64_t>;  // of the names

// factor floor(sum / divisor) + offset, where the sum is linear in each size and nowhere negative.
struct Formula {
  // How often each product of sizes counts: term i is that of the sizes whose bits are set in i.
  std::vector<int64_t> terms;
  int64_t divisor = 1, factor = 1, offset = 0;

  bool is_constant() const;
  int64_t operator()(const Sizes& sizes) const;
  friend auto operator<=>(const Formula&, const Formula&) = default;
};

// Finds the formula of numbers that are known for certain sizes. The first of these are the corners: corner i has, for
// each name whose bit is set in i, the least size plus `step`, and the least size for the others.
class Fitting {
 public:
  Fitting(std::vector<Sizes> sizes, int64_t step);
  // Nothing where no formula gives all of the values, and where these leave it open which one does.
  std::optional<Formula> operator()(const std::vector<int64_t>& values) const;
  size_t names() const { return sizes_[0].size(); }

 private:
  std::optional<Formula> linear(const std::vector<int64_t>& values) const;
  std::optional<Formula> rounded(const std::vector<int64_t>& values, size_t name) const;
  bool holds(const Formula& formula, const std::vector<int64_t>& values) const;

  std::vector<Sizes> sizes_;
  int64_t step_;
};

}  // namespace kaon::onnx::exporting
