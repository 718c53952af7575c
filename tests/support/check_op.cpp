#include "kaon/tests/support/check_op.h"

#include <fmt/format.h>

#include <bit>
#include <catch2/catch.hpp>
#include <cmath>
#include <numeric>
#include <random>

#include "kaon/engine/backend.h"
#include "kaon/graph/autograd.h"
#include "kaon/graph/cached_graph.h"
#include "kaon/ops/functions.h"
#include "kaon/ops/random_state.h"

namespace kaon::test {
namespace {

constexpr DType dtypes[] = {DType::float32, DType::float64, DType::float16, DType::bfloat16, DType::uint8,
                            DType::int8,    DType::int32,   DType::int64,   DType::boolean};

// What one rounding to the dtype, after arithmetic in it or in float32, may change.
double tolerance(DType t) {
  switch (t) {
    case DType::float64: return 1e-9;
    case DType::float32: return 1e-5;
    case DType::float16: return 5.5e-4;
    case DType::bfloat16: return 4.3e-3;
    default: return 0;
  }
}

// As the dtype stores it: integers wrap.
double stored(double v, DType t) {
  switch (t) {
    case DType::uint8: return double(uint8_t(int64_t(v)));
    case DType::int8: return double(int8_t(int64_t(v)));
    case DType::int32: return double(int32_t(int64_t(v)));
    case DType::boolean: return v != 0;
    default: return v;
  }
}

Shape position_of(const Shape& shape, int64_t i) {
  Shape p = Shape::filled(shape.ndim(), 0);
  for (int d = shape.ndim() - 1; d >= 0; --d) p[d] = i % shape[d], i /= shape[d];
  return p;
}

double largest(const Host& h) {
  double m = 0;
  for (double v : h.values) m = std::isfinite(v) ? std::max(m, std::abs(v)) : m;
  return m;
}

std::string compare(const std::string& what, const Host& got, const Host& want, double rtol, double atol) {
  if (got.shape != want.shape) return fmt::format("{}: got shape {}, expected {}", what, got.shape.str(), want.shape.str());
  for (size_t i = 0; i < want.values.size(); ++i) {
    const double a = got[i], b = want[i];
    const bool same = a == b || (std::isnan(a) && std::isnan(b)) || std::abs(a - b) <= atol + rtol * std::abs(b);
    if (!same) {
      return fmt::format("{} at {}: got {:.9g}, expected {:.9g}", what, position_of(want.shape, int64_t(i)).str(), a, b);
    }
  }
  return "";
}

std::string compare_bits(const std::string& what, const Hosts& got, const Hosts& want) {
  if (got.size() != want.size()) return fmt::format("{}: {} arrays, expected {}", what, got.size(), want.size());
  for (size_t k = 0; k < want.size(); ++k) {
    const std::string name = fmt::format("{} {}", what, k);
    if (got[k].dtype != want[k].dtype) return name + ": another dtype";
    if (std::string wrong = compare(name, got[k], want[k], 0, 0); !wrong.empty()) return wrong;
    for (size_t i = 0; i < want[k].values.size(); ++i) {
      if (std::signbit(got[k][i]) != std::signbit(want[k][i]) && !std::isnan(want[k][i])) {
        return fmt::format("{}: sign of element {}", name, i);
      }
    }
  }
  return "";
}

std::string compare_all(const std::string& what, const Hosts& got, const Hosts& want, double rtol, double atol) {
  for (size_t k = 0; k < want.size() && k < got.size(); ++k) {
    std::string wrong = compare(fmt::format("{} {}", what, k), got[k], want[k], rtol, atol * std::max(1.0, largest(want[k])));
    if (!wrong.empty()) return wrong;
  }
  return "";
}

std::vector<double> make_values(const Input& input, DType t, uint64_t seed) {
  std::mt19937_64 bits(seed);
  auto uniform = [&](double low, double high) { return low + (high - low) * double(bits() >> 11) * 0x1p-53; };
  const size_t n = size_t(input.shape.size());
  const bool real = is_floating(t), natural = t == DType::uint8 || t == DType::boolean;
  std::vector<size_t> order(n);
  std::iota(order.begin(), order.end(), size_t(0));
  std::shuffle(order.begin(), order.end(), bits);
  std::vector<double> values(n);
  for (size_t i = 0; i < n; ++i) {
    auto pick = [&](int64_t low, int64_t high) { return double(low + int64_t(bits() % uint64_t(high - low))); };
    double& v = values[i];
    switch (input.fill) {
      case Fill::normal:
        v = real ? std::sqrt(-2 * std::log(uniform(1e-3, 1))) * std::cos(6.283185307 * uniform(0, 1)) : pick(-3, 4);
        break;
      case Fill::positive: v = real ? uniform(0.3, 2.5) : pick(1, 5); break;
      case Fill::unit: v = real ? uniform(-0.9, 0.9) : pick(-1, 2); break;
      case Fill::above_one: v = real ? uniform(1.3, 3) : pick(2, 5); break;
      case Fill::nonzero: v = (real ? uniform(0.3, 2) : pick(1, 4)) * (bits() % 2 ? 1 : -1); break;
      case Fill::distinct: v = real ? (double(order[i]) - double(n / 2)) * 0.375 + 0.125 : double(order[i]) - double(n / 2); break;
      case Fill::integers: v = pick(int64_t(input.low), int64_t(input.high)); break;
      case Fill::given: v = input.values.at(i); break;
    }
    if (natural && v < 0) v = input.fill == Fill::distinct ? v + double(n) : -v;
  }
  return values;
}

NDArray make_array(const Host& h, Device device = Device()) {
  return NDArray::from(h.values.data(), h.values.size(), h.shape, h.dtype.value_or(DType::float32), device);
}

Host read(const NDArray& a) { return {a.shape(), a.asvector<double>(), a.dtype()}; }

Hosts read_all(const std::vector<NDArray>& arrays) {
  Hosts out;
  for (const NDArray& a : arrays) out.push_back(read(a));
  return out;
}

std::vector<NDArray> make_arrays(const Hosts& hosts, Device device = Device()) {
  std::vector<NDArray> out;
  for (const Host& h : hosts) out.push_back(make_array(h, device));
  return out;
}

// The inputs as they are once stored in dtype `t`.
Hosts make_inputs(const Row& row, DType t) {
  Hosts out;
  const uint64_t seed = std::hash<std::string>()(row.str());
  for (size_t i = 0; i < row.inputs.size(); ++i) {
    const DType dtype = row.inputs[i].dtype.value_or(t);
    const Host h{row.inputs[i].shape, make_values(row.inputs[i], dtype, seed + i), dtype};
    out.push_back(read(make_array(h)));
  }
  return out;
}

std::vector<NDArray> call(const Row& row, const std::vector<NDArray>& inputs, bool visible) {
  std::vector<const NDArray*> pointers;
  for (const NDArray& a : inputs) pointers.push_back(&a);
  const int n = visible ? row.def->visible_outputs(row.attrs.get()) : row.def->num_outputs(row.attrs.get());
  std::vector<NDArray> outs{size_t(n)};
  NDArray::apply(*row.def, row.attrs.get(), pointers, outs, std::source_location::current(), "");
  return outs;
}

template <class F>
auto in_mode(const Row& row, bool record, F&& f) {
  random::seed(1234);
  return record ? autograd::record(f, row.options.training)
                : row.options.training ? autograd::train_mode(f) : autograd::predict_mode(f);
}

// Outputs (all of them), then the inputs that were updated.
Hosts run(const Row& row, const Hosts& inputs, Device device = Device()) {
  const std::vector<NDArray> arrays = make_arrays(inputs, device);
  Hosts out = read_all(in_mode(row, false, [&] { return call(row, arrays, false); }));
  for (size_t i = 0; i < arrays.size(); ++i) {
    const Host after = read(arrays[i]);
    if (is_mutated(row.def->traits, int(i), int(arrays.size()))) {
      out.push_back(after);
    } else if (std::string wrong = compare("input that must stay", after, inputs[i], 0, 0); !wrong.empty()) {
      throw std::runtime_error(wrong);
    }
  }
  return out;
}

Hosts expected(const Row& row, const Hosts& inputs, DType t) {
  Hosts want = row.reference(inputs);
  for (Host& h : want) {
    if (!h.dtype) h.dtype = t;
    for (double& v : h.values) v = stored(v, *h.dtype);
  }
  return want;
}

struct Gradients {
  Hosts outputs;  // visible
  Hosts inputs;   // of the inputs that gradients flow to; empty Hosts for others
};

bool wants_gradient(const Row& row, const Hosts& inputs, size_t i) {
  return row.inputs[i].differentiable && is_floating(*inputs[i].dtype);
}

bool has_gradient(const Row& row, const Hosts& inputs) {
  if (!row.def->grad || !row.options.differentiate) return false;
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (wants_gradient(row, inputs, i)) return true;
  }
  return false;
}

// Head gradients: not round, and the same at any call.
Hosts make_heads(const std::vector<TensorMeta>& outputs) {
  Hosts heads;
  for (const TensorMeta& m : outputs) {
    Host h{m.shape, make_values({.shape = m.shape, .fill = Fill::nonzero}, m.dtype, 99 + heads.size()), m.dtype};
    heads.push_back(is_floating(m.dtype) ? read(make_array(h)) : h);
  }
  return heads;
}

std::vector<TensorMeta> metas(const std::vector<NDArray>& arrays) {
  std::vector<TensorMeta> out;
  for (const NDArray& a : arrays) out.push_back({a.shape(), a.dtype()});
  return out;
}

// Forward, recorded, and backward. `forward` calls the operator or a CachedGraph.
template <class Forward>
Gradients backward(const Row& row, const Hosts& inputs, GradReq req, Forward&& forward, Device device = Device()) {
  std::vector<NDArray> arrays = make_arrays(inputs, device);
  for (size_t i = 0; i < arrays.size(); ++i) {
    if (!wants_gradient(row, inputs, i)) continue;
    arrays[i].attach_grad(req);
    NDArray g = arrays[i].grad();
    if (req == GradReq::write) g.assign(7);  // must be overwritten
  }
  Gradients result;
  for (int times = req == GradReq::add ? 2 : 1; times > 0; --times) {
    std::vector<NDArray> outputs = in_mode(row, true, [&] { return forward(arrays); });
    const Hosts heads = make_heads(metas(outputs));
    std::vector<NDArray> roots, head_arrays;
    for (size_t k = 0; k < outputs.size(); ++k) {
      if (!is_floating(outputs[k].dtype())) continue;
      roots.push_back(outputs[k]);
      head_arrays.push_back(make_array(heads[k], device));
    }
    autograd::backward(roots, head_arrays);
    result.outputs = read_all(outputs);
  }
  for (size_t i = 0; i < arrays.size(); ++i) {
    result.inputs.push_back(wants_gradient(row, inputs, i) ? read(arrays[i].grad()) : Host());
  }
  return result;
}

Gradients backward(const Row& row, const Hosts& inputs, GradReq req = GradReq::write, Device device = Device()) {
  return backward(row, inputs, req, [&](const std::vector<NDArray>& a) { return call(row, a, true); }, device);
}

// d(sum of heads * f(inputs)) / d(inputs), by central differences.
Hosts numeric_gradient(const Row& row, Hosts inputs, const Hosts& heads, FunctionRef<Hosts(const Hosts&)> f) {
  constexpr double step = 1e-5;
  auto loss = [&] {
    const Hosts y = f(inputs);
    double sum = 0;
    for (size_t k = 0; k < heads.size() && k < y.size(); ++k) {
      if (!is_floating(*heads[k].dtype)) continue;
      for (size_t j = 0; j < heads[k].values.size(); ++j) sum += heads[k][j] * y[k].values.at(j);
    }
    return sum;
  };
  Hosts out(inputs.size());
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!wants_gradient(row, inputs, i)) continue;
    out[i] = zeros(inputs[i].shape);
    for (size_t j = 0; j < out[i].values.size(); ++j) {
      double& x = inputs[i].values[j];
      const double kept = x;
      x = kept + step;
      const double above = loss();
      x = kept - step;
      const double below = loss();
      x = kept;
      out[i].values[j] = (above - below) / (2 * step);
    }
  }
  return out;
}

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

struct Program {
  Symbol symbol;
  std::vector<std::string> names;
};

Program symbol_of(const Row& row) {
  Program p;
  std::vector<Symbol> inputs;
  for (size_t i = 0; i < row.inputs.size(); ++i) {
    p.names.push_back(fmt::format("x{}", i));
    inputs.push_back(sym.var(p.names.back()));
  }
  std::vector<const Symbol*> pointers;
  for (const Symbol& s : inputs) pointers.push_back(&s);
  std::vector<Symbol> outs{size_t(row.def->visible_outputs(row.attrs.get()))};
  Symbol::apply(*row.def, row.attrs.get(), pointers, outs, std::source_location::current(), "node");
  p.symbol = Symbol::group(outs);
  return p;
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
  for (const Input& i : inputs) text += " " + i.shape.str();
  return text + (options.training ? " training" : "");
}

std::string check_values(const Row& row) {
  std::string wrong;
  for (DType t : dtypes) {
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
          const double tol = (t == DType::float64 && dtype == t ? row.options.tolerance : std::max(tolerance(dtype), is_floating(dtype) ? 1e-5 : 0)) * row.options.loosen;
          wrong = compare(fmt::format("result {}", k), got[k], want[k], tol, 0.1 * tol * std::max(1.0, largest(want[k])));
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
    wrong = compare_all(fmt::format("gradient ({}) of input", name_of(t)), low, high, tol, t == DType::float32 ? tol / 10 : tol);
    if (!wrong.empty()) return wrong;
  }
  return "";
}

std::string check_hybridized(const Row& row) {
  if (row.def->visible_outputs(row.attrs.get()) == 0) return "";
  const Program program = symbol_of(row);
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
        Hosts got = read_all(in_mode(row, false, [&] { return forward(arrays); }));
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
  if (def.read(again.edit(), "no_such_attribute", "1") != 1) return "an unknown attribute is read";
  if (def.visible_outputs(row.attrs.get()) == 0 || row.options.refused) return "";

  const Symbol symbol = symbol_of(row).symbol;
  if (!def.traits.in_mxnet) {
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
  InferContext context(row.def->name().data(), row.def->traits, inputs, outputs);
  row.def->infer(row.attrs.get(), context);
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (inputs[i].shape != known[i].shape) {
      return fmt::format("input {} was inferred as {}, expected {}", i, inputs[i].shape.str(), known[i].shape.str());
    }
  }
  return "";
}

std::string check_devices(const Row& row) {
  if (gpu_count() == 0) return "";
  const Hosts inputs = make_inputs(row, DType::float32);
  const Hosts want = run(row, inputs), got = run(row, inputs, gpu(0));
  std::string wrong = compare_all("output on the GPU", got, want, 1e-4, 1e-5);
  if (wrong.empty() && has_gradient(row, inputs)) {
    wrong = compare_all("gradient on the GPU", backward(row, inputs, GradReq::write, gpu(0)).inputs,
                        backward(row, inputs).inputs, 1e-3, 1e-4);
  }
  return wrong;
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
  auto guarded = [&](std::string (*check)(const Row&)) -> std::string {
    try {
      return check(row);
    } catch (const std::exception& e) {
      return std::string("throws: ") + e.what();
    }
  };
  CHECK(guarded(check_values) == "");
  CHECK(guarded(check_gradients) == "");
  CHECK(guarded(check_hybridized) == "");
  CHECK(guarded(check_attributes) == "");
  CHECK(guarded(check_inference) == "");
  CHECK(guarded(check_devices) == "");
}

void check_ops(const Rows& rows) {
  for (const Row& row : rows) check_op(row);
}

}  // namespace kaon::test
