// Block: a part of a net; HybridBlock: a block that can be traced.
#pragma once

#include <fmt/format.h>

#include <array>
#include <concepts>
#include <filesystem>
#include <functional>
#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <type_traits>
#include <vector>

#include "kaon/engine/api.h"
#include "kaon/engine/thread_context.h"
#include "kaon/gluon/parameter.h"
#include "kaon/graph/hybridize.h"

namespace KAON_API kaon {
class PlanReport;

namespace gluon {

class Block;
struct BlockNode;

// What is called around the calls of a block, with its arguments and its results; lists among them are spread out. An
// exception that it throws leaves the call.
using ForwardPreHook = std::function<void(const Block& block, std::span<const NDArray> inputs)>;
using ForwardHook =
    std::function<void(const Block& block, std::span<const NDArray> inputs, std::span<const NDArray> outputs)>;

// A registered hook. Destroying it changes nothing. Thread safety: as building the block.
class HookHandle {
 public:
  HookHandle() = default;
  void detach();  // the hook is called no more; nothing where that is done already, or the block is gone

 private:
  friend class Block;
  HookHandle(const std::shared_ptr<BlockNode>& block, uint64_t id) : block_(block), id_(id) {}
  std::weak_ptr<BlockNode> block_;
  uint64_t id_ = 0;
};

// A handle: a copy is the same block. Members of a block are handles or constants; state that changes is a Parameter.
// Derive from it for a net that is not traced: write `NDArray operator()(const NDArray& x)`; hybridize() then reaches
// its children. Only save_parameters, load_parameters and export_model block. Thread safety: building, initializing and
// changing on one thread; calling from any thread.
class Block {
 public:
  explicit Block(std::string_view hint = "block");
  virtual ~Block();
  Block(const Block&) = default;
  Block& operator=(const Block&) = default;

  const std::string& name() const;        // "conv1"; of a child of a Sequential "dense0"
  const std::string& class_name() const;  // the hint that the class gives, "dense"
  // Parameter::initialize for every parameter of the block and its children. Throws DeviceError when the device does
  // not exist. On several devices, a call uses the values on that of its first argument.
  void initialize(const init::Initializer& init = init::Uniform(), Device device = Device(), bool force_reinit = false);
  void initialize(const init::Initializer& init, const std::vector<Device>& devices, bool force_reinit = false);
  // All parameters, own ones first; `select` is a regular expression that full names must begin with. Throws
  // ValueError when it is none.
  ParameterDict collect_params(std::string_view select = "") const;
  // From the next call on the block and its children run as plans, or operator by operator when not `active`. Drops all
  // traces and plans. Throws ValueError for options that exclude each other or are out of range.
  void hybridize(bool active = true, const HybridizeOptions& options = {});
  void hybridize(const HybridizeOptions& options) { hybridize(true, options); }  // as hybridize(true, options)
  // The plan of the latest hybridized call, to be looked at. Throws StateError before the first.
  engine::IntrusivePtr<PlanReport> plan() const;
  // Counts over the hybridized calls so far, without those of traces that have left the cache.
  PlanStats plan_stats() const;
  // Converts every parameter to this dtype; those of BatchNorm stay float32 when it is a 16-bit float. Throws
  // TypeError, and changes nothing, when a parameter with a gradient would not be floating.
  void cast(DType dtype);
  // Writes MXNet's list file with dotted paths ("features.0.weight") as names; with deduplicate, a parameter that
  // several blocks share once. Blocks until the values are computed. Throws StateError for a parameter without values,
  // IoError, and the failure of a value.
  void save_parameters(const std::filesystem::path& file, bool deduplicate = false) const;
  // Reads such a file, also one with full names. Blocks. Throws IoError, ValueError for missing or extra names,
  // ShapeError and TypeError for arrays that do not fit; then nothing is changed.
  void load_parameters(const std::filesystem::path& file, bool allow_missing = false, bool ignore_extra = false);
  // The same, with what LoadOptions says of dtypes.
  void load_parameters(const std::filesystem::path& file, const LoadOptions& options);
  // Replaces a registered child and the member that holds it. Traces that contain it are dropped. Throws ValueError
  // when there is no such child, and when `block` contains this block.
  template <class B>
  void replace_child(std::string_view name, B& member, std::type_identity_t<B> block) {
    swap_child(name, block);
    member = block;
  }

  // Every parameter of this block and its children whose dotted path `other` has too becomes the other's parameter: its
  // values, its gradient and its name. The rest stay as they are. Tied weights: head.share_parameters(embed), where
  // both have a `weight`; MXNet's params=. For blocks that no TrainingStep or Trainer has seen. Throws ValueError when
  // there is no such path, ShapeError and TypeError, naming both, for parameters that differ; then nothing is changed.
  void share_parameters(const Block& other);
  // Calls fn(block) for every block below this one, children first, then for this one; a block that is a child of
  // several, for each.
  void apply(const std::function<void(Block&)>& fn);
  // From the next call on, fn is called before the calls of this block with arrays, in the order of registration; what
  // it does is part of the call, recorded too. Blocks that run inside a hybridized net, or inside a TrainingStep, are
  // not called themselves: where one has hooks, that call throws StateError; hybridize(false) the net. Throws
  // ValueError for an empty function, StateError for a Block whose operator() the program has written.
  HookHandle register_forward_pre_hook(ForwardPreHook fn);
  HookHandle register_forward_hook(ForwardHook fn);  // after the call, with its results too

  const std::shared_ptr<BlockNode>& node() const { return node_; }  // what copies of the handle share

 protected:
  // `calls_hooks`: operator() does.
  Block(std::string_view hint, bool calls_hooks);
  explicit Block(std::shared_ptr<BlockNode> node) : node_(std::move(node)) {}
  // Registers a child under an attribute name and returns it: nn::Dense fc = child("fc", nn::Dense(10)); Throws
  // ValueError for a name that is taken and for a child that contains this block.
  template <class B>
  B child(std::string_view name, B block) {
    add_child(name, name, block);
    return block;
  }
  // Makes a parameter of this block. Throws ValueError for a name that is taken.
  // In files of save_parameters it is called `file_key`, by default as here.
  Parameter param(std::string_view name, const Shape& shape, const ParameterOptions& options = {},
                  std::string_view file_key = "");
  // Makes a constant of this block, which initialize() gives these values: it has no gradient, and files have it.
  // MXNet's get_constant. Throws ValueError for a name that is taken.
  Parameter constant(std::string_view name, const NDArray& values);
  // Makes a parameter of another block one of this block too: it keeps its full name and its values. Throws ValueError
  // for a name that is taken.
  void share_param(std::string_view name, const Parameter& parameter);
  void add_child(std::string_view key, std::string_view name, const Block& block);  // what child() does
  void swap_child(std::string_view name, const Block& block);                       // what replace_child() does

  std::shared_ptr<BlockNode> node_;
};

// The tree of blocks: "type(parameter: shape, ...", then a line "(name): ..." for each child. {} prints it too.
KAON_API std::string to_string(const Block& block);

namespace detail {

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

using FlatSymbols = Flat<Symbol>;
using TraceFn = engine::FunctionRef<FlatSymbols(std::span<const Symbol>)>;
using RoomFn = engine::FunctionRef<std::span<NDArray>(size_t, std::span<const size_t>)>;

KAON_API bool is_active(const BlockNode& block);
// The first array's; the current one where that has no memory, as where shapes alone are asked for, and without arrays.
KAON_API Device device_of(std::span<const NDArray* const> inputs);
KAON_API bool has_hooks(const BlockNode& block);
KAON_API void call_pre_hooks(const std::shared_ptr<BlockNode>& block, std::span<const NDArray* const> inputs);
KAON_API void call_hooks(const std::shared_ptr<BlockNode>& block, std::span<const NDArray* const> inputs,
                         const std::vector<NDArray>& outputs);
// Completes the shapes of the block's own deferred parameters, by tracing the block alone.
KAON_API void finish_deferred(BlockNode& block, std::span<const NDArray* const> inputs, TraceFn trace);
// room(n, lengths) gives the storage for the n outputs; lengths are those of the lists among the results.
KAON_API void call_traced(BlockNode& block, const CallInputs& inputs, TraceFn trace, const std::source_location& site,
                          RoomFn room);

// Adds where the block was called to the exception that is being handled, unless another block called it.
[[noreturn]] KAON_API void rethrow_with_call(const BlockNode& block, const std::source_location& site);

// Exists while a block runs: sets its path for error messages and its prefix for names. Throws StateError when the
// running block calls a block that it does not contain.
class CallScope {
 public:
  explicit CallScope(BlockNode& block, bool tracing);
  ~CallScope();
  CallScope(const CallScope&) = delete;
  CallScope& operator=(const CallScope&) = delete;

 private:
  const char* saved_path_;
  bool saved_tracing_;
  BlockNode* saved_block_;
  std::optional<NameScope> names_;
};

}  // namespace detail

// Derive as `struct Net : HybridBlock<Net>` and write `auto hybrid_forward(auto F, auto x)`: F is nd or sym, x an
// NDArray or a Symbol. It may take several arrays and std::vectors of arrays, and return arrays, vectors of arrays, and
// tuples, pairs and std::arrays of these. Children must be registered HybridBlocks. Not hybridized, each call runs it;
// hybridized, it runs once per training mode and form of the arguments: their number, which are vectors and how long
// (once per shape too if it reads a shape), and from then on each call is one submission to the engine.
template <class Derived>
class HybridBlock : public Block {
 public:
  explicit HybridBlock(std::string_view hint = "hybridblock") : Block(hint, true) {}

  // Calls hybrid_forward, or its plan, with 1 to 6 arguments: NDArrays, or Symbols, and vectors of them. Does not wait
  // for results. Throws StateError for a parameter that is not initialized, TraceError for what a trace cannot record,
  // and what the operators throw.
  template <detail::Argument A>
  auto operator()(const A& a, std::source_location site = std::source_location::current()) const {
    return run(site, a);
  }
  template <detail::Argument A, detail::Argument B>
  auto operator()(const A& a, const B& b, std::source_location site = std::source_location::current()) const {
    return run(site, a, b);
  }
  template <detail::Argument A, detail::Argument B, detail::Argument C>
  auto operator()(const A& a, const B& b, const C& c,
                  std::source_location site = std::source_location::current()) const {
    return run(site, a, b, c);
  }
  template <detail::Argument A, detail::Argument B, detail::Argument C, detail::Argument D>
  auto operator()(const A& a, const B& b, const C& c, const D& d,
                  std::source_location site = std::source_location::current()) const {
    return run(site, a, b, c, d);
  }
  template <detail::Argument A, detail::Argument B, detail::Argument C, detail::Argument D, detail::Argument E>
  auto operator()(const A& a, const B& b, const C& c, const D& d, const E& e,
                  std::source_location site = std::source_location::current()) const {
    return run(site, a, b, c, d, e);
  }
  template <detail::Argument A, detail::Argument B, detail::Argument C, detail::Argument D, detail::Argument E,
            detail::Argument F>
  auto operator()(const A& a, const B& b, const C& c, const D& d, const E& e, const F& f,
                  std::source_location site = std::source_location::current()) const {
    return run(site, a, b, c, d, e, f);
  }

  // Writes prefix-symbol.json and prefix-<epoch, four digits>.params, which MXNet reads. Blocks until the values are
  // computed. Throws StateError before a first hybridized call, ValueError for an operator that MXNet lacks and a
  // negative epoch, IoError.
  void export_model(const std::string& prefix, int epoch = 0) const;

 private:
  // Blocks are handles: calling through a const handle runs the same block.
  Derived& self() const { return const_cast<Derived&>(static_cast<const Derived&>(*this)); }

  template <class First, class... Rest>
  auto run(const std::source_location& site, const First& first, const Rest&... rest) const {
    using A = typename detail::ArgumentKind<First>::type;
    static_assert((std::same_as<A, typename detail::ArgumentKind<Rest>::type> && ...),
                  "a block is called with NDArrays or with Symbols, not with both");
    try {
      if constexpr (std::same_as<A, Symbol>) {
        detail::CallScope scope(*node_, true);
        return self().hybrid_forward(sym, first, rest...);
      } else {
        using Result = std::remove_cvref_t<decltype(self().hybrid_forward(nd, first, rest...))>;
        const detail::Arguments<First, Rest...> arguments(first, rest...);
        auto trace = [&](std::span<const Symbol> flat) {
          detail::CallScope scope(*node_, true);
          detail::FlatSymbols results;
          std::apply([&](auto&&... s) { results.add(self().hybrid_forward(sym, std::move(s)...)); },
                     arguments.of_symbols(flat));
          return results;
        };
        const detail::CallInputs inputs = arguments.inputs();
        const DeviceScope device(detail::device_of(inputs.arrays));
        const auto call = [&]() -> Result {
          if (detail::is_active(*node_)) {
            detail::ResultRoom<Result> room;
            detail::call_traced(*node_, inputs, trace, site,
                                [&](size_t n, std::span<const size_t> lengths) { return room.take(n, lengths); });
            return room.make();
          }
          detail::finish_deferred(*node_, inputs.arrays, trace);
          detail::CallScope scope(*node_, false);
          return self().hybrid_forward(nd, first, rest...);
        };
        if (!detail::has_hooks(*node_)) return call();
        detail::call_pre_hooks(node_, inputs.arrays);
        Result result = call();
        detail::Flat<NDArray> outputs;
        outputs.add(result);
        detail::call_hooks(node_, inputs.arrays, outputs.arrays);
        return result;
      }
    } catch (...) {
      detail::rethrow_with_call(*node_, site);
    }
  }
};

KAON_API void export_block(const BlockNode& block, const std::string& prefix, int epoch);

template <class Derived>
void HybridBlock<Derived>::export_model(const std::string& prefix, int epoch) const {
  export_block(*node_, prefix, epoch);
}

}  // namespace gluon
}  // namespace kaon

template <std::derived_from<kaon::gluon::Block> B>
struct fmt::formatter<B> : fmt::formatter<std::string> {
  auto format(const B& block, fmt::format_context& context) const {
    return fmt::formatter<std::string>::format(kaon::gluon::to_string(block), context);
  }
};
