#include "kaon/tests/support/check_op.h"

#include <fmt/format.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <set>

#include "kaon/engine/device/backend.h"
#include "kaon/graph/hybrid/cached_graph.h"
#include "kaon/graph/ir/symbol_node.h"
#include "kaon/tests/support/row_run.h"

namespace kaon::test {

using namespace graph;
namespace {

bool refuses(const Row& row, DType t, std::string& wrong) {
  try {
    run(row, make_inputs(row, t));
  } catch (const TypeError& e) {
    const std::string text = e.what();
    if (text.find(row.def->name()) == text.npos) wrong = "the refusal does not name the operator: " + text;
    return true;
  } catch (const std::exception& e) {
    wrong = fmt::format("{}: expected a TypeError, got: {}", name_of(t), e.what());
    return true;
  }
  return false;
}

std::vector<DType> gradient_dtypes(const Row& row) {
  std::vector<DType> out;
  for (DType t : {DType::float32, DType::float16, DType::bfloat16}) {
    if (row.accepts(t)) out.push_back(t);
    if (!row.follows_dtype()) break;
  }
  return out;
}

// What another order of additions and another library's exp may change.
double device_tolerance(DType t) {
  switch (t) {
    case DType::float64: return 1e-9;
    case DType::float32: return 1e-4;
    case DType::float16:
    case DType::bfloat16: return 2 * tolerance(t);
    default: return 0;
  }
}

// Is there nothing to round in this result: integers, truth values, elements of the inputs?
bool is_exact(const Hosts& inputs, const Host& result) {
  if (!is_floating(*result.dtype)) return true;
  std::set<double> known{0, 1};
  for (const Host& h : inputs) known.insert(h.values.begin(), h.values.end());
  return std::all_of(result.values.begin(), result.values.end(),
                     [&](double v) { return std::isnan(v) || known.contains(v); });
}

}  // namespace

bool Row::follows_dtype() const {
  for (const Input& i : inputs) {
    if (!i.dtype) return true;
  }
  return false;
}

std::string Row::str() const {
  std::string text(def->name());
  def->write(attrs.get(), [&](std::string_view name, const std::string& value, bool is_default) {
    if (!is_default) text += fmt::format(" {}={}", name, value);
  });
  for (const Input& i : inputs) text += fmt::format(" {}", i.shape.str());
  return text + (options.training ? " training" : "");
}

std::string check_values(const Row& row) {
  std::string wrong;
  for (DType t : all_dtypes) {
    if (t != DType::float32 && !row.follows_dtype()) break;
    if (!(row.options.tried & dtype_bit(t))) continue;
    if (!row.accepts(t)) {
      if (!refuses(row, t, wrong)) wrong = fmt::format("{} must be refused", name_of(t));
    } else {
      const Hosts inputs = make_inputs(row, t);
      const Hosts got = run(row, inputs);
      if (row.options.inspect) {
        wrong = row.options.inspect(inputs, got);
      } else {
        const Hosts want = expected(row, inputs, t);
        if (want.size() > got.size()) return fmt::format("{} results, expected {}", got.size(), want.size());
        for (size_t k = 0; k < want.size() && wrong.empty(); ++k) {
          const DType dtype = *want[k].dtype;
          if (got[k].dtype != dtype) {
            return fmt::format("result {} has dtype {}, expected {}", k, name_of(*got[k].dtype), name_of(dtype));
          }
          // what comes in as 16 bits and goes out wider was computed in float32
          const double tol =
              (t == DType::float64 && dtype == t ? row.options.tolerance
                                                 : std::max(tolerance(dtype), is_floating(dtype) ? 1e-5 : 0)) *
              row.options.loosen;
          wrong =
              compare(fmt::format("result {}", k), got[k], want[k], tol, 0.1 * tol * std::max(1.0, largest(want[k])));
        }
      }
      if (!wrong.empty()) wrong = fmt::format("{}: {}", name_of(t), wrong);
    }
    if (!wrong.empty()) return wrong;
  }
  return "";
}

std::string check_gradients(const Row& row) {
  const DType fine = row.accepts(DType::float64) && row.follows_dtype() ? DType::float64 : DType::float32;
  const Hosts inputs = make_inputs(row, fine);
  if (!has_gradient(row, inputs)) return "";
  const double loosen = row.options.loosen_gradient, rtol = (fine == DType::float64 ? 1e-4 : 1e-3) * loosen;
  const Gradients got = backward(row, inputs);
  std::vector<TensorMeta> outputs;
  for (const Host& h : got.outputs) outputs.push_back({h.shape, *h.dtype});
  const Hosts heads = make_heads(outputs);
  std::string wrong;
  if (row.options.gradient) {
    wrong = compare_all("gradient", got.inputs, row.options.gradient(inputs, heads), rtol, rtol / 100);
  } else {
    if (row.reference) {
      const auto reference = [&](const Hosts& x) { return row.reference(x); };
      wrong = compare_all("gradient (numeric of the reference) of input", got.inputs,
                          numeric_gradient(row, inputs, heads, reference), rtol, rtol / 100);
    }
    if (wrong.empty() && fine == DType::float64) {
      const auto self = [&](const Hosts& x) { return run(row, x); };
      wrong = compare_all("gradient (numeric of the operator) of input", got.inputs,
                          numeric_gradient(row, inputs, heads, self), rtol, rtol / 100);
    }
  }
  if (!wrong.empty()) return wrong;

  Hosts twice = got.inputs;
  for (Host& h : twice) {
    for (double& v : h.values) v *= 2;
  }
  wrong = compare_all("gradient (added twice) of input", backward(row, inputs, GradReq::add).inputs, twice, 1e-6, 1e-9);
  if (!wrong.empty()) return wrong;

  for (DType t : gradient_dtypes(row)) {
    if (t == fine) continue;
    Hosts coarse = make_inputs(row, t), wide = coarse;
    for (size_t i = 0; i < wide.size(); ++i) wide[i].dtype = row.inputs[i].dtype.value_or(fine);
    const Hosts low = backward(row, coarse).inputs, high = backward(row, wide).inputs;
    const double tol = (t == DType::float32 ? 1e-4 : 8 * tolerance(t)) * loosen;
    wrong = compare_all(fmt::format("gradient ({}) of input", name_of(t)), low, high, tol,
                        t == DType::float32 ? tol / 10 : tol);
    if (!wrong.empty()) return wrong;
  }
  return "";
}

std::string check_hybridized(const Row& row) {
  if (row.def->visible_outputs(row.attrs.get()) == 0) return "";
  const RowSymbol program = symbol_of(row);
  for (DType t : {DType::float32, DType::bfloat16, DType::int32}) {
    if (!row.accepts(t) || !(row.options.tried & dtype_bit(t))) continue;
    if (t != DType::float32 && !row.follows_dtype()) break;
    const Hosts inputs = make_inputs(row, t);
    const bool record = has_gradient(row, inputs);
    const Hosts plain = run(row, inputs);
    const Gradients want = record ? backward(row, inputs) : Gradients{};
    for (bool exact : {true, false}) {
      CachedGraph graph(program.symbol, program.names, {.static_alloc = exact, .exact = exact}, "row");
      auto forward = [&](const std::vector<NDArray>& arrays) {
        std::vector<const NDArray*> pointers;
        for (const NDArray& a : arrays) pointers.push_back(&a);
        return graph.call(pointers, std::source_location::current());
      };
      for (int time = 0; time < 2; ++time) {  // again in the same memory
        const std::vector<NDArray> arrays = make_arrays(inputs);
        Hosts got = read_all(in_mode(row, false, arrays, forward));
        Hosts visible(plain.begin(), plain.begin() + int(got.size()));
        for (size_t i = 0, at = size_t(row.def->num_outputs(row.attrs.get())); i < arrays.size(); ++i) {
          if (is_mutated(row.def->traits, int(i), int(arrays.size()))) {
            got.push_back(read(arrays[i]));
            visible.push_back(plain[at++]);
          }
        }
        const double rtol = t == DType::bfloat16 ? 8e-3 : 1e-4;
        std::string wrong = exact ? compare_bits("hybridized output", got, visible)
                                  : compare_all("hybridized output", got, visible, rtol, rtol / 10);
        if (wrong.empty() && record) {
          const Gradients g = backward(row, inputs, GradReq::write, forward);
          wrong = exact ? compare_bits("hybridized gradient of input", g.inputs, want.inputs)
                        : compare_all("hybridized gradient of input", g.inputs, want.inputs, 10 * rtol, rtol);
        }
        if (!wrong.empty()) return fmt::format("{}{}: {}", name_of(t), exact ? ", exact" : "", wrong);
      }
    }
  }
  return "";
}

std::string check_attributes(const Row& row) {
  const OpDef& def = *row.def;
  Attributes again(def);
  std::string wrong;
  def.write(row.attrs.get(), [&](std::string_view name, const std::string& text, bool) {
    if (def.read(again.edit(), name, text) != 0) wrong = fmt::format("{} cannot be read back from '{}'", name, text);
  });
  if (!wrong.empty()) return wrong;
  if (!def.equal(row.attrs.get(), again.get())) return "attributes differ after to_text and from_text";
  const bool takes_any = &def == &op::Custom::def;
  if (!takes_any && def.read(again.edit(), "no_such_attribute", "1") != 1) return "an unknown attribute is read";
  if (def.visible_outputs(row.attrs.get()) == 0 || row.options.refused) return "";

  const Symbol symbol = symbol_of(row).symbol;
  if (!def.traits_of(row.attrs.get()).in_mxnet) {
    try {
      symbol.tojson();
    } catch (const ValueError& e) {
      const std::string text = e.what();
      return text.find(def.name()) == text.npos ? "the refusal to export does not name it: " + text : "";
    }
    return "exported, although MXNet does not have it";
  }
  const std::string text = symbol.tojson();
  const Symbol loaded = Symbol::load_json(text);
  const SymbolNode& node = *loaded.entries()[0].node;
  if (node.op != &def) return "another operator after load_json";
  if (!def.equal(row.attrs.get(), node.attrs.get())) return "attributes differ after load_json:\n" + text;
  if (loaded.tojson() != text) return "another text after load_json:\n" + text + "\n" + loaded.tojson();
  if (Symbol(loaded.entries()).tojson() != text) return "another text when written as new:\n" + text;
  return "";
}

std::string check_inference(const Row& row) {
  std::vector<TensorMeta> inputs, outputs(size_t(row.def->num_outputs(row.attrs.get())));
  for (const Input& i : row.inputs) inputs.push_back({i.shape, i.dtype.value_or(DType::float32)});
  const std::vector<TensorMeta> known = inputs;
  bool any = false;
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (row.def->traits_of(row.attrs.get()).infers >> i & 1) inputs[i].shape = Shape::unknown(), any = true;
  }
  if (!any || !row.options.infers) return "";
  std::vector<TensorMeta*> given;
  for (TensorMeta& m : inputs) given.push_back(&m);
  InferContext context(row.def->name().data(), row.def->traits, given, outputs);
  row.def->infer(row.attrs.get(), context);
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (inputs[i].shape != known[i].shape) {
      return fmt::format("input {} was inferred as {}, expected {}", i, inputs[i].shape.str(), known[i].shape.str());
    }
  }
  return "";
}

std::string check_devices(const Row& row) {
  Row there = row;
  if (row.inputs.empty()) {  // it is made where its attribute says
    there.attrs = Attributes(*row.def);
    row.def->write(row.attrs.get(), [&](std::string_view name, const std::string& text, bool) {
      row.def->read(there.attrs.edit(), name, name == "ctx" ? "gpu(0)" : text);
    });
  }
  for (DType t : all_dtypes) {
    if (t != DType::float32 && !row.follows_dtype()) break;
    if (!row.accepts(t) || !(row.options.tried & dtype_bit(t))) continue;
    const Hosts inputs = make_inputs(row, t);
    const Hosts want = run(row, inputs), got = run(there, inputs, gpu(0));
    std::string wrong =
        got.size() == want.size() ? "" : fmt::format("{} results, expected {}", got.size(), want.size());
    for (size_t k = 0; k < want.size() && wrong.empty(); ++k) {
      const DType dtype = *want[k].dtype;
      const std::string what = fmt::format("output {} on the GPU", k);
      const double tol = device_tolerance(dtype) * row.options.loosen;
      wrong = is_exact(inputs, want[k])
                  ? compare_bits(what, {got[k]}, {want[k]})
                  : compare(what, got[k], want[k], tol, 0.1 * tol * std::max(1.0, largest(want[k])));
    }
    if (wrong.empty() && has_gradient(row, inputs)) {
      const double tol = 10 * device_tolerance(t) * row.options.loosen_gradient;
      wrong = compare_all("gradient on the GPU", backward(there, inputs, GradReq::write, gpu(0)).inputs,
                          backward(row, inputs).inputs, tol, tol / 10);
    }
    if (!wrong.empty()) return fmt::format("{}: {}", name_of(t), wrong);
  }
  return "";
}

std::string check_threads(const Row& row) {
  for (DType t : {DType::float32, DType::bfloat16, DType::int32}) {
    if (!row.accepts(t)) continue;
    const Hosts inputs = make_inputs(row, t);
    const bool record = has_gradient(row, inputs);
    Hosts outputs, gradients;
    for (int threads : {0, 1, 2}) {
      Engine engine({.threads = threads});
      EngineScope scope(engine);
      const Hosts y = run(row, inputs), g = record ? backward(row, inputs).inputs : Hosts();
      if (threads == 0) {
        outputs = y, gradients = g;
        continue;
      }
      std::string wrong = compare_bits("output", y, outputs);
      if (wrong.empty()) wrong = compare_bits("gradient", g, gradients);
      if (!wrong.empty()) return fmt::format("{}, {} threads: {}", name_of(t), threads, wrong);
    }
  }
  return "";
}

std::string unless_thrown(std::string (*check)(const Row&), const Row& row) {
  try {
    return check(row);
  } catch (const std::exception& e) {
    return std::string("throws: ") + e.what();
  }
}

void check_op(const Row& row) {
  INFO(row.str());
  if (row.options.refused) {
    std::string text;
    try {
      run(row, make_inputs(row, DType::float32));
    } catch (const ValueError& e) {
      text = e.what();
    }
    CHECK_THAT(text, Catch::Matchers::Contains(std::string(row.def->name())));
    CHECK(check_attributes(row) == "");
    return;
  }
  auto guarded = [&](std::string (*check)(const Row&)) { return unless_thrown(check, row); };
  CHECK(guarded(check_values) == "");
  CHECK(guarded(check_gradients) == "");
  CHECK(guarded(check_hybridized) == "");
  CHECK(guarded(check_attributes) == "");
  CHECK(guarded(check_inference) == "");
}

void check_ops(const Rows& rows) {
  for (const Row& row : rows) check_op(row);
}

}  // namespace kaon::test
