// Hooks: functions that are called around the calls of a block.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "kaon/gluon/internal/block_node.h"
#include "kaon/ops/operator/interceptor.h"

namespace kaon::gluon {
namespace {

// A handle on a node, for the functions.
struct AnyHandle : Block {
  explicit AnyHandle(const std::shared_ptr<BlockNode>& node) : Block(node) {}
};

std::vector<NDArray> listed(std::span<const NDArray* const> arrays) {
  std::vector<NDArray> list;
  for (const NDArray* a : arrays) list.push_back(*a);
  return list;
}

void check_hook(const BlockNode& block, const char* function, bool is_empty) {
  if (is_empty) throw ValueError(fmt::format("[{}] the function is empty", function));
  if (!block.calls_hooks) {
    throw StateError(
        fmt::format("[{}] {} ({}) is a Block whose operator() the program has written: call the function "
                    "there",
                    function, block.path, block.hint));
  }
}

uint64_t add_hook(BlockNode& block, const char* function, ForwardPreHook before, ForwardHook after) {
  check_hook(block, function, !before && !after);
  block.hooks.push_back({++block.registered_hooks, std::move(before), std::move(after)});
  block.clear_traces();  // those of blocks that contain it must refuse it
  return block.registered_hooks;
}

}  // namespace

HookHandle Block::register_forward_pre_hook(ForwardPreHook fn) {
  return {node_, add_hook(*node_, "register_forward_pre_hook", std::move(fn), nullptr)};
}

HookHandle Block::register_forward_hook(ForwardHook fn) {
  return {node_, add_hook(*node_, "register_forward_hook", nullptr, std::move(fn))};
}

HookHandle Block::register_op_hook(OpHook fn, bool monitor_all) {
  check_hook(*node_, "register_op_hook", !fn);
  node_->op_hooks.push_back({++node_->registered_hooks, std::move(fn), monitor_all});
  node_->clear_traces();
  return {node_, node_->registered_hooks};
}

namespace {

// Throws where the array has a value that must not be. Blocks.
void check_finite(std::string_view name, std::string_view op, const NDArray& value, bool infinity) {
  if (!is_floating(value.dtype()) || value.size() == 0) return;
  const NDArray wrong = infinity ? nd.logical_not(nd.isfinite(value)) : nd.isnan(value);
  if (nd.max(wrong.astype(DType::float32)).asscalar<float>() == 0) return;
  const std::vector<double> values = value.asvector<double>();
  const auto at = std::ranges::find_if(values, [&](double v) { return infinity ? !std::isfinite(v) : std::isnan(v); });
  int64_t left = at - values.begin();
  std::string index;
  for (int axis = value.ndim(); axis-- > 0; left /= value.shape()[axis]) {
    index = fmt::format("{}{}{}", left % value.shape()[axis], index.empty() ? "" : ", ", index);
  }
  throw ValueError(fmt::format("[detect_anomaly] {} gives {} at element ({}) of {}, shape {}", op, *at, index, name,
                               value.shape().str()));
}

}  // namespace

HookHandle Block::detect_anomaly(bool infinity) {
  return register_op_hook([infinity](std::string_view name, std::string_view op, const NDArray& value) {
    check_finite(name, op, value, infinity);
  });
}

void HookHandle::detach() {
  const std::shared_ptr<BlockNode> block = block_.lock();
  if (!block) return;
  std::erase_if(block->hooks, [&](const BlockNode::Hook& h) { return h.id == id_; });
  std::erase_if(block->op_hooks, [&](const BlockNode::OperatorHook& h) { return h.id == id_; });
  block_.reset();
}

namespace detail {

namespace {
thread_local int t_op_hook_scopes = 0;
}  // namespace

// Takes the place of the interceptor that is there, and calls it.
struct OpHookScope::Caller final : ops::Interceptor {
  Caller(const BlockNode& block, Interceptor* outer) : Interceptor(false), hooks(block.op_hooks), outer(outer) {}

  void on_call(ops::OpCall& call) override {
    if (outer) outer->on_call(call);
    const engine::ThreadContext& context = engine::thread_context();
    const std::string_view op = context.composing ? std::string_view(context.composing->name) : call.def.name();
    std::string path = context.block_path ? context.block_path : "";
    std::ranges::replace(path, '.', '_');
    const std::string name = fmt::format("{}{}{}", path, path.empty() ? "" : "_", op);
    const autograd::ModeScope mode(false, context.training);  // nothing that the functions compute is seen
    for (const BlockNode::OperatorHook& h : hooks) {
      for (size_t i = 0; h.monitors_all && i < call.inputs.size(); ++i) {
        h.fn(fmt::format("{}_input{}", name, i), op, *call.inputs[i]);
      }
      for (size_t i = 0; i < call.outputs.size(); ++i) {
        const std::string number = call.outputs.size() > 1 ? std::to_string(i) : "";
        if (call.outputs[i].defined()) h.fn(name + "_output" + number, op, call.outputs[i]);
      }
    }
  }

  const std::vector<BlockNode::OperatorHook> hooks;  // as they are now: they may detach themselves
  Interceptor* const outer;
};

OpHookScope::OpHookScope(const BlockNode& block) {
  ops::Interceptor* outer = ops::Interceptor::current();
  if (outer && outer->instead_of_running) return;  // there will be no values
  caller_ = std::make_unique<Caller>(block, outer);
  engine::thread_context().interceptor = static_cast<ops::Interceptor*>(caller_.get());
  ++t_op_hook_scopes;
}

OpHookScope::~OpHookScope() {
  if (!caller_) return;
  engine::thread_context().interceptor = caller_->outer;
  --t_op_hook_scopes;
}

bool OpHookScope::is_open() { return t_op_hook_scopes > 0; }

bool has_hooks(const BlockNode& block) { return !block.hooks.empty(); }

// Hooks may detach themselves and others: each list is copied.
void call_pre_hooks(const std::shared_ptr<BlockNode>& block, std::span<const NDArray* const> inputs) {
  const std::vector<NDArray> list = listed(inputs);
  for (const BlockNode::Hook& h : std::vector(block->hooks)) {
    if (h.before) h.before(AnyHandle(block), list);
  }
}

void call_hooks(const std::shared_ptr<BlockNode>& block, std::span<const NDArray* const> inputs,
                const std::vector<NDArray>& outputs) {
  const std::vector<NDArray> list = listed(inputs);
  for (const BlockNode::Hook& h : std::vector(block->hooks)) {
    if (h.after) h.after(AnyHandle(block), list, outputs);
  }
}

}  // namespace detail
}  // namespace kaon::gluon
