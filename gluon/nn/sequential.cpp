#include "kaon/gluon/nn/sequential.h"

#include <fmt/format.h>

#include <algorithm>

namespace kaon::gluon::nn {

void AnyBlock::refuse_symbol(const std::string& block) {
  throw TraceError(
      fmt::format("[{}] this block works on arrays only and cannot be part of a trace; make it a HybridBlock", block));
}

void AnyBlock::refuse_number(const std::string& block, size_t arrays) {
  throw ValueError(
      fmt::format("[{}] this block takes another number of arrays than the {} that it is called with", block, arrays));
}

void AnyBlock::check_one(const std::string& block, size_t results) {
  if (results == 1) return;
  throw ValueError(fmt::format(
      "[{}] gives {} arrays where one is expected; call the net with a list: net(std::vector{{x}})", block, results));
}

namespace detail {

bool BlockList::are_plain() const { return std::ranges::all_of(*blocks_, &AnyBlock::is_plain); }

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

void BlockList::check_hybrid(const std::string& container, const AnyBlock& block) {
  if (!block.is_hybrid()) {
    throw ValueError(fmt::format("[{}] children must be HybridBlocks, got a {}; use Sequential or Concurrent",
                                 container, block.class_name()));
  }
}

template <class Derived, class Base>
void Container<Derived, Base>::append(const AnyBlock& block) {
  if (is_hybrid) BlockList::check_hybrid(this->class_name(), block);
  auto [key, name] = blocks_.names_of_next(block);
  this->add_child(key, name, block);
  blocks_.append(block);
}

template <class Derived, class Base>
NDArray Container<Derived, Base>::with_hooks(const NDArray& x, engine::FunctionRef<NDArray()> call) const {
  if (!gluon::detail::has_hooks(*this->node_)) return call();
  const NDArray* const inputs[] = {&x};
  gluon::detail::call_pre_hooks(this->node_, inputs);
  const NDArray y = call();
  gluon::detail::call_hooks(this->node_, inputs, {y});
  return y;
}

template <class Derived, class Base>
std::vector<NDArray> Container<Derived, Base>::with_hooks(const std::vector<NDArray>& xs,
                                                          engine::FunctionRef<std::vector<NDArray>()> call) const {
  if (!gluon::detail::has_hooks(*this->node_)) return call();
  std::vector<const NDArray*> inputs;
  for (const NDArray& x : xs) inputs.push_back(&x);
  gluon::detail::call_pre_hooks(this->node_, inputs);
  std::vector<NDArray> ys = call();
  gluon::detail::call_hooks(this->node_, inputs, ys);
  return ys;
}

template <class Derived, class Base>
void Container<Derived, Base>::replace(int64_t index, const AnyBlock& block) {
  if (is_hybrid) BlockList::check_hybrid(this->class_name(), block);
  const size_t i = blocks_.position(index);
  this->swap_child(std::to_string(i), block);
  blocks_.set(i, block);
}

template class Container<Sequential, Block>;
template class Container<HybridSequential, HybridBlock<HybridSequential>>;
template class Container<Concurrent, Block>;
template class Container<HybridConcurrent, HybridBlock<HybridConcurrent>>;

}  // namespace detail

Sequential::Sequential() : Container("sequential", true) {}

NDArray Sequential::operator()(const NDArray& x) const {
  return with_hooks(x, [&] {
    gluon::detail::CallScope scope(*node_, false);
    return detail::run_in_sequence(blocks(), x);
  });
}

std::vector<NDArray> Sequential::operator()(const std::vector<NDArray>& xs) const {
  return with_hooks(xs, [&] {
    gluon::detail::CallScope scope(*node_, false);
    return detail::run_in_sequence(blocks(), xs);
  });
}

Sequential Sequential::slice(int64_t begin, int64_t end) const {
  Sequential part;
  for (const AnyBlock& block : blocks().range(begin, end)) part.add(block);
  return part;
}

HybridSequential::HybridSequential() : Container("hybridsequential") {}

HybridSequential HybridSequential::slice(int64_t begin, int64_t end) const {
  HybridSequential part;
  for (const AnyBlock& block : blocks().range(begin, end)) part.add(block);
  return part;
}

Concurrent::Concurrent(int axis) : Container("concurrent", true), axis_(axis) {}

NDArray Concurrent::operator()(const NDArray& x) const {
  return with_hooks(x, [&] {
    gluon::detail::CallScope scope(*node_, false);
    std::vector<NDArray> all;
    for (const AnyBlock& block : blocks()) all.push_back(block(x));
    HybridConcurrent::check_not_empty(all.size());
    return nd.concat(all, {.dim = axis_});
  });
}

HybridConcurrent::HybridConcurrent(int axis) : Container("hybridconcurrent"), axis_(axis) {}

void HybridConcurrent::check_not_empty(size_t blocks) {
  if (blocks == 0) throw StateError("[Concurrent] it has no blocks whose results could be joined: add() some");
}

}  // namespace kaon::gluon::nn
