// Containers: Sequential and HybridSequential, blocks one after the other; Concurrent and HybridConcurrent, side by
// side.
#pragma once

#include <concepts>
#include <memory>
#include <vector>

#include "kaon/engine/api.h"
#include "kaon/gluon/block.h"

namespace KAON_API kaon {
namespace gluon::nn {

// A block without its type, as a Sequential holds it. A handle on the same block; call it with an NDArray, or with a
// Symbol when the block is hybrid (else TraceError).
class AnyBlock : public Block {
 public:
  template <class B>
    requires(std::derived_from<B, Block> && !std::same_as<B, AnyBlock>)
  AnyBlock(const B& block) : Block(block), call_(std::make_shared<Call<B>>(block)) {}

  template <class A>
  A operator()(const A& x) const {
    return call_->run(x);
  }
  bool is_hybrid() const { return call_->is_hybrid(); }

 private:
  struct CallBase {
    virtual ~CallBase() = default;
    virtual NDArray run(const NDArray& x) const = 0;
    virtual Symbol run(const Symbol& x) const = 0;
    virtual bool is_hybrid() const = 0;
  };
  template <class B>
  struct Call final : CallBase {
    static constexpr bool hybrid = requires(const B& b, const Symbol& s) {
      { b(s) } -> std::convertible_to<Symbol>;
    };
    explicit Call(const B& b) : block(b) {}
    NDArray run(const NDArray& x) const override {
      static_assert(
          requires(B & b) {
            { b(x) } -> std::convertible_to<NDArray>;
          },
          "a block in a Sequential takes one NDArray and gives one");
      if constexpr (hybrid) {
        return block(x);
      } else {  // a HybridBlock does this itself
        gluon::detail::CallScope scope(*block.node(), false);
        return const_cast<B&>(block)(x);
      }
    }
    Symbol run(const Symbol& x) const override {
      if constexpr (hybrid) {
        return block(x);
      } else {
        refuse_symbol(block.class_name());
      }
    }
    bool is_hybrid() const override { return hybrid; }
    B block;
  };
  [[noreturn]] static void refuse_symbol(const std::string& block);

  std::shared_ptr<const CallBase> call_;
};

namespace detail {

// Blocks to put into a new Container; one Container alone is copied instead.
template <class Container, class First, class... Rest>
concept Children = std::derived_from<First, Block> &&(std::derived_from<Rest, Block>&&...) &&
                   (sizeof...(Rest) > 0 || !std::derived_from<First, Container>);

// The list of a container's blocks. A copy of the handle shares it.
class BlockList {
 public:
  size_t size() const { return blocks_->size(); }
  size_t position(int64_t index) const;  // negative: from the end; throws IndexError
  const AnyBlock& at(int64_t index) const { return (*blocks_)[position(index)]; }
  std::vector<AnyBlock> range(int64_t begin, int64_t end) const;
  auto begin() const { return blocks_->cbegin(); }
  auto end() const { return blocks_->cend(); }
  // The key ("0", "1", ...) and name ("dense0", "dense1", "conv0", ...) that a further block would have.
  std::pair<std::string, std::string> names_of_next(const AnyBlock& block) const;
  void append(const AnyBlock& block) { blocks_->push_back(block); }
  void set(size_t position, const AnyBlock& block) { (*blocks_)[position] = block; }
  // Throws ValueError, naming the container, unless it is a block that can be traced.
  static void check_hybrid(const std::string& container, const AnyBlock& block);

 private:
  std::shared_ptr<std::vector<AnyBlock>> blocks_ = std::make_shared<std::vector<AnyBlock>>();
};

// What containers have in common. Base: Block, or HybridBlock<Derived>, whose children must all be ones that can be
// traced: add() and replace() throw ValueError for others.
template <class Derived, class Base>
class Container : public Base {
 public:
  template <class... B>
  void add(const B&... blocks) {
    (append(blocks), ...);
  }
  size_t size() const { return blocks_.size(); }
  const AnyBlock& operator[](int64_t index) const { return blocks_.at(index); }
  // Replaces the block at a place; the new one gets its name.
  void replace(int64_t index, const AnyBlock& block);

 protected:
  template <class... A>
  explicit Container(std::string_view hint, A... calls_hooks) : Base(hint, calls_hooks...) {}
  const BlockList& blocks() const { return blocks_; }
  NDArray with_hooks(const NDArray& x, engine::FunctionRef<NDArray()> call) const;

 private:
  static constexpr bool is_hybrid = !std::same_as<Base, Block>;
  void append(const AnyBlock& block);
  BlockList blocks_;
};

}  // namespace detail

// y = last(...second(first(x))). Takes any blocks; hybridize() reaches each of them.
class Sequential : public detail::Container<Sequential, Block> {
 public:
  Sequential();
  template <class First, class... Rest>
    requires detail::Children<Sequential, First, Rest...>
  explicit Sequential(const First& first, const Rest&... rest) : Sequential() { add(first, rest...); }
  NDArray operator()(const NDArray& x) const;
  Sequential slice(int64_t begin, int64_t end) const;  // the same blocks
};

// The same for blocks that can all be traced; hybridized it is one submission per call.
class HybridSequential : public detail::Container<HybridSequential, HybridBlock<HybridSequential>> {
 public:
  HybridSequential();
  template <class First, class... Rest>
    requires detail::Children<HybridSequential, First, Rest...>
  explicit HybridSequential(const First& first, const Rest&... rest) : HybridSequential() { add(first, rest...); }
  auto hybrid_forward(auto, auto x) {
    for (const AnyBlock& block : blocks()) x = block(x);
    return x;
  }
  HybridSequential slice(int64_t begin, int64_t end) const;
};

// y = concat(first(x), second(x), ...) along `axis`. Takes any blocks. Calls throw ShapeError where the results do not
// fit, StateError where there are no blocks.
class Concurrent : public detail::Container<Concurrent, Block> {
 public:
  explicit Concurrent(int axis = -1);
  NDArray operator()(const NDArray& x) const;

 private:
  int axis_;
};

// The same for blocks that can all be traced.
class HybridConcurrent : public detail::Container<HybridConcurrent, HybridBlock<HybridConcurrent>> {
 public:
  explicit HybridConcurrent(int axis = -1);
  template <class F, class A>
  A hybrid_forward(F f, A x) {
    std::vector<A> all;
    for (const AnyBlock& block : blocks()) all.push_back(block(x));
    check_not_empty(all.size());
    return f.concat(all, {.dim = axis_});
  }

 private:
  friend class Concurrent;
  static void check_not_empty(size_t blocks);
  int axis_;
};

}  // namespace gluon::nn
}  // namespace kaon
