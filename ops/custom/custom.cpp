// The operators that programs register, and Custom, which calls them.
#include "kaon/ops/custom/custom.h"

#include <fmt/format.h>

#include <charconv>
#include <memory>
#include <mutex>

#include "kaon/engine/base/process_wide.h"
#include "kaon/ops/custom/kernels/custom_family.h"
#include "kaon/ops/functions.h"
#include "kaon/ops/op_def.h"

namespace kaon {

using namespace ops;
namespace {

// What an op_type does. The signatures are made at their first use, and stay: the traits of nodes are in them.
struct Known {
  struct Signed {
    CustomSignature signature;
    OpTraits traits;
  };
  CustomFamily family;
  bool is_single = false;  // registered alone: any number of inputs for the readers of files
  std::mutex mutex;
  std::map<std::string_view, std::unique_ptr<Signed>> by_attributes;  // of interned texts
};

// Those of the process, which are never removed: nodes keep what they have read of one that another has replaced.
struct Registry {
  std::mutex mutex;
  std::map<std::string, std::shared_ptr<Known>, std::less<>> operators;
  std::vector<std::shared_ptr<Known>> replaced;
  void lock() { mutex.lock(); }  // around a fork
  void unlock() { mutex.unlock(); }
};
Registry& registry() { return engine::ProcessWide<Registry>::get(); }

std::shared_ptr<Known> find_custom(std::string_view op_type) {
  const std::scoped_lock lock(registry().mutex);
  const auto at = registry().operators.find(op_type);
  return at == registry().operators.end() ? nullptr : at->second;
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

// Inputs after the first may have shapes that follow from the others: infer() fills what is not known.
OpTraits traits_for(const CustomSignature& signature) {
  OpTraits traits = op::Custom::traits;
  const size_t n = std::min<size_t>(signature.inputs.size(), 32), fixed = n - std::min(n, size_t(signature.updated));
  for (size_t i = 1; i < n; ++i) traits.infers |= uint32_t(1) << i;
  for (size_t i = fixed; i < n; ++i) traits.mutates |= uint32_t(1) << i;
  return traits;
}

const Known::Signed& signed_by(Known& known, const op::Custom& op) {
  {
    const std::scoped_lock lock(known.mutex);
    const auto at = known.by_attributes.find(op.attributes.text);
    if (at != known.by_attributes.end()) return *at->second;
  }
  auto made = std::make_unique<Known::Signed>();
  made->signature = known.family.signature(attributes_of(op));  // may call the program: without the lock
  if (made->signature.outputs.empty()) {
    throw ValueError(fmt::format("[Custom] the operator '{}' needs at least one output, got none", op.op_type.text));
  }
  made->traits = known.is_single ? op::Custom::traits : traits_for(made->signature);
  const std::scoped_lock lock(known.mutex);
  return *known.by_attributes.emplace(op.attributes.text, std::move(made)).first->second;
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
  d.num_inputs = [](const void* p) -> int {
    const op::Custom& op = *static_cast<const op::Custom*>(p);
    const std::shared_ptr<Known> known = find_custom(op.op_type.text);
    return !known || known->is_single ? -1 : int(signed_by(*known, op).signature.inputs.size());
  };
  d.traits_of = [](const void* p) -> const OpTraits& {
    const op::Custom& op = *static_cast<const op::Custom*>(p);
    const std::shared_ptr<Known> known = find_custom(op.op_type.text);
    return known ? signed_by(*known, op).traits : op::Custom::traits;
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
  CustomSignature signature{.inputs = std::move(op.inputs), .outputs = {}};
  for (int i = 0; i < op.outputs; ++i) signature.outputs.push_back(fmt::format("output{}", i));
  const auto known = std::make_shared<Known>();
  known->is_single = true;
  known->family = {.signature = [signature](const CustomAttributes&) { return signature; },
                   .compose = std::move(op.compose),
                   .infer = std::move(op.infer)};
  const std::scoped_lock lock(registry().mutex);
  const auto [at, is_new] = registry().operators.emplace(std::move(op_type), known);
  if (!is_new) throw ValueError(fmt::format("[Custom] op_type must be new, got '{}', which is registered", at->first));
}

void register_custom_family(std::string op_type, CustomFamily family) {
  if (op_type.empty()) throw ValueError("[Custom] an operator needs a name, got ''");
  if (!family.signature || !family.compose || !family.infer) {
    throw ValueError(fmt::format("[Custom] the operator '{}' needs signature, compose and infer", op_type));
  }
  const auto known = std::make_shared<Known>();
  known->family = std::move(family);
  const std::scoped_lock lock(registry().mutex);
  std::shared_ptr<Known>& at = registry().operators[std::move(op_type)];
  if (at) registry().replaced.push_back(std::move(at));
  at = known;
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

const CustomSignature& custom_signature(const op::Custom& op) {
  const std::shared_ptr<Known> known = find_custom(op.op_type.text);
  if (!known) throw ValueError("[Custom] " + unknown_text(op.op_type.text));
  return signed_by(*known, op).signature;
}

}  // namespace ops

int op::Custom::num_outputs() const {
  const std::shared_ptr<Known> known = find_custom(op_type.text);
  return known ? int(signed_by(*known, *this).signature.outputs.size()) : 1;
}

void op::Custom::infer(InferContext& c) const {
  const std::shared_ptr<Known> known = find_custom(op_type.text);
  if (!known) c.fail_value(unknown_text(op_type.text));
  const CustomSignature& signature = signed_by(*known, *this).signature;
  if (size_t(c.num_inputs()) != signature.inputs.size()) {
    c.fail(fmt::format("'{}' takes {} arrays, {}; got {}", op_type.text, signature.inputs.size(),
                       fmt::join(signature.inputs, ", "), c.num_inputs()));
  }
  if (known->family.infer) return known->family.infer(attributes_of(*this), c);
  if (c.num_inputs() == 0) c.fail(fmt::format("'{}' has no inputs, and no infer either", op_type.text));
  for (size_t i = 0; i < signature.outputs.size(); ++i) c.set_output(int(i), c.shape(0), c.dtype());
}

void op::Custom::compose(ComposeContext& c) const {
  find_custom(op_type.text)->family.compose(attributes_of(*this), c);
}

}  // namespace kaon
