// Block: a part of a net; HybridBlock: a block that can be traced.
#pragma once

#include <fmt/format.h>

#include <array>
#include <concepts>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "kaon/engine/api.h"
#include "kaon/gluon/parameter.h"
#include "kaon/graph/hybridize.h"

namespace KAON_API kaon {
class PlanReport;

namespace gluon {

struct BlockNode;

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
  // not exist.
  void initialize(const init::Initializer& init = init::Uniform(), Device device = Device(), bool force_reinit = false);
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
  // Writes MXNet's list file with dotted paths ("features.0.weight") as names. Blocks until the values are computed.
  // Throws StateError for a parameter without values, IoError, and the failure of a value.
  void save_parameters(const std::filesystem::path& file) const;
  // Reads such a file, also one with full names. Blocks. Throws IoError, ValueError for missing or extra names,
  // ShapeError and TypeError for arrays that do not fit; then nothing is changed.
  void load_parameters(const std::filesystem::path& file, bool allow_missing = false, bool ignore_extra = false);
  // Replaces a registered child and the member that holds it. Traces that contain it are dropped. Throws ValueError
  // when there is no such child, and when `block` contains this block.
  template <class B>
  void replace_child(std::string_view name, B& member, B block) {
    swap_child(name, block);
    member = block;
  }

  const std::shared_ptr<BlockNode>& node() const { return node_; }  // what copies of the handle share

 protected:
  // Registers a child under an attribute name and returns it: nn::Dense fc = child("fc", nn::Dense(10)); Throws
  // ValueError for a name that is taken and for a child that contains this block.
  template <class B>
  B child(std::string_view name, B block) {
    add_child(name, name, block);
    return block;
  }
  // Makes a parameter of this block. Throws ValueError for a name that is taken.
  Parameter param(std::string_view name, const Shape& shape, const ParameterOptions& options = {});
  void add_child(std::string_view key, std::string_view name, const Block& block);  // what child() does
  void swap_child(std::string_view name, const Block& block);                       // what replace_child() does

  std::shared_ptr<BlockNode> node_;
};

// The tree of blocks: "type(parameter: shape, ...", then a line "(name): ..." for each child. {} prints it too.
KAON_API std::string to_string(const Block& block);

namespace detail {

// Converts the results of hybrid_forward to a list and back. `Room` is where a plan stores its outputs.
template <size_t N>
struct FixedRoom {
  std::array<NDArray, N> arrays;
  std::span<NDArray> take(size_t) { return arrays; }
};
struct AnyRoom {
  std::vector<NDArray> arrays;
  std::span<NDArray> take(size_t n) {
    arrays.resize(n);
    return arrays;
  }
};
template <class R>
struct Structure;
template <>
struct Structure<NDArray> {
  using Room = FixedRoom<1>;
  static NDArray make(Room&& room) { return std::move(room.arrays[0]); }
};
template <>
struct Structure<std::vector<NDArray>> {
  using Room = AnyRoom;
  static std::vector<NDArray> make(Room&& room) { return std::move(room.arrays); }
};
template <class... A>
struct Structure<std::tuple<A...>> {
  using Room = FixedRoom<sizeof...(A)>;
  static std::tuple<A...> make(Room&& room) {
    return std::apply([](auto&... a) { return std::tuple<A...>(std::move(a)...); }, room.arrays);
  }
};
template <class A, class B>
struct Structure<std::pair<A, B>> {
  using Room = FixedRoom<2>;
  static std::pair<A, B> make(Room&& room) { return {std::move(room.arrays[0]), std::move(room.arrays[1])}; }
};
template <size_t N>
struct Structure<std::array<NDArray, N>> {
  using Room = FixedRoom<N>;
  static std::array<NDArray, N> make(Room&& room) { return std::move(room.arrays); }
};

inline std::vector<Symbol> flatten(const Symbol& s) { return {s}; }
inline std::vector<Symbol> flatten(const std::vector<Symbol>& s) { return s; }
template <class... A>
std::vector<Symbol> flatten(const std::tuple<A...>& t) {
  return std::apply([](const auto&... s) { return std::vector<Symbol>{s...}; }, t);
}
template <class A, class B>
std::vector<Symbol> flatten(const std::pair<A, B>& p) {
  return {p.first, p.second};
}
template <size_t N>
std::vector<Symbol> flatten(const std::array<Symbol, N>& a) {
  return {a.begin(), a.end()};
}

using TraceFn = engine::FunctionRef<std::vector<Symbol>(std::span<const Symbol>)>;

KAON_API bool is_active(const BlockNode& block);
// Completes the shapes of the block's own deferred parameters, by tracing the block alone.
KAON_API void finish_deferred(BlockNode& block, std::span<const NDArray* const> inputs, TraceFn trace);
// room(n) gives the storage for the n outputs.
KAON_API void call_traced(BlockNode& block, std::span<const NDArray* const> inputs, TraceFn trace,
                          const std::source_location& site, engine::FunctionRef<std::span<NDArray>(size_t)> room);

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
// NDArray or a Symbol; several arrays may come in and go out (vector, tuple, pair, array). Children must be registered
// HybridBlocks. Not hybridized, each call runs it; hybridized, it runs once per number of inputs and training mode
// (once per shape too if it reads a shape), and from then on each call is one submission to the engine.
template <class Derived>
class HybridBlock : public Block {
 public:
  explicit HybridBlock(std::string_view hint = "hybridblock") : Block(hint) {}

  // Calls hybrid_forward, or its plan, with 1 to 4 NDArrays, or with Symbols. Does not wait for results. Throws
  // StateError for a parameter that is not initialized, TraceError for what a trace cannot record, and what the
  // operators throw.
  template <class A>
  auto operator()(const A& a, std::source_location site = std::source_location::current()) const {
    return run(site, a);
  }
  template <class A>
  auto operator()(const A& a, const A& b, std::source_location site = std::source_location::current()) const {
    return run(site, a, b);
  }
  template <class A>
  auto operator()(const A& a, const A& b, const A& c,
                  std::source_location site = std::source_location::current()) const {
    return run(site, a, b, c);
  }
  template <class A>
  auto operator()(const A& a, const A& b, const A& c, const A& d,
                  std::source_location site = std::source_location::current()) const {
    return run(site, a, b, c, d);
  }

  // Writes prefix-symbol.json and prefix-<epoch, four digits>.params, which MXNet reads. Blocks until the values are
  // computed. Throws StateError before a first hybridized call, ValueError for an operator that MXNet lacks and a
  // negative epoch, IoError.
  void export_model(const std::string& prefix, int epoch = 0) const;

 private:
  // Blocks are handles: calling through a const handle runs the same block.
  Derived& self() const { return const_cast<Derived&>(static_cast<const Derived&>(*this)); }

  template <class A, class... Rest>
  auto run(const std::source_location& site, const A& first, const Rest&... rest) const {
    try {
      if constexpr (std::is_same_v<A, Symbol>) {
        detail::CallScope scope(*node_, true);
        return self().hybrid_forward(sym, first, rest...);
      } else {
        static_assert(std::is_same_v<A, NDArray>, "a block is called with NDArrays or with Symbols");
        using Result = std::remove_cvref_t<decltype(self().hybrid_forward(nd, first, rest...))>;
        const NDArray* inputs[] = {&first, &rest...};
        auto trace = [&](std::span<const Symbol> s) {
          detail::CallScope scope(*node_, true);
          return [&]<size_t... I>(std::index_sequence<I...>) {
            return detail::flatten(self().hybrid_forward(sym, Symbol(s[I])...));
          }
          (std::make_index_sequence<1 + sizeof...(Rest)>());
        };
        if (detail::is_active(*node_)) {
          typename detail::Structure<Result>::Room room;
          detail::call_traced(*node_, inputs, trace, site, [&](size_t n) { return room.take(n); });
          return detail::Structure<Result>::make(std::move(room));
        }
        detail::finish_deferred(*node_, inputs, trace);
        detail::CallScope scope(*node_, false);
        return self().hybrid_forward(nd, first, rest...);
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
