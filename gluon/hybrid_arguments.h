// What hybrid_forward takes and returns, as flat lists of arrays. For block.h.
#pragma once

#include <array>
#include <concepts>
#include <iterator>
#include <span>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "kaon/engine/api.h"
#include "kaon/graph/symbol.h"
#include "kaon/ops/ndarray.h"

namespace KAON_API kaon {
namespace gluon::detail {

// What hybrid_forward takes: an array, or a list of them, and which kind of array.
template <class T>
struct ArgumentKind;
template <>
struct ArgumentKind<NDArray> {
  using type = NDArray;
};
template <>
struct ArgumentKind<Symbol> {
  using type = Symbol;
};
template <class A>
struct ArgumentKind<std::vector<A>> : ArgumentKind<A> {};
template <class T>
concept Argument = requires {
  typename ArgumentKind<T>::type;
};
template <Argument T>
constexpr bool is_list = !std::same_as<T, typename ArgumentKind<T>::type>;

// What it returns: arrays, lists of arrays, and tuples, pairs and std::arrays of these. Flat it is `arrays` of its own
// and those of `lists` lists, in order.
struct FlatReader {
  std::span<NDArray> arrays;
  std::span<const size_t> lengths;  // of the lists
  std::span<NDArray> take(size_t n) {
    std::span<NDArray> taken = arrays.first(n);
    arrays = arrays.subspan(n);
    return taken;
  }
};
template <class R>
struct Structure;
template <>
struct Structure<NDArray> {
  static constexpr size_t arrays = 1, lists = 0;
  static NDArray make(FlatReader& flat) { return std::move(flat.take(1)[0]); }
};
template <>
struct Structure<std::vector<NDArray>> {
  static constexpr size_t arrays = 0, lists = 1;
  static std::vector<NDArray> make(FlatReader& flat) {
    const std::span<NDArray> taken = flat.take(flat.lengths[0]);
    flat.lengths = flat.lengths.subspan(1);
    return {std::make_move_iterator(taken.begin()), std::make_move_iterator(taken.end())};
  }
};
template <class... R>
struct Structure<std::tuple<R...>> {
  static constexpr size_t arrays = (0 + ... + Structure<R>::arrays), lists = (0 + ... + Structure<R>::lists);
  static std::tuple<R...> make(FlatReader& flat) { return {Structure<R>::make(flat)...}; }  // braces: in order
};
template <class R, class S>
struct Structure<std::pair<R, S>> {
  static constexpr size_t arrays = Structure<R>::arrays + Structure<S>::arrays;
  static constexpr size_t lists = Structure<R>::lists + Structure<S>::lists;
  static std::pair<R, S> make(FlatReader& flat) {
    R first = Structure<R>::make(flat);
    return {std::move(first), Structure<S>::make(flat)};
  }
};
template <class R, size_t N>
struct Structure<std::array<R, N>> {
  static constexpr size_t arrays = N * Structure<R>::arrays, lists = N * Structure<R>::lists;
  static std::array<R, N> make(FlatReader& flat) {
    std::array<R, N> all;
    for (R& r : all) r = Structure<R>::make(flat);
    return all;
  }
};

// What a call returned, flat, with the lengths of its lists.
template <class A>
struct Flat {
  std::vector<A> arrays;
  std::vector<size_t> lengths;
  Flat() = default;
  Flat(std::vector<A> list) : arrays(std::move(list)) {}
  void add(const A& array) { arrays.push_back(array); }
  void add(const std::vector<A>& list) {
    arrays.insert(arrays.end(), list.begin(), list.end());
    lengths.push_back(list.size());
  }
  template <class... R>
  void add(const std::tuple<R...>& t) {
    std::apply([&](const auto&... each) { (add(each), ...); }, t);
  }
  template <class R, class S>
  void add(const std::pair<R, S>& p) {
    add(p.first), add(p.second);
  }
  template <class R, size_t N>
  void add(const std::array<R, N>& all) {
    for (const R& r : all) add(r);
  }
};

// Where a plan stores its outputs, and the lengths of the lists among them.
template <class R>
class ResultRoom {
 public:
  std::span<NDArray> take(size_t n, std::span<const size_t> lengths) {
    if constexpr (Structure<R>::lists > 0) {
      arrays_.resize(n);
      lengths_.assign(lengths.begin(), lengths.end());
    }
    return arrays_;
  }
  R make() {
    FlatReader flat{arrays_, {}};
    if constexpr (Structure<R>::lists > 0) flat.lengths = lengths_;
    return Structure<R>::make(flat);
  }

 private:
  struct Nothing {};
  static constexpr bool has_lists = Structure<R>::lists > 0;
  std::conditional_t<has_lists, std::vector<NDArray>, std::array<NDArray, Structure<R>::arrays>> arrays_;
  [[no_unique_address]] std::conditional_t<has_lists, std::vector<size_t>, Nothing> lengths_;
};

// The arguments of a call: their arrays, flat, and for each argument the length of the list that it is, -1 for an
// array.
struct CallInputs {
  std::span<const NDArray* const> arrays;
  std::span<const int> form;
};
constexpr int one_array = -1;

// Collects them from arguments, which it does not own, and makes arguments of the same form from Symbols.
template <class... T>
class Arguments {
 public:
  explicit Arguments(const T&... arguments) : form_{form_of(arguments)...} {
    if constexpr (has_lists) arrays_.reserve((size_t(0) + ... + count_of(arguments)));
    [[maybe_unused]] size_t i = 0;
    (collect(i, arguments), ...);
  }
  CallInputs inputs() const { return {arrays_, form_}; }
  auto of_symbols(std::span<const Symbol> flat) const {
    size_t next = 0, which = 0;
    return std::tuple<symbols<T>...>{make<T>(flat, next, which)...};  // braces: in order
  }

 private:
  static constexpr bool has_lists = (is_list<T> || ...);
  template <class One>
  using symbols = std::conditional_t<is_list<One>, std::vector<Symbol>, Symbol>;

  template <class One>
  static size_t count_of(const One& argument) {
    if constexpr (is_list<One>) {
      return argument.size();
    } else {
      return 1;
    }
  }
  template <class One>
  static int form_of(const One& argument) {
    return is_list<One> ? int(count_of(argument)) : one_array;
  }
  template <class One>
  void collect(size_t& i, const One& argument) {
    if constexpr (is_list<One>) {
      for (const NDArray& a : argument) arrays_.push_back(&a);
    } else if constexpr (has_lists) {
      arrays_.push_back(&argument);
    } else {
      arrays_[i++] = &argument;
    }
  }
  template <class One>
  symbols<One> make(std::span<const Symbol> flat, size_t& next, size_t& which) const {
    const int n = form_[which++];
    if constexpr (is_list<One>) {
      const auto part = flat.subspan(next, size_t(n));
      next += size_t(n);
      return {part.begin(), part.end()};
    } else {
      return flat[next++];
    }
  }

  std::conditional_t<has_lists, std::vector<const NDArray*>, std::array<const NDArray*, sizeof...(T)>> arrays_;
  std::array<int, sizeof...(T)> form_;
};

}  // namespace gluon::detail
}  // namespace kaon
