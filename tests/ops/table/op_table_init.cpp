// Rows of the operators that create arrays or draw random numbers.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>

#include "kaon/tests/ops/table/op_table.h"

namespace kaon::test {
namespace {

constexpr DType every[] = {DType::float32, DType::float64, DType::float16, DType::bfloat16, DType::uint8,
                           DType::int8,    DType::int32,   DType::int64,   DType::boolean};

// An operator without inputs whose element at position p is f(p).
template <class T, class F>
void create(Rows& rows, const T& op, const Shape& shape, F f) {
  rows.emplace_back(op, std::vector<Input>{}, [=](const Hosts&) {
    Host out = generate(shape, f);
    out.dtype = op.dtype;
    return out;
  });
}

void fill_rows(Rows& rows) {
  for (DType t : every) {
    const bool truth = t == DType::boolean;
    for (const Shape& shape : {Shape(3, 5), Shape(1, 7), Shape(0, 4)}) {
      create(rows, op::Zeros{.shape = shape, .dtype = t}, shape, [](const Shape&) { return 0.0; });
      create(rows, op::Ones{.shape = shape, .dtype = t, .ctx = cpu(0)}, shape, [](const Shape&) { return 1.0; });
      create(rows, op::Full{.shape = shape, .value = 3, .dtype = t}, shape,
             [=](const Shape&) { return truth ? 1.0 : 3.0; });
    }
    auto number = [truth](double v) { return truth ? double(v != 0) : v; };
    create(rows, op::Arange{.start = 5, .dtype = t}, {5}, [=](const Shape& p) { return number(double(p[0])); });
    create(rows, op::Arange{.start = 1, .stop = 8, .step = 3, .repeat = 2, .dtype = t}, {6},
           [=](const Shape& p) { return number(1 + 3 * double(p[0] / 2)); });
    create(rows, op::Arange{.start = 4, .stop = 1, .step = -1, .dtype = t}, {3},
           [=](const Shape& p) { return number(4 - double(p[0])); });
    create(rows, op::Arange{.start = 3, .stop = 3, .dtype = t, .ctx = cpu(0)}, {0}, [](const Shape&) { return 0.0; });
    create(rows, op::Linspace{.start = 0, .stop = 8, .num = 5, .dtype = t}, {5},
           [=](const Shape& p) { return number(2 * double(p[0])); });
    create(rows, op::Linspace{.start = 0, .stop = 10, .num = 5, .endpoint = false, .dtype = t}, {5},
           [=](const Shape& p) { return number(2 * double(p[0])); });
    create(rows, op::Linspace{.start = 7, .stop = 9, .num = 1, .dtype = t, .ctx = cpu(0)}, {1},
           [=](const Shape&) { return number(7); });
    create(rows, op::Linspace{.start = 7, .stop = 9, .num = 0, .dtype = t}, {0}, [](const Shape&) { return 0.0; });
    for (int64_t k : {0, 1, -2}) {
      create(rows, op::Eye{.N = 3, .M = 5, .k = k, .dtype = t}, {3, 5},
             [=](const Shape& p) { return double(p[1] - p[0] == k); });
      create(rows, op::Eye{.N = 3, .k = k, .dtype = t, .ctx = cpu(0)}, {3, 3},
             [=](const Shape& p) { return double(p[1] - p[0] == k); });
    }
    create(rows, op::Arange{.start = 1, .dtype = t}, {1}, [](const Shape&) { return 0.0; });
    create(rows, op::Eye{.N = 1, .dtype = t}, {1, 1}, [](const Shape&) { return 1.0; });
    create(rows, op::Eye{.N = 0, .M = 4, .dtype = t}, {0, 4}, [](const Shape&) { return 0.0; });
  }
  create(rows, op::Full{.shape = {2, 3}, .value = -1.5, .ctx = cpu(0)}, {2, 3}, [](const Shape&) { return -1.5; });
  create(rows, op::Zeros{.shape = {7}, .ctx = cpu(0)}, {7}, [](const Shape&) { return 0.0; });
  create(rows, op::Arange{.start = 0.5, .stop = 2, .step = 0.25}, {6},
         [](const Shape& p) { return 0.5 + 0.25 * double(p[0]); });
  for (const op::Arange& op : {op::Arange{.start = 0, .stop = 3, .step = 0.5, .dtype = DType::int32},
                               op::Arange{.start = 0.5, .stop = 3, .dtype = DType::uint8}}) {
    rows.emplace_back(op, std::vector<Input>{}, Reference(), RowOptions{.refused = true});
  }
  rows.emplace_back(op::Arange{.start = 5, .infer_range = true}, std::vector<Input>{}, Reference(),
                    RowOptions{.refused = true});
}

struct Moments {
  double mean, deviation, lowest, highest;
};
Moments moments(const Host& h) {
  double sum = 0, squares = 0;
  for (double v : h.values) sum += v, squares += v * v;
  const double n = double(h.size()), mean = sum / n;
  return {mean, std::sqrt(std::max(0.0, squares / n - mean * mean)),
          *std::min_element(h.values.begin(), h.values.end()), *std::max_element(h.values.begin(), h.values.end())};
}

// An operator that draws: its dtype, and for a large enough draw its mean, deviation and range.
template <class T>
void draw(Rows& rows, const T& op, DType dtype, double mean, double deviation, double low, double high) {
  RowOptions options;
  options.inspect = [=](const Hosts&, const Hosts& outputs) -> std::string {
    const Host& y = outputs[0];
    if (y.dtype != dtype || y.shape != op.shape) return "another dtype or shape";
    if (y.size() < 500) return "";
    const Moments m = moments(y);
    if (std::abs(m.mean - mean) > 0.15 * deviation) return "mean " + std::to_string(m.mean);
    if (std::abs(m.deviation - deviation) > 0.1 * deviation) return "deviation " + std::to_string(m.deviation);
    return m.lowest < low || m.highest > high ? "out of range" : "";
  };
  rows.emplace_back(op, std::vector<Input>{}, Reference(), options);
}

void random_rows(Rows& rows) {
  const double uniform = 1 / std::sqrt(12.);
  for (DType t : {DType::float32, DType::float64, DType::float16, DType::bfloat16}) {
    draw(rows, op::RandomUniform{.shape = {31, 33}, .dtype = t, .ctx = cpu(0)}, t, 0.5, uniform, 0, 1);
    draw(rows, op::RandomUniform{.low = -2, .high = 4, .shape = {31, 33}, .dtype = t}, t, 1, 6 * uniform, -2, 4);
    draw(rows, op::RandomNormal{.shape = {31, 33}, .dtype = t, .ctx = cpu(0)}, t, 0, 1, -6, 6);
    draw(rows, op::RandomNormal{.loc = 3, .scale = 0.5, .shape = {31, 33}, .dtype = t}, t, 3, 0.5, 0, 6);
  }
  for (DType t : {DType::int32, DType::int64}) {
    draw(rows, op::RandomRandint{.low = -3, .high = 8, .shape = {31, 33}, .dtype = t, .ctx = cpu(0)}, t, 2,
         std::sqrt(10.), -3, 7);
  }
  draw(rows, op::RandomUniform{.shape = {1, 7}}, DType::float32, 0, 0, 0, 0),
      draw(rows, op::RandomUniform{.shape = {0, 4}}, DType::float32, 0, 0, 0, 0);
  draw(rows, op::RandomNormal{.shape = {1, 7}}, DType::float32, 0, 0, 0, 0),
      draw(rows, op::RandomNormal{.shape = {0, 4}}, DType::float32, 0, 0, 0, 0);
  draw(rows, op::RandomRandint{.low = 0, .high = 2, .shape = {1, 7}}, DType::int32, 0, 0, 0, 0),
      draw(rows, op::RandomRandint{.low = 0, .high = 2, .shape = {0, 4}}, DType::int32, 0, 0, 0, 0);
  rows.emplace_back(op::RandomUniform{.low = 2, .high = 1, .shape = {3}}, std::vector<Input>{}, Reference(),
                    RowOptions{.refused = true});

  auto multinomial = [&](const Shape& data, std::vector<double> p, const Shape& shape, const Shape& to, DType dtype) {
    RowOptions options;
    options.inspect = [=](const Hosts&, const Hosts& outputs) -> std::string {
      const Host& y = outputs[0];
      if (y.dtype != dtype || y.shape != to) return "another dtype or shape " + y.shape.str();
      const int64_t classes = data.back(), draws = shape.size();
      for (int64_t row = 0; row < y.size() / std::max<int64_t>(1, draws); ++row) {
        std::vector<double> count(static_cast<size_t>(classes));
        double sum = 0;
        for (int64_t k = 0; k < classes; ++k) sum += p[size_t(row * classes + k)];
        for (int64_t i = 0; i < draws; ++i) ++count.at(size_t(y[size_t(row * draws + i)]));
        for (int64_t k = 0; k < classes; ++k) {
          const double want = p[size_t(row * classes + k)] / sum, got = count[size_t(k)] / double(draws);
          if (want == 0 ? got != 0 : draws > 500 && std::abs(got - want) > 0.08)
            return "frequency " + std::to_string(got);
        }
      }
      return "";
    };
    rows.emplace_back(op::SampleMultinomial{.shape = shape, .dtype = dtype}, std::vector{constant(in(data, p))},
                      Reference(), options);
  };
  multinomial({3}, {0.25, 0.25, 0.5}, {1000}, {1000}, DType::int32),
      multinomial({2, 3}, {0, 1, 1, 2, 0, 2}, {31, 33}, {2, 31, 33}, DType::float32);
  multinomial({1, 7}, std::vector<double>(7, 1), {}, {1}, DType::int64),
      multinomial({4}, {0, 0, 1, 0}, {}, {1}, DType::uint8), multinomial({0, 3}, {}, {}, {0}, DType::int32);
  rows.emplace_back(op::SampleMultinomial{.get_prob = true}, std::vector{in({3}, Fill::positive)}, Reference(),
                    RowOptions{.refused = true});

  for (const Shape& shape : {Shape(33), Shape(7, 5), Shape(1, 7), Shape(0, 4)}) {
    RowOptions options{.dtypes = every_dtype};
    options.inspect = [=](const Hosts& inputs, const Hosts& outputs) -> std::string {
      // the same rows in another order
      auto rows_of = [&](const Host& h) {
        std::vector<std::vector<double>> out;
        const int64_t n = shape[0], width = n ? shape.size() / n : 0;
        for (int64_t i = 0; i < n; ++i)
          out.emplace_back(h.values.begin() + i * width, h.values.begin() + (i + 1) * width);
        return out;
      };
      auto before = rows_of(inputs[0]), after = rows_of(outputs[0]);
      if (shape[0] > 20 && before == after && inputs[0].dtype == DType::float32) return "not shuffled";
      std::sort(before.begin(), before.end()), std::sort(after.begin(), after.end());
      return before == after ? "" : "rows are not those of the input";
    };
    rows.emplace_back(op::Shuffle{}, std::vector{in(shape)}, Reference(), options);
  }
}

}  // namespace

Rows init_rows() {
  Rows rows;
  fill_rows(rows);
  random_rows(rows);
  return rows;
}

}  // namespace kaon::test

using namespace kaon::test;

TEST_CASE("op table: creation and random numbers", "[op_table]") { check_ops(init_rows()); }
