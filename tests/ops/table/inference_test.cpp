// Shapes and dtypes that are inferred from some that are known, held to what the operators' own infer says, on every
// row of the test table.
#include <fmt/format.h>

#include <catch2/catch.hpp>
#include <random>

#include "kaon/graph/inference/infer.h"
#include "kaon/graph/inference/shape_rules.h"
#include "kaon/tests/ops/table/op_table.h"
#include "kaon/tests/support/row_run.h"

namespace inference_test {

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

// The operator on variables x0, x1, ... of the dtypes that are true.
Symbol program_of(const Row& row, const Truth& truth) {
  std::vector<Symbol> inputs;
  std::vector<const Symbol*> pointers;
  for (size_t i = 0; i < truth.inputs.size(); ++i) {
    inputs.push_back(sym.var(fmt::format("x{}", i), Shape::unknown(), truth.inputs[i].dtype));
  }
  for (const Symbol& s : inputs) pointers.push_back(&s);
  std::vector<Symbol> outs{size_t(row.def->visible_outputs(row.attrs.get()))};
  Symbol::apply(*row.def, row.attrs.get(), pointers, outs, std::source_location::current(), "node");
  return Symbol::group(outs);
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
    const Symbol s = program_of(row, *truth);
    Symbol::InferredShapes got;
    REQUIRE_NOTHROW(got = s.infer_shape_partial(given(*truth)));
    CHECK(compare(got, *truth, size_t(s.num_outputs()), true) == "");
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
    const Symbol s = program_of(row, *truth);
    const auto got = s.infer_shape_partial(known);
    CHECK(compare_inputs(s, got, all, true) == "");
    CHECK(compare(got, *truth, size_t(s.num_outputs()), true) == "");
  }
}

// In every other round the first output is known, too: it is added to a variable `t`.
TEST_CASE("what follows from shapes that are hidden in part contradicts nothing, on every row", "[inference]") {
  std::mt19937 random(7);
  int restored = 0;
  for (const Row& row : all_rows()) {
    if (!is_tried(row) || row.inputs.empty()) continue;
    const auto truth = truth_of(row, DType::float32);
    if (!truth) continue;
    const Symbol program = program_of(row, *truth);
    const int visible = program.num_outputs();
    // where other shapes would do as well, what is hidden whole is found to be one of these
    const bool has_choices = !row.options.infers || row.def->name() == "pick" || row.def->name() == "_rnn_param_concat";
    for (int round = 0; round < 6; ++round) {
      const Shapes all = given(*truth);
      Shapes known = all;
      for (auto& [name, shape] : known) {
        if (has_choices && name != "x0") continue;
        for (int64_t& d : std::span(&shape[0], size_t(shape.ndim()))) d = random() % 3 == 0 ? -1 : d;
        if (random() % 6 == 0) shape = Shape::unknown();
      }
      Shapes truths = all;
      Symbol s = program;
      if (round % 2 == 1) {
        const Symbol t = sym.var("t", truth->outputs[0].shape, truth->outputs[0].dtype), first = program.output(0);
        const op::AddN add{.num_args = 2};
        const Symbol* pair[] = {&first, &t};
        Symbol::apply(op::AddN::def, &add, pair, {&s, 1}, std::source_location::current(), "tie");
        truths["t"] = truth->outputs[0].shape;
      }
      std::string text = fmt::format("{} round {}", row.str(), round);
      for (const auto& [name, shape] : known) text += fmt::format(" {} {}", name, shape.str());
      INFO(text);
      Symbol::InferredShapes got;
      try {
        got = s.infer_shape_partial(known);
      } catch (const Error& e) {
        FAIL_CHECK(e.what());
        continue;
      }
      CHECK(compare_inputs(s, got, truths, false) == "");
      if (round % 2 == 0) CHECK(compare(got, *truth, size_t(visible), false) == "");
      const auto names = s.list_arguments();
      for (size_t i = 0; i < names.size(); ++i) {
        if (names[i] != "t" && got.arguments[i].is_known() && !known.at(names[i]).is_known()) ++restored;
      }
    }
  }
  CHECK(restored > 1000);
}

TEST_CASE("dtypes that are inferred without shapes are those of infer, on every row", "[inference]") {
  std::mt19937 random(11);
  for (const Row& row : all_rows()) {
    if (!is_tried(row)) continue;
    // what a quantiser has decided follows from nothing
    const bool follows = row.def->traits.in_mxnet && !row.def->name().starts_with("_sg_");
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
        std::string text = fmt::format("{} for {}", row.str(), name_of(type));
        for (const auto& [name, t] : known) text += fmt::format(" {} {}", name, name_of(t));
        INFO(text);
        Symbol::InferredTypes got;
        try {
          got = p.symbol.infer_type(known);
        } catch (const Error& e) {
          FAIL_CHECK(e.what());
          continue;
        }
        for (size_t i = 0; i < got.outputs.size() && round == 0; ++i) {
          INFO("output " << i << " is " << (got.outputs[i] ? name_of(*got.outputs[i]) : "unknown"));
          if (follows || got.outputs[i]) CHECK(got.outputs[i] == truth->outputs[i].dtype);
        }
      }
    }
  }
}

}  // namespace inference_test
