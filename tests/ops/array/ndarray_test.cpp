// NDArray: what it prints, what shares memory, what copies, and how it is written.
#include "kaon/ops/ndarray.h"

#include <fmt/format.h>

#include <catch2/catch.hpp>
#include <sstream>

#include "kaon/graph/autograd.h"
#include "kaon/ops/functions.h"
#include "kaon/ops/random_state.h"

namespace ndarray_test {

using namespace kaon;

namespace {

using Values = std::vector<float>;

Values values(const NDArray& a) { return a.asvector<float>(); }
NDArray ramp(const Shape& shape) { return nd.arange(double(shape.size())).reshape(shape); }

}  // namespace

// --- text

TEST_CASE("array: printed as NumPy does, with shape and device", "[ndarray]") {
  const NDArray x = nd.array({{1, 2}, {3, 4}});
  CHECK(to_string(x) == "[[1. 2.]\n [3. 4.]]\n<NDArray 2x2 @cpu(0)>");
  CHECK(fmt::format("{}", x) == to_string(x));
  std::ostringstream out;
  out << x;
  CHECK(out.str() == to_string(x));
  CHECK(to_string(nd.array({1.5, -2, 10})) == "[ 1.5 -2.  10. ]\n<NDArray 3 @cpu(0)>");
  CHECK(to_string(nd.array({1, -20}, {2}, {.dtype = DType::int32})) == "[  1 -20]\n<NDArray 2 @cpu(0)>");
  CHECK(to_string(nd.array({0, 1}, {2}, {.dtype = DType::boolean})) == "[False  True]\n<NDArray 2 @cpu(0)>");
  CHECK(to_string(nd.array({1, 0.5}, {2}, {.dtype = DType::bfloat16})) == "[1.  0.5]\n<NDArray 2 @cpu(0)>");
  CHECK(to_string(nd.array({1e9, 1})) == "[1.e+09 1.e+00]\n<NDArray 2 @cpu(0)>");
  CHECK(to_string(nd.array({INFINITY, 1})) == "[inf  1.]\n<NDArray 2 @cpu(0)>");
  CHECK(to_string(ramp({2, 2, 2})) == "[[[0. 1.]\n  [2. 3.]]\n\n [[4. 5.]\n  [6. 7.]]]\n<NDArray 2x2x2 @cpu(0)>");
  CHECK(to_string(nd.zeros({0, 3})) == "[]\n<NDArray 0x3 @cpu(0)>");
  CHECK(to_string(nd.zeros({1001})) == "[0. 0. 0. ... 0. 0. 0.]\n<NDArray 1001 @cpu(0)>");
  CHECK(to_string(NDArray()) == "<NDArray none>");

  std::ostringstream facts;
  facts << x.shape() << " " << x.dtype() << " " << x.device();
  CHECK(facts.str() == "(2, 2) float32 cpu(0)");
  CHECK(fmt::format("{} {} {}", Shape(3), DType::bfloat16, gpu(1)) == "(3,) bfloat16 gpu(1)");
  CHECK(fmt::format("{:>8}|{}", Shape(), DType::boolean) == "      ()|bool");
}

// --- made from values

TEST_CASE("array: made from braces, vectors and scalars of any type", "[ndarray]") {
  const NDArray x = nd.array({1, 2, 3, 4, 5, 6}, {2, 3});
  CHECK(x.shape() == Shape(2, 3));
  CHECK(x.dtype() == DType::float32);
  CHECK(x.ndim() == 2);
  CHECK(x.size() == 6);
  CHECK(x.device() == cpu(0));
  CHECK(values(x) == Values{1, 2, 3, 4, 5, 6});
  CHECK(nd.array({1, 2, 3}).shape() == Shape(3));
  CHECK(nd.array({{1, 2, 3}, {4, 5, 6}}).shape() == Shape(2, 3));
  CHECK(nd.array(std::vector<double>{1, 2}, {2, 1}, {.dtype = DType::int64}).dtype() == DType::int64);
  CHECK(nd.array({1.9, -1.9}, {2}, {.dtype = DType::int32}).asvector<int>() == std::vector<int>{1, -1});
  CHECK(nd.array({0.1f, 2.f}, {2}, {.dtype = DType::boolean}).asvector<bool>() == std::vector<bool>{true, true});
  CHECK_THROWS_AS(nd.array({1, 2, 3}, {2, 2}), ShapeError);
  CHECK(NDArray::empty({2, 3}, DType::uint8).dtype() == DType::uint8);
}

TEST_CASE("array: values convert when they are read", "[ndarray]") {
  const NDArray x = nd.array({1.75, -2.5, 300}, {3}, {.dtype = DType::float64});
  CHECK(x.asvector<double>() == std::vector<double>{1.75, -2.5, 300});
  CHECK(x.asvector<int>() == std::vector<int>{1, -2, 300});
  CHECK(nd.array({7}).asscalar<float>() == 7);
  CHECK(nd.array({{7}}).asscalar<int64_t>() == 7);
  CHECK(nd.ones({1}, {.dtype = DType::bfloat16}).asscalar<double>() == 1);
  CHECK(nd.array({0.5, 256, 0, 2}).asvector<bool>() == std::vector<bool>{true, true, false, true});
  CHECK(nd.array({256, 0}, {2}, {.dtype = DType::int32}).asvector<bool>() == std::vector<bool>{true, false});
  // what a dtype does not hold wraps as integers do, and NaN is 0: written, read and cast alike
  const NDArray wide = nd.array({-1, 300, NAN, 1e10});
  const std::vector<int> narrow{255, 44, 0, 0};
  CHECK(nd.array({-1, 300, NAN, 1e10}, {4}, {.dtype = DType::uint8}).asvector<int>() == narrow);
  CHECK(wide.astype(DType::uint8).asvector<int>() == narrow);
  CHECK(wide.asvector<uint8_t>() == std::vector<uint8_t>{255, 44, 0, 0});
  CHECK_THROWS_AS(x.asscalar<float>(), ShapeError);
  CHECK_THROWS_AS(nd.zeros({0}).asscalar<float>(), ShapeError);
  CHECK(nd.zeros({0}).asvector<float>().empty());
}

TEST_CASE("array: astype converts, rounds to nearest even, and always copies", "[ndarray]") {
  const NDArray x = nd.array({1.00390625, 1.01171875, -0.0, 3.75});
  CHECK(x.astype(DType::bfloat16).asvector<float>() == Values{1, 1.015625, -0.0f, 3.75});
  CHECK(x.astype(DType::int32).asvector<int>() == std::vector<int>{1, 1, 0, 3});
  // between two 16-bit numbers, a little above the middle: not a tie, even where float32 would make it one
  const NDArray above = nd.array({1 + 0x1p-11 + 0x1p-30, 1 + 0x1p-8 + 0x1p-30}, {2}, {.dtype = DType::float64});
  CHECK(above.astype(DType::float16).asvector<double>()[0] == 1 + 0x1p-10);
  CHECK(above.astype(DType::bfloat16).asvector<double>()[1] == 1 + 0x1p-7);
  CHECK(nd.array({1 + 0x1p-11 + 0x1p-30}, {1}, {.dtype = DType::float16}).asscalar<double>() == 1 + 0x1p-10);
  NDArray same = x.astype(DType::float32);
  same.assign(9);
  CHECK(values(x)[3] == 3.75f);
  const NDArray big = nd.array({1 << 24, (1 << 24) + 1}, {2}, {.dtype = DType::int64});
  CHECK(big.asvector<int64_t>() == std::vector<int64_t>{1 << 24, (1 << 24) + 1});
}

// --- views

TEST_CASE("array: index, slice and reshape share memory", "[ndarray]") {
  NDArray x = ramp({3, 4});
  x[0].assign(10);
  CHECK(values(x) == Values{10, 10, 10, 10, 4, 5, 6, 7, 8, 9, 10, 11});
  x[-1].slice(1, 3).assign(20);
  CHECK(values(x[2]) == Values{8, 20, 20, 11});
  x.reshape({2, 6})[1].assign(nd.arange(6));
  CHECK(values(x) == Values{10, 10, 10, 10, 4, 5, 0, 1, 2, 3, 4, 5});
  NDArray row = x.slice(1, 3);
  row += 1;
  CHECK(values(x.slice(0, 2)) == Values{10, 10, 10, 10, 5, 6, 1, 2});
  x.assign(0);
  CHECK(values(row) == Values(8, 0));
  CHECK(ramp({3})[1].shape() == Shape(1));
  CHECK(x[1].shape() == Shape(4));
  CHECK(x.slice(1, 1).shape() == Shape(0, 4));
  CHECK(values(ramp({4}).slice(-3, -1)) == Values{1, 2});
  CHECK_THROWS_AS(x[3], IndexError);
  CHECK(x.slice(2, 1).shape() == Shape(0, 4));  // as in NumPy
  CHECK(values(x.slice(2, 9)) == values(x[2]));
  CHECK(values(ramp({4}).slice(-9, 2)) == Values{0, 1});
  CHECK(x.slice(7, 9).shape() == Shape(0, 4));
}

TEST_CASE("array: a row of an array without elements has its shape", "[ndarray]") {
  NDArray x = nd.zeros({4, 0, 2});
  CHECK(x[1].shape() == Shape(0, 2));
  x.attach_grad();
  NDArray row = autograd::record([&] { return x[-1] * 2; });
  CHECK(row.shape() == Shape(0, 2));
  row.backward();
  CHECK(x.grad().shape() == Shape(4, 0, 2));
}

TEST_CASE("array: assigning to a temporary does not compile", "[ndarray]") {
  STATIC_REQUIRE_FALSE(std::is_assignable_v<NDArray, NDArray>);
  STATIC_REQUIRE_FALSE(std::is_assignable_v<NDArray, const NDArray&>);
  STATIC_REQUIRE(std::is_assignable_v<NDArray&, NDArray>);
  STATIC_REQUIRE_FALSE(std::is_assignable_v<decltype(std::declval<NDArray&>()[0]), NDArray>);
}

TEST_CASE("array: a handle is the same array, copy is another", "[ndarray]") {
  NDArray x = nd.ones({3});
  NDArray same = x, other = x.copy();
  x += 1;
  CHECK(values(same) == Values{2, 2, 2});
  CHECK(values(other) == Values{1, 1, 1});
  same = nd.zeros({2});  // rebinds the handle
  CHECK(values(x) == Values{2, 2, 2});
  NDArray detached = x.detach();
  detached.assign(5);
  CHECK(values(x) == Values{5, 5, 5});
  CHECK(x.as_in_context(cpu(0)).ptr() == x.ptr());
  NDArray to = nd.zeros({2, 3});
  x.copyto(to);
  CHECK(values(to) == Values(6, 5));
}

TEST_CASE("array: MXNet's reshape codes", "[ndarray]") {
  const struct {
    Shape in, codes, out;
  } table[] = {{{2, 3, 4}, {4, 0, 2}, {4, 3, 2}},
               {{2, 3, 4}, {2, 0, 0}, {2, 3, 4}},
               {{2, 3, 4}, {6, 1, -1}, {6, 1, 4}},
               {{2, 3, 4}, {3, -1, 8}, {3, 1, 8}},
               {{2, 3, 4}, {-1}, {24}},
               {{2, 3, 4}, {-2, 1, 1}, {2, 3, 4, 1, 1}},
               {{2, 3, 4}, {2, -2}, {2, 3, 4}},
               {{2, 3, 4}, {-3, 4}, {6, 4}},
               {{2, 3, 4, 5}, {-3, -3}, {6, 20}},
               {{2, 3, 4}, {0, -3}, {2, 12}},
               {{2, 3, 4}, {-3, -2}, {6, 4}},
               {{2, 3, 4}, {-4, 1, 2, -2}, {1, 2, 3, 4}},
               {{10, 5, 4}, {-1, 0}, {40, 5}},
               {{2, 3, 4}, {2, -4, -1, 3, -2}, {2, 1, 3, 4}},
               {{0, 3}, {0, -1}, {0, 3}}};
  for (const auto& t : table) {
    INFO(t.in.str() << " as " << t.codes.str());
    const NDArray x = ramp(t.in);
    CHECK(x.reshape(t.codes).shape() == t.out);
    CHECK(nd.reshape(x, t.codes).shape() == t.out);
    CHECK(values(x.reshape(t.codes)) == values(x));
  }
  CHECK(nd.reshape(ramp({10, 5, 4}), {-1, 0}, true).shape() == Shape(50, 4));
  for (const Shape& bad :
       {Shape(5), Shape(-1, -1), Shape(-5), Shape(2, 0, 0, 0), Shape(-4, 2), Shape(-4, -1, -1), Shape(7, -1)}) {
    INFO(bad.str());
    CHECK_THROWS_AS(ramp({2, 3}).reshape(bad), ShapeError);
  }
}

// --- writing

TEST_CASE("array: in-place arithmetic with numbers and broadcasts keeps dtype and identity", "[ndarray]") {
  NDArray x = ramp({2, 3});
  const NDArray same = x;
  x += 1, x *= 2, x -= nd.array({1, 2, 3}), x /= nd.array({{2}, {4}});
  CHECK(values(x) == Values{0.5, 1, 1.5, 1.75, 2, 2.25});
  x %= 1;
  CHECK(values(same) == Values{0.5, 0, 0.5, 0.75, 0, 0.25});
  x += x;
  CHECK(values(x) == Values{1, 0, 1, 1.5, 0, 0.5});
  NDArray n = nd.array({5, 7}, {2}, {.dtype = DType::int32});
  n /= 2;
  CHECK(n.dtype() == DType::int32);
  CHECK(n.asvector<int>() == std::vector<int>{2, 3});
  CHECK_THROWS_AS(n += nd.ones({2}), TypeError);
  CHECK_THROWS_AS(n += 0.5, TypeError);
  CHECK_THROWS_AS(x += nd.ones({3, 2, 3}), ShapeError);
}

TEST_CASE("array: assign takes numbers, broadcasts and other dtypes", "[ndarray]") {
  NDArray x = nd.zeros({2, 3});
  x.assign(7);
  CHECK(values(x) == Values(6, 7));
  x.assign(nd.array({1, 2, 3}));
  CHECK(values(x) == Values{1, 2, 3, 1, 2, 3});
  x.assign(nd.array({{4}, {5}}));
  CHECK(values(x) == Values{4, 4, 4, 5, 5, 5});
  x.assign(nd.array({1, 0, 1}, {3}, {.dtype = DType::int64}));
  CHECK(values(x) == Values{1, 0, 1, 1, 0, 1});
  CHECK(x.dtype() == DType::float32);
  CHECK_THROWS_AS(x.assign(nd.ones({2})), ShapeError);
  NDArray b = nd.zeros({2}, {.dtype = DType::boolean});
  b.assign(3);
  CHECK(b.asvector<int>() == std::vector<int>{1, 1});
  NDArray none = nd.zeros({0, 3});
  CHECK_NOTHROW(none.assign(nd.ones({3})));
  CHECK_THROWS_AS(none.assign(nd.ones({2})), ShapeError);
  // overlapping: from itself
  NDArray y = ramp({4});
  y.assign(y);
  CHECK(values(y) == Values{0, 1, 2, 3});
}

TEST_CASE("array: slice_assign writes a region", "[ndarray]") {
  NDArray x = nd.zeros({3, 4});
  x.slice_assign({1, 1}, {3, 3}, 5);
  CHECK(values(x) == Values{0, 0, 0, 0, 0, 5, 5, 0, 0, 5, 5, 0});
  x.slice_assign({0, 0}, {1, 4}, nd.arange(4));
  CHECK(values(x[0]) == Values{0, 1, 2, 3});
  x.slice_assign({0, -1}, {3, 4}, nd.array({{7}, {8}, {9}}));
  CHECK(values(x) == Values{0, 1, 2, 7, 0, 5, 5, 8, 0, 5, 5, 9});
  x.slice_assign({1}, {2}, nd.array({1, 2, 3, 4}));
  CHECK(values(x[1]) == Values{1, 2, 3, 4});
  NDArray row = x.slice(1, 3);
  row.slice_assign({0, 0}, {1, 2}, 0);
  CHECK(values(x[1]) == Values{0, 0, 3, 4});
  x.slice_assign({1, 0}, {1, 4}, 6);  // nothing
  CHECK(values(x[1]) == Values{0, 0, 3, 4});
  x.slice_assign({2, -9}, {9, 2}, 8);  // cut to what is there
  CHECK(values(x[2]) == Values{8, 8, 5, 9});
  CHECK_THROWS_AS(x.slice_assign({0, 0, 0}, {1, 1, 1}, 1), ShapeError);
  CHECK_THROWS_AS(x.slice_assign({0, 0}, {2, 2}, nd.ones({3, 3})), ShapeError);
}

TEST_CASE("array: writing what is being read gives what NumPy gives", "[ndarray]") {
  NDArray x = ramp({6});
  x.slice(1, 6).assign(x.slice(0, 5));
  CHECK(values(x) == Values{0, 0, 1, 2, 3, 4});
  x = ramp({6});
  x.slice(0, 5).assign(x.slice(1, 6));
  CHECK(values(x) == Values{1, 2, 3, 4, 5, 5});
  x = ramp({2, 3}) + 1;
  x -= x[0];
  CHECK(values(x) == Values{0, 0, 0, 3, 3, 3});
  x = ramp({2, 3});
  x.assign(x[1]);
  CHECK(values(x) == Values{3, 4, 5, 3, 4, 5});
  x = ramp({6});
  NDArray tail = x.slice(1, 6);
  tail += x.slice(0, 5);
  CHECK(values(x) == Values{0, 1, 3, 5, 7, 9});
  x = ramp({2, 3});
  x += x.reshape({3, 2}).transpose();
  CHECK(values(x) == Values{0, 3, 6, 4, 7, 10});
  x = ramp({4, 2});
  x.slice_assign({1, 0}, {4, 2}, x.slice(0, 3));
  CHECK(values(x) == Values{0, 1, 0, 1, 2, 3, 4, 5});
  NDArray large = ramp({300000});
  NDArray shifted = large.slice(1, 300000);
  shifted += large.slice(0, 299999);
  CHECK(large[200001].asscalar<float>() == 400001);
}

TEST_CASE("array: nothing recorded is written in place", "[ndarray]") {
  NDArray x = nd.ones({2, 2});
  x.attach_grad();
  autograd::record([&] {
    CHECK_THROWS_AS(x += 1, StateError);
    CHECK_THROWS_AS(x.assign(1), StateError);
    CHECK_THROWS_AS(x.slice_assign({0, 0}, {1, 1}, 1), StateError);
    NDArray y = x * 2;
    CHECK_THROWS_AS(y *= 2, StateError);
    NDArray free = nd.ones({2});
    CHECK_NOTHROW(free += 1);
    return 0;
  });
  CHECK_NOTHROW(x += 1);
  CHECK(values(x) == Values(4, 2));
}

TEST_CASE("array: indexing, slicing and reshaping have gradients while recording", "[ndarray]") {
  NDArray x = ramp({3, 4});
  x.attach_grad();
  const NDArray y = autograd::record([&] {
    return (x[1] * 2 + x.slice(0, 2).reshape({2, 2, 2})[1].reshape({4}) + x.transpose()[0].sum()).sum();
  });
  y.backward();
  CHECK(values(x.grad()) == Values{4, 0, 0, 0, 7, 3, 3, 3, 4, 0, 0, 0});
}

// --- operators

TEST_CASE("array: arithmetic, comparisons and numbers on either side", "[ndarray]") {
  const NDArray x = nd.array({1, 2, 4}), y = nd.array({4, 2, 1});
  CHECK(values(x + y) == Values{5, 4, 5});
  CHECK(values(x - y) == Values{-3, 0, 3});
  CHECK(values(x * y) == Values{4, 4, 4});
  CHECK(values(x / y) == Values{0.25, 1, 4});
  CHECK(values(x % 3) == Values{1, 2, 1});
  CHECK(values(-x) == Values{-1, -2, -4});
  CHECK(values(8 / x) == Values{8, 4, 2});
  CHECK(values(1 - x) == Values{0, -1, -3});
  CHECK(values(5 % x) == Values{0, 1, 1});
  CHECK(values(x == y) == Values{0, 1, 0});
  CHECK(values(x != y) == Values{1, 0, 1});
  CHECK(values(x < y) == Values{1, 0, 0});
  CHECK(values(x <= y) == Values{1, 1, 0});
  CHECK(values(x > 1) == Values{0, 1, 1});
  CHECK(values(2 >= x) == Values{1, 1, 0});
  CHECK(values(2 < x) == Values{0, 0, 1});
  CHECK((x == y).dtype() == DType::float32);
  CHECK((nd.ones({2}, {.dtype = DType::int32}) > 0).dtype() == DType::int32);
  CHECK(values(nd.power(2, x)) == Values{2, 4, 16});
  CHECK(values(nd.maximum(x, 2)) == Values{2, 2, 4});
  CHECK(x.sum().asscalar<float>() == 7);
  CHECK(x.mean().asscalar<float>() == Approx(7. / 3));
  CHECK(values(ramp({2, 3}).transpose()) == Values{0, 3, 1, 4, 2, 5});
}

// --- random numbers

TEST_CASE("random: the seed decides, whatever the threads and the shape of the program", "[ndarray]") {
  auto draw = [] {
    std::vector<Values> out;
    out.push_back(values(nd.random_normal({501})));
    out.push_back(values(nd.random_uniform({3, 7})));
    out.push_back(values(nd.random_randint(0, 100, {33})));
    out.push_back(values(nd.shuffle(nd.arange(50))));
    out.push_back(values(autograd::train_mode([] { return nd.Dropout(nd.ones({201})); })));
    out.push_back(values(nd.sample_multinomial(nd.array({1, 2, 3}), {.shape = {20}})));
    return out;
  };
  random::seed(42);
  const auto first = draw();
  const auto second = draw();
  CHECK(first != second);
  for (int threads : {0, 1, 2}) {
    Engine engine({.threads = threads});
    EngineScope scope(engine);
    random::seed(42);
    CHECK(draw() == first);
    CHECK(draw() == second);
  }
  random::seed(43);
  CHECK(draw() != first);
  random::seed(42);
  const NDArray a = nd.random_normal({7}), b = nd.random_normal({7});
  CHECK(values(a) == Values(first[0].begin(), first[0].begin() + 7));
  CHECK(values(a) != values(b));
}

TEST_CASE("random: a stream of its own takes one key when it is first drawn from, none when it is not", "[ndarray]") {
  auto numbers = [] { return values(nd.random_uniform({8})); };
  auto after = [&](auto&& inside) {
    random::seed(3);
    {
      random::RandomSubstream stream;
      inside();
    }
    return numbers();
  };
  random::seed(3);
  const Values first = numbers();
  CHECK(after([] {}) == first);
  const Values later = after([&] { CHECK(numbers() != first); });
  CHECK(later != first);
  CHECK(after([&] {
          for (int i = 0; i < 5; ++i) numbers();
        }) == later);
  CHECK(after([&] {
          random::RandomSubstream inner;
          numbers();
        }) == later);
}

TEST_CASE("users row 19: arrays of one engine are used under another, and not mixed with its own", "[ndarray]") {
  Engine first({.threads = 1}), second({.threads = 1});
  NDArray a, b;
  {
    EngineScope scope(first);
    a = nd.ones({4}) * 2;
  }
  {
    EngineScope scope(second);
    b = nd.ones({4});
    const uint64_t ops = second.stats().ops;
    NDArray c = a + 1;  // stays where a is
    CHECK(&c.engine() == &first);
    CHECK(second.stats().ops == ops);
    c += a;
    CHECK(c.asvector<float>() == std::vector<float>(4, 5));
    CHECK_THROWS_WITH(a + b, Catch::Matchers::Contains("belong to different engines"));
    a.attach_grad();
    NDArray y = autograd::record([&] { return (a * a).sum(); });
    y.backward();
    CHECK(a.grad().asvector<float>() == std::vector<float>(4, 4));
  }
  first.wait_all();
  second.wait_all();
}

TEST_CASE("creation: an integer that a double cannot hold is refused, not rounded") {
  const int64_t large = (int64_t(1) << 53) + 1;
  CHECK_THROWS_WITH(nd.full({1}, large, {.dtype = DType::int64}), Catch::Matchers::Contains("needs more than 53 bits"));
  CHECK_THROWS_AS(nd.arange(large - 2, large + 2, {.dtype = DType::int64}), ValueError);
  CHECK(nd.full({1}, large - 1, {.dtype = DType::int64}).asscalar<int64_t>() == large - 1);
  CHECK(nd.full({1}, int64_t(0)).asscalar<int64_t>() == 0);
  CHECK(nd.arange(size_t(0)).size() == 0);
}

}  // namespace ndarray_test
