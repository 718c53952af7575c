// What the tests of the model zoo share: parameters under the names of files, and values from a formula.
#pragma once

#include <cmath>
#include <string>
#include <vector>

#include "kaon/gluon/internal/block_node.h"

namespace kaon::test {

using Named = std::vector<std::pair<std::string, gluon::Parameter>>;

// Parameters under the names that save_parameters writes.
inline Named dotted(const gluon::BlockNode& block, const std::string& path = "") {
  Named all;
  for (const auto& p : block.parameters) all.emplace_back(path + p.key, p.parameter);
  for (const auto& c : block.children) {
    Named inner = dotted(*c.node, path + c.key + ".");
    all.insert(all.end(), inner.begin(), inner.end());
  }
  return all;
}

// The formula of make_model_zoo.py.
inline NDArray formula(const Shape& shape, int k, double low, double high) {
  std::vector<float> v(size_t(shape.size()));
  for (size_t i = 0; i < v.size(); ++i) {
    uint32_t h = uint32_t(i) * 2654435761u + uint32_t(k + 2) * 40503u;
    h = (h ^ h >> 15) * 2246822519u;
    h ^= h >> 13;
    v[i] = float(low + (high - low) * (double(h >> 8) / (1 << 24)));
  }
  return nd.array(v, shape);
}

inline std::pair<double, double> bounds(std::string_view name, const Shape& shape) {
  if (name.ends_with(".weight")) {
    double bound = std::sqrt(6.0 / double(shape.product(1, shape.ndim())));
    return {-bound, bound};
  }
  if (name.ends_with(".gamma") || name.ends_with(".running_var")) return {0.5, 1.5};
  return {-0.25, 0.25};
}

}  // namespace kaon::test
