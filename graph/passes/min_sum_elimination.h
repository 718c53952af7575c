// The cheapest choice for each of many variables, where costs depend on a few of them at a time.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace kaon::graph {

// The cost of each joint choice of a few different variables. The last variable's choice varies fastest.
struct CostTable {
  std::vector<uint32_t> variables;
  std::vector<double> costs;  // not negative; infinity: impossible
};

// A choice for each variable that minimizes the sum of all tables. Variable v has choices [0, num_choices[v]). Exact,
// by variable elimination, as long as no table gets more than 2^18 entries; variables that would need more keep their
// choice in `otherwise`, as do those whose choice makes no difference.
std::vector<uint8_t> min_sum_elimination(std::span<const uint8_t> num_choices, std::vector<CostTable> tables,
                                         std::span<const uint8_t> otherwise);

// The sum of all tables for these choices.
double cost_of(std::span<const uint8_t> choices, std::span<const uint8_t> num_choices,
               std::span<const CostTable> tables);

}  // namespace kaon::graph
