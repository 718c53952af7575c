#include "kaon/tests/support/programs/program_source.h"

#include <fmt/format.h>
#include <fmt/ranges.h>  // join

#include <algorithm>
#include <cmath>

namespace kaon::test {
namespace {

constexpr const char* preamble = R"(#include <kaon/kaon.h>
#include <kaon/ops/op_def.h>

#include <cmath>
using namespace kaon;

// Uniform in [low, high), rounded down to multiples of `step` unless that is 0; the same for the same seed and call.
NDArray values(uint64_t seed, uint64_t call, const Shape& shape, DType dtype, double low, double high, double step = 0) {
  auto mixed = [](uint64_t x) {
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
    x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
    return x ^ (x >> 31);
  };
  std::vector<double> all(size_t(shape.size()));
  const uint64_t first = mixed(seed * 1000003 + call);
  for (size_t i = 0; i < all.size(); ++i) {
    const double x = low + (high - low) * (double(mixed(first + i * 0x9e3779b97f4a7c15) >> 11) * 0x1p-53);
    all[i] = step == 0 ? double(float(x)) : std::floor(x / step) * step;
  }
  return NDArray::from(all.data(), all.size(), shape, dtype);
}

// These over and over.
NDArray listed(const std::vector<double>& list, const Shape& shape, DType dtype) {
  std::vector<double> all(size_t(shape.size()));
  for (size_t i = 0; i < all.size(); ++i) all[i] = list[i % list.size()];
  return NDArray::from(all.data(), all.size(), shape, dtype);
}

// All visible outputs of an operator.
template <class A, class Op>
std::vector<A> call(const Op& op, const std::vector<A>& inputs) {
  std::vector<const A*> in;
  for (const A& a : inputs) in.push_back(&a);
  std::vector<A> out(size_t(Op::def.visible_outputs(&op)));
  A::apply(Op::def, &op, in, out, std::source_location::current(), "");
  return out;
}

NDArray weights_like(const NDArray& y) { return values(0, 0, y.shape(), y.dtype(), -0.4, 0.6); }

// The results that gradients flow from, and the weights of their elements.
struct Weighed {
  std::vector<NDArray> results, weights;
  // `unused`: those left out, by bit.
  explicit Weighed(const std::vector<NDArray>& all, uint32_t unused = 0) {
    for (size_t i = 0; i < all.size(); ++i) {
      const NDArray& y = all[i];
      if (!is_floating(y.dtype()) || !autograd::wants_gradient(y) || (unused >> i & 1) != 0) continue;
      results.push_back(y);
      weights.push_back(weights_like(y));
    }
  }
};

using Results = std::vector<std::vector<double>>;

// 0 when they agree.
int compare(const Results& expected, const Results& got, double rtol, double atol) {
  int wrong = expected.size() != got.size();
  for (size_t k = 0; k < expected.size() && k < got.size(); ++k) {
    double largest = 1;
    for (double x : expected[k]) largest = std::isfinite(x) ? std::max(largest, std::abs(x)) : largest;
    for (size_t i = 0; i < expected[k].size(); ++i) {
      const double a = expected[k][i], b = got[k][i];
      const bool same = (a == b && (rtol > 0 || std::signbit(a) == std::signbit(b))) || (std::isnan(a) && std::isnan(b)) ||
                        std::abs(a - b) <= rtol * std::abs(a) + atol * largest;
      if (same) continue;
      fmt::print("result {} at element {}: expected {}, got {}\n", k, i, a, b);
      ++wrong;
      break;
    }
  }
  fmt::print("{}\n", wrong ? "wrong" : "right");
  return wrong != 0;
}
)";

std::string number(double x) {
  const std::string text = x == 0 && std::signbit(x) ? "-0.0" : fmt::format("{}", x);
  return std::isnan(x) ? "NAN" : std::isinf(x) ? (x < 0 ? "-INFINITY" : "INFINITY") : text;
}

std::string shape_source(const Shape& shape) {
  std::string text;
  for (int64_t d : shape) text += fmt::format("{}{}", text.empty() ? "" : ", ", d);
  return fmt::format("Shape({})", text);
}

std::string dtype_source(DType t) {
  return t == DType::boolean ? "DType::boolean" : fmt::format("DType::{}", kaon::name_of(t));
}

std::string values_source(const ProgramNode& n, int64_t rows, uint64_t call) {
  const Shape shape = shape_in_call(n, rows);
  const std::string meta = fmt::format("{}, {}", shape_source(shape), dtype_source(n.outputs[0].dtype));
  if (!n.range.values.empty()) {
    std::string list;
    for (double x : n.range.values) list += (list.empty() ? "" : ", ") + number(x);
    return fmt::format("listed({{{}}}, {})", list, meta);
  }
  return fmt::format("values({}, {}, {}, {}, {}{})", n.seed, n.role == Role::data ? call : 0, meta, number(n.range.low),
                     number(n.range.high), n.range.step == 0 ? "" : fmt::format(", {}", number(n.range.step)));
}

// Writes the statements of a program's nodes.
class Writer {
 public:
  Writer(std::string prefix, std::string indent) : prefix_(std::move(prefix)), indent_(std::move(indent)) {}

  // `given`: the names of the variables that are no constants.
  std::string body(const Program& p, const std::vector<std::string>& given, std::vector<std::string>& heads) {
    std::string text;
    std::vector<std::vector<std::string>> names;
    size_t next = 0;
    for (uint32_t i = 0; i < p.nodes.size(); ++i) {
      const ProgramNode& n = p.nodes[i];
      const std::string name = fmt::format("{}{}", prefix_, i);
      if (n.kind == Kind::variable) {
        if (n.role == Role::constant) {
          text += fmt::format("{}const A {} = A::from_values({}, \"\");\n", indent_, name, values_source(n, 0, 0));
          names.push_back({name});
        } else {
          names.push_back({given[next++]});
        }
        continue;
      }
      std::vector<std::string> in;
      for (Ref r : n.inputs) in.push_back(names[r.node][r.output]);
      names.emplace_back();
      if (n.outputs.size() == 1) {
        names.back() = {name};
      } else {
        for (size_t k = 0; k < n.outputs.size(); ++k) names.back().push_back(fmt::format("{}[{}]", name, k));
      }
      text += n.kind == Kind::call ? call(n, name, in) : control_flow(n, name, in);
    }
    for (Ref r : p.heads) heads.push_back(names[r.node][r.output]);
    return text;
  }

 private:
  static std::string list(const std::vector<std::string>& names) { return fmt::format("{}", fmt::join(names, ", ")); }
  static std::string vector(const std::vector<std::string>& names) {
    return fmt::format("std::vector<A>{{{}}}", list(names));
  }

  std::string call(const ProgramNode& n, const std::string& name, const std::vector<std::string>& in) {
    const std::string op = name + "_op";
    std::string text = indent_ + attributes_source(*n.def, n.attrs, op) + "\n";
    const bool one = n.outputs.size() == 1;
    return text + fmt::format("{}const {} {} = call<A>({}, {{{}}}){};\n", indent_, one ? "A" : "std::vector<A>", name,
                              op, list(in), one ? "[0]" : "");
  }

  std::string lambda(const Program& p, const std::string& parameters, const std::vector<std::string>& given,
                     uint32_t num_states, bool lists, const std::string& mark) {
    std::vector<std::string> heads;
    std::string text =
        fmt::format("[&]({}) {{\n", parameters) + Writer(prefix_ + mark, indent_ + "  ").body(p, given, heads);
    if (!lists) return text + fmt::format("{}  return {};\n{}}}", indent_, heads[0], indent_);
    const auto middle = heads.end() - ptrdiff_t(num_states);
    const std::string results = num_states == 0 ? vector(heads)
                                                : fmt::format("std::pair({}, {})", vector({heads.begin(), middle}),
                                                              vector({middle, heads.end()}));
    return text + fmt::format("{}  return {};\n{}}}", indent_, results, indent_);
  }

  std::string control_flow(const ProgramNode& n, const std::string& name, const std::vector<std::string>& in) {
    auto part = [&](size_t first, size_t count) {
      return std::vector<std::string>(in.begin() + ptrdiff_t(first), in.begin() + ptrdiff_t(first + count));
    };
    auto numbered = [&](const char* array, size_t count) {
      std::vector<std::string> names;
      for (size_t k = 0; k < count; ++k) names.push_back(fmt::format("{}[{}]", array, k));
      return names;
    };
    auto joined = [](std::vector<std::string> a, const std::vector<std::string>& b) {
      a.insert(a.end(), b.begin(), b.end());
      return a;
    };
    const size_t used = n.num_data + n.num_states;
    const std::string states = "[[maybe_unused]] std::vector<A> states";
    std::string result;
    if (n.kind == Kind::cond) {
      const auto outer = part(1, in.size() - 1);
      result = fmt::format("contrib::cond({}, {}, {})", in[0], lambda(*n.bodies[0], "", outer, 0, true, "then"),
                           lambda(*n.bodies[1], "", outer, 0, true, "else"));
    } else {
      const auto outer = part(used, in.size() - used);
      const auto given = joined(numbered("states", n.num_states), outer);
      if (n.kind == Kind::foreach) {
        result = fmt::format("contrib::foreach({}, {}, {})",
                             lambda(*n.bodies[0], "[[maybe_unused]] std::vector<A> rows, " + states,
                                    joined(numbered("rows", n.num_data), given), n.num_states, true, "row"),
                             vector(part(0, n.num_data)), vector(part(n.num_data, n.num_states)));
      } else {
        result = fmt::format("contrib::while_loop({}, {}, {}, {})", lambda(*n.bodies[1], states, given, 0, false, "if"),
                             lambda(*n.bodies[0], states, given, n.num_states, true, "do"),
                             vector(part(0, n.num_states)), n.iterations);
      }
      // outputs, then states
      result = fmt::format("joined({})", result);
    }
    const bool one = n.outputs.size() == 1;
    return fmt::format("{}const {} {} = {}{};\n", indent_, one ? "A" : "std::vector<A>", name, result,
                       one ? "[0]" : "");
  }

  std::string prefix_, indent_;
};

std::string options_source(const HybridizeOptions& o) {
  std::vector<std::string> set;
  if (o.static_alloc) set.push_back(".static_alloc = true");
  if (o.static_shape) set.push_back(".static_shape = true");
  if (o.exact) set.push_back(".exact = true");
  if (o.winograd) set.push_back(".winograd = true");
  if (o.mirror) set.push_back(".mirror = true");
  if (!o.branches) set.push_back(".branches = false");
  if (o.policy == PlanPolicy::bucket) set.push_back(".policy = PlanPolicy::bucket");
  if (o.verify != 0) set.push_back(fmt::format(".verify = {}", o.verify));
  return fmt::format("HybridizeOptions{{{}}}", fmt::join(set, ", "));
}

constexpr const char* joined_source = R"(
// The outputs of a loop, then its states.
template <class A>
std::vector<A> joined(std::pair<std::vector<A>, std::vector<A>> all) {
  all.first.insert(all.first.end(), all.second.begin(), all.second.end());
  return all.first;
}
)";

std::string net_source(const Program& p) {
  std::string parameters, set, arguments, reads;
  std::vector<std::string> given, data;
  for (uint32_t i = 0; i < p.nodes.size(); ++i) {
    const ProgramNode& n = p.nodes[i];
    if (n.kind != Kind::variable || n.role == Role::constant) continue;
    const std::string name = fmt::format("{}{}", n.role == Role::data ? "x" : "p", i);
    if (n.role == Role::data) {
      data.push_back("auto " + name);
      given.push_back(name);
      continue;
    }
    const TensorMeta& m = n.outputs[0];
    const bool learns = n.role == Role::parameter && is_floating(m.dtype);
    parameters +=
        fmt::format("  gluon::Parameter {0} = param(\"{0}\", {1}, {{.dtype = {2}{3}}});\n", name, shape_source(m.shape),
                    dtype_source(m.dtype), learns ? "" : ", .grad_req = GradReq::null, .differentiable = false");
    set += fmt::format("    {}.set_data({});\n", name, values_source(n, 0, 0));
    given.push_back(fmt::format("F({})", name));
  }
  std::vector<std::string> heads;
  const std::string body = Writer("v", "    ").body(p, given, heads);
  return fmt::format(
      "\nstruct Net : gluon::HybridBlock<Net> {{\n{}  Net() {{\n{}  }}\n"
      "  auto hybrid_forward([[maybe_unused]] auto F, {}) {{\n    using A = decltype({});\n{}    return "
      "std::vector<A>{{{}}};\n"
      "  }}\n}};\n",
      parameters, set, fmt::join(data, ", "), data[0].substr(5), body, fmt::join(heads, ", "));
}

std::vector<std::string> data_names(const Program& p) {
  std::vector<std::string> names;
  for (uint32_t i : variables(p, Role::data)) names.push_back(fmt::format("x{}", i));
  return names;
}

// The arrays that a phase leaves: `keep(...)` for each.
std::string phase_source(const Program& p, Phase phase, int64_t rows, uint64_t call) {
  std::string text = fmt::format("  {{  // {}\n", name_of(phase)), keep;
  std::vector<std::string> leaves;
  for (uint32_t i : variables(p, Role::data)) {
    const ProgramNode& n = p.nodes[i];
    text += fmt::format("    NDArray x{} = {};\n", i, values_source(n, rows, call));
    if (phase == Phase::predict || !is_floating(n.outputs[0].dtype)) continue;
    text += fmt::format("    x{}.attach_grad();\n", i);
    leaves.push_back(fmt::format("x{}", i));
    keep += fmt::format("    keep(x{}.grad());\n", i);
  }
  for (uint32_t i = 0; i < p.nodes.size(); ++i) {
    const ProgramNode& n = p.nodes[i];
    if (n.kind != Kind::variable || n.role == Role::constant || n.role == Role::data) continue;
    if (n.role == Role::state || !is_floating(n.outputs[0].dtype)) {
      keep += fmt::format("    keep(net.p{}.data());\n", i);
    } else if (phase != Phase::predict) {
      text += fmt::format("    net.p{}.zero_grad();\n", i);
      leaves.push_back(fmt::format("net.p{}.data()", i));
      keep += fmt::format("    keep(net.p{}.grad());\n", i);
    }
  }
  const std::string run = fmt::format("net({})", fmt::join(data_names(p), ", "));
  text += fmt::format("    random::seed({});\n", call + 1);
  const bool training = phase == Phase::train || phase == Phase::second_training;
  const uint32_t unused = unused_in(p, call);
  const std::string weighed = unused == 0 ? "w(y)" : fmt::format("w(y, {})", unused);
  if (phase == Phase::predict) {
    text += fmt::format("    const std::vector<NDArray> y = {};\n", run);
  } else if (phase == Phase::train || phase == Phase::record) {
    text += fmt::format(
        "    const std::vector<NDArray> y = autograd::record([&] {{ return {}; }}, {});\n"
        "    if (const Weighed {}; !w.results.empty()) autograd::backward(w.results, w.weights);\n",
        run, training, weighed);
  } else {
    text += fmt::format(
        "    std::vector<NDArray> y;\n    NDArray sum;\n    autograd::record([&] {{\n      y = {};\n"
        "      const Weighed {};\n      if (w.results.empty()) return;\n"
        "      const std::vector<NDArray> leaves{{{}}};\n"
        "      for (const NDArray& g : autograd::grad(w.results, leaves, w.weights, true, true)) {{\n"
        "        y.push_back(g);\n        if (!autograd::wants_gradient(g)) continue;\n"
        "        const NDArray part = nd.sum(g * weights_like(g)).astype(DType::float64);\n"
        "        sum = sum.defined() ? sum + part : part;\n      }}\n    }}, {});\n"
        "    if (sum.defined()) sum.backward();\n",
        run, weighed, fmt::join(leaves, ", "), training);
  }
  return text + "    for (const NDArray& a : y) keep(a);\n" + keep + "  }\n";
}

std::string calls_source(const Program& p, Way way) {
  const auto options = options_of(way);
  std::string text = fmt::format(
      "\nResults run(bool {0}) {{\n  Engine engine({{.threads = {0} ? {1} : 0}});\n  EngineScope scope(engine);\n"
      "  Net net;\n{2}  Results results;\n"
      "  auto keep = [&](const NDArray& a) {{ results.push_back(a.asvector<double>()); }};\n",
      "tested", threads_of(way),
      options ? fmt::format("  if (tested) net.hybridize({});\n", options_source(*options)) : "");
  uint64_t call = 0;
  for (int64_t rows : p.rows) {
    for (Phase phase : p.phases) {
      ++call;
      if (is_called(way, phase)) text += phase_source(p, phase, rows, call);
    }
  }
  return text + fmt::format(
                    "  return results;\n}}\n\nint main() {{ return compare(run(false), run(true), {}); }}\n",
                    way == Way::exact || way == Way::verify_exact || way == Way::other_threads ? "0, 0" : "1e-3, 1e-4");
}

std::string steps_source(const Program& p, Way way) {
  const auto data = variables(p, Role::data);
  std::vector<std::string> losses{"F.mean(label)"};
  for (size_t k = 0; k < p.heads.size(); ++k) {
    losses.push_back(fmt::format("F.mean(F.square(F.cast(y[{}], DType::float32)))", k));
  }
  std::string parameters;
  for (uint32_t i : variables(p, Role::parameter)) {
    parameters += fmt::format("  all.add(net.p{});  // without those that no gradient reaches\n", i);
  }
  std::string make;
  for (uint32_t i : data) make += fmt::format("    NDArray x{} = {};\n", i, values_source(p.nodes[i], 0, 987654321));
  for (size_t at; (at = make.find("987654321")) != make.npos;) make.replace(at, 9, "step + 1");
  const bool two = data.size() == 2;
  const char* optimizer = p.seed % 3 == 0   ? "optimizer::SGD({.learning_rate = 0.01})"
                          : p.seed % 3 == 1 ? "optimizer::SGD({.learning_rate = 0.01, .momentum = 0.9, .wd = 0.01})"
                                            : "optimizer::Adam({.learning_rate = 0.01})";
  return fmt::format(
      "\ntemplate <class A>\nA loss_of(auto F, const std::vector<A>& y, const A& label) {{\n  return {};\n}}\n\n"
      "Results run(bool tested) {{\n  Engine engine({{.threads = tested ? {} : 0}});\n  EngineScope scope(engine);\n"
      "  Net net;\n  gluon::ParameterDict all;\n{}"
      "  gluon::Trainer trainer(all, {});\n"
      "  gluon::TrainingStep training([](const Symbol& x) {{ return x; }}, [net](const Symbol& x, const Symbol& label) "
      "{{\n"
      "    return loss_of(sym, net({}), {});\n  }}, trainer, {});\n"
      "  const NDArray no_label = nd.zeros({{1}});\n  Results results;\n"
      "  for (uint64_t step = 0; step < 5; ++step) {{\n{}    random::seed(step + 1);\n    NDArray loss;\n"
      "    if (tested) {{\n      loss = training(x{}, {});\n    }} else {{\n"
      "      loss = autograd::record([&] {{ return loss_of(nd, net({}), no_label); }});\n      loss.backward();\n"
      "      trainer.step(x{}.shape()[0]);\n    }}\n    results.push_back(loss.asvector<double>());\n  }}\n"
      "  for (const gluon::Parameter& q : net.collect_params()) results.push_back(q.data().asvector<double>());\n"
      "  return results;\n}}\n\nint main() {{ return compare(run(false), run(true), {}); }}\n",
      fmt::join(losses, " + "), threads_of(way), parameters, optimizer, two ? "x, label" : "x",
      two ? "sym.zeros({1})" : "label", options_source(*options_of(way)), make, data[0],
      two ? fmt::format("x{}", data[1]) : "no_label", fmt::join(data_names(p), ", "), data[0],
      way == Way::training_step_exact ? "0, 0" : "1e-3, 1e-4");
}

// Gradients, element by element, beside central differences.
std::string numeric_source(const Program& p, bool second) {
  std::string make, leaves;
  for (uint32_t i : variables(p, Role::data)) {
    make += fmt::format("  NDArray x{} = {};\n", i, values_source(p.nodes[i], 0, 1));
    if (is_floating(p.nodes[i].outputs[0].dtype)) leaves += fmt::format("&x{}, ", i);
  }
  for (uint32_t i : variables(p, Role::parameter)) {
    if (!is_floating(p.nodes[i].outputs[0].dtype)) continue;
    make += fmt::format("  NDArray p{0} = net.p{0}.data();\n", i);
    leaves += fmt::format("&p{}, ", i);
  }
  return fmt::format(
      "\nint main() {{\n  Net net;\n{}  const std::vector<NDArray*> leaves{{{}}};\n"
      "  for (NDArray* x : leaves) x->attach_grad();\n"
      "  auto value = [&] {{\n    random::seed(1);\n    NDArray sum = nd.zeros({{1}}, {{.dtype = DType::float64}});\n"
      "    const Weighed w(net({}));\n{}"
      "    for (size_t k = 0; k < w.results.size(); ++k) sum = sum + nd.sum(w.results[k] * w.weights[k]);\n"
      "    return sum;\n  }};\n"
      "  autograd::record(value, false).backward();\n  Results got, expected;\n"
      "  for (NDArray* x : leaves) got.push_back(x->grad().asvector<double>());\n"
      "  for (NDArray* x : leaves) {{\n    const std::vector<double> kept = x->asvector<double>();\n"
      "    expected.emplace_back();\n    for (size_t i = 0; i < kept.size(); ++i) {{\n      double f[2];\n"
      "      for (int side : {{0, 1}}) {{\n        std::vector<double> moved = kept;\n"
      "        moved[i] += side == 0 ? -1e-6 : 1e-6;\n"
      "        x->assign(NDArray::from(moved.data(), moved.size(), x->shape(), x->dtype()));\n"
      "        f[side] = autograd::record(value, false).asscalar<double>();\n      }}\n"
      "      expected.back().push_back((f[1] - f[0]) / 2e-6);\n    }}\n"
      "    x->assign(NDArray::from(kept.data(), kept.size(), x->shape(), x->dtype()));\n  }}\n"
      "  return compare(expected, got, 1e-3, 1e-4);\n}}\n",
      make, leaves, fmt::join(data_names(p), ", "),
      second
          ? "    if (w.results.empty()) return sum;\n    std::vector<NDArray> at;\n"
            "    for (NDArray* x : leaves) at.push_back(*x);\n"
            "    for (const NDArray& g : autograd::grad(w.results, at, w.weights, true, true)) {\n"
            "      if (autograd::wants_gradient(g)) sum = sum + nd.sum(g * weights_like(g));\n    }\n    return sum;\n"
          : "");
}

}  // namespace

std::string source_of(const Program& program, Way way, const std::string& what) {
  const bool numeric = way == Way::derivative || way == Way::second_derivative;
  const bool steps = way == Way::training_step || way == Way::training_step_exact || way == Way::training_step_winograd;
  const Program p = numeric ? widened(program) : steps ? training_part(program) : program;
  std::string comment = what;
  std::replace(comment.begin(), comment.end(), '\n', ' ');
  std::string text = fmt::format("// Random program {}: {}.\n", p.seed, comment);
  text += preamble;
  bool has_loop = false;
  each_call(
      p, [&](const ProgramNode& n) { has_loop = has_loop || n.kind == Kind::foreach || n.kind == Kind::while_loop; });
  if (has_loop) text += joined_source;
  text += net_source(p);
  if (numeric) return text + numeric_source(p, way == Way::second_derivative);
  return text + (steps ? steps_source(p, way) : calls_source(p, way));
}

}  // namespace kaon::test
