// Models that MXNet wrote, run by Kaon: outputs against those of an independent evaluator.
#include <boost/json.hpp>
#include <catch2/catch.hpp>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "kaon/gluon/symbol_block.h"
#include "kaon/tests/support/files.h"
#include "kaon/tests/support/skip.h"

namespace golden_test {

using namespace kaon;

namespace {

std::filesystem::path fixtures() { return test::fixtures_dir(); }

boost::json::object golden() {
  std::ifstream in(fixtures() / "GOLDEN.json");
  std::stringstream text;
  text << in.rdbuf();
  return boost::json::parse(text.str()).as_object();
}

Shape shape_of(const boost::json::value& v) {
  Shape s;
  for (const auto& d : v.as_array()) s.push_back(d.as_int64());
  return s;
}

// The input that the evaluator used: x[i] = float32(((i * 7919) % 1000) / 1000 - 0.5) * scale + offset.
NDArray golden_input(const boost::json::object& entry) {
  Shape shape = shape_of(entry.at("input_shape"));
  double scale = entry.at("input_scale").to_number<double>(), offset = entry.at("input_offset").to_number<double>();
  std::vector<float> values;
  for (int64_t i = 0; i < shape.size(); ++i) {
    values.push_back(float(float(double(i * 7919 % 1000) / 1000.0 - 0.5) * scale + offset));
  }
  return nd.array(values, shape);
}

void check_outputs(const std::vector<NDArray>& outputs, const boost::json::array& expected) {
  REQUIRE(outputs.size() == expected.size());
  for (size_t k = 0; k < outputs.size(); ++k) {
    const auto& e = expected[k].as_object();
    CHECK(outputs[k].shape() == shape_of(e.at("shape")));
    auto values = outputs[k].asvector<double>();
    double sum = 0, abs_sum = 0;
    for (double v : values) sum += v, abs_sum += std::abs(v);
    double wanted = e.at("abs_sum").to_number<double>();
    CHECK(sum == Approx(e.at("sum").to_number<double>()).margin(1e-4 * wanted + 2e-5));
    CHECK(abs_sum == Approx(wanted).epsilon(1e-4).margin(2e-5));
    const auto& first = e.at("first").as_array();
    for (size_t i = 0; i < first.size(); ++i) {
      CHECK(values[i] == Approx(first[i].to_number<double>()).epsilon(1e-4).margin(1e-5));
    }
  }
}

}  // namespace

TEST_CASE("golden: every pair of model files gives the evaluator's outputs", "[gluon][fixtures]") {
  if (!std::filesystem::exists(fixtures() / "GOLDEN.json")) {
    test::skip("the fixtures folder is not there");
    return;
  }
  for (const auto& [symbol_file, entry] : golden()) {
    std::string name(symbol_file);
    INFO(name);
    const auto& e = entry.as_object();
    auto net =
        gluon::SymbolBlock::imports(fixtures() / name, {"data"}, fixtures() / std::string(e.at("params").as_string()));
    NDArray x = golden_input(e);
    check_outputs(net.forward({x}), e.at("outputs").as_array());
    check_outputs(net.forward({x}), e.at("outputs").as_array());  // the plan again
  }
}

TEST_CASE("golden: MXNet's own value of the smallest model", "[gluon][fixtures]") {
  if (!std::filesystem::exists(fixtures() / "sagemaker_default_model-symbol.json")) {
    test::skip("the fixtures folder is not there");
    return;
  }
  auto net = gluon::SymbolBlock::imports(fixtures() / "sagemaker_default_model-symbol.json", {"data"},
                                         fixtures() / "sagemaker_default_model-0000.params");
  CHECK(net(nd.array({{1, 2}})).asscalar<double>() == Approx(4.9999918937683105).epsilon(1e-7));
}

}  // namespace golden_test
