// Hooks: functions that are called around the calls of a block.
#include <fmt/format.h>

#include <algorithm>

#include "kaon/gluon/internal/block_node.h"

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

uint64_t add_hook(BlockNode& block, const char* function, ForwardPreHook before, ForwardHook after) {
  if (!before && !after) throw ValueError(fmt::format("[{}] the function is empty", function));
  if (!block.calls_hooks) {
    throw StateError(
        fmt::format("[{}] {} ({}) is a Block whose operator() the program has written: call the function "
                    "there",
                    function, block.path, block.hint));
  }
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

void HookHandle::detach() {
  const std::shared_ptr<BlockNode> block = block_.lock();
  if (!block) return;
  std::erase_if(block->hooks, [&](const BlockNode::Hook& h) { return h.id == id_; });
  block_.reset();
}

namespace detail {

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
