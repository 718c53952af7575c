// Nets that MXNet 1.9.1 has quantised: their files give the numbers that MXNet's own run of them gives, imperatively
// and in a plan, on the second call as on the first. make_quantized.py has written them.
#include <catch2/catch.hpp>
#include <cmath>
#include <map>

#include "kaon/graph/hybrid/cached_graph.h"
#include "kaon/ops/functions.h"
#include "kaon/ops/ndarray_file.h"
#include "kaon/tests/golden/golden_file.h"

namespace golden_quantized_test {

using namespace kaon;
using namespace kaon::graph;
using namespace kaon::test;

namespace {

struct Net {
  std::string symbol;
  std::map<std::string, NDArray> parameters;
  NDArray data, output;
};

std::map<std::string, Net> nets() {
  std::map<std::string, Net> all;
  for (auto& [name, array] : nd_file::load(golden_dir() / "quantized.params")) {
    const size_t slash = name.find('/');
    Net& net = all[name.substr(0, slash)];
    const std::string rest = name.substr(slash + 1);
    if (rest == "symbol") {
      const std::vector<uint8_t> bytes = array.asvector<uint8_t>();
      net.symbol.assign(bytes.begin(), bytes.end());
    } else if (rest == "data") {
      net.data = array;
    } else if (rest == "output") {
      net.output = array;
    } else {
      net.parameters[rest.substr(4)] = array;  // behind "arg/" or "aux/"
    }
  }
  return all;
}

std::string replaced(std::string text, std::string_view from, std::string_view to) {
  for (size_t at = 0; (at = text.find(from, at)) != text.npos; at += to.size()) text.replace(at, from.size(), to);
  return text;
}

double largest(const NDArray& x) {
  double most = 0;
  for (double v : x.asvector<double>()) most = std::max(most, std::fabs(v));
  return most;
}

// What is wrong with two calls of the net that `text` describes.
void check_net(const Net& net, const std::string& text, const std::string& name, bool exact) {
  std::vector<std::string> names;
  std::vector<const NDArray*> arrays;
  const Symbol symbol = Symbol::load_json(text, name);
  for (const std::string& variable : symbol.list_inputs()) {
    names.push_back(variable);
    arrays.push_back(variable == "data" ? &net.data : &net.parameters.at(variable));
  }
  CachedGraph graph(symbol, names, {.static_alloc = true, .exact = exact}, "quantised");
  for (int time = 0; time < 2; ++time) {
    const NDArray got = graph.call(arrays, std::source_location::current())[0];
    REQUIRE(got.shape() == net.output.shape());
    CHECK(largest(got - net.output) <= 2e-6 * largest(net.output));
  }
}

}  // namespace

TEST_CASE("golden: nets that MXNet has quantised give its numbers", "[golden]") {
  const auto all = nets();
  CHECK(all.size() >= 20);
  for (const auto& [name, net] : all) {
    INFO(name);
    for (bool exact : {true, false}) check_net(net, net.symbol, name, exact);
    // the file comes back as it was
    const Symbol symbol = Symbol::load_json(net.symbol, name);
    CHECK(Symbol::load_json(symbol.tojson(), name).tojson() == symbol.tojson());
  }
}

TEST_CASE("golden: quantised nets with the attributes of older releases", "[golden]") {
  const Net net = nets().at("residual-naive-auto-tensor-wise");
  std::string text = replaced(net.symbol, "\"with_act\":", "\"with_relu\":");
  text = replaced(text, "\"with_postsum_act\":", "\"with_postsum_relu\":");
  text = replaced(text, "\"with_bn\":", "\"weight_channelwise_scale\":\"true\",\"with_bn\":");
  REQUIRE(text.find("with_postsum_relu") != text.npos);
  check_net(net, text, "older", false);
}

}  // namespace golden_quantized_test
