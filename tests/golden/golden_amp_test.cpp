// What is cast in mixed precision, beside MXNet's amp.convert_symbol: data/amp_dtypes.json by make_amp.py.
#include <boost/json.hpp>
#include <catch2/catch.hpp>
#include <map>
#include <set>

#include "kaon/gluon/util/amp.h"
#include "kaon/graph/ir/symbol_node.h"
#include "kaon/tests/golden/golden_file.h"
#include "kaon/tests/support/files.h"

namespace golden_amp_test {

using namespace kaon;
using namespace kaon::test;
namespace json = boost::json;

namespace {

std::vector<std::string> strings(const json::value& list) {
  std::vector<std::string> all;
  for (const json::value& v : list.as_array()) all.emplace_back(v.as_string());
  return all;
}

amp::ConvertOptions options_of(const json::object& given) {
  amp::ConvertOptions o;
  for (const auto& [key, value] : given) {
    if (key == "cast_optional_params") {
      o.cast_optional_params = value.as_bool();
    } else if (key == "target_dtype_ops") {
      o.target_dtype_ops = strings(value);
    } else if (key == "excluded_sym_names") {
      o.excluded_sym_names = strings(value);
    } else if (key == "fp32_ops") {
      o.fp32_ops = amp::list_fp32_ops();
      for (const std::string& name : strings(value)) o.fp32_ops->push_back(name);
    } else {
      REQUIRE(key == "conditional_fp32_ops");
      o.conditional_fp32_ops.emplace();
      for (const json::value& v : value.as_array()) {
        const json::array& c = v.as_array();
        o.conditional_fp32_ops->push_back(
            {std::string(c[0].as_string()), std::string(c[1].as_string()), strings(c[2])});
      }
    }
  }
  return o;
}

// The program on data of these shapes, so that the dtypes of all its values are known.
Symbol shaped(const Symbol& program, const json::object& shapes) {
  Shapes known;
  for (const auto& [name, dims] : shapes) {
    Shape shape;
    for (const json::value& n : dims.as_array()) shape.push_back(n.as_int64());
    known.emplace(name, shape);
  }
  const Symbol::InferredShapes all = program.infer_shape(known);
  std::unordered_map<std::string, Symbol> variables;
  const auto put = [&](const std::vector<std::string>& names, const std::vector<Shape>& of) {
    for (size_t i = 0; i < names.size(); ++i) variables.emplace(names[i], sym.var(names[i], of[i]));
  };
  put(program.list_arguments(), all.arguments);
  put(program.list_auxiliary_states(), all.auxiliary_states);
  return graph::compose(program, variables);
}

}  // namespace

TEST_CASE("golden: casts of mixed precision are where MXNet has them", "[golden]") {
  // MXNet casts these 16-bit values to float32, since another operator reads them so; Kaon computes in their dtype.
  const std::set<std::string> narrower{"low", "stacked"};
  const json::value cases = json::parse(bytes_of(golden_dir() / "amp_dtypes.json"));
  size_t compared = 0;
  for (const json::value& v : cases.as_array()) {
    const json::object& c = v.as_object();
    const std::string name(c.at("program").as_string());
    const json::object& options = c.at("options").as_object();
    INFO(name << " " << json::serialize(options));
    const Symbol loaded = c.contains("symbol") ? Symbol::load_json(std::string(c.at("symbol").as_string()))
                                               : Symbol::load(golden_dir() / "networks" / (name + "-symbol.json"));
    const std::vector<std::string> data = strings(c.at("data"));
    // With and without knowing the shapes.
    for (bool is_shaped : {true, false}) {
      const json::object& shapes = c.at("shapes").as_object();
      const Symbol program = is_shaped ? shaped(loaded, shapes) : loaded;
      Symbol converted = amp::convert_symbol(program, options_of(options), data);
      std::map<std::string, const graph::SymbolNode*> nodes;
      std::set<std::pair<const graph::SymbolNode*, DType>> casts;
      for (const graph::SymbolNode* n : graph::topological_order(converted.entries())) {
        if (n->op == &op::AmpCast::def) {  // each value once to a dtype
          CHECK(casts.emplace(n->inputs[0].node.get(), static_cast<const op::AmpCast*>(n->attrs.get())->dtype).second);
          continue;
        }
        nodes.emplace(n->name, n);
      }
      if (!is_shaped) continue;
      for (const auto& [node, dtypes] : c.at("dtypes").as_object()) {
        INFO(std::string(node));
        REQUIRE(nodes.contains(std::string(node)));
        const graph::SymbolNode& n = *nodes.at(std::string(node));
        const DType got = n.outputs[0].dtype;
        if (narrower.contains(n.name) && got == DType::float16) continue;
        CHECK(name_of(got) == std::string(dtypes.as_array()[0].as_string()));
        ++compared;
      }
    }
  }
  CHECK(compared > 1000);
}

}  // namespace golden_amp_test
