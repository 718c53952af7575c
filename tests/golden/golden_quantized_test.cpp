// Nets that MXNet 1.9.1 has quantised: their files give the numbers that MXNet's own run of them gives, imperatively
// and in a plan, on the second call as on the first. make_quantized.py has written them.
#include <catch2/catch.hpp>
#include <cmath>
#include <map>
#include <set>

#include "kaon/graph/hybrid/cached_graph.h"
#include "kaon/ops/functions.h"
#include "kaon/ops/ndarray_file.h"
#include "kaon/tests/golden/golden_file.h"

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

// The largest difference of two runs, and what it is relative to.
double difference(const NDArray& a, const NDArray& b) {
  REQUIRE(a.shape() == b.shape());
  const auto x = a.asvector<double>(), y = b.asvector<double>();
  double most = 0;
  for (size_t i = 0; i < x.size(); ++i) most = std::max(most, std::fabs(x[i] - y[i]));
  return most;
}

}  // namespace

TEST_CASE("golden: nets that MXNet has quantised give its numbers", "[golden]") {
  size_t count = 0;
  for (const auto& [name, net] : nets()) {
    INFO(name);
    const Symbol symbol = Symbol::load_json(net.symbol, name);
    std::vector<std::string> names;
    std::vector<const NDArray*> arrays;
    for (const std::string& variable : symbol.list_inputs()) {
      const NDArray& array = variable == "data" ? net.data : net.parameters.at(variable);
      names.push_back(variable);
      arrays.push_back(&array);
    }
    for (bool exact : {true, false}) {
      CachedGraph graph(symbol, names, {.static_alloc = true, .exact = exact}, "quantised");
      for (int time = 0; time < 2; ++time) {
        const NDArray got = graph.call(arrays, std::source_location::current())[0];
        CHECK(difference(got, net.output) <= 2e-6 * std::fabs(nd.max(nd.abs(net.output)).asscalar<float>()));
      }
    }
    // the file comes back as it was, and a symbol without one is written as a new file
    CHECK(Symbol::load_json(symbol.tojson(), name).tojson() == symbol.tojson());
    ++count;
  }
  CHECK(count >= 20);
}
