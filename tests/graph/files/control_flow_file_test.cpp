// Control flow in symbol files: MXNet's, our own, damaged ones.
#include "kaon/graph/files/control_flow_file.h"

#include <fmt/format.h>

#include "kaon/ops/ndarray_file.h"
#include "kaon/tests/graph/control_flow_support.h"
#include "kaon/tests/support/files.h"

namespace control_flow_file_test {

using namespace kaon;
using namespace kaon::graph;
using namespace kaon::test;
using Catch::Matchers::Contains;

namespace {

template <class A>
using List = std::vector<A>;

const char* const kinds[] = {"foreach", "while_loop", "cond"};

std::string mxnet_file(const std::string& kind) { return bytes_of(data_file(kind + "-symbol.json")); }

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const size_t at = text.find(from);
  REQUIRE(at != text.npos);
  return text.replace(at, from.size(), to);
}

// As in make_with_mxnet.py.
NDArray mxnet_input(const std::string& name) {
  const std::map<std::string, double> scalars{{"i", 0}, {"limit", 3}, {"p", 1}};
  if (auto it = scalars.find(name); it != scalars.end()) return nd.array({float(it->second)});
  const std::map<std::string, Shape> shapes{{"x", {3, 1, 2}}, {"h", {1, 2}}, {"w", {2, 2}},
                                            {"s", {1, 2}},    {"a", {2, 2}}, {"b", {2, 2}}};
  const Shape& shape = shapes.at(name);
  return nd.arange(double(shape.size())).reshape(shape) / 8 - 1;
}

List<NDArray> run(const Symbol& program, const List<NDArray>& inputs) {
  CachedGraph graph(program, program.list_inputs(), {.exact = true}, "file");
  List<const NDArray*> pointers;
  for (const NDArray& a : inputs) pointers.push_back(&a);
  return graph.call(pointers, std::source_location::current());
}

void check_as_mxnet(const Symbol& program, const std::string& kind) {
  List<NDArray> inputs;
  for (const std::string& name : program.list_inputs()) inputs.push_back(mxnet_input(name));
  const List<NDArray> outputs = run(program, inputs);
  for (size_t k = 0; k < outputs.size(); ++k) {
    const std::string name = kind + std::to_string(k);
    INFO(name);
    const auto golden = nd_file::load(data_file("control_flow.nd"));
    const auto it = std::find_if(golden.begin(), golden.end(), [&](const auto& g) { return g.first == name; });
    REQUIRE(it != golden.end());
    // MXNet leaves noise where iterations were not made
    const NDArray got = kind == "while_loop" && k < 2 ? outputs[k].slice(0, 3) : outputs[k];
    REQUIRE(got.shape() == it->second.shape());
    require_near(got, it->second.asvector<double>(), 1e-5);
  }
}

// Written and read again it gives the same bits, gradients included, and the same text.
template <class Body>
void check_round_trip(Body&& body, const List<NDArray>& inputs) {
  NameScope names("");
  const Symbol program = Symbol::group(body(sym, variables_like(inputs)));
  const std::string text = program.tojson();
  const Symbol back = Symbol::load_json(text);
  CHECK(back.tojson() == text);
  // What the file says beyond the graph is forgotten: names inside are made anew, and then stay.
  const std::string own = Symbol(back.entries()).tojson();
  const Symbol again = Symbol::load_json(own);
  CHECK(Symbol(again.entries()).tojson() == own);
  auto evaluate = [&](const Symbol& p) {
    CachedGraph graph(p, data_names(int(inputs.size())), {.exact = true}, "program");
    return with_gradients(
        [&](const List<NDArray>& x) {
          List<const NDArray*> pointers;
          for (const NDArray& a : x) pointers.push_back(&a);
          return graph.call(pointers, std::source_location::current());
        },
        inputs);
  };
  random::seed(3);
  const Both expected = evaluate(program);
  for (const Symbol& p : {back, again}) {
    random::seed(3);
    const Both got = evaluate(p);
    require_same(got.outputs, expected.outputs, "output");
    require_same(got.gradients, expected.gradients, "gradient");
  }
}

}  // namespace

TEST_CASE("control flow files: MXNet's give its results and are written again byte for byte", "[symbol_json]") {
  for (const std::string kind : kinds) {
    INFO(kind);
    const std::string text = mxnet_file(kind);
    const Symbol program = Symbol::load_json(text);
    CHECK(program.tojson() == text);
    check_as_mxnet(program, kind);
    // as if the program had been made here
    const Symbol own = Symbol(program.entries());
    const std::string again = own.tojson();
    const Symbol back = Symbol::load_json(again);
    CHECK(back.tojson() == again);
    check_as_mxnet(back, kind);
  }
  CHECK(Symbol::load_json(mxnet_file("while_loop")).list_arguments() == List<std::string>{"i", "s", "limit", "w"});
}

TEST_CASE("control flow files: programs of our own come back as they were") {
  const NDArray x = numbers({3, 2, 4}), h = numbers({2, 4}, 2), w = numbers({4, 4}, 3), one = nd.array({1});
  // states that swap, one of them returned as it came, and an output twice
  check_round_trip(
      [](auto f, auto in) {
        using A = typename decltype(in)::value_type;
        auto [outputs, states] = contrib::foreach (
            [&](const A& row, const List<A>& s) {
              const A y = f.tanh(f.dot(row, in[2]) + s[0]);
              return std::pair(List<A>{y, y, s[1]}, List<A>{s[1], y});
            },
            in[0], List<A>{in[1], in[1] * 2});
        return List<A>{outputs[0], outputs[1], outputs[2], states[0], states[1]};
      },
      {x, h, w});
  // random numbers, in training alone and always
  check_round_trip(
      [](auto f, auto in) {
        using A = typename decltype(in)::value_type;
        auto [outputs, state] = contrib::foreach (
            [&](const A& row, const A& s) { return std::pair(f.Dropout(row, {.p = 0.5}), s + row); }, in[0], in[1]);
        return List<A>{outputs, state};
      },
      {x, h});
  check_round_trip(
      [](auto f, auto in) {
        using A = typename decltype(in)::value_type;
        auto [outputs, state] = contrib::foreach (
            [&](const A& row, const A& s) {
              return std::pair(row * f.random_uniform({2, 4}), s + row);
            },
            in[0], in[1]);
        return List<A>{outputs, state};
      },
      {x, h});
  // the condition reads what the body does not, and the other way round; a loop in a branch of a loop
  check_round_trip(
      [](auto f, auto in) {
        using A = typename decltype(in)::value_type;
        auto [outputs, vars] = contrib::while_loop(
            [&](const List<A>& v) { return v[0] < f.sum(in[2]); },
            [&](const List<A>& v) {
              const A y = contrib::cond(
                  v[0], [&] { return v[1] * v[0]; },
                  [&] {
                    return contrib::foreach ([&](const A& r, const A& s) { return std::pair(r, s + r); }, in[3], v[1])
                        .second;
                  });
              return std::pair(y, List<A>{v[0] + 1, y});
            },
            List<A>{in[0], in[1]}, 3);
        return List<A>{outputs, vars[0], vars[1]};
      },
      {nd.array({0}), h, nd.array({2}), x});
  // a predicate that the branches use too, and a branch that hands a value through
  check_round_trip(
      [](auto, auto in) {
        using A = typename decltype(in)::value_type;
        return contrib::cond(
            in[0],
            [&] {
              return List<A>{in[1] * in[0], in[1]};
            },
            [&] {
              return List<A>{in[1], in[1] + in[0]};
            });
      },
      {one, h});
}

TEST_CASE("control flow files: what MXNet cannot express is refused by name") {
  NameScope names("");
  const Symbol x = sym.var("x", {3, 2}), h = sym.var("h", {2});
  auto [outputs, state] =
      contrib::foreach ([](const Symbol& row, const Symbol&) { return std::pair(row * 2, row); }, x, h);
  CHECK_THROWS_WITH(outputs.tojson(), Contains("'foreach0' (_foreach)") && Contains("does not use 'h'"));
}

TEST_CASE("control flow files: damaged nodes are refused by name", "[symbol_json]") {
  auto fails = [](const std::string& kind, const std::string& from, const std::string& to, const std::string& why) {
    INFO(kind << ": " << from << " -> " << to);
    CHECK_THROWS_WITH(Symbol::load_json(replaced(mxnet_file(kind), from, to), "model.json"),
                      Contains("model.json") && Contains(kind) && Contains(why));
    CHECK_THROWS_AS(Symbol::load_json(replaced(mxnet_file(kind), from, to)), IoError);
  };
  fails("foreach", "\"in_data_locs\": \"[0]\", ", "", "the attribute 'in_data_locs' is missing");
  fails("foreach", "\"in_data_locs\": \"[0]\"", "\"in_data_locs\": \"[9]\"", "cannot be '[9]'");
  fails("foreach", "\"in_data_locs\": \"[0]\"", "\"in_data_locs\": \"[0\"", "cannot be '[0'");
  fails("foreach", "\"in_data_locs\": \"[0]\"", "\"in_data_locs\": \"[]\"", "no data");
  fails("foreach", "\"in_data_locs\": \"[0]\"", "\"in_data_locs\": \"[1]\"", "again");
  fails("foreach", "\"num_outputs\": \"3\"", "\"num_outputs\": \"2\"", "'num_outputs' is 2");
  fails("foreach", "\"num_out_data\": \"2\"", "\"num_out_data\": \"x\"", "cannot be 'x'");
  fails("foreach", "\"num_out_data\": \"2\"", "\"num_out_data\": \"2\", \"color\": \"red\"", "'color'");
  fails("while_loop", "\"num_args\": \"6\"", "\"num_args\": \"5\"", "'num_args' is 5");
  fails("while_loop", "\"func_var_locs\": \"[2, 0]\"", "\"func_var_locs\": \"[2, 2]\"", "two of its loop variables");
  fails("while_loop", "\"func_var_locs\": \"[2, 0]\"", "\"func_var_locs\": \"[]\"", "no loop variables");
  fails("while_loop", "\"func_input_locs\": \"[2, 3, 0]\"", "\"func_input_locs\": \"[2, 3]\"", "names 2 inputs");
  fails("while_loop", "\"max_iterations\": \"4\"", "\"max_iterations\": \"-4\"", "cannot be '-4'");
  fails("while_loop", "\"op\": \"_lesser\"", "\"op\": \"_lessest\"", "'_lessest'");
  fails("cond", "\"op\": \"_copy\"", "\"op\": \"relu\"", "computes the predicate");
  fails("cond", "\"subgraphs\": [", "\"subgraphs\": [], \"control_deps\": [", "control_deps");
  // inputs that files of 0.8 left out, which had no subgraphs
  const std::string old = replaced(mxnet_file("cond"), "\"mxnet_version\"", "\"no_version\"");
  CHECK_NOTHROW(Symbol::load_json(old));
  CHECK_THROWS_WITH(Symbol::load_json(replaced(old, "\"inputs\": [[0, 0, 0], [1, 0, 0]]", "\"inputs\": [[0, 0, 0]]")),
                    Contains("takes 2 inputs") && Contains("the file gives 1"));
  const std::string layer = R"({"nodes": [{"op": "null", "name": "x", "inputs": []},
      {"op": "OP", "name": "y", "inputs": [[0, 0, 0]], "subgraphs": [GRAPHS]}], "heads": [[1, 0, 0]]})";
  const std::string inner = R"({"nodes": [{"op": "null", "name": "v", "inputs": []}], "heads": [[0, 0, 0]]})";
  CHECK_THROWS_WITH(Symbol::load_json(replaced(replaced(layer, "OP", "relu"), "GRAPHS", inner)),
                    Contains("node 1 'y' (relu): has \"subgraphs\", which Kaon cannot run"));
  CHECK_THROWS_WITH(Symbol::load_json(replaced(replaced(layer, "OP", "_cond"), "GRAPHS", inner)),
                    Contains("node 1 'y' (_cond): needs 3 subgraphs, the file gives 1"));
  CHECK_THROWS_WITH(Symbol::load_json(replaced(replaced(layer, "OP", "_cond"), "GRAPHS", "7")),
                    Contains("node 1 'y': subgraph 0") && Contains("expected an object"));
}

TEST_CASE("control flow files: any damage gives an IoError or a symbol", "[symbol_json]") {
  for (const std::string kind : kinds) {
    const std::string text = mxnet_file(kind);
    for (size_t at = 0; at < text.size(); at += 3) {
      for (const char c : {'7', '-', '"', '[', '1'}) {
        std::string damaged = text;
        damaged[at] = c;
        try {
          const Symbol s = Symbol::load_json(damaged);
          try {
            s.infer_shape({});
          } catch (const Error&) {
          }
          CHECK(Symbol::load_json(s.tojson()).num_outputs() == s.num_outputs());
        } catch (const IoError&) {
        } catch (const ValueError& e) {
          CHECK(std::string(e.what()).find("[tojson]") != std::string::npos);
        }
      }
    }
  }
}

}  // namespace control_flow_file_test
