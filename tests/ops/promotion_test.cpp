// Arithmetic of arrays of several dtypes, beside NumPy's and PyTorch's answers (tests/data/promotion.txt).
#include <catch2/catch.hpp>
#include <fstream>
#include <functional>
#include <map>
#include <sstream>

#include "kaon/engine/task.h"
#include "kaon/gluon/block.h"
#include "kaon/graph/autograd.h"
#include "kaon/graph/symbol.h"
#include "kaon/ops/functions.h"
#include "kaon/ops/promotion/promotion.h"

namespace promotion_test {

using namespace kaon;
using Catch::Matchers::Contains;

namespace {

std::vector<std::string> split(const std::string& text, char separator) {
  std::vector<std::string> parts;
  std::string part;
  for (std::istringstream in(text); std::getline(in, part, separator);) parts.push_back(part);
  return parts;
}

DType dtype_named(const std::string& name) {
  for (const DType t : ops::all_dtypes) {
    if (name == name_of(t)) return t;
  }
  throw ValueError("dtype " + name);
}

NDArray array_of(const std::string& hex, DType dtype) {
  std::string bytes;
  for (size_t i = 0; i < hex.size(); i += 2) bytes += char(std::stoi(hex.substr(i, 2), nullptr, 16));
  NDArray x = NDArray::empty(Shape(int64_t(bytes.size() / size_of(dtype))), dtype);
  x.assign(NDArray::from_blob(bytes.data(), x.shape(), dtype)).wait_to_read();
  return x;
}

std::string hex_of(const NDArray& x) {
  std::string bytes(size_t(x.size()) * size_of(x.dtype()), '\0'), hex;
  NDArray::from_blob(bytes.data(), x.shape(), x.dtype()).assign(x).wait_to_write();
  for (const char b : bytes) hex += fmt::format("{:02x}", uint8_t(b));
  return hex;
}

// Functions of a program, for arrays and, in a trace, for Symbols.
struct Chosen {
  template <class F, class A>
  static A call(const std::string& name, const F& f, const A& a, const A& b, const A& condition) {
    if (name == "add") return a + b;
    if (name == "multiply") return a * b;
    if (name == "maximum") return f.maximum(a, b);
    if (name == "greater") return a > b;
    return f.where(condition, a, b);
  }
};

struct Mixed : gluon::HybridBlock<Mixed> {
  explicit Mixed(std::string name) : name(std::move(name)) {}
  auto hybrid_forward(auto F, auto a, auto b, auto condition) { return Chosen::call(name, F, a, b, condition); }
  const std::string name;
};

struct Sum : gluon::HybridBlock<Sum> {
  auto hybrid_forward(auto, auto a, auto b) { return a * a + b; }
};

Task<DType> dtype_of_sum(NDArray a, NDArray b) {
  co_await sleep_for(std::chrono::milliseconds(1));
  const NDArray y = a + b;
  co_await y;
  co_return y.dtype();
}

NDArray ones(const Shape& shape, DType t = DType::float32) { return nd.ones(shape, {.dtype = t}); }

}  // namespace

TEST_CASE("promotion: every pair of dtypes as NumPy and PyTorch, imperative and in a plan", "[promotion]") {
  std::ifstream in(KAON_TEST_DATA_DIR "/promotion.txt");
  const NDArray condition = nd.array({1, 0, 1, 0});
  std::map<std::string, Mixed> nets;
  for (const char* name : {"add", "multiply", "maximum", "greater", "where"}) {
    nets.emplace(name, Mixed(name)).first->second.hybridize({.max_plans = 1000});
  }
  int count = 0;
  for (std::string text; std::getline(in, text); ++count) {
    INFO(text);
    const std::vector<std::string> line = split(text, ';'), inputs = split(line[3], ',');
    const DType left = dtype_named(line[1]), right = dtype_named(line[2]), result = dtype_named(line[4]);
    const NDArray a = array_of(inputs[0], left), b = array_of(inputs[1], right);
    REQUIRE(result_type(left, right) == result);
    const auto check = [&](const NDArray& y) {
      REQUIRE(y.dtype() == result);
      REQUIRE(hex_of(y) == line[5]);
    };
    check(promote_types([&] { return Chosen::call(line[0], nd, a, b, condition); }));
    check(promote_types([&] { return nets.at(line[0])(a, b, condition); }));
    if (line[0] == "add") check(nd._npi_add(a, b));
    if (line[0] == "multiply") check(nd._npi_multiply(a, b));
    if (left != right) CHECK_THROWS_AS(Chosen::call(line[0], nd, a, b, condition), TypeError);
  }
  CHECK(count == 842);
}

TEST_CASE("promotion: gradients come back in the dtypes of the inputs", "[promotion]") {
  for (const bool hybridized : {false, true}) {
    NDArray a = nd.array({1, 2, 3}, {3}, {.dtype = DType::float16}), b = nd.array({4, 5, 6});
    a.attach_grad(), b.attach_grad();
    Sum net;
    if (hybridized) net.hybridize();
    const NDArray y = promote_types([&] { return autograd::record([&] { return net(a, b); }); });
    CHECK(y.dtype() == DType::float32);
    y.backward();
    CHECK(a.grad().dtype() == DType::float16);
    CHECK(a.grad().asvector<float>() == std::vector<float>{2, 4, 6});
    CHECK(b.grad().dtype() == DType::float32);
    CHECK(b.grad().asvector<float>() == std::vector<float>{1, 1, 1});
  }
}

TEST_CASE("promotion: a trace has the casts, and holds for the dtypes that it was made for", "[promotion]") {
  Sum net;
  net.hybridize();
  const NDArray a = ones({2}, DType::int32), b = ones({2}), half = ones({2}, DType::float16);
  const auto call = [&](const NDArray& x, const NDArray& y) {
    return promote_types([&] { return net(x, y); }).dtype();
  };
  CHECK(call(a, b) == DType::float32);
  CHECK(call(a, half) == DType::float16);
  CHECK(call(half, b) == DType::float32);
  CHECK(call(a, ones({2}, DType::int64)) == DType::int64);
  CHECK(call(a, a) == DType::int32);
  const Symbol x = Symbol::variable("x", {2}, DType::int32), y = Symbol::variable("y", {2});
  CHECK_THAT(promote_types([&] { return x + y; }).tojson(), Contains("\"op\": \"Cast\""));
  CHECK_THROWS_AS(x + y, TypeError);
}

TEST_CASE("promotion: products, functions of two arrays and comparisons", "[promotion]") {
  const NDArray whole = nd.array({{1, 2}, {3, 4}}, {.dtype = DType::int32}), real = nd.array({{0.5, 1}, {1, 2}});
  promote_types([&] {
    CHECK(nd.dot(whole, real).asvector<float>() == std::vector<float>{2.5, 5, 5.5, 11});
    CHECK(nd.matmul(real, whole).dtype() == DType::float32);
    CHECK(nd.outer(ones({2}, DType::int8), ones({3}, DType::float16)).dtype() == DType::float16);
    CHECK(nd.kron(whole, real).dtype() == DType::float32);
    CHECK(nd.tensordot(whole, real, 1).dtype() == DType::float32);
    CHECK(nd.arctan2(whole, real).dtype() == DType::float32);
    CHECK(nd.fmod(whole, nd.cast(real, DType::float64)).dtype() == DType::float64);
    CHECK(nd.bitwise_and(ones({2}, DType::uint8), ones({2}, DType::int8)).dtype() == DType::int16);
    CHECK(nd.floor_divide(whole, real).asvector<float>() == std::vector<float>{2, 2, 3, 2});
    CHECK(nd._npi_less(whole, real).dtype() == DType::boolean);
    CHECK(nd.broadcast_where(ones({2}, DType::boolean), whole, real).dtype() == DType::float32);
    CHECK(nd.isclose(whole, real).dtype() == DType::boolean);
    CHECK_THROWS_WITH(nd.concat({.dim = 0}, whole, real), Contains("[Concat]"));  // no arithmetic
    CHECK((whole + 2).dtype() == DType::int32);                                   // numbers have no dtype
  });
  CHECK_THROWS_AS(nd.dot(whole, real), TypeError);
  CHECK(nd.true_divide(whole, nd.cast(whole, DType::int8)).asvector<float>() == std::vector<float>(4, 1));
  CHECK(nd._npi_add(ones({2}, DType::boolean), ones({2}, DType::boolean)).asvector<int>() == std::vector<int>{1, 1});
  CHECK(nd._npi_subtract(whole, real).asvector<float>() == std::vector<float>{0.5, 1, 2, 2});
  CHECK(nd._npi_mod(whole, real).dtype() == DType::float32);
  CHECK(nd._npi_power(whole, ones({2, 2}, DType::int64)).dtype() == DType::int64);
}

TEST_CASE("promotion: in place the array keeps its dtype", "[promotion]") {
  promote_types([&] {
    NDArray real = nd.array({1, 2}), whole = nd.array({1, 2}, {2}, {.dtype = DType::int16});
    real += whole;
    CHECK(real.dtype() == DType::float32);
    CHECK(real.asvector<float>() == std::vector<float>{2, 4});
    whole *= nd.array({300, 3}, {2}, {.dtype = DType::int64});
    CHECK(whole.dtype() == DType::int16);
    CHECK(whole.asvector<int>() == std::vector<int>{300, 6});
    CHECK_THROWS_WITH(whole += real, Contains("[in-place arithmetic]") && Contains("float32") && Contains("int16"));
    CHECK_THROWS_AS((real += ones({3, 2}, DType::int8)), ShapeError);
  });
  NDArray real = nd.array({1, 2});
  CHECK_THROWS_AS(real += ones({2}, DType::int16), TypeError);
}

TEST_CASE("promotion: scopes nest, end with an exception, and go along with coroutines", "[promotion]") {
  const NDArray a = ones({2}, DType::int32), b = ones({2});
  CHECK_THROWS_AS(promote_types([&]() -> NDArray { throw ValueError("x"); }), ValueError);
  CHECK_THROWS_AS(a + b, TypeError);
  promote_types([&] {
    promote_types([&] { CHECK((a + b).dtype() == DType::float32); });
    CHECK((a + b).dtype() == DType::float32);
  });
  auto body = [&] { return dtype_of_sum(a, b); };
  CHECK(sync_wait(promote_types(body)) == DType::float32);
  CHECK_THROWS_AS(sync_wait(body()), TypeError);
}

}  // namespace promotion_test
