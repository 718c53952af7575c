// Shapes and dtypes that follow from some known in part, beside MXNet 1.9.1: data/inference.json, which
// make_inference.py has written. Kaon knows what MXNet knows; where it knows more, that is true.
#include <fmt/format.h>

#include <boost/json.hpp>
#include <catch2/catch.hpp>
#include <fstream>
#include <sstream>

#include "kaon/graph/inference/facts.h"
#include "kaon/graph/inference/infer.h"
#include "kaon/graph/ir/variables.h"
#include "kaon/tests/golden/golden_file.h"

namespace golden_inference_test {

using namespace kaon;
using namespace kaon::test;
namespace json = boost::json;

namespace {

json::array golden() {
  std::ifstream file(golden_dir() / "inference.json");
  std::stringstream text;
  text << file.rdbuf();
  return json::parse(text.str()).as_array();
}

Shape shape_of(const json::value& v) {
  if (v.is_null()) return Shape::unknown();
  Shape s;
  for (const auto& d : v.as_array()) s.push_back(d.as_int64());
  return s;
}

DType dtype_of_name(const json::value& v) {
  for (const DType t : ops::all_dtypes) {
    if (name_of(t) == std::string_view(v.as_string())) return t;
  }
  throw std::runtime_error("no dtype " + json::serialize(v));
}

Symbol program(const json::value& p) { return Symbol::load_json(json::serialize(p.at("symbol"))); }

Shapes known_shapes(const json::value& c) {
  Shapes known;
  for (const auto& [name, s] : c.at("known").as_object()) known[std::string(name)] = shape_of(s);
  return known;
}

DTypes known_types(const json::value& c) {
  DTypes known;
  for (const auto& [name, t] : c.at("known").as_object()) known[std::string(name)] = dtype_of_name(t);
  return known;
}

// What is in the results for the arguments, the outputs and the auxiliary states.
template <class Known>
std::vector<std::pair<std::string, std::vector<Known>>> results(const Symbol& s, const graph::ByNode<Known>& found) {
  std::vector<Known> arguments, outputs, aux;
  for (auto* v : graph::variables(s.entries(), graph::VariableKind::argument)) arguments.push_back(found.at(v)[0]);
  for (auto* v : graph::variables(s.entries(), graph::VariableKind::auxiliary)) aux.push_back(found.at(v)[0]);
  for (const SymbolEntry& e : s.entries()) outputs.push_back(found.at(e.node.get())[e.output]);
  return {{"arguments", arguments}, {"outputs", outputs}, {"aux", aux}};
}

bool contains(const Shape& more, const Shape& less) {  // all that `less` knows
  Shape merged = more;
  return graph::merge(merged, less) && merged == more;
}

}  // namespace

TEST_CASE("shapes follow from those known in part as in MXNet", "[inference]") {
  int compared = 0, more = 0;
  for (const json::value& p : golden()) {
    const Symbol s = program(p);
    for (const json::value& c : p.at("shapes").as_array()) {
      const std::string text = json::serialize(p.at("name")) + " " + json::serialize(c);
      INFO(text);
      if (c.as_object().contains("fails")) {
        CHECK_THROWS_AS(s.infer_shape_partial(known_shapes(c)), Error);
        continue;
      }
      graph::ByNode<Shape> found;
      try {
        found = graph::infer_shapes(s.entries(), known_shapes(c), {.closes = false});
      } catch (const Error& e) {
        FAIL_CHECK(e.what());
        continue;
      }
      for (const auto& [what, got] : results(s, found)) {
        for (size_t i = 0; i < got.size(); ++i) {
          const Shape wanted = shape_of(c.at(what).at(i)), truth = shape_of(p.at("truth").at(what).at(i));
          INFO(what << " " << i << " is " << got[i].str() << ", MXNet has " << wanted.str());
          CHECK(contains(got[i], wanted));
          CHECK(contains(truth, got[i]));
          ++compared;
          more += got[i] != wanted;
        }
      }
    }
  }
  CHECK(compared > 1000);
  CHECK(more > 0);  // what Kaon knows and MXNet does not
}

TEST_CASE("dtypes follow without shapes as in MXNet", "[inference]") {
  int compared = 0;
  for (const json::value& p : golden()) {
    const Symbol s = program(p);
    for (const json::value& c : p.at("types").as_array()) {
      const std::string text = json::serialize(p.at("name")) + " " + json::serialize(c);
      INFO(text);
      if (c.as_object().contains("fails")) {
        CHECK_THROWS_AS(s.infer_type(known_types(c)), TypeError);
        continue;
      }
      graph::ByNode<std::optional<DType>> found;
      try {
        found = graph::infer_types(s.entries(), known_types(c), {.closes = false});
      } catch (const Error& e) {
        FAIL_CHECK(e.what());
        continue;
      }
      for (const auto& [what, got] : results(s, found)) {
        for (size_t i = 0; i < got.size(); ++i) {
          const json::value& wanted = c.at(what).at(i);
          INFO(what << " " << i << " is " << (got[i] ? name_of(*got[i]) : "unknown"));
          if (!wanted.is_null()) CHECK(got[i] == dtype_of_name(wanted));
          ++compared;
        }
      }
    }
  }
  CHECK(compared > 500);
}

}  // namespace golden_inference_test
