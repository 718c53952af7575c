// Every operator against values and gradients that MXNet 1.9.1 and PyTorch have computed: imperative, hybridized and
// exact. README.md says how the data are made.
#include <fmt/format.h>

#include <catch2/catch.hpp>
#include <map>
#include <set>

#include "kaon/graph/autograd.h"
#include "kaon/graph/hybrid/cached_graph.h"
#include "kaon/ops/functions.h"
#include "kaon/ops/operator/registry.h"
#include "kaon/tests/golden/golden_file.h"

namespace golden_operators_test {

using namespace kaon;
using namespace kaon::graph;
using namespace kaon::test;

namespace {

enum class Way { imperative, planned, exact };

struct Results {
  std::vector<NDArray> outputs, gradients, updated;
};

Attributes attributes_of(const OpDef& def, const GoldenCase& c) {
  Attributes attrs(def);
  for (const auto& [name, text] : c.attributes) {
    INFO(c.op << " " << name << "=" << text);
    REQUIRE(def.read(attrs.edit(), name, text) == 0);
  }
  return attrs;
}

std::unique_ptr<CachedGraph> plan_of(const OpDef& def, const Attributes& attrs, const GoldenCase& c, size_t outputs,
                                     bool exact) {
  std::vector<Symbol> variables;
  std::vector<std::string> names;
  for (size_t i = 0; i < c.inputs.size(); ++i) {
    names.push_back(fmt::format("x{}", i));
    variables.push_back(Symbol::variable(names.back()));
  }
  std::vector<const Symbol*> pointers;
  for (const Symbol& v : variables) pointers.push_back(&v);
  std::vector<Symbol> results(outputs);
  Symbol::apply(def, attrs.get(), pointers, results, std::source_location::current(), "node");
  const HybridizeOptions options{.static_alloc = true, .exact = exact};
  return std::make_unique<CachedGraph>(Symbol::group(results), names, options, "golden");
}

// Calls the operator and takes the gradients that the case wants. Updates without outputs run imperatively only.
Results run(const OpDef& def, const GoldenCase& c, Way way) {
  const Attributes attrs = attributes_of(def, c);
  std::vector<NDArray> inputs = c.inputs;
  bool records = false;
  for (size_t i = 0; i < inputs.size(); ++i) {
    inputs[i] = inputs[i].copy();
    if (!c.wants.empty() && c.wants[i]) inputs[i].attach_grad(), records = true;
  }
  std::vector<const NDArray*> pointers;
  for (const NDArray& x : inputs) pointers.push_back(&x);
  Results r;
  r.outputs.resize(size_t(def.visible_outputs(attrs.get())));
  std::unique_ptr<CachedGraph> plan;
  if (way != Way::imperative) plan = plan_of(def, attrs, c, r.outputs.size(), way == Way::exact);
  auto call = [&] {
    if (plan) {
      plan->call(pointers, r.outputs, std::source_location::current());
    } else {
      NDArray::apply(def, attrs.get(), pointers, r.outputs, std::source_location::current(), "");
    }
  };
  if (records) {
    autograd::record(call, c.training);
  } else if (c.training) {
    autograd::train_mode(call);
  } else {
    call();
  }
  if (records) {
    std::vector<NDArray> heads, tops;
    for (size_t k = 0; k < r.outputs.size(); ++k) {
      if (!autograd::wants_gradient(r.outputs[k])) continue;
      tops.push_back(r.outputs[k]);
      heads.push_back(golden_head(c.seed, uint32_t(k), r.outputs[k]));
    }
    if (!tops.empty()) autograd::backward(tops, heads);
  }
  for (size_t i = 0; i < inputs.size(); ++i) {
    r.gradients.push_back(records && c.wants[i] ? inputs[i].grad() : NDArray());
  }
  for (size_t i : c.updates) r.updated.push_back(inputs[i]);
  return r;
}

std::string compare_list(const char* what, const std::vector<NDArray>& got, const std::vector<Golden>& wanted) {
  if (got.size() != wanted.size() && !wanted.empty())
    return fmt::format("{} {} for {}", got.size(), what, wanted.size());
  for (size_t k = 0; k < wanted.size(); ++k) {
    if (!wanted[k].wanted.defined()) continue;
    const std::string wrong = compare_golden(got[k], wanted[k]);
    if (!wrong.empty()) return fmt::format("{} {}: {}", what, k, wrong);
  }
  return "";
}

std::string compare(const Results& got, const GoldenCase& c) {
  for (const std::string& wrong :
       {compare_list("output", got.outputs, c.outputs), compare_list("gradient", got.gradients, c.gradients),
        compare_list("updated", got.updated, c.updated)}) {
    if (!wrong.empty()) return wrong;
  }
  return "";
}

// Another result than the imperative one, in any bit but those of a NaN.
std::string compare_bits(const Results& got, const Results& wanted) {
  auto all = [](const Results& r) {
    std::vector<NDArray> list = r.outputs;
    list.insert(list.end(), r.gradients.begin(), r.gradients.end());
    list.insert(list.end(), r.updated.begin(), r.updated.end());
    return list;
  };
  const std::vector<NDArray> a = all(got), b = all(wanted);
  for (size_t k = 0; k < b.size(); ++k) {
    if (!b[k].defined()) continue;
    const std::string wrong = compare_golden(a[k], {b[k]});
    if (!wrong.empty()) return fmt::format("exact result {}: {}", k, wrong);
  }
  return "";
}

std::string check(const GoldenCase& c) {
  const OpDef* def = find_op(c.op);
  if (!def) return "no such operator";
  try {
    const Results imperative = run(*def, c, Way::imperative);
    std::string wrong = compare(imperative, c);
    if (!wrong.empty() || imperative.outputs.empty()) return wrong;
    wrong = compare(run(*def, c, Way::planned), c);
    if (!wrong.empty()) return "hybridized: " + wrong;
    return compare_bits(run(*def, c, Way::exact), imperative);
  } catch (const std::exception& e) {
    return e.what();
  }
}

void check_file(const char* name) {
  size_t failed = 0;
  for (const GoldenCase& c : load_golden(golden_dir() / name)) {
    const std::string wrong = check(c);
    if (wrong.empty()) continue;
    ++failed;
    if (failed > 40) continue;
    UNSCOPED_INFO(c.str());
    CHECK(wrong == "");
  }
  CHECK(failed == 0);
}

}  // namespace

TEST_CASE("golden: functions of one array", "[golden]") { check_file("unary.golden"); }
TEST_CASE("golden: functions of two arrays", "[golden]") { check_file("binary.golden"); }
TEST_CASE("golden: functions of an array and a number", "[golden]") { check_file("scalar.golden"); }
TEST_CASE("golden: reductions", "[golden]") { check_file("reduce.golden"); }
TEST_CASE("golden: shapes, slices and indices", "[golden]") { check_file("movement.golden"); }
TEST_CASE("golden: products of matrices and dense layers", "[golden]") { check_file("layers.golden"); }
TEST_CASE("golden: convolutions and pooling", "[golden]") { check_file("conv.golden"); }
TEST_CASE("golden: normalisations", "[golden]") { check_file("norm.golden"); }
TEST_CASE("golden: activations and softmax", "[golden]") { check_file("activation.golden"); }
TEST_CASE("golden: images at another size", "[golden]") { check_file("resize.golden"); }
TEST_CASE("golden: operators made of others, and order", "[golden]") { check_file("composed.golden"); }
TEST_CASE("golden: attention and rotary positions", "[golden]") { check_file("attention.golden"); }
TEST_CASE("golden: recurrent layers and unaligned sequences", "[golden]") { check_file("rnn.golden"); }
TEST_CASE("golden: linear algebra", "[golden]") { check_file("linalg.golden"); }
TEST_CASE("golden: arrays of NumPy's front end", "[golden]") { check_file("numpy_arrays.golden"); }
TEST_CASE("golden: losses and dropout", "[golden]") { check_file("losses.golden"); }
TEST_CASE("golden: probability densities", "[golden]") { check_file("distribution.golden"); }
TEST_CASE("golden: images as files have them", "[golden]") { check_file("image.golden"); }
TEST_CASE("golden: object detection", "[golden]") { check_file("detection.golden"); }
TEST_CASE("golden: quantised arrays", "[golden]") { check_file("quant.golden"); }
TEST_CASE("golden: samples, regions and places", "[golden]") { check_file("spatial.golden"); }
TEST_CASE("golden: cutting, scattering, sums up to each element", "[golden]") { check_file("indexing.golden"); }
TEST_CASE("golden: updates of weights", "[golden]") { check_file("optim.golden"); }
TEST_CASE("golden: arrays from numbers, and updates of parameters", "[golden]") { check_file("create.golden"); }

}  // namespace golden_operators_test
