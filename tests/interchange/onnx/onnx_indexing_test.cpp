// Elements that ONNX files choose and write by indices.
#include <catch2/catch.hpp>

#include <algorithm>
#include <functional>
#include <numeric>

#include "kaon/interchange/onnx.h"
#include "kaon/kaon.h"
#include "kaon/tests/interchange/onnx/models.h"
#include "kaon/tests/support/files.h"

namespace onnx_indexing_test {

using namespace kaon;
using namespace kaon::onnx::format;
using namespace kaon::test;

namespace {

const std::vector<int64_t> kData{40, 50, 6};

struct Tuples {
  std::vector<int64_t> dims;  // the last one is how many numbers a tuple has
  std::vector<int64_t> values;
  bool is_region;  // go through a slice in its order
};

// The tuples of all combinations of these numbers.
Tuples grid(const std::vector<std::vector<int64_t>>& axes, bool is_region) {
  Tuples t{{}, {}, is_region};
  for (const auto& a : axes) t.dims.push_back(int64_t(a.size()));
  t.dims.push_back(int64_t(axes.size()));
  size_t count = 1;
  for (const auto& a : axes) count *= a.size();
  for (size_t i = 0; i < count; ++i) {
    std::vector<int64_t> tuple(axes.size());
    size_t rest = i;
    for (size_t j = axes.size(); j-- > 0;) tuple[j] = axes[j][rest % axes[j].size()], rest /= axes[j].size();
    t.values.insert(t.values.end(), tuple.begin(), tuple.end());
  }
  return t;
}

std::vector<int64_t> range(int64_t first, int64_t count, int64_t step = 1) {
  std::vector<int64_t> all;
  for (int64_t i = 0; i < count; ++i) all.push_back(first + i * step);
  return all;
}

// The same tuples, the first two axes of their array exchanged.
Tuples turned(const Tuples& t) {
  Tuples u = t;
  std::swap(u.dims[0], u.dims[1]);
  const int64_t width = std::accumulate(t.dims.begin() + 2, t.dims.end(), int64_t(1), std::multiplies<>());
  u.values.clear();
  for (int64_t i = 0; i < u.dims[0]; ++i) {
    for (int64_t j = 0; j < u.dims[1]; ++j) {
      const auto from = t.values.begin() + (j * u.dims[0] + i) * width;
      u.values.insert(u.values.end(), from, from + width);
    }
  }
  return u;
}

std::vector<Tuples> all_tuples() {
  return {
      {{2, 1}, {1, 1}, false},                                         // the same row twice
      grid({range(1, 19, 2), range(0, 25, 2), range(1, 5)}, true),     // steps
      grid({range(-39, 30), range(0, 50), range(0, 6)}, true),         // from the end; whole axes
      grid({range(0, 40), range(7, 40), {2}}, true),                   // an axis with one number
      grid({range(1, 2), range(0, 2)}, false),                         // a few
      grid({range(39, 40, -1), range(0, 50), range(0, 3)}, false),     // backwards
      grid({range(0, 40), range(0, 50), {0, 1, 3}}, false),            // no steps of one size
      grid({range(-20, 40), range(0, 50), range(0, 3)}, false),        // over the end
      turned(grid({range(0, 40), range(0, 50), range(0, 3)}, false)),  // the axes in another order
      {{3, 2}, {0, 0, 1, 1, 2, 2}, false},                             // a diagonal
  };
}

double combine(const std::string& how, double old, double update) {
  if (how == "add") return old + update;
  if (how == "mul") return old * update;
  if (how == "max") return std::max(old, update);
  if (how == "min") return std::min(old, update);
  return update;
}

// Where row i of the tuples begins in the data, and how many elements it has.
std::pair<int64_t, int64_t> place(const Tuples& t, int64_t i) {
  const int64_t k = t.dims.back();
  int64_t at = 0, width = 1;
  for (int64_t j = 0; j < k; ++j) {
    const int64_t n = kData[size_t(j)], index = t.values[size_t(i * k + j)];
    at = at * n + (index < 0 ? index + n : index);
  }
  for (size_t j = size_t(k); j < kData.size(); ++j) width *= kData[j];
  return {at * width, width};
}

std::vector<int64_t> updates_shape(const Tuples& t) {
  std::vector<int64_t> s(t.dims.begin(), t.dims.end() - 1);
  s.insert(s.end(), kData.begin() + t.dims.back(), kData.end());
  return s;
}

Shape as_shape(const std::vector<int64_t>& dims) {
  Shape s;
  for (int64_t d : dims) s.push_back(d);
  return s;
}

}  // namespace

TEST_CASE("onnx indexing: many known tuples that go through a slice are that slice, others stay tuples", "[onnx]") {
  ScratchFolder folder;
  const NDArray x = nd.random_normal(as_shape(kData));
  const std::vector<double> old = x.asvector<double>();
  int number = 0;
  for (const Tuples& t : all_tuples()) {
    const int64_t rows = int64_t(t.values.size()) / t.dims.back();
    for (const std::string how : {"none", "add", "mul", "max", "min", "gather"}) {
      CAPTURE(number, how);
      const bool gathers = how == "gather";
      if (number == 0 && how == "none") continue;  // which of two updates is the last is not said
      Model m = onnx_model(18);
      m.graph.nodes = {gathers ? onnx_node("GatherND", {"x", "at"}, {"y"})
                               : onnx_node("ScatterND", {"x", "at", "updates"}, {"y"})};
      if (!gathers) {
        Attribute reduction;
        reduction.name = "reduction", reduction.type = Attribute::Type::string, reduction.s = how;
        m.graph.nodes[0].attributes = {reduction};
      }
      m.graph.inputs = {onnx_info("x", ElementType::float32, kData)};
      if (!gathers) m.graph.inputs.push_back(onnx_info("updates", ElementType::float32, updates_shape(t)));
      m.graph.outputs = {onnx_info("y", ElementType::float32, gathers ? updates_shape(t) : kData)};
      m.graph.initializers = {onnx_tensor<int64_t>("at", t.dims, ElementType::int64, t.values)};
      const fs::path file = folder / fmt::format("{}_{}.onnx", number, how);
      std::ofstream(file, std::ios::binary) << write_model(m);
      const NDArray updates = nd.random_normal(as_shape(updates_shape(t)));
      const std::vector<double> u = updates.asvector<double>();
      std::vector<double> expected = gathers ? std::vector<double>() : old;
      for (int64_t i = 0; i < rows; ++i) {
        const auto [begin, width] = place(t, i);
        for (int64_t e = 0; e < width; ++e) {
          if (gathers) {
            expected.push_back(old[size_t(begin + e)]);
          } else {
            double& v = expected[size_t(begin + e)];
            v = combine(how, v, u[size_t(i * width + e)]);
          }
        }
      }
      onnx::Block net = onnx::load(file);
      const std::vector<NDArray> inputs = gathers ? std::vector{x} : std::vector{x, updates};
      for (const bool hybrid : {false, true}) {
        net.hybridize(hybrid);
        const std::vector<double> y = net.forward(inputs).at(0).asvector<double>();
        REQUIRE(y.size() == expected.size());
        for (size_t e = 0; e < y.size(); ++e)
          REQUIRE(std::abs(y[e] - expected[e]) < 1e-6 * (1 + std::abs(expected[e])));
      }
      const std::string dump = net.plan()->dump();
      CHECK((dump.find(gathers ? "(gather_nd)" : "(_slice_assign)") != std::string::npos) == (gathers != t.is_region));
    }
    ++number;
  }
}

}  // namespace onnx_indexing_test
