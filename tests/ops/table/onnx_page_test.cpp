// docs/onnx_save.md: which operators onnx::save writes, from which opset and as which of ONNX's, or why not. It is made
// here, from the test table, and must be up to date; with KAON_WRITE_DOCS=1 in the environment the case writes it.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdlib>
#include <fstream>
#include <map>
#include <regex>
#include <sstream>

#include "kaon/interchange/onnx/export/program.h"
#include "kaon/ops/operator/registry.h"
#include "kaon/tests/ops/table/onnx_rows.h"

namespace onnx_page_test {

using namespace kaon;
using namespace kaon::test;

namespace {

struct Answer {
  std::set<int64_t> opsets;  // the first, by case
  std::set<std::string> operators, reasons;
  int written = 0, cases = 0;
};

// Without the node's name, which cases choose.
std::string plain(const std::string& why) {
  return std::regex_replace(why, std::regex(R"(^\[onnx\] (node \S+ \([^)]*\): )?)"), "");
}

void add(Answer& answer, const OnnxCase& c) {
  const auto is_empty = [](const NDArray& y) { return y.size() == 0; };
  if (std::ranges::all_of(c.outputs, is_empty)) return;  // written of any operator
  ++answer.cases;
  std::string why;
  const std::set<std::string> latest = operators_of(c, last_onnx_opset, why);
  if (latest.empty()) {
    answer.reasons.insert(plain(why));
    return;
  }
  ++answer.written;
  int64_t first = first_onnx_opset;
  while (operators_of(c, first, why).empty()) ++first;
  answer.opsets.insert(first);
  answer.operators.insert(latest.begin(), latest.end());
}

std::string row(std::string_view name, const Answer& a) {
  std::string opsets, operators, reasons;
  for (int64_t opset : a.opsets) opsets += (opsets.empty() ? "" : ", ") + std::to_string(opset);
  for (const std::string& op : a.operators) {
    if (!op.empty()) operators += (operators.empty() ? "`" : ", `") + op + "`";
  }
  if (a.written > 0 && operators.empty()) operators = "an array";
  for (const std::string& why : a.reasons) reasons += (reasons.empty() ? "" : "; ") + why;
  if (a.written > 0 && !reasons.empty()) reasons = "of some attributes: " + reasons;
  return fmt::format("| `{}` | {} | {} | {} |\n", name, opsets, operators, reasons);
}

std::string page() {
  std::map<std::string, Answer> answers;
  for (const OnnxCase& c : all_onnx_cases()) add(answers[c.operator_name], c);
  int written = 0, all = 0;
  std::string table;
  const auto is_of_nets = [](const OpDef& def) {
    return def.traits.name.find("backward") == std::string_view::npos && def.traits.mutates == 0;
  };
  std::vector<std::string> rows;
  for (const OpDef* def : ops::all_op_defs()) {
    const std::string name(def->traits.name);
    const auto found = answers.find(name);
    const bool has_case = found != answers.end();
    if (!is_of_nets(*def) && !(has_case && found->second.written > 0)) continue;
    ++all;
    if (!has_case) {
      Answer none;
      none.reasons.insert(onnx::exporting::reason_of(*def));
      rows.push_back(row(name, none));
      continue;
    }
    written += found->second.written > 0;
    rows.push_back(row(name, found->second));
    answers.erase(found);
  }
  for (const char* name : {"_foreach", "_while_loop", "_cond"}) {
    ++all, ++written;
    rows.push_back(row(name, answers.at(name)));
  }
  for (const std::string& r : rows) table += r;
  return fmt::format(R"(# Operators as ONNX

What `onnx::save` does with each operator, of the {} that a net may have: {} are written. The test case "onnx page" makes
this page: it writes each row of the table of tests (`tests/ops/table/`), in up to five dtypes, and fails while the page is
out of date. `tests/onnx_suite/check_rows.py` has these models checked by `onnx.checker` and run by ONNX Runtime. What
`save` does is in [interchange.md](interchange.md).

opset: the first that the operator is written at, of 17 to 24; several, where attributes or dtypes decide. ONNX: what it is
written as at opset 24, with all that any of its rows needs; an operator that is made of others is written as these.
Operators that change their inputs, as the updates of optimizers do, and those of gradients are refused, and so are those
in the last column, with an error that names operator and node.

| operator | opset | ONNX | why not |
|---|---|---|---|
{})",
                     all, written, table);
}

}  // namespace

TEST_CASE("onnx page") {
  const std::string expected = page();
  const auto path = std::filesystem::path(KAON_TEST_DATA_DIR) / "../../docs/onnx_save.md";
  if (std::getenv("KAON_WRITE_DOCS") != nullptr) {
    std::ofstream(path) << expected;
    return;
  }
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  INFO("docs/onnx_save.md is out of date: run this case with KAON_WRITE_DOCS=1");
  const bool is_current = text.str() == expected;
  CHECK(is_current);
}

TEST_CASE("onnx page: an operator has one writer") {
  std::set<const OpDef*> seen;
  for (const auto& rows : onnx::exporting::all_writers()) {
    for (const onnx::exporting::WriterRow& r : rows) {
      INFO(r.op->traits.name);
      CHECK(seen.insert(r.op).second);
    }
  }
}

}  // namespace onnx_page_test
