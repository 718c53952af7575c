// If, Loop and Scan. A condition is read while the model is converted, and the program holds for it: the branch that is
// taken, and each iteration, become part of the program.
#include <fmt/format.h>

#include <algorithm>

#include "kaon/interchange/onnx/convert/families.h"
#include "kaon/interchange/onnx/operators/helpers.h"

namespace kaon::onnx::convert {

namespace {

constexpr int64_t kMaxIterations = 100000;  // of a loop that does not say how many: its program would have no end

bool holds(Call& c, const Value& condition) {
  const std::vector<int64_t> values = c.conversion().read(condition).asvector<int64_t>();
  if (values.size() != 1) c.fail("a condition must have one element");
  return values[0] != 0;
}

void if_node(Call& c) {
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

// M, cond, the carried values; the body takes the iteration, the condition and these, and gives the next condition,
// these and the results.
void loop(Call& c) {
  const format::Graph& body = c.graph("body");
  const int64_t most = c.has(0) ? c.integers(0)[0] : INT64_MAX;
  bool goes_on = !c.has(1) || holds(c, c.input(1));
  std::vector<Value> carried;
  for (int i = 2; i < c.count(); ++i) carried.push_back(c.all()[size_t(i)]);
  const size_t n = carried.size();
  if (body.outputs.size() < n + 1) c.fail("the body gives too few values");
  std::vector<std::vector<Value>> results(body.outputs.size() - 1 - n);
  for (int64_t i = 0; i < most && goes_on; ++i) {
    if (i == kMaxIterations) c.fail(fmt::format("more than {} iterations", kMaxIterations));
    const bool yes = true;
    std::vector<Value> inputs{Value::constant(NDArray::from(&i, 1, Shape(), DType::int64)),
                              Value::constant(NDArray::from(&yes, 1, Shape(), DType::boolean))};
    inputs.insert(inputs.end(), carried.begin(), carried.end());
    const std::vector<Value> outputs = c.conversion().convert_graph(body, c.conversion().scope(), inputs);
    goes_on = holds(c, outputs[0]);
    for (size_t k = 0; k < n; ++k) carried[k] = outputs[k + 1];
    for (size_t k = 0; k < results.size(); ++k) results[k].push_back(outputs[n + 1 + k]);
  }
  for (size_t k = 0; k < n; ++k) c.set(int(k), carried[k]);
  for (size_t k = 0; k < results.size(); ++k) {
    c.set(int(n + k), stacked(c, results[k], false, 0, body.outputs[n + 1 + k]));
  }
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

constexpr Row rows[] = {
    {"If", if_node},
    {"Loop", loop},
    {"Scan", scan},
};

}  // namespace

std::span<const Row> control_rows() { return rows; }

}  // namespace kaon::onnx::convert
