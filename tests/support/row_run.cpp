#include "kaon/tests/support/row_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>

#include "kaon/ops/random_state.h"

namespace kaon::test {

using namespace engine;
namespace {

// As the dtype stores it: integers wrap.
double stored(double v, DType t) {
  if (!std::isfinite(v) && t != DType::boolean) return v;
  switch (t) {
    case DType::uint8: return double(uint8_t(int64_t(v)));
    case DType::int8: return double(int8_t(int64_t(v)));
    case DType::uint16: return double(uint16_t(int64_t(v)));
    case DType::int16: return double(int16_t(int64_t(v)));
    case DType::uint32: return double(uint32_t(int64_t(v)));
    case DType::uint64: return double(uint64_t(int64_t(v)));
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

std::vector<double> make_values(const Input& input, DType t, uint64_t seed) {
  std::mt19937_64 bits(seed);
  auto uniform = [&](double low, double high) { return low + (high - low) * double(bits() >> 11) * 0x1p-53; };
  const size_t n = size_t(input.shape.size());
  const bool real = is_floating(t), natural = is_unsigned(t) || t == DType::boolean;
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
      case Fill::distinct:
        v = real ? (double(order[i]) - double(n / 2)) * 0.375 + 0.125 : double(order[i]) - double(n / 2);
        break;
      case Fill::integers: v = pick(int64_t(input.low), int64_t(input.high)); break;
      case Fill::given: v = input.values.at(i); break;
    }
    if (natural && v < 0) v = input.fill == Fill::distinct ? v + double(n) : -v;
  }
  return values;
}

std::vector<TensorMeta> metas(const std::vector<NDArray>& arrays) {
  std::vector<TensorMeta> out;
  for (const NDArray& a : arrays) out.push_back({a.shape(), a.dtype()});
  return out;
}

}  // namespace

double tolerance(DType t) {
  switch (t) {
    case DType::float64: return 1e-9;
    case DType::float32: return 1e-5;
    case DType::float16: return 5.5e-4;
    case DType::bfloat16: return 4.3e-3;
    default: return 0;
  }
}

double largest(const Host& h) {
  double m = 0;
  for (double v : h.values) m = std::isfinite(v) ? std::max(m, std::abs(v)) : m;
  return m;
}

std::string compare(const std::string& what, const Host& got, const Host& want, double rtol, double atol) {
  if (got.shape != want.shape)
    return fmt::format("{}: got shape {}, expected {}", what, got.shape.str(), want.shape.str());
  for (size_t i = 0; i < want.values.size(); ++i) {
    const double a = got[i], b = want[i];
    const bool same = a == b || (std::isnan(a) && std::isnan(b)) || std::abs(a - b) <= atol + rtol * std::abs(b);
    if (!same) {
      return fmt::format("{} at {}: got {:.9g}, expected {:.9g}", what, position_of(want.shape, int64_t(i)).str(), a,
                         b);
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
    std::string wrong =
        compare(fmt::format("{} {}", what, k), got[k], want[k], rtol, atol * std::max(1.0, largest(want[k])));
    if (!wrong.empty()) return wrong;
  }
  return "";
}

NDArray make_array(const Host& h, Device device) {
  return NDArray::from(h.values.data(), h.values.size(), h.shape, h.dtype.value_or(DType::float32), device);
}

Host read(const NDArray& a) { return {a.shape(), a.asvector<double>(), a.dtype()}; }

Hosts read_all(const std::vector<NDArray>& arrays) {
  Hosts out;
  for (const NDArray& a : arrays) out.push_back(read(a));
  return out;
}

std::vector<NDArray> make_arrays(const Hosts& hosts, Device device) {
  std::vector<NDArray> out;
  for (const Host& h : hosts) out.push_back(make_array(h, device));
  return out;
}

Hosts make_inputs(const Row& row, DType t, uint64_t seed) {
  Hosts out;
  seed = std::hash<std::string>()(row.str()) + 1000 * seed;
  for (size_t i = 0; i < row.inputs.size(); ++i) {
    const DType dtype = row.inputs[i].dtype.value_or(t);
    const Host h{row.inputs[i].shape, make_values(row.inputs[i], dtype, seed + i), dtype};
    out.push_back(read(make_array(h)));
  }
  return out;
}

RowSymbol symbol_of(const Row& row) {
  RowSymbol p;
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

std::vector<NDArray> call(const Row& row, const std::vector<NDArray>& inputs, bool visible) {
  std::vector<const NDArray*> pointers;
  for (const NDArray& a : inputs) pointers.push_back(&a);
  const int n = visible ? row.def->visible_outputs(row.attrs.get()) : row.def->num_outputs(row.attrs.get());
  std::vector<NDArray> outs{size_t(n)};
  NDArray::apply(*row.def, row.attrs.get(), pointers, outs, std::source_location::current(), "");
  return outs;
}

std::vector<NDArray> in_mode(const Row& row, bool record, const std::vector<NDArray>& arrays, Call call) {
  random::seed(1234);
  const auto body = [&] { return call(arrays); };
  const bool training = row.options.training;
  return record     ? autograd::record(body, training)
         : training ? autograd::train_mode(body)
                    : autograd::predict_mode(body);
}

Hosts run(const Row& row, const Hosts& inputs, Device device) {
  const std::vector<NDArray> arrays = make_arrays(inputs, device);
  const std::vector<NDArray> results = in_mode(row, false, arrays, [&](const auto& a) { return call(row, a, false); });
  std::vector<NDArray> all = arrays;
  for (const NDArray& result : results) {
    for (size_t i = 0; i < all.size(); ++i) {
      if (&result.var() == &all[i].var())
        throw std::runtime_error(
            fmt::format("result {} is memory of array {} of the call", all.size() - arrays.size(), i));
    }
    all.push_back(result);
  }
  Hosts out = read_all(results);
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

bool wants_gradient(const Row& row, const Hosts& inputs, size_t i) {
  return row.inputs[i].differentiable && is_floating(*inputs[i].dtype);
}

bool has_gradient(const Row& row, const Hosts& inputs) {
  if ((!row.def->grad && !row.def->traits.flat) || !row.options.differentiate) return false;
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (wants_gradient(row, inputs, i)) return true;
  }
  return false;
}

Hosts make_heads(const std::vector<TensorMeta>& outputs) {
  Hosts heads;
  for (const TensorMeta& m : outputs) {
    Host h{m.shape, make_values({.shape = m.shape, .fill = Fill::nonzero}, m.dtype, 99 + heads.size()), m.dtype};
    heads.push_back(is_floating(m.dtype) ? read(make_array(h)) : h);
  }
  return heads;
}

Gradients backward(const Row& row, const Hosts& inputs, GradReq req, Call forward, Device device) {
  std::vector<NDArray> arrays = make_arrays(inputs, device);
  for (size_t i = 0; i < arrays.size(); ++i) {
    if (!wants_gradient(row, inputs, i)) continue;
    arrays[i].attach_grad(req);
    NDArray g = arrays[i].grad();
    if (req == GradReq::write) g.assign(7);  // must be overwritten
  }
  Gradients result;
  for (int times = req == GradReq::add ? 2 : 1; times > 0; --times) {
    std::vector<NDArray> outputs = in_mode(row, true, arrays, forward);
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

Gradients backward(const Row& row, const Hosts& inputs, GradReq req, Device device) {
  return backward(
      row, inputs, req, [&](const std::vector<NDArray>& a) { return call(row, a, true); }, device);
}

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

}  // namespace kaon::test
