// Printed arrays beside NumPy's text (tests/data/printed.txt), and the options.
#include <catch2/catch.hpp>
#include <cstring>
#include <fstream>
#include <sstream>

#include "kaon/ops/functions.h"

namespace print_test {

using namespace kaon;

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

PrintOptions options_of(const std::string& text) {
  PrintOptions o;
  for (const std::string& option : split(text, ' ')) {
    const size_t at = option.find('=');
    const std::string name = option.substr(0, at);
    const int value = std::stoi(option.substr(at + 1));
    if (name == "precision") o.precision = value;
    if (name == "threshold") o.threshold = value;
    if (name == "edgeitems") o.edge_items = value;
    if (name == "linewidth") o.line_width = value;
    if (name == "suppress") o.suppress_small = value != 0;
  }
  return o;
}

}  // namespace

TEST_CASE("print: as NumPy") {
  std::ifstream in(KAON_TEST_DATA_DIR "/printed.txt");
  int count = 0;
  for (std::string line; std::getline(in, line); ++count) {
    const std::vector<std::string> fields = split(line, '\t');
    Shape shape;
    for (const std::string& d : split(fields[1], ',')) shape.push_back(std::stoll(d));
    std::string bytes;
    for (size_t i = 0; i < fields[3].size(); i += 2) bytes += char(std::stoi(fields[3].substr(i, 2), nullptr, 16));
    std::string expected = fields[4];
    std::replace(expected.begin(), expected.end(), '|', '\n');
    const NDArray x = NDArray::from_blob(bytes.data(), shape, dtype_named(fields[0]));
    const std::string text = to_string(x, options_of(fields[2]));
    INFO(fields[0] << " " << shape << " " << fields[2]);
    REQUIRE(text.substr(0, text.find("\n<NDArray")) == expected);
  }
  CHECK(count > 250);
}

TEST_CASE("print: options") {
  const NDArray x = nd.array({{1.123456789, 2}, {3, 4}});
  CHECK(to_string(x, {.precision = 2}) == "[[1.12 2.  ]\n [3.   4.  ]]\n<NDArray 2x2 @cpu(0)>");
  CHECK(to_string(x.astype(DType::int32), {.dtype = true}) == "[[1 2]\n [3 4]]\n<NDArray 2x2 int32 @cpu(0)>");
  CHECK(to_string(nd.array({1, 0.1}, {2}, {.dtype = DType::bfloat16})) == "[1.  0.1]\n<NDArray 2 @cpu(0)>");
  CHECK(print_options().precision == 8);
  set_print_options({.precision = 1});
  CHECK(to_string(nd.array({0.25})) == "[0.2]\n<NDArray 1 @cpu(0)>");
  set_print_options({});
  CHECK(to_string(nd.array({0.25})) == "[0.25]\n<NDArray 1 @cpu(0)>");
}

TEST_CASE("print: only what is shown is read") {
  const NDArray large = nd.zeros({1 << 15, 1 << 15}, {.dtype = DType::uint8});  // 1 GiB; all elements as int64 were 8
  CHECK(to_string(large, {.edge_items = 1}) == "[[0 ... 0]\n ...\n [0 ... 0]]\n<NDArray 32768x32768 @cpu(0)>");
}

}  // namespace print_test
