// Operators on arrays so large that kernels treat many elements at once, against plain loops.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include "kaon/ops/functions.h"

namespace long_rows_test {

using namespace kaon;

namespace {

using Doubles = std::vector<double>;
using Indices = std::vector<int64_t>;

constexpr double inf = std::numeric_limits<double>::infinity(), nan_ = std::numeric_limits<double>::quiet_NaN();

NDArray numbers(const Shape& shape, DType dtype = DType::float32, int64_t low = -50, int64_t high = 50) {
  return nd.cast(nd.random_randint(low, high, shape, {.dtype = DType::int64}), dtype);
}

// Sums or products along the middle of (outer, n, inner), in double; of small integers these are exact.
template <class F>
Doubles running(Doubles x, int64_t n, int64_t inner, bool reverse, const F& f) {
  const int64_t lines = int64_t(x.size()) / n;
  for (int64_t line = 0; line < lines; ++line) {
    const int64_t first = line / inner * n * inner + line % inner;
    for (int64_t k = 1; k < n; ++k) {
      const int64_t at = reverse ? n - 1 - k : k;
      double& y = x[size_t(first + at * inner)];
      y = f(x[size_t(first + (reverse ? at + 1 : at - 1) * inner)], y);
    }
  }
  return x;
}

}  // namespace

TEST_CASE("long rows: running sums and products of lines side by side") {
  for (const Shape& shape : {Shape(300, 1, 37), Shape(9, 1, 5003), Shape(1, 1, 20001), Shape(3, 50, 7)}) {
    for (DType dtype : {DType::float32, DType::int32, DType::int64, DType::float64}) {
      for (bool reverse : {false, true}) {
        INFO(shape.str() << " " << name_of(dtype) << (reverse ? " reverse" : ""));
        const NDArray x = numbers(shape, dtype);
        const int axis = shape[1] == 1 ? 2 : 1;
        const int64_t inner = shape[1] == 1 ? 1 : shape[2];
        const Doubles want = running(x.asvector<double>(), shape[axis], inner, reverse, std::plus<>());
        CHECK(nd._scan(x, {.axis = axis, .reverse = reverse}).asvector<double>() == want);
      }
    }
    const NDArray signs = nd.sign(numbers(shape) + 0.5);
    CHECK(nd.cumprod(signs, {.axis = 2}).asvector<double>() ==
          running(signs.asvector<double>(), shape[2], 1, false, std::multiplies<>()));
  }
}

TEST_CASE("long rows: largest so far and where it is", "[unsanitized]") {
  for (const Shape& shape : {Shape(70001), Shape(40, 1000)}) {
    const NDArray x = numbers(shape);
    const std::vector<NDArray> y = nd.cummax(x, {.axis = shape.ndim() - 1});
    const Doubles from = x.asvector<double>(), values = y[0].asvector<double>();
    const Indices index = y[1].asvector<int64_t>();
    const int64_t n = shape.back();
    bool same = true;
    for (size_t i = 0; i < from.size(); ++i) {
      const size_t row = i - i % size_t(n);
      size_t best = row;
      for (size_t k = row; k <= i; ++k) best = from[k] >= from[best] ? k : best;
      if (i % 97 == 0) same = same && index[i] == int64_t(best - row);
      same = same && values[i] == from[row + size_t(index[i])];
    }
    CHECK(same);
  }
}

TEST_CASE("long rows: smallest so far, of rows in order and with NaN") {
  const NDArray mixed = nd.where(numbers({20, 301}) < 49, numbers({20, 301}), nd.full({20, 301}, nan_));
  for (const NDArray& x : {mixed, nd.sort(mixed), nd.sort(mixed, {.is_ascend = false}), nd.cast(mixed, DType::float64),
                           numbers({20, 301}, DType::int64)}) {
    const Doubles from = x.asvector<double>();
    Indices want(from.size());
    for (size_t i = 0; i < from.size(); ++i) {
      if (i % 301 == 0) continue;
      const double best = from[i - i % 301 + size_t(want[i - 1])];
      const bool is_new = std::isnan(from[i]) || from[i] <= best;
      want[i] = is_new ? int64_t(i % 301) : want[i - 1];
    }
    CHECK(nd.cummin(x, {.axis = 1})[1].asvector<int64_t>() == want);
  }
}

TEST_CASE("long rows: a few elements in order, from any place on") {
  for (int64_t n : {191, 192, 700, 1000, 5003}) {
    const Shape shape(5, n);
    const NDArray ties = numbers(shape), wide = numbers(shape, DType::float32, -1000000, 1000000);
    const NDArray holes = nd.where(ties < 40, wide, nd.full(shape, nan_));
    for (const NDArray& x : {ties, wide, holes, nd.sort(wide), nd.sort(wide, {.is_ascend = false}), nd.zeros(shape)}) {
      const Doubles from = x.asvector<double>();
      for (bool is_ascend : {false, true}) {
        for (int64_t k : {1, 2, 10}) {
          for (int64_t first : {int64_t(0), int64_t(5), n / 2, n - k}) {
            Indices want;
            for (int64_t row = 0; row < 5; ++row) {
              Indices order(static_cast<size_t>(n));
              std::iota(order.begin(), order.end(), 0);
              std::stable_sort(order.begin(), order.end(), [&](int64_t i, int64_t j) {
                const double a = from[size_t(row * n + i)], b = from[size_t(row * n + j)];
                const bool before = a < b || (!std::isnan(a) && std::isnan(b)),
                           after = b < a || (!std::isnan(b) && std::isnan(a));
                return is_ascend ? before : after;
              });
              want.insert(want.end(), order.begin() + first, order.begin() + first + k);
            }
            INFO(n << " elements, " << k << " from " << first << " on" << (is_ascend ? ", ascending" : ""));
            CHECK(nd._order(x, {.k = int(k), .is_ascend = is_ascend, .first = first})[1].asvector<int64_t>() == want);
          }
        }
      }
    }
  }
}

TEST_CASE("long rows: elements along an axis, indices of each kind, some beyond the axis") {
  for (const Shape& shape : {Shape(1300, 3), Shape(3, 1300)}) {
    for (DType dtype : {DType::int64, DType::int32, DType::float64}) {
      for (int64_t beyond : {0, 3}) {
        const int64_t n = shape[1], m = shape[0];
        const NDArray x = numbers(shape), index = numbers(shape, dtype, -beyond, n), added = numbers(shape);
        const Doubles from = x.asvector<double>(), more = added.asvector<double>();
        Indices at = index.asvector<int64_t>();
        Doubles taken(from.size()), put = from, sums = from;
        for (size_t i = 0; i < from.size(); ++i) {
          const size_t place = i / size_t(n) * size_t(n) + size_t((at[i] + n) % n);
          taken[i] = from[place], put[place] = more[i], sums[place] += more[i];
        }
        INFO(m << " rows of " << n << ", " << name_of(dtype) << ", from " << -beyond);
        CHECK(nd.take_along_axis(x, index, {.axis = 1}).asvector<double>() == taken);
        CHECK(nd.put_along_axis(x, index, added, {.axis = 1}).asvector<double>() == put);
        CHECK(nd.put_along_axis(x, index, added, {.axis = 1, .reduce = Scatter::add}).asvector<double>() == sums);
        const NDArray t = nd.transpose(index);
        CHECK(nd.take_along_axis(nd.transpose(x), t, {.axis = 0, .mode = IndexMode::wrap}).asvector<double>() ==
              nd.transpose(nd.array(taken, shape)).asvector<double>());
      }
    }
  }
}

TEST_CASE("long rows: slices added to none, one, two and many rows") {
  for (DType dtype : {DType::float32, DType::float16, DType::int32, DType::float64}) {
    for (int64_t inner : {1, 7, 9, 300}) {
      const NDArray x = numbers({6, inner}, dtype, -9, 9), values = numbers({9, inner}, dtype, -9, 9);
      const Indices index{5, 1, 3, 3, 5, 5, 0, 5, 5};
      Doubles want = x.asvector<double>();
      const Doubles more = values.asvector<double>();
      for (size_t j = 0; j < index.size(); ++j) {
        for (size_t i = 0; i < size_t(inner); ++i) want[size_t(index[j] * inner) + i] += more[j * size_t(inner) + i];
      }
      INFO(name_of(dtype) << " rows of " << inner);
      CHECK(nd.index_add(x, nd.array(index, Shape(9), {.dtype = DType::int64}), values).asvector<double>() == want);
    }
  }
}

TEST_CASE("long rows: halves that gate halves, as their parts do") {
  for (const auto& [shape, axis] :
       {std::pair(Shape(3, 1402), 1), std::pair(Shape(4, 50, 7), 0), std::pair(Shape(700, 2, 130), 1),
        std::pair(Shape(70, 2000), 1), std::pair(Shape(2, 2200000), 0)}) {
    for (DType dtype : {DType::float32, DType::float64}) {
      const NDArray x = numbers(shape, dtype, -9, 9);
      const std::vector<NDArray> halves = nd.split(x, 2, {.axis = axis});
      const NDArray y = nd.glu(x, {.axis = axis}), want = halves[0] * nd.sigmoid(halves[1]);
      INFO(name_of(dtype) << " " << shape.str());
      CHECK(nd.array_equal(y, want).asscalar<bool>());
    }
  }
}

TEST_CASE("long rows: a number for each row, on either side") {
  for (int64_t length : {15, 16, 17, 40, 100, 700, 1023, 1024}) {
    for (int64_t rows : {1, 3, 4100}) {
      if (rows * length > 3000000) continue;
      const NDArray x = numbers({2, rows, length}, DType::float32, -9, 9),
                    row = numbers({length}, DType::float32, 1, 9);
      const NDArray column = numbers({2, rows, 1}, DType::float32, 1, 9), whole = nd.broadcast_to(column, x.shape());
      const NDArray all = nd.broadcast_to(row, x.shape());
      const auto same = [](const NDArray& a, const NDArray& b) { return a.asvector<float>() == b.asvector<float>(); };
      INFO(rows << " rows of " << length);
      CHECK((same(x + column, x + whole) && same(column + row, whole + all)));
      CHECK((same(x - column, x - whole) && same(column - x, whole - x) && same(column - row, whole - all)));
      CHECK((same(x * column, x * whole) && same(row * column, all * whole)));
      CHECK((same(x / column, x / whole) && same(column / row, whole / all)));
      CHECK(same(nd.broadcast_maximum(x, column), nd.broadcast_maximum(x, whole)));
      CHECK(same(nd.broadcast_minimum(column, x), nd.broadcast_minimum(whole, x)));
    }
  }
}

TEST_CASE("long rows: rolled, reversed, padded and joined") {
  for (DType dtype : {DType::float32, DType::uint8, DType::float16, DType::float64}) {
    const Shape shape(3, 5, 701);
    const int64_t n = shape.size();
    const NDArray x = numbers(shape, dtype, 0, 100);
    const Doubles from = x.asvector<double>();
    const auto made = [&](const auto& source) {
      Doubles y;
      for (int64_t i = 0; i < n; ++i) y.push_back(from[size_t(source(i))]);
      return y;
    };
    INFO(name_of(dtype));
    CHECK(nd.roll(x, Shape(7)).asvector<double>() == made([&](int64_t i) { return (i + n - 7) % n; }));
    CHECK(nd.roll(x, Shape(3), Shape(2)).asvector<double>() ==
          made([](int64_t i) { return i - i % 701 + (i % 701 + 698) % 701; }));
    CHECK(nd.flip(x, Shape(2)).asvector<double>() == made([](int64_t i) { return i - i % 701 + 700 - i % 701; }));
    const NDArray joined = nd.concat({.dim = 2}, x, x);
    CHECK(nd.slice_axis(joined, 2, 701, 1402).asvector<double>() == from);
    CHECK(nd.slice_axis(joined, 2, 0, 701).asvector<double>() == from);
    const int width[] = {1, 0, 0, 2, 3, 4};
    const Doubles padded = nd.pad(x, {.pad_width = {1, 0, 0, 2, 3, 4}, .constant_value = 9}).asvector<double>();
    Doubles want;
    for (int64_t a = 0; a < 3 + width[0]; ++a) {
      for (int64_t b = 0; b < 5 + width[3]; ++b) {
        for (int64_t c = 0; c < 701 + width[4] + width[5]; ++c) {
          const bool inside = a >= 1 && b < 5 && c >= 3 && c < 704;
          want.push_back(inside ? from[size_t(((a - 1) * 5 + b) * 701 + c - 3)] : 9);
        }
      }
    }
    CHECK(padded == want);
    const NDArray grown = nd.pad(x, {.pad_width = {2, 1, 0, 0, 0, 0}, .constant_value = 9});  // whole planes
    CHECK(nd.slice_axis(grown, 0, 2, 5).asvector<double>() == from);
    CHECK(nd.slice_axis(grown, 0, 0, 2).asvector<double>() == Doubles(2 * 5 * 701, 9));
    CHECK(nd.slice_axis(grown, 0, 5, 6).asvector<double>() == Doubles(5 * 701, 9));
  }
}

TEST_CASE("long rows: pixels to planes and back, and differences") {
  for (DType dtype : {DType::float32, DType::uint8, DType::float16, DType::float64}) {
    for (int64_t width : {1, 5, 31, 103}) {
      const int64_t height = 7, area = height * width;
      const NDArray pixels = numbers({2, height, width, 3}, dtype, 0, 100);
      const NDArray planes = nd.transpose(pixels, Shape(0, 3, 1, 2));
      const Doubles from = pixels.asvector<double>(), to = planes.asvector<double>();
      Doubles want;
      for (int64_t i = 0; i < 2 * 3 * area; ++i) {
        want.push_back(from[size_t((i / (3 * area) * area + i % area) * 3 + i / area % 3)]);
      }
      INFO(name_of(dtype) << " width " << width);
      CHECK(to == want);
      CHECK(nd.transpose(planes, Shape(0, 2, 3, 1)).asvector<double>() == from);
      CHECK(nd.flip(nd.transpose(planes, Shape(0, 2, 3, 1)), Shape(2)).asvector<double>() ==
            nd.transpose(nd.flip(planes, Shape(3)), Shape(0, 2, 3, 1)).asvector<double>());
      Doubles steps;
      for (size_t i = 0; i + 1 < to.size(); ++i) {
        if (int64_t(i + 1) % width != 0) steps.push_back(to[i + 1] - to[i]);
      }
      if (dtype != DType::uint8) CHECK(nd.diff(planes).asvector<double>() == steps);
    }
  }
}

TEST_CASE("long rows: Kronecker products with rows that are repeated first") {
  for (const auto& [a, b] : {std::pair(Shape(9, 20), Shape(20, 30)), std::pair(Shape(3, 4, 10), Shape(2, 8, 20)),
                             std::pair(Shape(40, 12), Shape(3, 2, 10, 9))}) {
    const NDArray x = numbers(a), y = numbers(b), z = nd.kron(x, y);
    const Doubles u = x.asvector<double>(), v = y.asvector<double>(), got = z.asvector<double>();
    const int n = z.ndim();
    bool same = true;
    for (size_t i = 0; i < got.size(); ++i) {
      size_t rest = i, at[2] = {0, 0}, step[2] = {1, 1};
      for (int d = n - 1; d >= 0; --d) {
        const int da = d - n + a.ndim(), db = d - n + b.ndim();
        const size_t size[2] = {da < 0 ? 1 : size_t(a[da]), db < 0 ? 1 : size_t(b[db])};
        const size_t here = rest % (size[0] * size[1]);
        rest /= size[0] * size[1];
        at[0] += here / size[1] * step[0], at[1] += here % size[1] * step[1];
        step[0] *= size[0], step[1] *= size[1];
      }
      same = same && got[i] == u[at[0]] * v[at[1]];
    }
    INFO(a.str() << " and " << b.str());
    CHECK(same);
  }
}

TEST_CASE("long rows: few elements in order, of rows in any order") {
  constexpr int64_t n = 40000;
  std::vector<Doubles> rows{numbers({n}).asvector<double>(), Doubles(n), Doubles(n), Doubles(n, 3)};
  std::iota(rows[1].begin(), rows[1].end(), -7.0);
  for (size_t i = 0; i < n; ++i) rows[2][i] = -double(i) / 3;
  rows.push_back(rows[0]);
  for (size_t i = 100; i < n; i += 997) rows[4][i] = i % 2 ? nan_ : i % 4 ? -inf : inf;
  rows.push_back(Doubles(n, nan_));
  rows[5][17] = 1;
  for (const Doubles& row : rows) {
    for (DType dtype : {DType::float32, DType::float64, DType::int32}) {
      const bool is_real = dtype != DType::int32;
      if (!is_real && (&row == &rows[4] || &row == &rows[5])) continue;
      const NDArray x = nd.array(row, {n}, {.dtype = dtype});
      const Doubles from = x.asvector<double>();
      for (bool is_ascend : {false, true}) {
        Indices order(n);
        std::iota(order.begin(), order.end(), 0);
        std::stable_sort(order.begin(), order.end(), [&](int64_t i, int64_t j) {
          const double a = from[size_t(i)], b = from[size_t(j)];
          const bool a_larger = std::isnan(a) ? !std::isnan(b) : a > b;
          const bool b_larger = std::isnan(b) ? !std::isnan(a) : b > a;
          return is_ascend ? b_larger : a_larger;
        });
        for (int k : {1, 10, 600}) {
          INFO("row " << &row - rows.data() << " " << name_of(dtype) << " k " << k << " ascending " << is_ascend);
          const std::vector<NDArray> y = nd._order(x, {.k = k, .is_ascend = is_ascend});
          CHECK(y[1].asvector<int64_t>() == Indices(order.begin(), order.begin() + k));
        }
      }
    }
  }
}

TEST_CASE("long rows: integers counted and told apart by a table or by sorting") {
  for (int64_t limit : {3, 100, 5000, 1 << 20}) {
    const NDArray x = numbers({5003}, DType::int64, 0, limit);
    const Indices from = x.asvector<int64_t>();
    Indices count(size_t(*std::max_element(from.begin(), from.end())) + 1), values, first, which, times;
    for (int64_t v : from) ++count[size_t(v)];
    CHECK(nd.bincount(x).asvector<int64_t>() == count);
    for (size_t v = 0; v < count.size(); ++v) {
      if (count[v] == 0) continue;
      values.push_back(int64_t(v)), times.push_back(count[v]);
      first.push_back(std::find(from.begin(), from.end(), int64_t(v)) - from.begin());
    }
    for (int64_t v : from) which.push_back(std::lower_bound(values.begin(), values.end(), v) - values.begin());
    for (int64_t shift : {int64_t(0), int64_t(-70)}) {
      const std::vector<NDArray> y = nd.unique(x + double(shift));
      Indices moved = values;
      for (int64_t& v : moved) v += shift;
      CHECK(y[0].asvector<int64_t>() == moved);
      CHECK(y[1].asvector<int64_t>() == first);
      CHECK(y[2].asvector<int64_t>() == which);
      CHECK(y[3].asvector<int64_t>() == times);
    }
  }
}

}  // namespace long_rows_test
