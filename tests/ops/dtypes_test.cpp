// All dtypes beside NumPy's numbers (tests/data/dtypes.txt), and how integers come in and go out.
#include <catch2/catch.hpp>
#include <fstream>
#include <functional>
#include <map>
#include <sstream>

#include "kaon/ops/attributes.h"
#include "kaon/ops/functions.h"

namespace dtypes_test {

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

std::string bytes_of(const std::string& hex) {
  std::string bytes;
  for (size_t i = 0; i < hex.size(); i += 2) bytes += char(std::stoi(hex.substr(i, 2), nullptr, 16));
  return bytes;
}

NDArray array_of(const std::string& hex, DType dtype) {
  std::string bytes = bytes_of(hex);
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

using Binary = std::function<NDArray(const NDArray&, const NDArray&)>;
using Unary = std::function<NDArray(const NDArray&)>;
using WithNumber = std::function<NDArray(const NDArray&, double)>;

const std::map<std::string, Binary> binary_functions{
    {"add", [](auto& a, auto& b) { return a + b; }},
    {"subtract", [](auto& a, auto& b) { return a - b; }},
    {"multiply", [](auto& a, auto& b) { return a * b; }},
    {"divide", [](auto& a, auto& b) { return a / b; }},
    {"modulo", [](auto& a, auto& b) { return a % b; }},
    {"power", [](auto& a, auto& b) { return nd.power(a, b); }},
    {"maximum", [](auto& a, auto& b) { return nd.maximum(a, b); }},
    {"minimum", [](auto& a, auto& b) { return nd.minimum(a, b); }},
    {"equal", [](auto& a, auto& b) { return a == b; }},
    {"not_equal", [](auto& a, auto& b) { return a != b; }},
    {"greater", [](auto& a, auto& b) { return a > b; }},
    {"greater_equal", [](auto& a, auto& b) { return a >= b; }},
    {"lesser", [](auto& a, auto& b) { return a < b; }},
    {"lesser_equal", [](auto& a, auto& b) { return a <= b; }},
    {"bitwise_and", [](auto& a, auto& b) { return nd.bitwise_and(a, b); }},
    {"bitwise_or", [](auto& a, auto& b) { return nd.bitwise_or(a, b); }},
    {"bitwise_xor", [](auto& a, auto& b) { return nd.bitwise_xor(a, b); }},
    {"left_shift", [](auto& a, auto& b) { return nd.left_shift(a, b); }},
    {"right_shift", [](auto& a, auto& b) { return nd.right_shift(a, b); }}};

const std::map<std::string, Unary> unary_functions{{"negative", [](auto& a) { return -a; }},
                                                   {"abs", [](auto& a) { return nd.abs(a); }},
                                                   {"square", [](auto& a) { return nd.square(a); }},
                                                   {"sign", [](auto& a) { return nd.sign(a); }},
                                                   {"bitwise_not", [](auto& a) { return nd.bitwise_not(a); }},
                                                   {"sum", [](auto& a) { return nd.sum(a); }},
                                                   {"prod", [](auto& a) { return nd.prod(a); }},
                                                   {"max", [](auto& a) { return nd.max(a); }},
                                                   {"min", [](auto& a) { return nd.min(a); }},
                                                   {"argmax", [](auto& a) { return nd.argmax(a); }},
                                                   {"argmin", [](auto& a) { return nd.argmin(a); }},
                                                   {"sort", [](auto& a) { return nd.sort(a); }},
                                                   {"argsort", [](auto& a) { return nd.argsort(a).astype(a.dtype()); }},
                                                   {"cumsum", [](auto& a) { return nd.cumsum(a); }},
                                                   {"cumprod", [](auto& a) { return nd.cumprod(a); }},
                                                   {"diff", [](auto& a) { return nd.diff(a); }}};

const std::map<std::string, WithNumber> number_functions{
    {"greater_number", [](auto& a, double s) { return a > s; }},
    {"lesser_equal_number", [](auto& a, double s) { return a <= s; }},
    {"equal_number", [](auto& a, double s) { return a == s; }}};

NDArray call(const std::vector<std::string>& line) {
  const DType dtype = dtype_named(line[1]);
  const std::vector<std::string> inputs = split(line[3], ',');
  const NDArray a = array_of(inputs[0], dtype);
  if (line[0] == "cast") return a.astype(dtype_named(line[2]));
  if (line[0] == "clip") {
    const std::vector<std::string> bounds = split(line[2], ',');
    return nd.clip(a, std::stod(bounds[0]), std::stod(bounds[1]));
  }
  if (const auto f = number_functions.find(line[0]); f != number_functions.end()) {
    return f->second(a, std::stod(line[2]));
  }
  if (inputs.size() == 2) return binary_functions.at(line[0])(a, array_of(inputs[1], dtype));
  return unary_functions.at(line[0])(a);
}

}  // namespace

TEST_CASE("dtypes: as NumPy", "[dtypes]") {
  std::ifstream in(KAON_TEST_DATA_DIR "/dtypes.txt");
  int count = 0;
  for (std::string text; std::getline(in, text); ++count) {
    const std::vector<std::string> line = split(text, ';');
    INFO(text);
    REQUIRE(hex_of(call(line)) == line[4]);
  }
  CHECK(count == 864);
}

TEST_CASE("dtypes: numbers beyond int64 come in and go out whole", "[dtypes]") {
  const std::vector<uint64_t> large{UINT64_MAX, UINT64_MAX - 1, uint64_t(1) << 63, 7};
  const NDArray x = nd.array(large, {.dtype = DType::uint64});
  CHECK(x.asvector<uint64_t>() == large);
  CHECK(x.data<const uint64_t>()[1] == UINT64_MAX - 1);
  CHECK(x.asvector<int64_t>() == std::vector<int64_t>{-1, -2, INT64_MIN, 7});
  CHECK(nd.max(x).asscalar<uint64_t>() == UINT64_MAX);
  CHECK(nd.array({UINT64_MAX, uint64_t(3)}, {2}, {.dtype = DType::uint64}).asvector<uint64_t>() ==
        std::vector<uint64_t>{UINT64_MAX, 3});
  CHECK(nd.array({UINT64_MAX, uint64_t(3)}).asvector<float>() == std::vector<float>{0x1p64f, 3});
  CHECK(nd.array(std::vector<unsigned long long>{UINT64_MAX}, {.dtype = DType::uint64}).asscalar<uint64_t>() ==
        UINT64_MAX);
  CHECK_THROWS_WITH(nd.array(large), Contains("is larger than int64 holds; give .dtype = uint64"));
  CHECK(to_string(x) ==
        "[18446744073709551615 18446744073709551614  9223372036854775808\n                    7]\n<NDArray 4 @cpu(0)>");
  CHECK((x + 0x1p63).asvector<uint64_t>()[2] == 0);
  CHECK((x - 1).asvector<uint64_t>()[2] == (uint64_t(1) << 63) - 1);
  CHECK(nd.maximum(x, 1e30).asvector<uint64_t>() == std::vector<uint64_t>(4, UINT64_MAX));
  CHECK(nd.full({1}, 0x1p63, {.dtype = DType::uint64}).asscalar<uint64_t>() == uint64_t(1) << 63);
  CHECK_THROWS_WITH(nd.full({1}, 0x1p64, {.dtype = DType::uint64}), Contains("must be a value of dtype uint64"));
  CHECK_THROWS_WITH(nd.full({1}, -1, {.dtype = DType::uint32}), Contains("must be a value of dtype uint32"));
  CHECK(nd.array({0x1p63, 1e30, -1.0, NAN}, {4}, {.dtype = DType::uint64}).asvector<uint64_t>() ==
        std::vector<uint64_t>{uint64_t(1) << 63, UINT64_MAX, UINT64_MAX, 0});
}

TEST_CASE("dtypes: vectors keep their dtype only where it is given", "[dtypes]") {
  CHECK(nd.array(std::vector<uint16_t>{1}).dtype() == DType::float32);
  CHECK(nd.array(std::vector<uint16_t>{65535}, {.dtype = DType::uint16}).asscalar<int>() == 65535);
  const NDArray narrow = nd.array(std::vector<int16_t>{-7}, {.dtype = DType::int16});
  CHECK(narrow.data<int16_t>()[0] == -7);
  CHECK(nd.array(std::vector<uint32_t>{UINT32_MAX}, {.dtype = DType::uint32}).asscalar<uint32_t>() == UINT32_MAX);
  CHECK(nd.array(std::vector<uint64_t>{5}).dtype() == DType::int64);
  uint32_t memory[] = {1, UINT32_MAX};
  const NDArray x = NDArray::from_blob(memory, {2});
  CHECK(x.dtype() == DType::uint32);
  CHECK(x.asvector<double>() == std::vector<double>{1, 4294967295.0});
  std::vector<uint16_t> room(2);
  x.copyto(std::span(room));
  CHECK(room == std::vector<uint16_t>{1, 65535});
  CHECK_THROWS_AS(x.data<int32_t>(), TypeError);
}

TEST_CASE("dtypes: indices of any integers", "[dtypes]") {
  const NDArray x = nd.array({10, 20, 30}, {3}, {.dtype = DType::uint16});
  for (const DType t : {DType::uint8, DType::uint16, DType::int16, DType::uint32, DType::uint64}) {
    CAPTURE(t);
    const NDArray index = nd.array({2, 0, 1}, {3}, {.dtype = t});
    CHECK(nd.take(x, index).asvector<int>() == std::vector<int>{30, 10, 20});
    CHECK(x(index).asvector<int>() == std::vector<int>{30, 10, 20});
    CHECK(nd.one_hot(index, 3, {.dtype = DType::uint32}).asvector<int>() ==
          std::vector<int>{0, 0, 1, 1, 0, 0, 0, 1, 0});
    CHECK(nd.bincount(index).asvector<int>() == std::vector<int>{1, 1, 1});
    CHECK(nd.where(index, x, x * 2).asvector<int>() == std::vector<int>{10, 40, 30});
  }
  // no position from the end
  const NDArray beyond = nd.array(std::vector<uint64_t>{UINT64_MAX}, {.dtype = DType::uint64});
  CHECK_THROWS_AS(nd.take(x, beyond, {.mode = IndexMode::raise}).wait_to_read(), IndexError);
  CHECK(nd.take(x, beyond).asscalar<int>() == 30);
  CHECK_THROWS_WITH(nd.bincount(beyond), Contains("got 18446744073709551615"));
}

TEST_CASE("dtypes: random integers", "[dtypes]") {
  for (const DType t : {DType::uint8, DType::int8, DType::uint16, DType::int16, DType::uint32, DType::uint64}) {
    CAPTURE(t);
    const NDArray x = nd.random_randint(3, 9, {500}, {.dtype = t});
    CHECK(x.dtype() == t);
    CHECK(nd.min(x).asscalar<int>() == 3);
    CHECK(nd.max(x).asscalar<int>() == 8);
  }
  CHECK(nd.random_randint(65535, 65536, {2}, {.dtype = DType::uint16}).asvector<int>() ==
        std::vector<int>{65535, 65535});
  CHECK_THROWS_WITH(nd.random_randint(0, 65537, {2}, {.dtype = DType::uint16}), Contains("must fit uint16"));
  CHECK_THROWS_WITH(nd.random_randint(-1, 5, {2}, {.dtype = DType::uint64}), Contains("must fit uint64"));
}

TEST_CASE("dtypes: their names in attributes", "[dtypes]") {
  for (const DType t : ops::all_dtypes) {
    DType read{};
    CHECK(ops::from_text(to_string(t), read));
    CHECK(read == t);
  }
  DType read{};
  CHECK(!ops::from_text("uint128", read));
  CHECK(int(DType::int16) == 8);
  CHECK(int(DType::uint64) == 11);
}

}  // namespace dtypes_test
