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
  std::vector<int64_t>
      terms;  // of each product of sizes, by the bits of which sizes are its factors: how often it counts
  int64_t divisor = 1, factor = 1, offset = 0;

  bool is_constant() const;
  int64_t operator()(const Sizes& sizes) const;
  friend auto operator<=>(const Formula&, const Formula&) = default;
};

// For numbers of which there is one for each of certain sizes. The first of these are the corners: each name's least
// size or the one that is `step` larger, by the bits of which are.
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
