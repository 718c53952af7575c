// x(...), x[{...}] and x.at(...): random expressions beside NumPy's answers (tests/data/indexing.txt), as views and
// copies, recorded, in traces; errors.
#include <catch2/catch.hpp>
#include <fstream>
#include <numeric>
#include <sstream>

#include "kaon/kaon.h"

namespace indexing_test {

using namespace kaon;
using Catch::Matchers::Contains;

namespace {

std::vector<std::string> split(const std::string& text, char separator) {
  std::vector<std::string> parts;
  std::string part;
  for (std::istringstream in(text); std::getline(in, part, separator);) parts.push_back(part);
  return parts;
}
std::vector<int64_t> numbers(const std::string& text) {
  std::vector<int64_t> values;
  for (const std::string& n : split(text, ',')) values.push_back(std::stoll(n));
  return values;
}
Shape shape_of(const std::string& text) {
  Shape shape;
  for (const int64_t d : numbers(text)) shape.push_back(d);
  return shape;
}
std::string trimmed(const std::string& text) {
  const size_t begin = text.find_first_not_of(' ');
  return begin == std::string::npos ? "" : text.substr(begin);
}

struct Expression {
  Shape shape;
  std::string text;
  std::vector<NDArray> arrays;  // which the indices borrow
  ArrayPart<NDArray>::Indices indices;
  bool has_mask = false;
  Shape part_shape;
  std::vector<int64_t> part;
  Shape values_shape;
  std::vector<int64_t> after;

  explicit Expression(const std::string& line) {
    std::vector<std::string> fields = split(line, ';');
    fields.resize(6);
    for (std::string& f : fields) f = trimmed(f);
    shape = shape_of(fields[0]), text = fields[1], part_shape = shape_of(fields[2]), part = numbers(fields[3]);
    values_shape = shape_of(fields[4]), after = numbers(fields[5]);
    arrays.reserve(8);
    size_t count = 0;
    for (const std::string& i : split(text, ' ')) new (&indices[count++]) Index<NDArray>(index(i[0], i.substr(1)));
  }
  Expression(const Expression&) = delete;

  NDArray x() const { return counted(0, shape); }
  NDArray values() const { return counted(1000, values_shape); }
  NDArray part_of(const NDArray& x) const { return at(x, indices); }
  // In a trace, where the arrays are constants.
  Symbol part_of(const Symbol& x) const {
    std::vector<Symbol> constants;
    constants.reserve(8);
    return at(x, of_symbols(constants));
  }
  Symbol replaced(Symbol x) const {
    std::vector<Symbol> constants;
    constants.reserve(8);
    ArrayPart<Symbol>(x, of_symbols(constants)) = Symbol::constant(values());
    return x;
  }
  NDArray replaced(const NDArray& x) const { return ArrayPart<NDArray>(x, indices).replaced(values()); }

 private:
  static NDArray counted(int64_t first, const Shape& shape) {
    std::vector<int64_t> values(size_t(shape.size()));
    std::iota(values.begin(), values.end(), first);
    return nd.array(values, shape);
  }
  template <class A>
  static A at(const A& x, const typename ArrayPart<A>::Indices& i) {
    return x(i[0], i[1], i[2], i[3], i[4], i[5], i[6], i[7]);
  }
  ArrayPart<Symbol>::Indices of_symbols(std::vector<Symbol>& constants) const {
    ArrayPart<Symbol>::Indices result;
    for (size_t k = 0; k < indices.size(); ++k) {
      const Index<NDArray>& i = indices[k];
      result[k].kind = Index<Symbol>::Kind(i.kind), result[k].range = i.range;
      if (!i.array) continue;
      constants.push_back(Symbol::constant(*i.array));
      result[k].array = &constants.back();
    }
    return result;
  }
  Index<NDArray> index(char kind, const std::string& rest) {
    switch (kind) {
      case 'p': return std::stoll(rest);
      case 'e': return ellipsis;
      case 'n': return newaxis;
      case 'r': {
        std::optional<int64_t> at[3];
        const std::vector<std::string> parts = split(rest, ',');
        for (size_t k = 0; k < 3; ++k) {
          if (parts[k] != "_") at[k] = std::stoll(parts[k]);
        }
        return range(at[0], at[1], at[2]);
      }
      default: {
        const size_t colon = rest.find(':');
        const DType dtype = kind == 'm' ? DType::boolean : arrays.size() % 2 ? DType::int32 : DType::int64;
        has_mask |= kind == 'm';
        arrays.push_back(nd.array(numbers(rest.substr(colon + 1)), shape_of(rest.substr(0, colon)), {.dtype = dtype}));
        return arrays.back();
      }
    }
  }
};

template <class Check>
void for_each_expression(Check&& check) {
  std::ifstream in(KAON_TEST_DATA_DIR "/indexing.txt");
  int count = 0;
  for (std::string line; std::getline(in, line); ++count) {
    const Expression e(line);
    INFO("x of shape " << e.shape << ", indices " << e.text);
    check(e);
  }
  REQUIRE(count == 600);
}

}  // namespace

TEST_CASE("indexing: as NumPy") {
  for_each_expression([](const Expression& e) {
    const NDArray part = e.part_of(e.x());
    REQUIRE(part.shape() == e.part_shape);
    REQUIRE(part.asvector<int64_t>() == e.part);
  });
}

TEST_CASE("indexing: assignment as NumPy, in place, as a new array and while recording") {
  for_each_expression([](const Expression& e) {
    const NDArray x = e.x(), y = e.x(), values = e.values();
    ArrayPart<NDArray>(x, e.indices) = values;
    REQUIRE(x.asvector<int64_t>() == e.after);
    REQUIRE(ArrayPart<NDArray>(y, e.indices).replaced(values).asvector<int64_t>() == e.after);
    REQUIRE(y.asvector<int64_t>() == e.x().asvector<int64_t>());
    autograd::record([&] {
      ArrayPart<NDArray>(y, e.indices) = values;
      return nd.zeros({1});
    });
    REQUIRE(y.asvector<int64_t>() == e.after);
  });
}

TEST_CASE("indexing: gradients count how often an element is chosen") {
  for_each_expression([](const Expression& e) {
    const NDArray x = e.x().astype(DType::float32);
    NDArray leaf = x;
    leaf.attach_grad();
    const NDArray part = autograd::record([&] { return e.part_of(leaf); });
    part.backward();
    std::vector<int64_t> counts(size_t(x.size()));
    for (const int64_t at : e.part) ++counts[size_t(at)];
    REQUIRE(leaf.grad().asvector<int64_t>() == counts);
    // of a replacement: where x stays, and each value as often as it is broadcast
    NDArray values = e.values().astype(DType::float32);
    leaf.attach_grad(), values.attach_grad();
    const NDArray whole = autograd::record([&] { return ArrayPart<NDArray>(leaf, e.indices).replaced(values); });
    whole.backward();
    std::vector<int64_t> stays(size_t(x.size()), 1);
    for (const int64_t at : e.part) stays[size_t(at)] = 0;
    REQUIRE(leaf.grad().asvector<int64_t>() == stays);
    if (values.size()) {
      REQUIRE(values.grad().asvector<int64_t>() ==
              std::vector<int64_t>(size_t(values.size()), int64_t(e.part.size()) / values.size()));
    }
  });
}

TEST_CASE("indexing: in hybridized blocks") {
  int traced = 0;
  for_each_expression([&](const Expression& e) {
    if (e.has_mask || e.shape.size() == 0) return;
    gluon::nn::HybridLambda read([&](auto, auto x) { return e.part_of(x); });
    read.hybridize();
    REQUIRE(read(e.x()).template asvector<int64_t>() == e.part);
    ++traced;
    if (e.part.empty()) return;
    gluon::nn::HybridLambda write([&](auto, auto x) { return e.replaced(x); });
    write.hybridize();
    REQUIRE(write(e.x()).template asvector<int64_t>() == e.after);
  });
  CHECK(traced > 400);
}

TEST_CASE("indexing: views and copies") {
  const NDArray x = nd.arange(24).reshape({2, 3, 4});
  x(1, range(1, 3)) += 100;  // NOLINT: one after another in memory, so a view
  CHECK(x(1, 1, 0).asscalar<float>() == 116);
  NDArray column = x(ellipsis, 0);
  column += 1000;  // a copy
  CHECK(x(0, 0, 0).asscalar<float>() == 0);
  CHECK(x[{1, 0}].shape() == Shape(2, 3, 4));
  CHECK(x[{1, 0}](0, 0, 0).asscalar<float>() == 12);
  CHECK(x(newaxis, ellipsis, newaxis).shape() == Shape(1, 2, 3, 4, 1));
  CHECK(x(mask(x > 117)).asvector<int>() == std::vector<int>{118, 119, 120, 121, 122, 123});
  x.at(mask(x > 117)) = -1;
  CHECK(x.sum().asscalar<float>() == nd.sum(x).asscalar<float>());
  CHECK(x(mask(x < 0)).shape() == Shape(6));
  x.at(0, range(), 1) += nd.array({10, 20, 30});
  CHECK(x(0, range(), 1).asvector<int>() == std::vector<int>{11, 25, 39});
  x.at(nd.array({0, 0}, {2}, {.dtype = DType::int32}), 0, 0) += 5;  // the last one counts, as in NumPy
  CHECK(x(0, 0, 0).asscalar<float>() == 5);
}

TEST_CASE("indexing: errors") {
  const NDArray x = nd.zeros({2, 3});
  CHECK_THROWS_WITH(x(2), Contains("[index] position 2 is out of range for axis 0 of an array of shape (2, 3)"));
  CHECK_THROWS_WITH(x(0, 0, 0), Contains("[index] indices for 3 axes of an array of shape (2, 3)"));
  CHECK_THROWS_WITH(x(ellipsis, ellipsis),
                    Contains("more than one ellipsis") && Contains("called at indexing_test.cpp:"));
  CHECK_THROWS_WITH(x(range(0, 1, 0)), Contains("[index] step"));
  CHECK_THROWS_WITH(x(x > 0), Contains("[index] positions must be integers, got an array of float32"));
  CHECK_THROWS_WITH(x(nd.zeros({3}, {.dtype = DType::boolean})),
                    Contains("a mask of shape (3,) does not fit at axis 0"));
  CHECK_THROWS_AS(x(mask(x), nd.array({1}, {1}, {.dtype = DType::int64})), IndexError);
  CHECK_THROWS_WITH(x(mask(x[0](range(2))), nd.array({1}, {1}, {.dtype = DType::int64})),
                    Contains("a mask beside another array"));
  CHECK_THROWS_WITH(x.at(0) = nd.zeros({2}), Contains("[index] values of shape (2,) cannot be broadcast to (3,)"));
  CHECK_THROWS_AS(x(NDArray()), StateError);
  const NDArray outside = x(nd.array({0, 5}, {2}, {.dtype = DType::int64}));
  CHECK_THROWS_AS(outside.wait_to_read(), IndexError);
  NDArray leaf = nd.zeros({2, 3});
  leaf.attach_grad();
  CHECK_THROWS_AS(autograd::record([&] {
                    leaf.at(0) = 1;
                    return leaf * 2;
                  }),
                  StateError);
}

TEST_CASE("indexing: an array assigned to a part of itself is read first") {
  const auto fresh = [] { return nd.arange(6, {.dtype = DType::int64}); };
  const std::vector<int64_t> reversed{5, 4, 3, 2, 1, 0};
  NDArray x = fresh();
  x.at(range({}, {}, -1)) = x;
  CHECK(x.asvector<int64_t>() == reversed);
  x = fresh();
  x.at(nd.array(reversed, {6}, {.dtype = DType::int64})) = x;
  CHECK(x.asvector<int64_t>() == reversed);
  x = fresh().reshape({2, 3});
  x.at(range(), range({}, {}, -1)) = x;
  CHECK(x.asvector<int64_t>() == std::vector<int64_t>{2, 1, 0, 5, 4, 3});
  x = fresh();
  x.at(range(1, 6)) = x(range(0, 5));
  CHECK(x.asvector<int64_t>() == std::vector<int64_t>{0, 0, 1, 2, 3, 4});
}

TEST_CASE("indexing: positions on all axes beside new axes, and arrays of no positions, have NumPy's shapes") {
  const NDArray x = nd.array({5, 6}), y = nd.arange(12).reshape({3, 4});
  CHECK(x(0, newaxis, newaxis).shape() == Shape(1, 1));
  CHECK(autograd::record([&] { return (x * 1)(0, newaxis, newaxis); }).shape() == Shape(1, 1));
  gluon::nn::HybridLambda net([](auto, auto x) { return x(0, newaxis, newaxis); });
  net.hybridize();
  CHECK(net(x).shape() == Shape(1, 1));
  CHECK(y(0, newaxis, 1).shape() == Shape(1));
  const NDArray none = nd.zeros({0}, {.dtype = DType::int32});
  const NDArray column = nd.array(std::vector<int32_t>{1, 2}, {2, 1}, {.dtype = DType::int32});
  CHECK(y(none, column).shape() == Shape(2, 0));
  CHECK(y(range(), range(2, 3)).shape() == Shape(3, 1));
  NDArray z = nd.zeros({3, 1, 2});
  z(range(), range({}, {}, -1)) += 1;  // a view: the axis has one element
  CHECK(z.sum().asscalar<float>() == 6);
}

TEST_CASE("indexing: while gradients are recorded, arrays without one still have views") {
  NDArray stats = nd.zeros({2, 3}), w = nd.ones({3});
  w.attach_grad();
  const NDArray loss = autograd::record([&] {
    NDArray row = stats[0];
    row += 5;
    stats.slice(1, 2).assign(7);
    stats(0, range(0, 1)) += 1;
    NDArray flat = stats.reshape({6});
    flat(range(5, 6)).assign(9);
    return (w[0] + w(range(1, 3)).sum()) * 2;
  });
  loss.backward();
  CHECK(stats.asvector<float>() == std::vector<float>{6, 5, 5, 7, 7, 9});
  CHECK(w.grad().asvector<float>() == std::vector<float>{2, 2, 2});
}

TEST_CASE("indexing: a trace updates what a mask chooses by a number") {
  gluon::nn::HybridLambda net([](auto, auto x) {
    x.at(mask(x > 2)) *= 10;
    x.at(mask(x == 1), ellipsis) -= 1;
    return x;
  });
  const NDArray x = nd.array({{1, 2}, {3, 4}});
  net.hybridize();
  CHECK(net(x).asvector<float>() == std::vector<float>{0, 2, 30, 40});
}

}  // namespace indexing_test
