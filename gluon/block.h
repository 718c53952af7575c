// Block: a part of a net; HybridBlock: a block that can be traced.
#pragma once

#include <fmt/format.h>

#include <concepts>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "kaon/engine/api.h"
#include "kaon/engine/thread_context.h"
#include "kaon/gluon/hybrid_arguments.h"
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

// What is called after each operator that runs inside a block: with the name of the array,
// "dense0_FullyConnected_output", the name of the operator and the array itself. An exception that it throws leaves the
// block's call.
using OpHook = std::function<void(std::string_view array, std::string_view op, const NDArray& value)>;

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
  // Reads such a file, also one with full names. Blocks. Where every parameter has values of its dtype on one device
  // already, any thread may call the net meanwhile: a hybridized call computes with all old values or all new ones.
  // Throws IoError, ValueError for missing or extra names, ShapeError and TypeError for arrays that do not fit; then
  // nothing is changed.
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
  // From the next call on, fn is called after each operator of the calls of this block and its children, with each of
  // its outputs, with monitor_all with its inputs too ("..._input0"). The block and its children then run operator by
  // operator, hybridized or not; inside another hybridized net, or a TrainingStep, the call throws StateError. An
  // operator that is made of others is seen as these. What fn computes is not recorded. Throws as the above.
  HookHandle register_op_hook(OpHook fn, bool monitor_all = false);
  // An op hook that reads every floating output, which blocks, and throws ValueError for the first one that has a NaN,
  // or with `infinity` an infinity: it names the operator, the block and the element. Gradients are not looked at:
  // set_checks() looks at every operator of the process.
  HookHandle detect_anomaly(bool infinity = true);

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

class OpHookScope;

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
  std::unique_ptr<OpHookScope> op_hooks_;
};

}  // namespace detail

struct ExportOptions {
  // Writes a program that holds for the shapes and dtypes of the latest call's data alone, where hybrid_forward reads
  // these. The file says them, and who reads it refuses others.
  bool fixed_shapes = false;
};

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
  // computed. Throws StateError before a first hybridized call and where hybrid_forward reads shapes or dtypes (see
  // ExportOptions), ValueError for an operator that MXNet lacks and a negative epoch, IoError.
  void export_model(const std::string& prefix, int epoch = 0, const ExportOptions& options = {}) const;

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

KAON_API void export_block(const BlockNode& block, const std::string& prefix, int epoch, const ExportOptions& options);

template <class Derived>
void HybridBlock<Derived>::export_model(const std::string& prefix, int epoch, const ExportOptions& options) const {
  export_block(*node_, prefix, epoch, options);
}

}  // namespace gluon
}  // namespace kaon

template <std::derived_from<kaon::gluon::Block> B>
struct fmt::formatter<B> : fmt::formatter<std::string> {
  auto format(const B& block, fmt::format_context& context) const {
    return fmt::formatter<std::string>::format(kaon::gluon::to_string(block), context);
  }
};
