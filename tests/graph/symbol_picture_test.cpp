#include "kaon/graph/symbol_picture.h"

#include <catch2/catch.hpp>

#include "kaon/tests/support/files.h"

namespace symbol_picture_test {

using namespace kaon;
using namespace kaon::test;
using Catch::Matchers::Contains;

namespace {

Symbol program() {
  const Symbol x = Symbol::variable("data");
  const auto variable = [](const char* name) { return Symbol::variable(name); };
  const Symbol a = sym.as("fc1").FullyConnected(x, variable("fc1_weight"), variable("fc1_bias"), {.num_hidden = 8});
  const Symbol b = sym.as("act").relu(a);
  return sym.as("fc\"2").FullyConnected(b, variable("fc2_weight"), variable("fc2_bias"), {.num_hidden = 2});
}

}  // namespace

TEST_CASE("symbol picture: a row for each operator, with shapes and numbers of parameters", "[graph]") {
  const std::string text = print_summary(program(), {{"data", {4, 3}}});
  CHECK_THAT(text, Contains("fc1 (FullyConnected)                    4x8                               32  data"));
  CHECK_THAT(text, Contains("act (relu)                              4x8                                0  fc1"));
  CHECK_THAT(text, Contains("Total params: 50"));
  CHECK_THAT(print_summary(program(), {{"data", Shape::unknown()}}), Contains("whose shape does not follow"));
  CHECK_THROWS_WITH(print_summary(program(), {{"none", {1}}}), Contains("none"));
  // a weight that two operators read is counted once
  const Symbol w = Symbol::variable("w"), x = Symbol::variable("data");
  const op::FullyConnected layer{.num_hidden = 3, .no_bias = true};
  const Symbol twice = sym.FullyConnected(sym.FullyConnected(x, w, layer), w, layer);
  CHECK_THAT(print_summary(twice, {{"data", {2, 3}}}), Contains("Total params: 9"));
}

TEST_CASE("symbol picture: how often each operator is there", "[graph]") {
  CHECK(count_operators(program()) == std::map<std::string, int64_t>{{"FullyConnected", 2}, {"relu", 1}});
  CHECK(count_operators(Symbol::variable("x")).empty());
}

TEST_CASE("symbol picture: Graphviz's text, with weights and without, and quotes in names", "[graph]") {
  const std::string plain = network_dot(program());
  CHECK_THAT(plain, !Contains("fc1_weight") && Contains("FullyConnected\\nfc1") && Contains("fc\\\"2"));
  CHECK_THAT(network_dot(program(), {.hide_weights = false}), Contains("fc1_weight"));
  const std::string sized = network_dot(program(), {.shapes = {{"data", {4, 3}}}});
  CHECK_THAT(sized, Contains("label=\"4x8\"") && !Contains("bias"));
}

TEST_CASE("symbol picture: SVG where Graphviz is, its text where it is not", "[graph]") {
  const ScratchFolder folder;
  CHECK(plot_network(program(), folder / "a.dot") == folder / "a.dot");
  CHECK_THAT(bytes_of(folder / "a.dot"), Contains("digraph"));
  const fs::path written = plot_network(program(), folder / "b.svg");
  if (written == folder / "b.svg") {
    CHECK_THAT(bytes_of(written), Contains("<svg"));
  } else {
    CHECK(written == folder / "b.dot");
  }
  const std::string path = std::getenv("PATH");
  setenv("PATH", "/nowhere", 1);
  const fs::path text = plot_network(program(), folder / "c.svg");
  setenv("PATH", path.c_str(), 1);
  CHECK(text == folder / "c.dot");
  CHECK_THROWS_AS(plot_network(program(), folder / "no" / "d.dot"), IoError);
}

}  // namespace symbol_picture_test
