#include "symbols.h"

namespace control_flow_test {

using namespace symbols;
using Catch::Contains;
using Strings = std::vector<std::string>;

namespace {

std::vector<Sym> cut(const Sym& symbol) {
  SymbolHandle* handles = nullptr;
  int count = -1;
  ok(MXSymbolCutSubgraph(symbol.get(), &handles, &count));
  std::vector<Sym> parts;
  for (int i = 0; i < count; ++i) parts.emplace_back(handles[i]);
  return parts;
}

Sym marked(Sym symbol, const char* name = "loop0") {
  ok(MXSymbolSetAttr(symbol.get(), "__subgraph_name__", name));
  return symbol;
}

// sum of rows: out = row * w + state, which is the next state too; w is from outside.
struct Loop {
  Sym data = Sym::variable("data"), init = Sym::variable("init"), w = Sym::variable("w");
  Sym body() const {
    const Sym row = marked(Sym::variable("data-0")), state = marked(Sym::variable("init-0"));
    const Sym product = marked(Sym::call("elemwise_mul", "mul", {}, {&row, &w}));
    const Sym sum = marked(Sym::call("elemwise_add", "add", {}, {&product, &state}));
    const Sym next = marked(Sym::call("_copy", "next", {}, {&sum}));
    return Sym::group({&sum, &next});
  }
  Sym loop() const {
    const Sym graph = body();
    const std::vector<Sym> entering = cut(graph);
    REQUIRE(entering.size() == 1);
    CHECK(entering[0].outputs() == Strings{"w"});
    return Sym::call("_foreach", "loop",
                     {{"num_outputs", "2"},
                      {"num_out_data", "1"},
                      {"in_data_locs", "[0]"},
                      {"in_state_locs", "[2]"},
                      {"remain_locs", "[1]"},
                      {"num_args", "4"}},
                     {&graph, &data, &init, &entering[0]});
  }
};

std::vector<Array> run(const Sym& symbol, const std::vector<const Array*>& arrays) {
  std::vector<NDArrayHandle> handles = handles_of(arrays);
  ExecutorHandle executor = nullptr;
  ok(MXExecutorBindEX(symbol.get(), 1, 0, 0, nullptr, nullptr, nullptr, uint32_t(handles.size()), handles.data(),
                      nullptr, nullptr, 0, nullptr, nullptr, &executor));
  ok(MXExecutorForward(executor, 0));
  uint32_t n = 0;
  NDArrayHandle* outputs = nullptr;
  ok(MXExecutorOutputs(executor, &n, &outputs));
  std::vector<Array> results;
  for (uint32_t i = 0; i < n; ++i) results.emplace_back(outputs[i]);
  ok(MXExecutorFree(executor));
  return results;
}

}  // namespace

TEST_CASE("a foreach is made from a subgraph, runs, and is written with its names", "[mxnet]") {
  const Loop parts;
  const Sym loop = parts.loop();
  CHECK(loop.outputs() == Strings{"loop_output0", "loop_output1"});
  CHECK(loop.arguments() == Strings{"data", "init", "w"});
  const Array data({3, 2}, {1, 2, 3, 4, 5, 6}), init({2}, {10, 20}), w({2}, {1, -1});
  const std::vector<Array> results = run(loop, {&data, &init, &w});
  REQUIRE(results.size() == 2);
  CHECK(results[0].values() == std::vector<float>{11, 18, 14, 14, 19, 8});
  CHECK(results[1].values() == std::vector<float>{19, 8});
  const std::string json = loop.tojson();
  CHECK_THAT(json, Contains(R"("name": "data-0")") && Contains(R"("in_state_locs": "[2]")"));
  const Sym again = Sym::json(json);
  CHECK(again.tojson() == json);
  CHECK(run(again, {&data, &init, &w})[1].values() == std::vector<float>{19, 8});
  CHECK(again.by(MXSymbolCopy).tojson() == json);
}

TEST_CASE("a while loop and a condition run", "[mxnet]") {
  const auto inside = [](const char* op, const char* name, const Texts& attributes,
                         const std::vector<const Sym*>& inputs) {
    return marked(Sym::call(op, name, attributes, inputs));
  };
  const Sym i = Sym::variable("i");
  const Sym i0 = marked(Sym::variable("i-0")), i1 = marked(Sym::variable("i-0"));
  const Sym condition = inside("_lesser_scalar", "less", {{"scalar", "5"}}, {&i0});
  const Sym out = inside("_mul_scalar", "out", {{"scalar", "10"}}, {&i1});
  const Sym next = inside("_plus_scalar", "next", {{"scalar", "2"}}, {&i1});
  const Sym body = Sym::group({&out, &next});
  CHECK(cut(condition).empty());
  CHECK(cut(body).empty());
  const Sym loop = Sym::call("_while_loop", "loop",
                             {{"max_iterations", "4"},
                              {"cond_input_locs", "[0]"},
                              {"func_input_locs", "[0]"},
                              {"func_var_locs", "[0]"},
                              {"num_out_data", "1"},
                              {"num_outputs", "2"},
                              {"num_args", "3"}},
                             {&condition, &body, &i});
  const Array start({1}, {1});
  const std::vector<Array> results = run(loop, {&start});
  REQUIRE(results.size() == 2);
  CHECK(results[1].values() == std::vector<float>{5});
  CHECK(results[0].values()[0] == 10);
  CHECK(results[0].values()[1] == 30);

  const Sym p = Sym::variable("p"), x = Sym::variable("x");
  const Sym predicate = inside("_copy", "pred", {}, {&p});
  const Sym then = inside("_plus_scalar", "then", {{"scalar", "1"}}, {&x});
  const Sym otherwise = inside("_mul_scalar", "else", {{"scalar", "7"}}, {&x});
  std::vector<Sym> entering;
  for (const Sym* s : {&predicate, &then, &otherwise}) {
    for (Sym& e : cut(*s)) entering.push_back(std::move(e));
  }
  REQUIRE(entering.size() == 3);
  const Sym chosen = Sym::call("_cond", "cond",
                               {{"cond_input_locs", "[0]"},
                                {"then_input_locs", "[1]"},
                                {"else_input_locs", "[2]"},
                                {"num_outputs", "1"},
                                {"num_args", "6"}},
                               {&predicate, &then, &otherwise, &entering[0], &entering[1], &entering[2]});
  CHECK(chosen.arguments() == Strings{"p", "x"});
  const Array yes({1}, {1}), no({1}, {0}), value({2}, {2, 3});
  CHECK(run(chosen, {&yes, &value})[0].values() == std::vector<float>{3, 4});
  CHECK(run(chosen, {&no, &value})[0].values() == std::vector<float>{14, 21});
}

TEST_CASE("loops that cannot be are refused when they are composed", "[mxnet]") {
  const Loop parts;
  const Sym graph = parts.body();
  const std::vector<Sym> entering = cut(graph);
  Texts attributes{{"num_outputs", "2"},     {"num_out_data", "1"},  {"in_data_locs", "[0]"},
                   {"in_state_locs", "[2]"}, {"remain_locs", "[1]"}, {"num_args", "4"}};
  Sym few = Sym::atomic("_foreach", attributes);
  CHECK(few.compose("loop", {}) == -1);
  CHECK_THAT(MXGetLastError(), Contains("1 subgraphs"));
  Sym wrong = Sym::atomic("_foreach", attributes);
  CHECK(wrong.compose("loop", {&graph, &parts.data, &parts.init}) == -1);
  attributes[2].second = "[9]";
  Sym outside = Sym::atomic("_foreach", attributes);
  CHECK(outside.compose("loop", {&graph, &parts.data, &parts.init, &entering[0]}) == -1);
  CHECK_THAT(MXGetLastError(), Contains("in_data_locs"));
  // before it has been composed a loop is no graph
  CachedOpHandle op = nullptr;
  CHECK(MXCreateCachedOpEx(outside.get(), 0, nullptr, nullptr, &op) == -1);
  CHECK_THAT(MXGetLastError(), Contains("no inputs yet"));
}

}  // namespace control_flow_test
