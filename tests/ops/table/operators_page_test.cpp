// docs/operators.md: every operator of MXNet 1.9.1 with Kaon's answer, and Kaon's own. It is made here, from the
// registry and the test table, and must be up to date; with KAON_WRITE_DOCS=1 in the environment the case writes it.
#include <fmt/format.h>

#include <catch2/catch.hpp>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>

#include "kaon/ops/operator/registry.h"
#include "kaon/tests/ops/table/op_table.h"

namespace operators_page_test {

using namespace kaon;
using namespace kaon::ops;
using namespace kaon::test;

namespace {

struct Reason {
  std::string_view prefix;  // of names
  std::string_view text;
};

// Why an operator of MXNet is not here. The first line whose prefix fits counts.
constexpr Reason reasons[] = {
    {"_contrib_dgl_", "graphs of DGL, which are sparse"},
    {"_contrib_edge_id", "graphs of DGL, which are sparse"},
    {"_contrib_boolean_mask", "the shape of the result depends on values: functions of nd, outside of graphs"},
    {"_npx_nonzero", "the shape of the result depends on values: functions of nd, outside of graphs"},
    {"_npi_unique", "the shape of the result depends on values: functions of nd, outside of graphs"},
    {"_npi_bincount", "the shape of the result depends on values: functions of nd, outside of graphs"},
    {"_npi_boolean_mask_assign_tensor", "how many values there are depends on the mask: x.at(mask) = values"},
    {"_CachedOp", "machinery of MXNet's front ends"},
    {"_CrossDeviceCopy", "machinery of MXNet's front ends"},
    {"_CustomFunction", "machinery of MXNet's front ends"},
    {"_NDArray", "machinery of MXNet's front ends"},
    {"_Native", "machinery of MXNet's front ends"},
    {"_NoGradient", "machinery of MXNet's front ends"},
    {"_copyto", "machinery of MXNet's front ends"},
    {"_npi_share_memory", "machinery of MXNet's front ends"},
    {"_npx_constraint_check", "machinery of MXNet's front ends"},
    {"_cv", "functions outside of graphs, as in MXNet: image::imdecode, imread, imresize, copyMakeBorder"},
    {"_imdecode", "a function of MXNet's first arrays; image::imdecode, image_crop and a subtraction do what it did"},
    {"_contrib_getnnz", "for sparse arrays alone, in MXNet too: functions of kaon::sparse, outside of graphs"},
    {"_sparse_retain", "for sparse arrays alone, in MXNet too: functions of kaon::sparse, outside of graphs"},
    {"_square_sum", "for sparse arrays alone, in MXNet too: functions of kaon::sparse, outside of graphs"},
    {"_contrib_quantized_rnn",
     "made by oneDNN's backend of MXNet from float32 layers, with their weights: load the file from before that"},
    {"_sg_mkldnn_selfatt_",
     "made by oneDNN's backend of MXNet from float32 layers, with their weights: load the file from before that"},
    {"_onehot_encode", "functions of MXNet's first arrays; one_hot, pick, full and zeros do what they did"},
    {"_set_value", "functions of MXNet's first arrays; one_hot, pick, full and zeros do what they did"},
    {"_zeros_without_dtype", "functions of MXNet's first arrays; one_hot, pick, full and zeros do what they did"},
    {"fill_element_0index", "functions of MXNet's first arrays; one_hot, pick, full and zeros do what they did"},
};

constexpr std::string_view control_flow[] = {"_foreach", "_while_loop", "_cond"};

struct MxnetOperator {
  std::string name;
  std::vector<std::string> aliases;
};

std::vector<MxnetOperator> mxnet_operators() {
  std::ifstream file(KAON_TEST_DATA_DIR "/mxnet_operators.txt");
  REQUIRE(file.good());
  std::vector<MxnetOperator> operators;
  for (std::string line, word; std::getline(file, line);) {
    std::istringstream words(line);
    MxnetOperator& made = operators.emplace_back();
    words >> made.name;
    while (words >> word) made.aliases.push_back(word);
  }
  return operators;
}

std::string dtypes_text(uint32_t dtypes) {
  if (dtypes == every_dtype) return "all";
  if (dtypes == numbers) return "numbers";
  if (dtypes == floats) return "floats";
  if (dtypes == integers) return "integers";
  if (dtypes == (integers | dtype_bit(DType::boolean))) return "integers, bool";
  std::string text;
  for (uint32_t group : {floats, integers}) {
    if ((dtypes & group) != group) continue;
    text += group == floats ? "floats" : "integers";
    dtypes &= ~group;
  }
  for (int i = 0; i < 32; ++i) {
    if ((dtypes >> i & 1) == 0) continue;
    text += (text.empty() ? "" : ", ") + std::string(name_of(DType(i)));
  }
  return text;
}

// What the rows of the test table try: the dtypes of the first input that follows the row's.
std::string dtypes_of(const OpDef& def) {
  static const auto dtypes = [] {
    std::map<std::string_view, uint32_t> made;
    for (const Row& row : all_rows()) {
      if (!row.options.refused) made[row.def->traits.name] |= row.options.dtypes;
    }
    return made;
  }();
  const auto at = dtypes.find(def.traits.name);
  return at == dtypes.end() ? "" : dtypes_text(at->second);
}

std::string gradient_of(const OpDef& def) {
  if (def.traits.ignores_head) return "its own";
  if (def.compose != nullptr) return def.traits.flat ? "zero" : "of its parts";
  return def.grad != nullptr ? "yes" : def.traits.flat ? "zero" : "none";
}

const Reason* reason_of(const std::string& name) {
  for (const Reason& r : reasons) {
    if (name.starts_with(r.prefix)) return &r;
  }
  return nullptr;
}

// One table: the operators that Kaon has by any of their names, then what is left out.
std::string answers(const std::vector<MxnetOperator>& operators, std::set<std::string_view>& used) {
  std::string there = "| MXNet | Kaon | dtypes | gradient |\n|---|---|---|---|\n";
  std::string missing;
  int count = 0;
  std::map<std::string_view, std::string> by_reason;
  for (const MxnetOperator& op : operators) {
    const OpDef* def = find_op(op.name);
    std::string names = "`" + op.name + "`";
    for (const std::string& alias : op.aliases) {
      const OpDef* other = find_op(alias);
      if (def == nullptr) def = other;
      if (other != nullptr && !alias.starts_with("_np") && !alias.starts_with("_sparse_")) names += " `" + alias + "`";
    }
    if (std::ranges::find(control_flow, op.name) != std::end(control_flow)) {
      there += fmt::format("| {} | `contrib::{}` | all | yes |\n", names, op.name.substr(1));
      ++count;
    } else if (def != nullptr) {
      const std::string own = def->traits.name == op.name ? "" : fmt::format("`{}`", def->traits.name);
      there += fmt::format("| {} | {} | {} | {} |\n", names, own, dtypes_of(*def), gradient_of(*def));
      ++count;
    } else {
      const Reason* reason = reason_of(op.name);
      INFO(op.name);
      CHECK(reason != nullptr);  // a line of `reasons` is missing
      if (reason == nullptr) continue;
      used.insert(reason->prefix);
      by_reason[reason->text] += (by_reason[reason->text].empty() ? "`" : ", `") + op.name + "`";
    }
  }
  if (!by_reason.empty()) {
    missing = "\nLeft out:\n\n| names | why |\n|---|---|\n";
    for (const auto& [why, names] : by_reason) missing += fmt::format("| {} | {} |\n", names, why);
  }
  return fmt::format("{} of {}.\n\n{}{}", count, operators.size(), there, missing);
}

std::string page() {
  std::vector<MxnetOperator> usual, numpy;
  for (MxnetOperator& op : mxnet_operators()) {
    (op.name.starts_with("_np") ? numpy : usual).push_back(std::move(op));
  }
  std::set<std::string_view> used;
  std::string text = R"(# Operators

Every operator of MXNet 1.9.1 with Kaon's answer, then those that only Kaon has. The test case "operators page" makes this
page from Kaon's registry and from the table of its tests (`tests/ops/table/`), and fails while it is out of date. Attributes,
shapes and formulae are in the header of each family (`ops/README.md` lists them); where results differ from MXNet's:
[differences.md](differences.md).

Kaon: the name, where it is another one. Files may have either. dtypes: those that the operator takes; others are refused by a
TypeError. Floats are float16, bfloat16, float32 and float64; numbers are floats and integers; all are numbers and bool; where
inputs have dtypes of their own, as indices have, the header says so. Gradient: "of its parts" is said of operators that
are made of others, "its own" of outputs that ignore the gradient that arrives.

## Names of mx.nd and mx.sym

)";
  text += answers(usual, used);
  text += "\n## Names of mx.np and mx.npx, as their files have them\n\n";
  text += answers(numpy, used);
  for (const Reason& r : reasons) {
    INFO(r.prefix);
    CHECK(used.contains(r.prefix));  // a line of `reasons` that nothing needs any more
  }
  std::set<std::string> known;
  for (const auto* list : {&usual, &numpy}) {
    for (const MxnetOperator& op : *list) {
      known.insert(op.name);
      known.insert(op.aliases.begin(), op.aliases.end());
    }
  }
  text +=
      "\n## Kaon's own\n\nWhat operators are made of begins with an underscore.\n\n"
      "| name | in MXNet's files | dtypes | gradient |\n|---|---|---|---|\n";
  for (const OpDef* def : all_op_defs()) {
    const std::string name(def->traits.name);
    bool is_mxnets = known.contains(name);
    for (int i = 0; i < def->traits.aliases.size(); ++i)
      is_mxnets |= known.contains(std::string(def->traits.aliases[i]));
    if (is_mxnets || name.find("backward") != name.npos) continue;
    text += fmt::format("| `{}` | {} | {} | {} |\n", name, def->traits.in_mxnet ? "made of others" : "refused",
                        dtypes_of(*def), gradient_of(*def));
  }
  return text;
}

}  // namespace

TEST_CASE("operators page") {
  const std::string expected = page();
  const auto path = std::filesystem::path(KAON_TEST_DATA_DIR) / "../../docs/operators.md";
  if (std::getenv("KAON_WRITE_DOCS") != nullptr) {
    std::ofstream(path) << expected;
    return;
  }
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  INFO("docs/operators.md is out of date: run this case with KAON_WRITE_DOCS=1");
  const bool is_current = text.str() == expected;
  CHECK(is_current);
}

}  // namespace operators_page_test
