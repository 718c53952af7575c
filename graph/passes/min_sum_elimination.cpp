#include "kaon/graph/passes/min_sum_elimination.h"

#include <algorithm>
#include <limits>

namespace kaon::graph {
namespace {

constexpr size_t most_entries = size_t(1) << 18;

size_t entry_of(const CostTable& t, std::span<const uint8_t> choices, std::span<const uint8_t> num_choices) {
  size_t at = 0;
  for (uint32_t v : t.variables) at = at * num_choices[v] + choices[v];
  return at;
}

size_t entries(std::span<const uint32_t> variables, std::span<const uint8_t> num_choices) {
  size_t n = 1;
  for (uint32_t v : variables) n = std::min(n * num_choices[v], 2 * most_entries);  // without an overflow
  return n;
}

class Elimination {
 public:
  Elimination(std::span<const uint8_t> num_choices, std::vector<CostTable> tables, std::span<const uint8_t> otherwise)
      : num_choices_(num_choices), tables_(std::move(tables)), choices_(otherwise.begin(), otherwise.end()) {}

  std::vector<uint8_t> run() {
    std::vector<uint32_t> left(num_choices_.size());
    for (uint32_t v = 0; v < left.size(); ++v) left[v] = v;
    while (!left.empty()) {
      // next: a variable whose elimination leaves a small table, or the smallest
      size_t smallest = 0, least = std::numeric_limits<size_t>::max();
      for (size_t i = 0; i < left.size() && least > 27; ++i) {
        const size_t n = entries(neighbours(left[i]), num_choices_);
        if (n < least) smallest = i, least = n;
      }
      size_t chosen = smallest;
      if (least > most_entries) {  // one with the most neighbours keeps its choice
        size_t most = 0;
        for (size_t i = 0; i < left.size(); ++i) {
          const size_t n = neighbours(left[i]).size();
          if (n > most) chosen = i, most = n;
        }
        fix(left[chosen]);
      } else {
        eliminate(left[chosen]);
      }
      left.erase(left.begin() + ptrdiff_t(chosen));
    }
    // a variable depends only on those that were eliminated after it
    for (size_t i = eliminated_.size(); i-- > 0;) {
      const Eliminated& e = eliminated_[i];
      choices_[e.variable] = e.best[entry_of({e.neighbours, {}}, choices_, num_choices_)];
    }
    return std::move(choices_);
  }

 private:
  struct Eliminated {
    uint32_t variable;
    std::vector<uint32_t> neighbours;
    std::vector<uint8_t> best;  // by the neighbours' choices
  };

  static bool has(const CostTable& t, uint32_t variable) {
    return std::find(t.variables.begin(), t.variables.end(), variable) != t.variables.end();
  }
  // The variables that share a table with this one.
  std::vector<uint32_t> neighbours(uint32_t variable) const {
    std::vector<uint32_t> all;
    for (const CostTable& t : tables_) {
      if (has(t, variable)) all.insert(all.end(), t.variables.begin(), t.variables.end());
    }
    std::sort(all.begin(), all.end());
    all.erase(std::unique(all.begin(), all.end()), all.end());
    std::erase(all, variable);
    return all;
  }
  std::vector<CostTable> take_tables_of(uint32_t variable) {
    const auto first =
        std::stable_partition(tables_.begin(), tables_.end(), [&](const CostTable& t) { return !has(t, variable); });
    std::vector<CostTable> taken(std::make_move_iterator(first), std::make_move_iterator(tables_.end()));
    tables_.erase(first, tables_.end());
    return taken;
  }
  // Calls see(entry) for all choices of `variables`, with the choices in `now`.
  template <class See>
  void for_all(std::span<const uint32_t> variables, std::vector<uint8_t>& now, See&& see) const {
    for (uint32_t v : variables) now[v] = 0;
    const size_t n = entries(variables, num_choices_);
    for (size_t entry = 0; entry < n; ++entry) {
      see(entry);
      for (size_t i = variables.size(); i-- > 0;) {
        if (++now[variables[i]] < num_choices_[variables[i]]) break;
        now[variables[i]] = 0;
      }
    }
  }
  double sum(std::span<const CostTable> tables, std::span<const uint8_t> now) const {
    double total = 0;
    for (const CostTable& t : tables) total += t.costs[entry_of(t, now, num_choices_)];
    return total;
  }

  void eliminate(uint32_t variable) {
    Eliminated e{variable, neighbours(variable), {}};
    const std::vector<CostTable> mine = take_tables_of(variable);
    CostTable without{e.neighbours, {}};
    std::vector<uint8_t> now(num_choices_.size());
    for_all(e.neighbours, now, [&](size_t) {
      uint8_t best = now[variable] = choices_[variable];
      double least = sum(mine, now);
      for (uint8_t c = 0; c < num_choices_[variable]; ++c) {
        now[variable] = c;
        const double cost = sum(mine, now);
        if (cost < least) best = c, least = cost;
      }
      e.best.push_back(best);
      without.costs.push_back(least);
    });
    if (!without.variables.empty()) tables_.push_back(std::move(without));
    eliminated_.push_back(std::move(e));
  }

  void fix(uint32_t variable) {
    for (const CostTable& t : take_tables_of(variable)) {
      CostTable rest;
      std::copy_if(t.variables.begin(), t.variables.end(), std::back_inserter(rest.variables),
                   [&](uint32_t v) { return v != variable; });
      std::vector<uint8_t> now(num_choices_.size());
      now[variable] = choices_[variable];
      for_all(rest.variables, now, [&](size_t) { rest.costs.push_back(t.costs[entry_of(t, now, num_choices_)]); });
      if (!rest.variables.empty()) tables_.push_back(std::move(rest));
    }
  }

  std::span<const uint8_t> num_choices_;
  std::vector<CostTable> tables_;
  std::vector<uint8_t> choices_;
  std::vector<Eliminated> eliminated_;
};

}  // namespace

std::vector<uint8_t> min_sum_elimination(std::span<const uint8_t> num_choices, std::vector<CostTable> tables,
                                         std::span<const uint8_t> otherwise) {
  return Elimination(num_choices, std::move(tables), otherwise).run();
}

double cost_of(std::span<const uint8_t> choices, std::span<const uint8_t> num_choices,
               std::span<const CostTable> tables) {
  double total = 0;
  for (const CostTable& t : tables) total += t.costs[entry_of(t, choices, num_choices)];
  return total;
}

}  // namespace kaon::graph
