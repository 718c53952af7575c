// Every row of the test table as an ONNX model: written, read again and run, with the same results. With a folder in
// KAON_ONNX_CASES the models of all opsets are written there with inputs and results, for check_rows.py.
#include "kaon/tests/ops/table/onnx_rows.h"

#include <fmt/format.h>

#include <catch2/catch.hpp>
#include <cmath>
#include <cstdlib>
#include <fstream>

#include "kaon/graph/control_flow.h"
#include "kaon/interchange/numpy_files.h"
#include "kaon/interchange/onnx.h"
#include "kaon/interchange/onnx/export/program.h"
#include "kaon/tests/support/files.h"
#include "kaon/tests/support/skip.h"

namespace kaon::test {

namespace {

std::vector<std::pair<std::string, TensorMeta>> metas_of(const OnnxCase& c) {
  std::vector<std::pair<std::string, TensorMeta>> metas;
  for (size_t i = 0; i < c.inputs.size(); ++i)
    metas.emplace_back(c.names[i], TensorMeta{c.inputs[i].shape(), c.inputs[i].dtype()});
  return metas;
}

void count(const onnx::format::Graph& graph, std::set<std::string>& operators) {
  for (const auto& node : graph.nodes) {
    operators.insert(node.op_type);
    for (const auto& attribute : node.attributes) {
      for (const auto& body : attribute.graphs) count(*body, operators);
    }
  }
}

// f(visible outputs) as symbols and as arrays.
template <class F>
OnnxCase made(const std::string& name, const std::string& title, F&& f, const std::vector<NDArray>& inputs) {
  OnnxCase c{.operator_name = name, .title = title};
  std::vector<Symbol> variables;
  for (size_t i = 0; i < inputs.size(); ++i) {
    c.names.push_back(fmt::format("x{}", i));
    variables.push_back(Symbol::variable(c.names.back(), inputs[i].shape(), inputs[i].dtype()));
  }
  c.inputs = inputs;
  c.program = Symbol::group(f(sym, variables));
  c.outputs = f(nd, inputs);
  return c;
}

}  // namespace

std::vector<OnnxCase> onnx_cases(const Row& row, const std::vector<DType>& dtypes) {
  const bool has_result = row.def->visible_outputs(row.attrs.get()) > 0;  // else it is called outside of graphs
  if (row.options.refused || row.options.training || !has_result) return {};
  for (DType t : dtypes) {
    if (!row.accepts(t) || !(row.options.tried & dtype_bit(t))) continue;
    OnnxCase c{.operator_name = std::string(row.def->name()), .title = fmt::format("{} {}", row.str(), name_of(t))};
    auto [program, names] = symbol_of(row);
    c.program = program, c.names = names;
    c.inputs = make_arrays(make_inputs(row, t));
    const OpTraits& traits = row.def->traits_of(row.attrs.get());
    c.is_random = traits.random || row.options.inspect;
    c.tolerance = std::max(tolerance(t), 1e-9) * std::max(1.0, row.options.loosen);
    if (t == DType::float32) c.tolerance = std::max(c.tolerance, 2e-5);
    c.outputs = in_mode(row, false, make_arrays(make_inputs(row, t)),
                        [&](const std::vector<NDArray>& arrays) { return call(row, arrays, true); });
    for (const NDArray& y : c.outputs) c.tolerance = std::max(c.tolerance, 2 * tolerance(y.dtype()));
    return {c};
  }
  return {};
}

std::vector<OnnxCase> control_flow_cases() {
  std::vector<OnnxCase> cases;
  const NDArray rows = nd.array({{1, -2, 3}, {4, 5, -6}, {7, 8, 9}, {-1, 0, 2}}), numbers = nd.array({1, 2, 3, 4});
  const NDArray zero = nd.zeros({3}), one = nd.ones({1}), more = nd.array({0.5, 0.25, 2});
  cases.push_back(made("_foreach", "foreach of rows with a state and a captured value",
                       [](auto& F, const auto& x) {
                         using A = std::decay_t<decltype(x[0])>;
                         auto [outs, states] = contrib::foreach (
                             [&](const std::vector<A>& row, const std::vector<A>& s) {
                               const A next = s[0] * 0.5 + row[0] * x[2];
                               return std::pair<std::vector<A>, std::vector<A>>{{F.tanh(next)}, {next}};
                             },
                             std::vector<A>{x[0]}, std::vector<A>{x[1]});
                         return std::vector<A>{outs[0], states[0]};
                       },
                       {rows, zero, more}));
  cases.push_back(made("_foreach", "foreach of the numbers of a vector",
                       [](auto&, const auto& x) {
                         using A = std::decay_t<decltype(x[0])>;
                         auto [outs, states] = contrib::foreach (
                             [&](const std::vector<A>& row, const std::vector<A>& s) {
                               return std::pair<std::vector<A>, std::vector<A>>{{row[0] * 2.0}, {s[0] + row[0]}};
                             },
                             std::vector<A>{x[0]}, std::vector<A>{x[1]});
                         return std::vector<A>{outs[0], states[0]};
                       },
                       {numbers, one}));
  for (double start : {1.0, 50.0}) {
    cases.push_back(
        made("_while_loop", fmt::format("while_loop from {}", start),
             [](auto&, const auto& x) {
               using A = std::decay_t<decltype(x[0])>;
               auto [outs, states] = contrib::while_loop(
                   [](const std::vector<A>& s) { return s[0] < 20.0; },
                   [&](const std::vector<A>& s) {
                     return std::pair<std::vector<A>, std::vector<A>>{{s[1] + s[0]}, {s[0] * 2.0, s[1] + x[2]}};
                   },
                   std::vector<A>{x[0], x[1]}, 7);
               return std::vector<A>{outs[0], states[0], states[1]};
             },
             {nd.full({1}, start), zero, more}));
  }
  for (double which : {0.0, 1.0}) {
    cases.push_back(made("_cond", fmt::format("cond of {}", which),
                         [](auto& F, const auto& x) {
                           using A = std::decay_t<decltype(x[0])>;
                           return contrib::cond(
                               x[0],
                               [&] {
                                 return std::vector<A>{F.exp(x[1]), x[1] + 1.0};
                               },
                               [&] {
                                 return std::vector<A>{x[1] * 2.0, F.relu(x[1])};
                               });
                         },
                         {nd.full({1}, which), rows}));
  }
  return cases;
}

std::vector<OnnxCase> all_onnx_cases() {
  std::vector<OnnxCase> cases;
  for (const Row& row : all_rows()) {
    // in one dtype; then, where inputs follow the row's, in integers, bool and 16 bits
    std::vector<std::vector<DType>> tried{{DType::float32, DType::float64, DType::int32, DType::int64, DType::uint8}};
    if (row.follows_dtype() && row.accepts(DType::float32)) {
      tried.insert(tried.end(), {{DType::int32}, {DType::uint8}, {DType::boolean}, {DType::float16}});
    }
    for (const std::vector<DType>& dtypes : tried) {
      for (OnnxCase& c : onnx_cases(row, dtypes)) cases.push_back(std::move(c));
    }
  }
  for (OnnxCase& c : control_flow_cases()) cases.push_back(std::move(c));
  return cases;
}

std::string write_case(const OnnxCase& c, int64_t opset, const std::filesystem::path& path) {
  try {
    onnx::save(c.program, metas_of(c), {}, path, {.opset = opset});
  } catch (const ValueError& e) {
    return e.what();
  }
  return "";
}

std::set<std::string> operators_of(const OnnxCase& c, int64_t opset, std::string& why) {
  onnx::exporting::Builder builder(opset);
  onnx::exporting::ValueNames names;
  std::unordered_map<std::string, Symbol> variables;
  for (const auto& [name, meta] : metas_of(c)) {
    variables[name] = Symbol::variable(name, meta.shape, meta.dtype);
    names[variables[name].entry().node.get()] = {builder.unique(name)};
  }
  std::set<std::string> operators;
  try {
    autograd::ModeScope mode(false, false);
    onnx::exporting::write_program(graph::compose(c.program, variables), builder, names);
    count(builder.graph(), operators);
  } catch (const ValueError& e) {
    why = e.what();
    return {};
  }
  if (operators.empty()) operators.insert("");  // arrays alone
  return operators;
}

void write_files(const std::filesystem::path& folder, const std::vector<OnnxCase>& cases) {
  int number = 0;
  for (const OnnxCase& c : cases) {
    const auto here = folder / fmt::format("{:04}", number++);
    std::filesystem::create_directories(here);
    std::ofstream title(here / "title.txt");
    title << c.operator_name << "\n" << c.title << "\n" << c.tolerance << " " << c.is_random << "\n";
    for (size_t i = 0; i < c.inputs.size(); ++i) npy::save(here / fmt::format("in{}.npy", i), c.inputs[i]);
    for (size_t i = 0; i < c.outputs.size(); ++i) npy::save(here / fmt::format("out{}.npy", i), c.outputs[i]);
    for (int64_t opset = first_onnx_opset; opset <= last_onnx_opset; ++opset) {
      const std::string why = write_case(c, opset, here / fmt::format("{}.onnx", opset));
      if (!why.empty()) std::ofstream(here / fmt::format("{}.txt", opset)) << why << "\n";
    }
  }
}

}  // namespace kaon::test

namespace onnx_rows_test {

using namespace kaon;
using namespace kaon::test;

namespace {

// The first difference between what a model gives and what it should.
std::string check(const OnnxCase& c, const std::filesystem::path& path) {
  const std::vector<NDArray> got = onnx::load(path).forward(c.inputs);
  if (got.size() != c.outputs.size()) return fmt::format("{} outputs, expected {}", got.size(), c.outputs.size());
  for (size_t i = 0; i < got.size(); ++i) {
    if (got[i].dtype() != c.outputs[i].dtype()) {
      return fmt::format("output {} is {}, expected {}", i, name_of(got[i].dtype()), name_of(c.outputs[i].dtype()));
    }
    if (c.is_random) continue;
    const Host want = read(c.outputs[i]);
    const double most = c.tolerance * std::max(1.0, largest(want));
    if (std::string wrong = compare(fmt::format("output {}", i), read(got[i]), want, c.tolerance, most); !wrong.empty())
      return wrong;
  }
  return "";
}

std::vector<OnnxCase> first_of_each(std::vector<OnnxCase> all) {
  std::set<std::string> seen;
  std::erase_if(all, [&](const OnnxCase& c) { return !seen.insert(c.operator_name).second; });
  return all;
}

void check_cases(const std::vector<OnnxCase>& cases) {
  const ScratchFolder scratch;
  for (const OnnxCase& c : cases) {
    for (int64_t opset : {first_onnx_opset, last_onnx_opset}) {
      INFO(c.title << ", opset " << opset);
      std::string wrong;
      try {
        if (write_case(c, opset, scratch / "row.onnx").empty()) wrong = check(c, scratch / "row.onnx");
      } catch (const std::exception& e) {
        wrong = e.what();
      }
      CHECK(wrong == "");
    }
  }
}

}  // namespace

TEST_CASE("onnx rows: files for other tools", "[.]") {
  const char* folder = std::getenv("KAON_ONNX_CASES");
  if (folder == nullptr) return skip("KAON_ONNX_CASES names no folder");
  write_files(folder, all_onnx_cases());
}

TEST_CASE("onnx rows: each operator that is written is read again with the same results") {
  check_cases(first_of_each(all_onnx_cases()));
}

TEST_CASE("onnx rows: every row that is written is read again with the same results", "[slow]") {
  check_cases(all_onnx_cases());
}

}  // namespace onnx_rows_test
