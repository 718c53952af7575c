// RecurrentCell: one step of a recurrent net, and the unrolling of any cell along a sequence; AnyCell: a cell without
// its type.
#pragma once

#include <array>
#include <concepts>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "kaon/engine/api.h"
#include "kaon/gluon/block.h"

namespace KAON_API kaon {
namespace gluon::rnn {

// The axes of a sequence: time, batch, channels (of convolutional cells: channels and places).
enum class Layout : uint8_t { TNC, NTC };
constexpr std::array<std::string_view, 2> enum_names(Layout) { return {"TNC", "NTC"}; }
constexpr int time_axis(Layout layout) { return layout == Layout::TNC ? 0 : 1; }

// One state of a cell or layer.
struct StateInfo {
  Shape shape;              // with the batch size that was asked for
  std::string_view layout;  // its axes: NC, NCHW, of layers LNC
};

struct BeginStateOptions {
  std::optional<DType> dtype{};  // unset: that of the parameters, float32 where there are none
  Device device = Device();
  init::Initializer init = init::Zero();
};
static_assert(std::is_trivially_destructible_v<BeginStateOptions>);

namespace detail {

using gluon::detail::Argument;
template <Argument T>
using array_of = typename gluon::detail::ArgumentKind<T>::type;
template <class A>
concept Array = std::same_as<A, NDArray> || std::same_as<A, Symbol>;

// The output and the states of one step, or of a layer.
template <class A>
using Step = std::pair<A, std::vector<A>>;

// A sequence: one array with an axis of time, or a list with an array for each step.
template <class A>
struct Sequence {
  std::vector<A> arrays;
  bool is_merged;
  explicit Sequence(const A& merged) : arrays{merged}, is_merged(true) {}
  explicit Sequence(std::vector<A> steps) : arrays(std::move(steps)), is_merged(false) {}
};

template <class A>
struct UnrollCall {
  int64_t length;
  Sequence<A> inputs;
  std::vector<A> begin_state;  // empty: zeros
  Layout layout;
  std::optional<bool> merge_outputs;  // unset: as they come
  std::optional<A> valid_length;
};
template <class A>
struct Unrolled {
  Sequence<A> outputs;
  std::vector<A> states;
};
template <class A>
using StepFn = engine::FunctionRef<Step<A>(const A& x, const std::vector<A>& states)>;

// What an AnyCell asks of a cell.
struct CellCalls {
  virtual ~CellCalls() = default;
  virtual Step<NDArray> step(const NDArray& x, const std::vector<NDArray>& states) const = 0;
  virtual Step<Symbol> step(const Symbol& x, const std::vector<Symbol>& states) const = 0;
  virtual Unrolled<NDArray> unroll(UnrollCall<NDArray> call) const = 0;
  virtual Unrolled<Symbol> unroll(UnrollCall<Symbol> call) const = 0;
  virtual std::vector<StateInfo> state_info(int64_t batch_size) const = 0;
  virtual void reset() const = 0;
  virtual bool can_step() const = 0;
};

// The functions below name `cell` in errors: ValueError for counts, ShapeError for arrays.
KAON_API void check_state_count(const Block& cell, size_t expected, size_t given);
KAON_API std::vector<NDArray> begin_state(const Block& block, const std::vector<StateInfo>& states,
                                          const BeginStateOptions& options);
template <class A>
KAON_API void check_layer_input(const Block& layer, Layout layout, const A& x);  // ShapeError unless it has three axes
KAON_API double check_rate(const char* cell, const char* what, double rate);     // throws unless it is in [0, 1)

// --- unrolling, for A = NDArray and Symbol

// The states that an unrolling begins with: those given, or zeros for the inputs' batch, of their dtype.
template <class A>
KAON_API std::vector<A> first_states(const Block& cell, const std::vector<StateInfo>& states,
                                     const UnrollCall<A>& call);
template <class A>
KAON_API std::vector<A> steps_of(const Block& cell, const UnrollCall<A>& call);  // of the inputs
template <class A>
KAON_API A merged(const Block& cell, const UnrollCall<A>& call);  // the inputs
// The outputs in the form that the call asks for, 0 after the end of each sequence if `mask` and it has valid_length.
template <class A>
KAON_API Sequence<A> finish(const UnrollCall<A>& call, Sequence<A> outputs, bool mask);
// The steps in reverse order, each sequence from its own last step.
template <class A>
KAON_API std::vector<A> reversed(std::vector<A> steps, const std::optional<A>& valid_length);
// Calls `step` for one step after the other.
template <class A>
KAON_API Unrolled<A> unroll_steps(const Block& cell, const std::vector<StateInfo>& states, const UnrollCall<A>& call,
                                  StepFn<A> step);

// What a cell keeps from one step to the next until reset(); shared by the handles of the cell. In a trace it lasts
// until the end of the trace at most, and must have been reset there: TraceError otherwise, and in the body of a loop,
// whose steps are one trace.
class Carried {
 public:
  Carried();
  void reset() const;
  template <Array A>
  const A* find(const Block& cell) const;  // null after reset()
  template <Array A>
  void keep(const A& value) const;

 private:
  struct Values;
  std::shared_ptr<Values> values_;
};

}  // namespace detail

// Derive as `struct Cell : RecurrentCell<Cell>` with `state_info(batch_size)` and `hybrid_forward(F, x, states)`, which
// returns pair(output, states). cell(x, states), or cell(x, {h, c}), makes one step for x (batch, features): it returns
// the output and the new states. A cell is a HybridBlock: a step can be planned, and so can a block that unrolls it or
// makes it the body of contrib::foreach. Thread safety as Block; cells that keep arrays between steps (ZoneoutCell,
// VariationalDropoutCell), and those around them, on one thread.
template <class Derived>
class RecurrentCell : public HybridBlock<Derived> {
 public:
  using HybridBlock<Derived>::HybridBlock;
  // Takes a list of states only: an array in its place would be read as a list of its rows.
  template <detail::Array A>
  auto operator()(const A& x, const std::vector<A>& states,
                  std::source_location site = std::source_location::current()) const {
    return HybridBlock<Derived>::operator()(x, states, site);
  }

  // Arrays to begin with, one for each state_info(batch_size). Does not block. Throws as Initializer does.
  std::vector<NDArray> begin_state(int64_t batch_size, const BeginStateOptions& options = {}) const {
    return detail::begin_state(*this, cell().state_info(batch_size), options);
  }

  // Calls the cell `length` times, after a reset(). inputs: one array (batch, length, ...), or (length, batch, ...)
  // with Layout::TNC, or a vector of `length` arrays (batch, ...). Without begin_state the states begin as zeros.
  // Returns the outputs as one array in that layout, and the last states. With valid_length (batch,), sequence n has so
  // many steps: outputs after them are 0, and its states are those after its last step (MXNet's need one step at
  // least). Does not block. Throws ValueError for a number of arrays or states that is wrong, ShapeError for shapes,
  // and what the cell throws. With Symbols it composes.
  template <detail::Argument X>
  auto unroll(int64_t length, const X& inputs, const std::vector<detail::array_of<X>>& begin_state = {},
              Layout layout = Layout::NTC, const std::optional<detail::array_of<X>>& valid_length = {}) const {
    using A = detail::array_of<X>;
    detail::Unrolled<A> all = cell().unroll_sequence(
        detail::UnrollCall<A>{length, detail::Sequence<A>(inputs), begin_state, layout, true, valid_length});
    return detail::Step<A>(std::move(all.outputs.arrays[0]), std::move(all.states));
  }
  // The same, but the outputs are a vector with an array (batch, ...) for each step: MXNet's merge_outputs=False.
  template <detail::Argument X>
  auto unroll_steps(int64_t length, const X& inputs, const std::vector<detail::array_of<X>>& begin_state = {},
                    Layout layout = Layout::NTC, const std::optional<detail::array_of<X>>& valid_length = {}) const {
    using A = detail::array_of<X>;
    detail::Unrolled<A> all = cell().unroll_sequence(
        detail::UnrollCall<A>{length, detail::Sequence<A>(inputs), begin_state, layout, false, valid_length});
    return std::pair<std::vector<A>, std::vector<A>>(std::move(all.outputs.arrays), std::move(all.states));
  }

  void reset() const {}  // forgets what the cell kept from earlier steps; unroll() begins with it
  static constexpr bool can_step() { return true; }  // whether it makes single steps

  // --- for other cells: unroll() of a sequence in either form
  template <class A>
  detail::Unrolled<A> unroll_sequence(const detail::UnrollCall<A>& call) const {
    cell().reset();
    return detail::unroll_steps<A>(*this, cell().state_info(0), call,
                                   [&](const A& x, const std::vector<A>& states) { return cell()(x, states); });
  }

 protected:
  // Throws ValueError unless there are as many states as the cell has.
  void expect_states(size_t expected, size_t given) const { detail::check_state_count(*this, expected, given); }
  const Derived& cell() const { return static_cast<const Derived&>(*this); }
};

template <class C>
concept Cell = std::derived_from<C, RecurrentCell<C>>;

// A cell without its type, as other cells hold it: a handle on the same cell, with the members of a RecurrentCell.
class AnyCell : public Block {
 public:
  template <Cell C>
  AnyCell(const C& cell) : Block(cell), calls_(std::make_shared<Calls<C>>(cell)) {}

  template <detail::Array A>
  detail::Step<A> operator()(const A& x, const std::vector<A>& states) const {
    return calls_->step(x, states);
  }
  template <class A>
  detail::Unrolled<A> unroll_sequence(detail::UnrollCall<A> call) const {
    return calls_->unroll(std::move(call));
  }
  std::vector<StateInfo> state_info(int64_t batch_size = 0) const { return calls_->state_info(batch_size); }
  size_t num_states() const { return state_info().size(); }
  void reset() const { calls_->reset(); }
  bool can_step() const { return calls_->can_step(); }

 private:
  template <class C>
  struct Calls final : detail::CellCalls {
    explicit Calls(const C& c) : cell(c) {}
    detail::Step<NDArray> step(const NDArray& x, const std::vector<NDArray>& states) const override {
      return cell(x, states);
    }
    detail::Step<Symbol> step(const Symbol& x, const std::vector<Symbol>& states) const override {
      return cell(x, states);
    }
    detail::Unrolled<NDArray> unroll(detail::UnrollCall<NDArray> call) const override {
      return cell.unroll_sequence(std::move(call));
    }
    detail::Unrolled<Symbol> unroll(detail::UnrollCall<Symbol> call) const override {
      return cell.unroll_sequence(std::move(call));
    }
    std::vector<StateInfo> state_info(int64_t batch_size) const override { return cell.state_info(batch_size); }
    void reset() const override { cell.reset(); }
    bool can_step() const override { return cell.can_step(); }
    C cell;
  };
  std::shared_ptr<const detail::CellCalls> calls_;
};

}  // namespace gluon::rnn
}  // namespace kaon
