// Arrays as text, in NumPy's layout.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <ostream>

#include "kaon/ops/ndarray.h"

namespace kaon {

using namespace ops;
namespace {

constexpr int64_t summarize_above = 1000;  // elements; then only the first and last 3 of each dimension are shown
constexpr int64_t edge = 3;

struct Printer {
  const Shape& shape;
  std::vector<std::string> items;
  size_t width = 0;
  std::string out;

  bool shortens(int64_t n) const { return shape.size() > summarize_above && n > 2 * edge; }

  void print(int dim, int64_t offset, int indent) {
    if (dim == shape.ndim()) {
      out += fmt::format("{:>{}}", items[size_t(offset)], width);
      return;
    }
    int64_t n = shape[dim], stride = shape.product(dim + 1, shape.ndim());
    bool last = dim == shape.ndim() - 1;
    out += '[';
    for (int64_t i = 0; i < n; ++i) {
      if (i) {
        out += last ? " " : "\n" + std::string(size_t(indent) + 1, ' ');
      }
      if (shortens(n) && i == edge) {
        out += "...";
        i = n - edge - 1;
        continue;
      }
      print(dim + 1, offset + i * stride, indent + 1);
    }
    out += ']';
  }
};

}  // namespace

std::string to_string(const NDArray& array) {
  if (!array.defined()) return "<NDArray none>";
  Printer p{.shape = array.shape(), .items = {}, .out = {}};
  if (is_floating(array.dtype())) {
    auto values = array.asvector<double>();
    double largest = 0, smallest = INFINITY;
    bool whole = true;
    for (double v : values) {
      if (!std::isfinite(v)) continue;
      largest = std::max(largest, std::abs(v));
      if (v != 0) smallest = std::min(smallest, std::abs(v));
      whole = whole && v == std::floor(v);
    }
    bool scientific = largest >= 1e8 || (smallest < 1e-4 && largest != 0);
    for (double v : values) {
      p.items.push_back(scientific ? fmt::format("{:.6e}", v)
                        : whole    ? fmt::format("{:.0f}.", v)
                                   : fmt::format("{:.6f}", v));
      if (!std::isfinite(v)) p.items.back() = fmt::format("{}", v);
    }
  } else {
    for (int64_t v : array.asvector<int64_t>()) p.items.push_back(std::to_string(v));
  }
  for (const auto& s : p.items) p.width = std::max(p.width, s.size());
  p.print(0, 0, 0);
  std::string dims;
  for (int i = 0; i < array.ndim(); ++i) dims += (i ? "x" : "") + std::to_string(array.shape()[i]);
  return fmt::format("{}\n<NDArray {} @{}>", p.out, dims, array.device().str());
}

std::ostream& operator<<(std::ostream& out, const NDArray& array) { return out << to_string(array); }
std::ostream& operator<<(std::ostream& out, const Shape& shape) { return out << to_string(shape); }
std::ostream& operator<<(std::ostream& out, DType dtype) { return out << to_string(dtype); }
std::ostream& operator<<(std::ostream& out, Device device) { return out << to_string(device); }

}  // namespace kaon
