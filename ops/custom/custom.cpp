// The operators that programs register, and Custom, which calls them.
#include "kaon/ops/custom/custom.h"

#include <fmt/format.h>

#include <charconv>
#include <memory>
#include <mutex>

#include "kaon/engine/base/process_wide.h"
#include "kaon/ops/functions.h"
#include "kaon/ops/op_def.h"

namespace kaon {

using namespace ops;
namespace {

// Those of the process. Entries stay where they are, and are never removed.
struct Registry {
  std::mutex mutex;
  std::map<std::string, CustomOperator, std::less<>> operators;
  void lock() { mutex.lock(); }  // around a fork
  void unlock() { mutex.unlock(); }
};
Registry& registry() { return engine::ProcessWide<Registry>::get(); }

const CustomOperator* find_custom(std::string_view op_type) {
  const std::scoped_lock lock(registry().mutex);
  const auto at = registry().operators.find(op_type);
  return at == registry().operators.end() ? nullptr : &at->second;
}

std::string unknown_text(std::string_view op_type) {
  const std::scoped_lock lock(registry().mutex);
  std::string names;
  for (const auto& [name, op] : registry().operators) names += (names.empty() ? "" : ", ") + name;
  return fmt::format("op_type '{}' is not registered; registered are: {}", op_type, names.empty() ? "none" : names);
}

// A text of a text: its length, a colon, itself.
void append(std::string& all, std::string_view text) { all += fmt::format("{}:{}", text.size(), text); }
std::string_view take(std::string_view& rest) {
  size_t size = 0;
  const auto end = std::from_chars(rest.data(), rest.data() + rest.size(), size).ptr;
  const size_t begin = size_t(end - rest.data()) + 1;
  const std::string_view text = rest.substr(begin, size);
  rest.remove_prefix(begin + size);
  return text;
}

CustomAttributes attributes_of(const op::Custom& op) {
  CustomAttributes all;
  for (std::string_view rest = op.attributes.text; !rest.empty();) {
    const std::string_view name = take(rest);
    all.emplace(name, take(rest));
  }
  return all;
}

constexpr OpDef custom_def() {
  OpDef d = make_op_def<op::Custom>();
  // each attribute stands for itself in files
  d.write = [](const void* p, engine::FunctionRef<void(std::string_view, const std::string&, bool)> visit) {
    const op::Custom& op = *static_cast<const op::Custom*>(p);
    visit("op_type", op.op_type.text, false);
    for (const auto& [name, text] : attributes_of(op)) visit(name, text, false);
  };
  d.read = [](void* p, std::string_view name, std::string_view text) -> int {
    op::Custom& op = *static_cast<op::Custom*>(p);
    if (name == "op_type") return op.op_type = {engine::intern(text)}, 0;
    if (name == "num_args") return 1;  // of the node
    CustomAttributes all = attributes_of(op);
    all.insert_or_assign(std::string(name), std::string(text));
    return op.attributes = {engine::intern(custom_text(all))}, 0;
  };
  return d;
}

}  // namespace

constinit const OpDef op::Custom::def = custom_def();

void register_custom_operator(std::string op_type, CustomOperator op) {
  if (op_type.empty()) throw ValueError("[Custom] an operator needs a name, got ''");
  if (!op.compose) throw ValueError(fmt::format("[Custom] the operator '{}' needs compose, got none", op_type));
  if (op.outputs < 1) {
    throw ValueError(fmt::format("[Custom] the operator '{}' needs at least one output, got {}", op_type, op.outputs));
  }
  const std::scoped_lock lock(registry().mutex);
  const auto [at, is_new] = registry().operators.emplace(std::move(op_type), std::move(op));
  if (!is_new) throw ValueError(fmt::format("[Custom] op_type must be new, got '{}', which is registered", at->first));
}

namespace ops {

std::string custom_text(const CustomAttributes& attributes) {
  std::string all;
  for (const auto& [name, text] : attributes) append(all, name), append(all, text);
  return all;
}

void expect_custom_operator(std::string_view op_type) {
  if (!find_custom(op_type)) throw ValueError("[Custom] " + unknown_text(op_type));
}

}  // namespace ops

int op::Custom::num_outputs() const {
  const CustomOperator* const known = find_custom(op_type.text);
  return known ? known->outputs : 1;
}

void op::Custom::infer(InferContext& c) const {
  const CustomOperator* const known = find_custom(op_type.text);
  if (!known) c.fail_value(unknown_text(op_type.text));
  if (size_t(c.num_inputs()) != known->inputs.size()) {
    c.fail(fmt::format("'{}' takes {} arrays, {}; got {}", op_type.text, known->inputs.size(),
                       fmt::join(known->inputs, ", "), c.num_inputs()));
  }
  if (known->infer) return known->infer(attributes_of(*this), c);
  if (c.num_inputs() == 0) c.fail(fmt::format("'{}' has no inputs, and no infer either", op_type.text));
  for (int i = 0; i < known->outputs; ++i) c.set_output(i, c.shape(0), c.dtype());
}

void op::Custom::compose(ComposeContext& c) const { find_custom(op_type.text)->compose(attributes_of(*this), c); }

}  // namespace kaon
