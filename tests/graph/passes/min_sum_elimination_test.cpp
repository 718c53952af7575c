// The cheapest joint choice: what trying all of them finds.
#include <catch2/catch.hpp>
#include <limits>
#include <random>

#include "kaon/graph/passes/min_sum_elimination.h"

namespace min_sum_elimination_test {

using namespace kaon;
using namespace kaon::graph;

namespace {

struct Case {
  std::vector<uint8_t> num_choices;
  std::vector<CostTable> tables;
};

Case random_case(std::mt19937& random, uint32_t variables, int tables, uint32_t most_together) {
  Case c;
  for (uint32_t v = 0; v < variables; ++v) c.num_choices.push_back(uint8_t(1 + random() % 3));
  for (int t = 0; t < tables; ++t) {
    CostTable table;
    std::vector<uint32_t> all(variables);
    for (uint32_t v = 0; v < variables; ++v) all[v] = v;
    std::shuffle(all.begin(), all.end(), random);
    table.variables.assign(all.begin(), all.begin() + std::min(variables, 1 + uint32_t(random() % most_together)));
    size_t entries = 1;
    for (uint32_t v : table.variables) entries *= c.num_choices[v];
    for (size_t i = 0; i < entries; ++i) {
      table.costs.push_back(random() % 20 == 0 ? std::numeric_limits<double>::infinity() : double(random() % 1000));
    }
    c.tables.push_back(table);
  }
  return c;
}

double least_of_all(const Case& c) {
  double least = std::numeric_limits<double>::infinity();
  std::vector<uint8_t> now(c.num_choices.size());
  for (bool is_last = false; !is_last;) {
    least = std::min(least, cost_of(now, c.num_choices, c.tables));
    is_last = true;
    for (size_t v = 0; v < now.size() && is_last; ++v) {
      is_last = ++now[v] == c.num_choices[v];
      if (is_last) now[v] = 0;
    }
  }
  return least;
}

std::vector<uint8_t> zeros(const Case& c) { return std::vector<uint8_t>(c.num_choices.size()); }

}  // namespace

TEST_CASE("cheapest choice: as cheap as the best of all", "[graph]") {
  std::mt19937 random(5);
  int impossible = 0;
  for (int i = 0; i < 2000; ++i) {
    const Case c = random_case(random, 1 + uint32_t(random() % 8), int(random() % 14), 1 + uint32_t(random() % 4));
    const std::vector<uint8_t> chosen = min_sum_elimination(c.num_choices, c.tables, zeros(c));
    for (size_t v = 0; v < chosen.size(); ++v) REQUIRE(chosen[v] < c.num_choices[v]);
    REQUIRE(cost_of(chosen, c.num_choices, c.tables) == least_of_all(c));
    impossible += least_of_all(c) == std::numeric_limits<double>::infinity();
  }
  CHECK(impossible > 10);
  CHECK(impossible < 1000);
}

TEST_CASE("cheapest choice: long chains and rings of many variables", "[graph]") {
  std::mt19937 random(6);
  constexpr uint32_t n = 400;
  Case c;
  c.num_choices.assign(n, 3);
  for (uint32_t v = 0; v < n; ++v) {
    CostTable table{{v, (v + 1) % n}, {}};
    for (int i = 0; i < 9; ++i) table.costs.push_back(double(random() % 1000));
    c.tables.push_back(table);
  }
  // along the ring, once for each choice of the first variable
  double least = std::numeric_limits<double>::infinity();
  for (uint8_t first = 0; first < 3; ++first) {
    std::vector<double> best(3, std::numeric_limits<double>::infinity());
    best[first] = 0;
    for (uint32_t v = 0; v < n; ++v) {
      std::vector<double> next(3, std::numeric_limits<double>::infinity());
      for (size_t a = 0; a < 3; ++a) {
        for (size_t b = 0; b < 3; ++b) next[b] = std::min(next[b], best[a] + c.tables[v].costs[a * 3 + b]);
      }
      best = next;
    }
    least = std::min(least, best[first]);
  }
  CHECK(cost_of(min_sum_elimination(c.num_choices, c.tables, zeros(c)), c.num_choices, c.tables) == least);
}

TEST_CASE("cheapest choice: what makes no difference stays, and what would need too much keeps its choice", "[graph]") {
  const std::vector<uint8_t> two(3, 2), otherwise{1, 0, 1};
  CHECK(min_sum_elimination(two, {}, otherwise) == otherwise);
  CHECK(min_sum_elimination(two, {{{0, 2}, {5, 5, 5, 5}}}, otherwise) == otherwise);
  CHECK(min_sum_elimination(two, {{{0, 2}, {5, 5, 4, 5}}}, otherwise) == std::vector<uint8_t>{1, 0, 0});

  // everyone with everyone: 30 variables would need a table of 2^29 entries
  Case c;
  c.num_choices.assign(30, 2);
  std::mt19937 random(7);
  for (uint32_t a = 0; a < 30; ++a) {
    for (uint32_t b = a + 1; b < 30; ++b) {
      CostTable table{{a, b}, {}};
      for (int i = 0; i < 4; ++i) table.costs.push_back(double(random() % 100));
      c.tables.push_back(table);
    }
  }
  const std::vector<uint8_t> chosen = min_sum_elimination(c.num_choices, c.tables, zeros(c));
  CHECK(cost_of(chosen, c.num_choices, c.tables) < cost_of(zeros(c), c.num_choices, c.tables));
}

}  // namespace min_sum_elimination_test
