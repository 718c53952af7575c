// If, Loop and Scan. They become the graph's operators of control flow (cond, while_loop, foreach) where their bodies
// are programs of one shape. Elsewhere, as where a branch has results of other shapes or a body holds sequences, the
// values that decide are read while the model is converted, and the program holds for these: the branch that is taken,
// and each iteration, become part of it.
#include <fmt/format.h>

#include <algorithm>

#include "kaon/graph/control_flow.h"
#include "kaon/interchange/onnx/convert/families.h"
#include "kaon/interchange/onnx/operators/helpers.h"

namespace kaon::onnx::convert {

namespace {

constexpr int64_t kMaxIterations = 100000;  // of a loop that does not say how many: its program would have no end

using Values = std::vector<Value>;
using Symbols = std::vector<Symbol>;

bool holds(Call& c, const Value& condition) {
  const std::vector<int64_t> values = c.conversion().read(condition).asvector<int64_t>();
  if (values.size() != 1) c.fail("a condition must have one element");
  return values[0] != 0;
}

// --- as operators

// The symbols of a body's results [begin, end); fails where one is no tensor. `types` gets their element types.
Symbols tensors(const Call& c, const Values& values, size_t begin, size_t end, std::vector<ElementType>& types) {
  Symbols symbols;
  for (size_t i = begin; i < end; ++i) {
    if (values[i].kind != Value::Kind::tensor) c.fail("a result of the body is no tensor");
    symbols.push_back(values[i].symbol);
    types.push_back(values[i].type);
  }
  return symbols;
}

// States as values of a body.
Values as_values(const Symbols& symbols, size_t begin, const Values& like) {
  Values values;
  for (size_t i = 0; i < like.size(); ++i) values.push_back(Value::of(symbols[begin + i], like[i].type));
  return values;
}

bool if_operator(Call& c) {
  return c.conversion().attempt([&] {
    std::vector<ElementType> types, other_types;
    const auto branch = [&](const char* name, std::vector<ElementType>& own) {
      const Values outputs = c.conversion().convert_graph(c.graph(name), c.conversion().scope(), {});
      return tensors(c, outputs, 0, outputs.size(), own);
    };
    const Symbols results = contrib::cond(
        c.x(0), [&] { return branch("then_branch", types); }, [&] { return branch("else_branch", other_types); });
    if (types != other_types) c.fail("the branches differ in element types");
    for (size_t i = 0; i < results.size(); ++i) c.set(int(i), Value::of(results[i], types[i]));
  });
}

// A row of data in a body, where a row of a vector has shape (1), as a tensor without that axis.
Symbol row_of(const Symbol& row, const Shape& data) { return data.ndim() == 1 ? reshaped(row, Shape()) : row; }

void if_node(Call& c) {
  if (!c.input(0).is_constant() && if_operator(c)) return;
  const format::Graph& branch = c.graph(holds(c, c.input(0)) ? "then_branch" : "else_branch");
  const std::vector<Value> outputs = c.conversion().convert_graph(branch, c.conversion().scope(), {});
  for (size_t i = 0; i < outputs.size(); ++i) c.set(int(i), outputs[i]);
}

// The parts along a new first axis.
Value stacked(const Call& c, const std::vector<Value>& parts, bool reversed, int axis, const format::ValueInfo& info) {
  if (parts.empty()) {
    Shape s(0);
    for (const auto& d : info.dims) s.push_back(std::max<int64_t>(0, d.value));
    return Value::of(full(s, 0, format::dtype_of(info.type).value_or(DType::float32)));
  }
  std::vector<Symbol> symbols;
  for (const Value& v : parts) {
    if (v.kind != Value::Kind::tensor) c.fail("results of iterations must be tensors");
    symbols.push_back(v.symbol);
  }
  if (reversed) std::reverse(symbols.begin(), symbols.end());
  return Value::of(sym.stack(std::span<const Symbol>(symbols), {.axis = axis}), parts[0].type);
}

// A Loop: M, cond, the carried values; the body takes the iteration, the condition and these, and gives the next
// condition, these and the results.
struct Loop {
  Call& c;
  const format::Graph& body = c.graph("body");
  Values carried;
  size_t num_results = 0;

  explicit Loop(Call& call) : c(call) {
    const Values all = c.all();
    if (all.size() > 2) carried.assign(all.begin() + 2, all.end());
    if (body.outputs.size() < carried.size() + 1) c.fail("the body gives too few values");
    num_results = body.outputs.size() - 1 - carried.size();
  }

  // What the body gives. It runs only where the condition holds.
  Values run(const Value& iteration, const Values& values) const {
    Values inputs{iteration, truth(true)};
    inputs.insert(inputs.end(), values.begin(), values.end());
    return c.conversion().convert_graph(body, c.conversion().scope(), inputs);
  }

  // Whether each iteration says that the next one follows; none where the body is no program of one shape.
  std::optional<bool> goes_on() const {
    bool always = false;
    const bool suits = c.conversion().attempt([&] {
      Values values;
      for (const Value& v : carried) {
        if (v.kind != Value::Kind::tensor) c.fail("a carried value is no tensor");
        values.push_back(Value::of(Symbol::variable("carried", v.shape(), v.dtype()), v.type));
      }
      const Value i = Value::of(Symbol::variable("iteration", Shape(), DType::int64));
      const Values outputs = run(i, values);
      for (size_t k = 0; k < values.size(); ++k) {
        const Value &before = values[k], &after = outputs[k + 1];
        if (after.kind != Value::Kind::tensor || after.shape() != before.shape() || after.dtype() != before.dtype() ||
            after.type != before.type) {
          c.fail("a carried value changes its shape");
        }
      }
      always = outputs[0].is_constant() && holds(c, outputs[0]);
      if (outputs[0].is_constant() && !always) c.fail("it ends after one iteration");
    });
    return suits ? std::optional(always) : std::nullopt;
  }

  // `n` iterations, whatever the condition says.
  bool as_foreach(int64_t n) {
    return c.conversion().attempt([&] {
      std::vector<ElementType> types;
      Symbols first;
      for (const Value& v : carried) first.push_back(v.symbol);
      std::vector<int64_t> numbers(static_cast<size_t>(n));
      for (size_t i = 0; i < numbers.size(); ++i) numbers[i] = int64_t(i);
      const auto [results, last] = contrib::foreach (
          [&](const Symbols& rows, const Symbols& states) {
            const Values outputs = run(Value::of(reshaped(rows[0], Shape())), as_values(states, 0, carried));
            std::vector<ElementType> own;
            const Symbols all = tensors(c, outputs, 1, outputs.size(), own);
            types = own;
            const auto end = all.begin() + ptrdiff_t(carried.size());
            return std::pair(Symbols(end, all.end()), Symbols(all.begin(), end));
          },
          Symbols{constant(numbers)}, first);
      set(last, results, types);
    });
  }

  // While the condition holds, at most `limit` times, where that is given; without results. Then `made` is the number
  // of iterations.
  bool as_while(const Value* limit, Symbol& made) {
    return c.conversion().attempt([&] {
      const auto flag = [&](const Symbol& x) { return cast(reshaped(x, Shape()), DType::boolean); };
      Symbols first{scalar(0, DType::int64), c.has(1) ? flag(c.x(1)) : truth(true).symbol};
      for (const Value& v : carried) first.push_back(v.symbol);
      const bool is_known = limit && limit->is_constant();
      const Symbol most = limit ? reshaped(limit->symbol, Shape()) : Symbol();
      const auto condition = [&](const Symbols& states) {
        if (!limit || is_known) return states[1];
        return cast(states[1], DType::int64) * cast(sym.broadcast_lesser(states[0], most), DType::int64);
      };
      const auto step = [&](const Symbols& states) {
        const Values outputs = run(Value::of(states[0]), as_values(states, 2, carried));
        std::vector<ElementType> types;
        Symbols next{states[0] + 1, flag(outputs[0].symbol)};
        const Symbols values = tensors(c, outputs, 1, 1 + carried.size(), types);
        next.insert(next.end(), values.begin(), values.end());
        return std::pair(Symbols(), next);
      };
      const int64_t bound = is_known ? std::max<int64_t>(0, c.integers(0)[0]) : INT64_MAX;
      const auto [none, last] = contrib::while_loop(condition, step, first, bound);
      made = last[0];
      std::vector<ElementType> types;
      for (const Value& v : carried) types.push_back(v.type);
      set({last.begin() + 2, last.end()}, {}, types);
    });
  }

  void set(const Symbols& last, const Symbols& results, const std::vector<ElementType>& types) const {
    for (size_t k = 0; k < last.size(); ++k) c.set(int(k), Value::of(last[k], types[k]));
    for (size_t k = 0; k < results.size(); ++k) {
      c.set(int(last.size() + k), Value::of(results[k], types[last.size() + k]));
    }
  }

  // As operators, which one program runs for any number of iterations. Where there are results, whose number is part of
  // their shape, the program holds for the number.
  bool as_operators() {
    const Value* const limit = c.has(0) ? &c.input(0) : nullptr;
    const bool starts = !c.has(1) || (c.input(1).is_constant() && holds(c, c.input(1)));
    if (c.has(1) && c.input(1).is_constant() && !starts) return false;
    const std::optional<bool> always = goes_on();
    if (!always || (*always && starts && !limit)) return false;
    const bool counts = *always && starts;  // the limit alone says how often
    if (counts && (limit->is_constant() || num_results > 0)) {
      const int64_t n = c.integers(0)[0];
      return n > 0 && as_foreach(n);
    }
    Symbol made;
    if (!as_while(limit, made)) return false;
    if (num_results == 0) return true;
    const int64_t n = c.conversion().read(Value::of(made)).asscalar<int64_t>();
    return n > 0 && as_foreach(n);
  }

  void unrolled() {
    const int64_t most = c.has(0) ? c.integers(0)[0] : INT64_MAX;
    bool follows = !c.has(1) || holds(c, c.input(1));
    const size_t n = carried.size();
    std::vector<Values> results(num_results);
    for (int64_t i = 0; i < most && follows; ++i) {
      if (i == kMaxIterations) c.fail(fmt::format("more than {} iterations", kMaxIterations));
      const Values outputs = run(number(i), carried);
      follows = holds(c, outputs[0]);
      for (size_t k = 0; k < n; ++k) carried[k] = outputs[k + 1];
      for (size_t k = 0; k < results.size(); ++k) results[k].push_back(outputs[n + 1 + k]);
    }
    for (size_t k = 0; k < n; ++k) c.set(int(k), carried[k]);
    for (size_t k = 0; k < results.size(); ++k) {
      c.set(int(n + k), stacked(c, results[k], false, 0, body.outputs[n + 1 + k]));
    }
  }
};

void loop(Call& c) {
  Loop all(c);
  if (!all.as_operators()) all.unrolled();
}

// Moves axis `from` to `to`.
Symbol moved(const Symbol& x, int from, int to) {
  std::vector<int64_t> axes;
  for (int i = 0; i < rank_of(x); ++i) {
    if (i != from) axes.push_back(i);
  }
  axes.insert(axes.begin() + to, from);
  return transposed(x, axes);
}

// The loop of a Scan: `all` gets the last states and the results.
bool scan_operator(Call& c, const format::Graph& body, const Values& states, const Values& inputs,
                   const std::vector<int64_t>& axes, const std::vector<int64_t>& directions,
                   const std::vector<int64_t>& out_axes, const std::vector<int64_t>& out_directions, Values& all) {
  return c.conversion().attempt([&] {
    const size_t n = states.size();
    Symbols data, first;
    for (size_t k = 0; k < inputs.size(); ++k) {
      Symbol x = moved(inputs[k].symbol, c.axis(axes[k], inputs[k].shape().ndim()), 0);
      data.push_back(directions[k] == 0 ? x : sym.reverse(x, Shape(0)));
    }
    std::vector<ElementType> types;
    for (const Value& v : states) {
      if (v.kind != Value::Kind::tensor) c.fail("a state is no tensor");
      first.push_back(v.symbol);
    }
    const auto [results, last] = contrib::foreach (
        [&](const Symbols& rows, const Symbols& now) {
          Values step = as_values(now, 0, states);
          for (size_t k = 0; k < rows.size(); ++k) {
            step.push_back(Value::of(row_of(rows[k], shape_of(data[k])), inputs[k].type));
          }
          const Values outputs = c.conversion().convert_graph(body, c.conversion().scope(), step);
          types.clear();
          const Symbols made = tensors(c, outputs, 0, outputs.size(), types);
          const auto end = made.begin() + ptrdiff_t(n);
          return std::pair(Symbols(end, made.end()), Symbols(made.begin(), end));
        },
        data, first);
    all.clear();
    for (size_t k = 0; k < n; ++k) all.push_back(Value::of(last[k], types[k]));
    for (size_t k = 0; k < results.size(); ++k) {
      Symbol y = out_directions[k] == 0 ? results[k] : sym.reverse(results[k], Shape(0));
      y = moved(y, 0, c.axis(out_axes[k], rank_of(y)));
      all.push_back(Value::of(y, types[n + k]));
    }
  });
}

// The states, then what is scanned along an axis; the body gives the next states and the results.
void scan(Call& c) {
  const format::Graph& body = c.graph("body");
  const bool old = c.opset() < 9;  // with a batch axis in front, and sequence_lens as the first input
  const size_t scanned = size_t(c.integer("num_scan_inputs", 0));
  const std::vector<Value> all = c.all();
  const size_t first = old ? 1 : 0;
  if (scanned == 0 || scanned + first > all.size()) c.fail(fmt::format("num_scan_inputs is {}", scanned));
  const size_t states = all.size() - first - scanned, results = body.outputs.size() - states;
  const auto list = [&](const char* name, size_t n) {
    std::vector<int64_t> v = c.integers(name);
    v.resize(n, 0);
    return v;
  };
  const std::vector<int64_t> axes = list("scan_input_axes", scanned),
                             directions = list(old ? "directions" : "scan_input_directions", scanned),
                             out_axes = list("scan_output_axes", results),
                             out_directions = list("scan_output_directions", results);
  if (old && c.has(0)) c.fail_supported("sequence_lens");
  const auto run = [&](std::vector<Value> carried, const std::vector<Value>& inputs) {
    std::vector<std::vector<Value>> made(results);
    int64_t length = -1;
    for (size_t k = 0; k < scanned; ++k) {
      const int axis = c.axis(axes[k], inputs[k].shape().ndim());
      const int64_t own = inputs[k].shape()[axis];
      if (length >= 0 && own != length) c.fail("what is scanned differs in length");
      length = own;
    }
    if (Values all_results;
        scan_operator(c, body, carried, inputs, axes, directions, out_axes, out_directions, all_results)) {
      return all_results;
    }
    for (int64_t i = 0; i < length; ++i) {
      std::vector<Value> step = carried;
      for (size_t k = 0; k < scanned; ++k) {
        const int axis = c.axis(axes[k], inputs[k].shape().ndim());
        const int64_t at = directions[k] == 0 ? i : length - 1 - i;
        const Symbol part = slice_along(inputs[k].symbol, axis, at, at + 1);
        step.push_back(Value::of(reshaped(part, without(inputs[k].shape(), axis)), inputs[k].type));
      }
      const std::vector<Value> outputs = c.conversion().convert_graph(body, c.conversion().scope(), step);
      for (size_t k = 0; k < states; ++k) carried[k] = outputs[k];
      for (size_t k = 0; k < results; ++k) made[k].push_back(outputs[states + k]);
    }
    for (size_t k = 0; k < results; ++k) {
      const int rank = made[k].empty() ? 1 : made[k][0].shape().ndim() + 1;
      carried.push_back(
          stacked(c, made[k], out_directions[k] != 0, c.axis(out_axes[k], rank), body.outputs[states + k]));
    }
    return carried;
  };
  if (!old) {
    const std::vector<Value> outputs =
        run({all.begin(), all.begin() + ptrdiff_t(states)}, {all.begin() + ptrdiff_t(states), all.end()});
    for (size_t k = 0; k < outputs.size(); ++k) c.set(int(k), outputs[k]);
    return;
  }
  std::vector<std::vector<Value>> samples(states + results);
  const int64_t batch = c.shape(1)[0];
  for (int64_t b = 0; b < batch; ++b) {
    std::vector<Value> parts;
    for (size_t i = first; i < all.size(); ++i) {
      const Symbol row = slice_along(all[i].symbol, 0, b, b + 1);
      parts.push_back(Value::of(reshaped(row, from(all[i].shape(), 1)), all[i].type));
    }
    const std::vector<Value> outputs =
        run({parts.begin(), parts.begin() + ptrdiff_t(states)}, {parts.begin() + ptrdiff_t(states), parts.end()});
    for (size_t k = 0; k < outputs.size(); ++k) samples[k].push_back(outputs[k]);
  }
  for (size_t k = 0; k < samples.size(); ++k) c.set(int(k), stacked(c, samples[k], false, 0, body.outputs[k]));
}

constexpr Row control_table[] = {
    {"If", if_node},
    {"Loop", loop},
    {"Scan", scan},
};

}  // namespace

std::span<const Row> control_rows() { return control_table; }

}  // namespace kaon::onnx::convert
