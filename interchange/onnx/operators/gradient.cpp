// The operator Gradient: derivatives inside a model.
#include <fmt/format.h>

#include <unordered_map>

#include "kaon/graph/autograd.h"
#include "kaon/interchange/onnx/convert/families.h"
#include "kaon/interchange/onnx/operators/helpers.h"

namespace kaon::onnx::convert {

namespace {

// The derivatives of the sum of y with respect to the tensors xs. Inputs are the xs, then what else y depends on (zs).
void gradient(Call& c) {
  const std::string of = c.text("y", "");
  const Value* const y = c.conversion().scope().find(of);
  if (!y || y->kind != Value::Kind::tensor) c.fail(fmt::format("y is '{}', which is no tensor", of));
  const size_t count = c.texts("xs").size();
  if (count == 0 || int(count) > c.count()) c.fail(fmt::format("{} xs of {} inputs", count, c.count()));
  // Runs y operator by operator, recorded, on the arrays that its variables have then.
  std::vector<Value> inputs;
  std::vector<Symbol> places;
  for (size_t i = 0; i < count; ++i) {
    inputs.push_back(c.input(int(i)));
    places.push_back(c.x(int(i)));
  }
  const auto add = [&](const std::vector<Symbol>& variables) {
    for (const Symbol& v : variables) {
      inputs.push_back(Value::of(v));
      places.push_back(v);
    }
  };
  add(c.conversion().inputs());
  add(c.conversion().parameters());
  const Symbol result = y->symbol;
  const std::vector<Value> gradients = c.conversion().host(inputs, [=](const std::vector<NDArray>& in) {
    Evaluator evaluate;
    std::vector<NDArray> at;
    for (size_t i = count; i < in.size(); ++i) evaluate.bind(places[i], in[i]);
    for (size_t i = 0; i < count; ++i) {
      at.push_back(in[i].copy());
      at.back().attach_grad();
      evaluate.bind(places[i], at.back());
    }
    autograd::record([&] { return evaluate(result); }).backward();
    std::vector<NDArray> made;
    for (const NDArray& x : at) made.push_back(x.grad());
    return made;
  });
  for (size_t i = 0; i < gradients.size(); ++i) c.set(int(i), gradients[i]);
}

constexpr Row gradient_table[] = {
    {"Gradient", gradient, 1, "ai.onnx.preview.training"},
};

}  // namespace

std::span<const Row> gradient_rows() { return gradient_table; }

}  // namespace kaon::onnx::convert
