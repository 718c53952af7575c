// Shapes and dtypes that are inferred from some that are known, held to what the operators' own infer says, on every
// row of the test table.
#include <fmt/format.h>

#include <catch2/catch.hpp>
#include <random>

#include "kaon/graph/inference/infer.h"
#include "kaon/graph/inference/shape_rules.h"
#include "kaon/tests/ops/table/op_table.h"
#include "kaon/tests/support/row_run.h"

using namespace kaon;
using namespace kaon::test;

namespace {

// What infer makes of a row whose inputs are of dtype `type` where they have none of their own.
struct Truth {
  std::vector<TensorMeta> inputs, outputs;
};
std::optional<Truth> truth_of(const Row& row, DType type) {
  Truth t;
  for (const Input& i : row.inputs) t.inputs.push_back({i.shape, i.dtype.value_or(type)});
  t.outputs.resize(size_t(row.def->num_outputs(row.attrs.get())));
  std::vector<TensorMeta*> given;
  for (TensorMeta& m : t.inputs) given.push_back(&m);
  InferContext context(row.def->name().data(), row.def->traits, given, t.outputs);
  try {
    row.def->infer(row.attrs.get(), context);
  } catch (const Error&) {
    return std::nullopt;  // what the row is there to show
  }
  return t;
}

// What is known says nothing else than the truth.
bool agrees(const Shape& known, const Shape& truth) {
  Shape merged = truth;
  return graph::merge(merged, known) && merged == truth;
}

std::string compare(const Symbol::InferredShapes& got, const Truth& truth, size_t visible, bool exact) {
  const auto differ = [&](const char* what, size_t i, const Shape& a, const Shape& b) -> std::string {
    if (exact ? a == b : agrees(a, b)) return "";
    return fmt::format("{} {} is {}, infer says {}; ", what, i, a.str(), b.str());
  };
  std::string wrong;
  for (size_t i = 0; i < visible; ++i) wrong += differ("output", i, got.outputs[i], truth.outputs[i].shape);
  return wrong;
}

bool is_tried(const Row& row) { return row.def->num_outputs(row.attrs.get()) > 0 && !row.options.refused; }

// The inputs are variables x0, x1, ... in this order, but an auxiliary state comes apart.
Shapes given(const Truth& truth) {
  Shapes shapes;
  for (size_t i = 0; i < truth.inputs.size(); ++i) shapes[fmt::format("x{}", i)] = truth.inputs[i].shape;
  return shapes;
}
std::string compare_inputs(const Symbol& s, const Symbol::InferredShapes& got, const Shapes& truth, bool exact) {
  std::string wrong;
  const auto look = [&](const std::vector<std::string>& names, const std::vector<Shape>& shapes) {
    for (size_t i = 0; i < names.size(); ++i) {
      const Shape& t = truth.at(names[i]);
      if (exact ? shapes[i] == t : agrees(shapes[i], t)) continue;
      wrong += fmt::format("{} is {}, was {}; ", names[i], shapes[i].str(), t.str());
    }
  };
  look(s.list_arguments(), got.arguments);
  look(s.list_auxiliary_states(), got.auxiliary_states);
  return wrong;
}

}  // namespace

TEST_CASE("partial inference of known shapes is infer, on every row", "[inference]") {
  for (const Row& row : all_rows()) {
    if (!is_tried(row)) continue;
    const auto truth = truth_of(row, DType::float32);
    if (!truth) continue;
    INFO(row.str());
    const RowSymbol p = symbol_of(row);
    Symbol::InferredShapes got;
    REQUIRE_NOTHROW(got = p.symbol.infer_shape_partial(given(*truth)));
    CHECK(compare(got, *truth, size_t(p.symbol.num_outputs()), true) == "");
  }
}

TEST_CASE("weights that are hidden follow from the data, on every row", "[inference]") {
  for (const Row& row : all_rows()) {
    if (!is_tried(row) || !row.options.infers) continue;
    const auto truth = truth_of(row, DType::float32);
    if (!truth) continue;
    Shapes known = given(*truth);
    const Shapes all = known;
    for (size_t i = 0; i < row.inputs.size(); ++i) {
      if (row.def->traits_of(row.attrs.get()).infers >> i & 1) known.erase(fmt::format("x{}", i));
    }
    if (known.size() == all.size()) continue;
    INFO(row.str());
    const RowSymbol p = symbol_of(row);
    const auto got = p.symbol.infer_shape_partial(known);
    CHECK(compare_inputs(p.symbol, got, all, true) == "");
    CHECK(compare(got, *truth, size_t(p.symbol.num_outputs()), true) == "");
  }
}

// The outputs are known too: a variable `t` of the output's shape is made equal to it.
TEST_CASE("what follows from shapes that are hidden in part contradicts nothing, on every row", "[inference]") {
  std::mt19937 random(7);
  int restored = 0, hidden_all = 0;
  for (const Row& row : all_rows()) {
    if (!is_tried(row)) continue;
    const auto truth = truth_of(row, DType::float32);
    if (!truth || row.inputs.empty()) continue;
    const RowSymbol p = symbol_of(row);
    const size_t visible = size_t(p.symbol.num_outputs());
    for (int round = 0; round < 6; ++round) {
      Shapes known = given(*truth);
      const Shapes all = known;
      int hidden = 0;
      for (auto& [name, shape] : known) {
        for (int i = 0; i < shape.ndim(); ++i) {
          if (random() % 3 == 0) shape[i] = -1, ++hidden;
        }
        if (random() % 6 == 0) hidden += shape.ndim(), shape = Shape::unknown();
      }
      const bool with_output = round % 2 == 1 && !row.def->name().starts_with("_cond");
      Symbol s = p.symbol;
      if (with_output) {  // elementwise with an array of the output's shape
        const Symbol t = sym.var("t", truth->outputs[0].shape);
        const op::AddN add{.num_args = 2};
        Symbol tied;
        const Symbol first = p.symbol.output(0);
        const Symbol* pair[] = {&first, &t};
        Symbol::apply(op::AddN::def, &add, pair, {&tied, 1}, std::source_location::current(), "tie");
        s = visible == 1 ? tied : Symbol::group({tied, p.symbol.output(1)});
      }
      INFO(row.str() << " round " << round);
      Symbol::InferredShapes got;
      Shapes truths = all;
      truths["t"] = truth->outputs[0].shape;
      try {
        got = s.infer_shape_partial(known);
      } catch (const Error& e) {
        std::string text;
        for (const auto& [name, shape] : known) text += fmt::format(" {} {}", name, shape.str());
        FAIL_CHECK(e.what() << text);
        continue;
      }
      std::string text;
      for (const auto& [name, shape] : known) text += fmt::format(" {} {}", name, shape.str());
      INFO(text);
      CHECK(compare_inputs(s, got, truths, false) == "");
      if (!with_output) CHECK(compare(got, *truth, visible, false) == "");
      hidden_all += hidden;
      for (size_t i = 0; i < got.arguments.size(); ++i) {
        const auto names = s.list_arguments();
        if (names[i] == "t") continue;
        const Shape& before = known.at(names[i]);
        if (before.ndim() < 0) {
          for (int64_t d : got.arguments[i]) restored += d >= 0;
        } else {
          for (int d = 0; d < before.ndim(); ++d) restored += before[d] < 0 && got.arguments[i][d] >= 0;
        }
      }
    }
  }
  CHECK(restored * 4 > hidden_all);  // and much follows
}

TEST_CASE("dtypes that are inferred without shapes are those of infer, on every row", "[inference]") {
  std::mt19937 random(11);
  for (const Row& row : all_rows()) {
    if (!is_tried(row)) continue;
    const RowSymbol p = symbol_of(row);
    for (const DType type : ops::all_dtypes) {
      if (!row.accepts(type)) continue;
      const auto truth = truth_of(row, type);
      if (!truth) continue;
      for (int round = 0; round < 3; ++round) {
        DTypes known, all;
        for (size_t i = 0; i < truth->inputs.size(); ++i) {
          const std::string name = fmt::format("x{}", i);
          all[name] = truth->inputs[i].dtype;
          if (round == 0 || random() % 2 == 0) known[name] = truth->inputs[i].dtype;
        }
        Symbol::InferredTypes got;
        std::string text = fmt::format("{} for {}", row.str(), name_of(type));
        for (const auto& [name, t] : known) text += fmt::format(" {} {}", name, name_of(t));
        INFO(text);
        try {
          got = p.symbol.infer_type(known);
        } catch (const Error& e) {
          FAIL_CHECK(e.what());
          continue;
        }
        for (size_t i = 0; i < got.outputs.size(); ++i) {
          INFO("output " << i << (got.outputs[i] ? name_of(*got.outputs[i]) : "unknown"));
          if (round == 0) {
            CHECK(got.outputs[i] == truth->outputs[i].dtype);
          }
        }
      }
    }
  }
}
