#include "kaon/interchange/onnx/convert/program.h"

#include <algorithm>
#include <cstring>

#include "kaon/graph/autograd.h"
#include "kaon/graph/ir/symbol_node.h"

namespace kaon::onnx::convert {

namespace {

void collect(const Value& value, std::vector<Symbol>& to) {
  if (value.kind == Value::Kind::tensor && !value.is_constant()) to.push_back(value.symbol);
  for (const Value& item : value.items) collect(item, to);
}

template <class T>
bool same_elements(const NDArray& a, const NDArray& b) {
  const auto x = a.data<const T>(), y = b.data<const T>();
  return x.data() == y.data() || std::memcmp(x.data(), y.data(), x.size_bytes()) == 0;
}

}  // namespace

bool same_values(const NDArray& a, const NDArray& b) {
  if (a.shape() != b.shape() || a.dtype() != b.dtype()) return false;
  if (a.size() == 0) return true;
  switch (a.dtype()) {
    case DType::float32: return same_elements<float>(a, b);
    case DType::float64: return same_elements<double>(a, b);
    case DType::float16: return same_elements<float16>(a, b);
    case DType::bfloat16: return same_elements<bfloat16>(a, b);
    case DType::uint8: return same_elements<uint8_t>(a, b);
    case DType::int8: return same_elements<int8_t>(a, b);
    case DType::int16: return same_elements<int16_t>(a, b);
    case DType::uint16: return same_elements<uint16_t>(a, b);
    case DType::int32: return same_elements<int32_t>(a, b);
    case DType::uint32: return same_elements<uint32_t>(a, b);
    case DType::int64: return same_elements<int64_t>(a, b);
    case DType::uint64: return same_elements<uint64_t>(a, b);
    case DType::boolean: return same_elements<bool>(a, b);
  }
  return false;
}

bool Program::prepare(const std::vector<NDArray>& arrays, Evaluator& values) const {
  for (size_t i = 0; i < inputs.size(); ++i) values.bind(inputs[i], arrays[i]);
  for (size_t i = 0; i < parameters.size(); ++i) values.bind(parameter_variables[i], parameters[i].array());
  if (steps.empty()) return true;
  autograd::ModeScope mode(false, false);
  for (const Step& step : steps) {
    std::vector<NDArray> read;
    for (const Symbol& s : step.reads) read.push_back(values(s));
    if (!step.function) {
      for (size_t i = 0; i < read.size(); ++i) {
        if (!same_values(read[i], step.expected[i])) return false;
      }
      continue;
    }
    const std::vector<NDArray> made = step.function(read);
    for (size_t i = 0; i < made.size(); ++i) {
      const TensorMeta& expected = step.results[i].entry().node->outputs[0];
      if (made[i].shape() != expected.shape || made[i].dtype() != expected.dtype) return false;
      values.bind(step.results[i], made[i]);
    }
  }
  return true;
}

void Program::finish() {
  for (const Value& v : outputs) collect(v, computed);
  if (computed.empty()) return;
  // Plans have an operator for each output.
  for (Symbol& s : computed) {
    if (s.entry().node->is_variable()) s = sym.identity(s);
  }
  const Symbol all = Symbol::group(computed);
  const std::vector<std::string> names = all.list_inputs();
  std::vector<std::string> taken;
  const auto take = [&](const Symbol& variable) {
    if (std::find(names.begin(), names.end(), variable.name()) == names.end()) return;
    block_inputs.push_back(variable);
    taken.push_back(variable.name());
  };
  for (const Symbol& s : inputs) take(s);
  for (const Step& step : steps) {
    for (const Symbol& s : step.results) take(s);
  }
  block.emplace(all, taken, parameters);
}

}  // namespace kaon::onnx::convert
