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

namespace detail {

template <class B>
constexpr bool is_hybrid_block = requires(const B& b) {
  []<class D>(const HybridBlock<D>&) {}(b);
};

// Whether a block can be called with arguments of these types, arrays or Symbols. Of a HybridBlock hybrid_forward
// tells, since its operator() takes any.
template <class B, class... A>
constexpr bool takes = [] {
  if constexpr (is_hybrid_block<B>) {
    return requires(B & b, const A&... a) { b.hybrid_forward(sym, a...); };
  } else {
    return requires(B & b, const A&... a) { b(a...); };
  }
}();

}  // namespace detail

// A block without its type, as a Sequential holds it. A handle on the same block; call it with an NDArray, or with a
// Symbol when the block is hybrid (else TraceError), or with lists of these. Lists are spread out over what the block
// takes: 1 to 6 arrays, one list, or an array and a list. Calls throw ValueError where the block takes or gives another
// number of arrays.
class AnyBlock : public Block {
 public:
  template <class B>
    requires(std::derived_from<B, Block> && !std::same_as<B, AnyBlock>)
  AnyBlock(const B& block) : Block(block), call_(std::make_shared<Call<B>>(block)) {
    static_assert(takes<B>, "a block in a Sequential takes 1 to 6 arrays, a list of them, or an array and a list");
  }

  template <class A>
  A operator()(const A& x) const {
    if (call_->is_plain()) return call_->run(x);
    std::vector<A> results = call_->run_list({x});
    check_one(class_name(), results.size());
    return std::move(results[0]);
  }
  template <class A>
  std::vector<A> operator()(const std::vector<A>& xs) const {
    return call_->run_list(xs);
  }
  bool is_hybrid() const { return call_->is_hybrid(); }
  bool is_plain() const { return call_->is_plain(); }               // takes one array, and gives one
  static void check_one(const std::string& block, size_t results);  // throws ValueError for more results, and none

 private:
  struct CallBase {
    virtual ~CallBase() = default;
    virtual NDArray run(const NDArray& x) const = 0;  // of a plain block
    virtual Symbol run(const Symbol& x) const = 0;
    virtual std::vector<NDArray> run_list(const std::vector<NDArray>& xs) const = 0;
    virtual std::vector<Symbol> run_list(const std::vector<Symbol>& xs) const = 0;
    virtual bool is_hybrid() const = 0;
    virtual bool is_plain() const = 0;
  };
  template <class B>
  struct Call final : CallBase {
    using Own = std::conditional_t<detail::is_hybrid_block<B>, Symbol, NDArray>;  // by which is seen what it takes
    static constexpr bool hybrid = detail::is_hybrid_block<B> || detail::takes<B, Symbol>;
    static constexpr bool takes_one = detail::takes<B, Own>;
    static constexpr bool takes_list = [] {
      if constexpr (requires { B::takes_lists; }) {
        return true;
      } else if constexpr (takes_one) {
        return false;  // a generic parameter would take a list too, and fail inside
      } else {
        return detail::takes<B, std::vector<Own>>;
      }
    }();
    static constexpr bool takes_array_and_list = [] {
      if constexpr (detail::takes<B, Own, Own>) {
        return false;
      } else {
        return detail::takes<B, Own, std::vector<Own>>;
      }
    }();
    template <size_t... I>
    static constexpr bool takes_arrays(std::index_sequence<I...>) {
      return detail::takes<B, std::conditional_t<I == I, Own, Own>...>;
    }
    template <size_t n>
    static constexpr bool takes_number = takes_arrays(std::make_index_sequence<n>());
    static constexpr bool takes_some = takes_number<1> || takes_number<2> || takes_number<3> || takes_number<4> ||
                                       takes_number<5> || takes_number<6> || takes_list || takes_array_and_list;

    explicit Call(const B& b) : block(b) {}

    template <class... T>
    auto call(const T&... x) const {
      if constexpr (detail::is_hybrid_block<B>) {
        return block(x...);
      } else {  // a HybridBlock does this itself
        gluon::detail::CallScope scope(*block.node(), false);
        return const_cast<B&>(block)(x...);
      }
    }
    static constexpr bool plain = [] {
      if constexpr (takes_one) {
        return std::convertible_to<decltype(std::declval<const Call&>().call(std::declval<const NDArray&>())), NDArray>;
      } else {
        return false;
      }
    }();

    template <class A>
    A run_one(const A& x) const {
      if constexpr (std::same_as<A, Symbol> && !hybrid) {
        refuse_symbol(block.class_name());
      } else if constexpr (plain) {
        return call(x);
      } else {
        return x;  // never called
      }
    }
    template <class A>
    static std::vector<A> flat(const auto& result) {
      gluon::detail::Flat<A> all;
      all.add(result);
      return std::move(all.arrays);
    }
    template <size_t n, class A>
    bool run_number(const std::vector<A>& xs, std::vector<A>& results) const {
      if constexpr (takes_number<n>) {
        if (xs.size() != n) return false;
        [&]<size_t... I>(std::index_sequence<I...>) { results = flat<A>(call(xs[I]...)); }
        (std::make_index_sequence<n>());
        return true;
      } else {
        return false;
      }
    }
    template <class A>
    std::vector<A> run_any(const std::vector<A>& xs) const {
      if constexpr (std::same_as<A, Symbol> && !hybrid) {
        refuse_symbol(block.class_name());
      } else if constexpr (takes_list) {
        return flat<A>(call(xs));
      } else {
        std::vector<A> results;
        if (run_number<1>(xs, results) || run_number<2>(xs, results) || run_number<3>(xs, results) ||
            run_number<4>(xs, results) || run_number<5>(xs, results) || run_number<6>(xs, results)) {
          return results;
        }
        if constexpr (takes_array_and_list) {
          if (!xs.empty()) return flat<A>(call(xs[0], std::vector<A>(xs.begin() + 1, xs.end())));
        }
        refuse_number(block.class_name(), xs.size());
      }
    }

    NDArray run(const NDArray& x) const override { return run_one(x); }
    Symbol run(const Symbol& x) const override { return run_one(x); }
    std::vector<NDArray> run_list(const std::vector<NDArray>& xs) const override { return run_any(xs); }
    std::vector<Symbol> run_list(const std::vector<Symbol>& xs) const override { return run_any(xs); }
    bool is_hybrid() const override { return hybrid; }
    bool is_plain() const override { return plain; }
    B block;
  };

 public:
  template <class B>
  static constexpr bool takes = Call<B>::takes_some;  // whether it can hold a block of this type

 private:
  [[noreturn]] static void refuse_symbol(const std::string& block);
  [[noreturn]] static void refuse_number(const std::string& block, size_t arrays);

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
  bool are_plain() const;  // whether each takes one array and gives one
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
  AnyBlock operator[](int64_t index) const { return blocks_.at(index); }
  // Replaces the block at a place; the new one gets its name.
  void replace(int64_t index, const AnyBlock& block);

 protected:
  template <class... A>
  explicit Container(std::string_view hint, A... calls_hooks) : Base(hint, calls_hooks...) {}
  const BlockList& blocks() const { return blocks_; }
  NDArray with_hooks(const NDArray& x, engine::FunctionRef<NDArray()> call) const;
  std::vector<NDArray> with_hooks(const std::vector<NDArray>& xs,
                                  engine::FunctionRef<std::vector<NDArray>()> call) const;

 private:
  static constexpr bool is_hybrid = !std::same_as<Base, Block>;
  void append(const AnyBlock& block);
  BlockList blocks_;
};

template <class A>
std::vector<A> run_in_sequence(const BlockList& blocks, std::vector<A> xs) {
  for (const AnyBlock& block : blocks) xs = block(xs);
  return xs;
}
template <class A>
A run_in_sequence(const BlockList& blocks, A x) {
  if (blocks.are_plain()) {
    for (const AnyBlock& block : blocks) x = block(x);
    return x;
  }
  std::vector<A> results = run_in_sequence(blocks, std::vector<A>{x});
  AnyBlock::check_one("Sequential", results.size());
  return std::move(results[0]);
}

}  // namespace detail

// y = last(...second(first(x))). Takes any blocks; hybridize() reaches each of them. A block that gives several arrays
// passes them all to the next one, as in MXNet. Called with several arrays, or a list, it gives a list; called with one
// it gives one, and throws ValueError where the last block gives another number. Calls throw ValueError for a block
// that takes another number of arrays.
class Sequential : public detail::Container<Sequential, Block> {
 public:
  Sequential();
  template <class First, class... Rest>
    requires detail::Children<Sequential, First, Rest...>
  explicit Sequential(const First& first, const Rest&... rest) : Sequential() { add(first, rest...); }
  NDArray operator()(const NDArray& x) const;
  std::vector<NDArray> operator()(const std::vector<NDArray>& xs) const;
  template <class... More>
    requires(sizeof...(More) > 0 && (std::same_as<More, NDArray> && ...))
  std::vector<NDArray>
  operator()(const NDArray& x, const More&... more) const { return (*this)(std::vector<NDArray>{x, more...}); }
  Sequential slice(int64_t begin, int64_t end) const;  // the same blocks

  static constexpr bool takes_lists = true;  // AnyBlock asks
};

// The same for blocks that can all be traced; hybridized it is one submission per call.
class HybridSequential : public detail::Container<HybridSequential, HybridBlock<HybridSequential>> {
 public:
  HybridSequential();
  template <class First, class... Rest>
    requires detail::Children<HybridSequential, First, Rest...>
  explicit HybridSequential(const First& first, const Rest&... rest) : HybridSequential() { add(first, rest...); }
  template <class F, class X, class... More>
  auto hybrid_forward(F f, const X& x, const More&... more) {
    if constexpr (sizeof...(More) > 0) {
      return hybrid_forward(f, std::vector<X>{x, more...});
    } else {
      return detail::run_in_sequence(blocks(), x);
    }
  }
  HybridSequential slice(int64_t begin, int64_t end) const;

  static constexpr bool takes_lists = true;
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
