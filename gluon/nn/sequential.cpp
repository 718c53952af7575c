#include "kaon/gluon/nn/sequential.h"

#include <fmt/format.h>

#include <algorithm>

namespace kaon::gluon::nn {

void AnyBlock::refuse_symbol(const std::string& block) {
  throw TraceError(
      fmt::format("[{}] this block works on arrays only and cannot be part of a trace; make it a HybridBlock", block));
}

namespace detail {

size_t BlockList::position(int64_t index) const {
  int64_t n = int64_t(size()), i = index < 0 ? index + n : index;
  if (i < 0 || i >= n) throw IndexError(fmt::format("[Sequential] block {} does not exist: there are {}", index, n));
  return size_t(i);
}

std::vector<AnyBlock> BlockList::range(int64_t begin, int64_t end) const {
  int64_t n = int64_t(size());
  begin = std::clamp<int64_t>(begin < 0 ? begin + n : begin, 0, n);
  end = std::clamp<int64_t>(end < 0 ? end + n : end, begin, n);
  return {blocks_->begin() + begin, blocks_->begin() + end};
}

std::pair<std::string, std::string> BlockList::names_of_next(const AnyBlock& block) const {
  const std::string& hint = block.class_name();
  auto same = std::count_if(begin(), end(), [&](const AnyBlock& b) { return b.class_name() == hint; });
  return {std::to_string(size()), fmt::format("{}{}", hint, same)};
}

void BlockList::check_hybrid(const AnyBlock& block) {
  if (!block.is_hybrid()) {
    throw ValueError(
        fmt::format("[HybridSequential] children must be HybridBlocks, got a {}; use Sequential", block.class_name()));
  }
}

}  // namespace detail

Sequential::Sequential() : Block("sequential") {}

void Sequential::append(const AnyBlock& block) {
  auto [key, name] = blocks_.names_of_next(block);
  add_child(key, name, block);
  blocks_.append(block);
}

void Sequential::replace(int64_t index, const AnyBlock& block) {
  size_t i = blocks_.position(index);
  swap_child(std::to_string(i), block);
  blocks_.set(i, block);
}

NDArray Sequential::operator()(const NDArray& x) const {
  gluon::detail::CallScope scope(*node_, false);
  NDArray y = x;
  for (const AnyBlock& block : blocks_) y = block(y);
  return y;
}

Sequential Sequential::slice(int64_t begin, int64_t end) const {
  Sequential part;
  for (const AnyBlock& block : blocks_.range(begin, end)) part.append(block);
  return part;
}

HybridSequential::HybridSequential() : HybridBlock("hybridsequential") {}

void HybridSequential::append(const AnyBlock& block) {
  detail::BlockList::check_hybrid(block);
  auto [key, name] = blocks_.names_of_next(block);
  add_child(key, name, block);
  blocks_.append(block);
}

void HybridSequential::replace(int64_t index, const AnyBlock& block) {
  detail::BlockList::check_hybrid(block);
  size_t i = blocks_.position(index);
  swap_child(std::to_string(i), block);
  blocks_.set(i, block);
}

HybridSequential HybridSequential::slice(int64_t begin, int64_t end) const {
  HybridSequential part;
  for (const AnyBlock& block : blocks_.range(begin, end)) part.append(block);
  return part;
}

}  // namespace kaon::gluon::nn
