// TrainingStep: forward, loss, gradients and update as one submission to the engine.
#pragma once

#include <concepts>
#include <functional>
#include <memory>
#include <source_location>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include "kaon/engine/api.h"
#include "kaon/gluon/block.h"
#include "kaon/gluon/trainer.h"

namespace KAON_API kaon {
namespace gluon {

namespace detail {
struct Traced;

// With how many Symbols, from 1 to 6, fn can be called; 0: with none of these numbers.
template <class Fn, class... S>
constexpr size_t arity_of() {
  if constexpr (sizeof...(S) > 6) {
    return 0;
  } else if constexpr (sizeof...(S) > 0 && std::is_invocable_v<Fn&, S...>) {
    return sizeof...(S);
  } else {
    return arity_of<Fn, S..., Symbol>();
  }
}
// Says to a block of Kaon's where the program called it.
template <class Fn, class... S>
auto call_from(const std::source_location& site, Fn& fn, const S&... inputs) {
  if constexpr (std::derived_from<Fn, Block> && std::is_invocable_v<Fn&, const S&..., std::source_location>) {
    return fn(inputs..., site);
  } else {
    return fn(inputs...);
  }
}
template <class Fn>
constexpr bool takes_list = std::is_invocable_v<Fn&, std::vector<Symbol>>;
[[noreturn]] KAON_API void refuse_inputs(size_t expected, size_t got);
}  // namespace detail

// A function of a training step's inputs: hybrid code with a parameter for each input, at most six, or one
// std::vector<Symbol> of them all. Returns the loss, or a pair, tuple or vector that begins with it; what follows are
// further outputs, through which no gradient goes.
template <class Fn>
concept StepFunction = (detail::arity_of<Fn>() > 0) || detail::takes_list<Fn>;

// Plans a whole training step as a hybridized net plans its forward: no value is kept for a later backward(), and the
// gradients are in the plan's arena only, where the optimizer's operator reads them. The numbers are those of
// record(), backward() and Trainer::step(data.shape()[0]), bit for bit under {.exact = true}. The attached gradients of
// parameters with grad_req write do not change; those with grad_req add take the step's sum, which the update reads.
//
//     gluon::TrainingStep step(net, loss_fn, trainer);
//     while (auto batch = co_await batches.next()) NDArray loss = step(batch->data, batch->label);
//
// One update by the gradients of several batches:
//
//     net.collect_params().set_grad_req(GradReq::add);
//     step.set_batch_size(2 * 64);
//     step.accumulate(first.data, first.label);
//     step(second.data, second.label);
//     net.collect_params().zero_grad();
//
// Over ranks (TrainerOptions::kvstore) each gives its part of the batch. Buckets of gradients leave while the backward
// goes on, the update follows when their sums are there, and nobody waits on the host. The attached gradients then
// become the sums.
//
// Blocks only where Trainer::step does, and with {.verify}. Thread safety: one thread. The trainer must live as long.
class TrainingStep {
 public:
  // The loss is loss(net(data), label): hybrid blocks, or anything else that takes Symbols and returns one. The first
  // step traces it.
  template <class Net, class Loss>
  TrainingStep(Net net, Loss loss, Trainer& trainer, const HybridizeOptions& options = default_options())
      : TrainingStep(
            trainer, options, [net, loss](std::span<const Symbol> in, const std::source_location& site) mutable {
              if (in.size() != 2) detail::refuse_inputs(2, in.size());
              return std::vector<Symbol>{detail::call_from(site, loss, detail::call_from(site, net, in[0]), in[1])};
            }) {}

  // The loss is what `fn` makes of the inputs, here three of them:
  //     TrainingStep step([&](auto x, auto mask, auto y) { return loss_fn(net(x, mask), y); }, trainer);
  template <StepFunction Fn>
  TrainingStep(Fn fn, Trainer& trainer, const HybridizeOptions& options = default_options())
      : TrainingStep(trainer, options,
                     [fn](std::span<const Symbol> in, const std::source_location&) mutable { return called(fn, in); }) {
  }

  // One step. Returns the loss of each sample, before the update. The batch size is that of the first input, `data`,
  // times the number of ranks, unless set_batch_size() says another.
  // When one of the inputs has failed or an operator fails, no parameter changes, the loss fails, and a later step
  // throws the failure as Trainer::step does. Throws ShapeError for data without samples, StateError while recording,
  // for a parameter of the trainer that the loss does not depend on, for summed gradients that amp::unscale() has
  // divided, and, with PlanPolicy::error, for new shapes.
  NDArray operator()(const NDArray& data, const NDArray& label,
                     std::source_location site = std::source_location::current());
  // The same for any number of inputs. Throws ValueError for another number than the function of the loss takes, and
  // for none.
  NDArray operator()(std::span<const NDArray> inputs, std::source_location site = std::source_location::current());
  NDArray operator()(const NDArray& a, std::source_location site = std::source_location::current()) {
    const NDArray* const inputs[] = {&a};
    return step(inputs, site);
  }
  NDArray operator()(const NDArray& a, const NDArray& b, const NDArray& c,
                     std::source_location site = std::source_location::current()) {
    const NDArray* const inputs[] = {&a, &b, &c};
    return step(inputs, site);
  }
  NDArray operator()(const NDArray& a, const NDArray& b, const NDArray& c, const NDArray& d,
                     std::source_location site = std::source_location::current()) {
    const NDArray* const inputs[] = {&a, &b, &c, &d};
    return step(inputs, site);
  }
  NDArray operator()(const NDArray& a, const NDArray& b, const NDArray& c, const NDArray& d, const NDArray& e,
                     std::source_location site = std::source_location::current()) {
    const NDArray* const inputs[] = {&a, &b, &c, &d, &e};
    return step(inputs, site);
  }
  NDArray operator()(const NDArray& a, const NDArray& b, const NDArray& c, const NDArray& d, const NDArray& e,
                     const NDArray& f, std::source_location site = std::source_location::current()) {
    const NDArray* const inputs[] = {&a, &b, &c, &d, &e, &f};
    return step(inputs, site);
  }
  // Forward, loss and gradients, which are added to the attached ones as record() and backward() do, without an update.
  // Returns the loss of each sample. A later step, or Trainer::step(), takes the sum; zero_grad() begins a new one.
  // Throws as a step does, and StateError for a parameter whose grad_req is not add.
  NDArray accumulate(const NDArray& data, const NDArray& label,
                     std::source_location site = std::source_location::current());
  NDArray accumulate(std::span<const NDArray> inputs, std::source_location site = std::source_location::current());
  // By how many samples, of all ranks, a step divides its gradients; 0, the default: by those of its data, as if every
  // rank had as many. Throws ValueError for a negative number.
  void set_batch_size(int64_t samples);

  // The further outputs of the latest step or accumulate(); before the update as well. Empty where the function of the
  // loss returns the loss alone.
  const std::vector<NDArray>& outputs() const { return outputs_; }

  // The plan of the latest step, to be looked at. Throws StateError before the first.
  engine::IntrusivePtr<PlanReport> plan() const;

 private:
  using Trace = std::function<std::vector<Symbol>(std::span<const Symbol>, const std::source_location&)>;
  struct Program;
  struct Arenas;
  template <class Fn>
  static std::vector<Symbol> called(Fn& fn, std::span<const Symbol> in) {
    detail::FlatSymbols results;
    constexpr size_t arity = detail::arity_of<Fn>();
    if constexpr (arity == 0) {
      results.add(fn(std::vector<Symbol>(in.begin(), in.end())));
    } else {
      if (in.size() != arity) detail::refuse_inputs(arity, in.size());
      [&]<size_t... I>(std::index_sequence<I...>) { results.add(fn(Symbol(in[I])...)); }
      (std::make_index_sequence<arity>());
    }
    for (size_t i = 1; i < results.arrays.size(); ++i) results.arrays[i] = results.arrays[i].detach();
    return results.arrays;
  }
  enum class Ends : uint8_t { with_sums, with_update, with_gradients };  // the last: over ranks, which update later
  NDArray step(std::span<const NDArray* const> inputs, const std::source_location& site, Ends ends = Ends::with_update);
  void share_values() const;
  NDArray step_over_ranks(std::span<const NDArray* const> inputs, const std::source_location& site);
  NDArray run(std::span<const NDArray* const> inputs, const std::source_location& site, Ends ends);
  static HybridizeOptions default_options() { return {.static_alloc = true, .static_shape = true}; }
  TrainingStep(Trainer& trainer, const HybridizeOptions& options, Trace trace);
  int64_t divisor(std::span<const NDArray* const> inputs, Ends ends) const;
  bool fits(const Program& program, std::span<const NDArray* const> inputs, Ends ends) const;
  void refuse_new_shapes(std::span<const NDArray* const> inputs, Ends ends) const;  // under PlanPolicy::error
  Program& find(std::span<const NDArray* const> inputs, Ends ends, const std::source_location& site);
  std::shared_ptr<Program> make(std::span<const NDArray* const> inputs, Ends ends,
                                const std::source_location& site) const;
  detail::Traced run_trace(std::span<const NDArray* const> inputs, const std::source_location& site) const;

  Trainer* trainer_;
  HybridizeOptions options_;
  int64_t batch_size_ = 0;
  Trace trace_;
  std::shared_ptr<Arenas> arenas_;
  std::vector<std::shared_ptr<Program>> programs_;  // most recently used first
  std::vector<NDArray> outputs_;
  // Kept between steps, so that these allocate nothing.
  std::vector<NDArray> results_;
  std::vector<NDArray> held_;
  std::vector<const NDArray*> arrays_;
  std::vector<Trainer::Slot*> slots_;
};

}  // namespace gluon
}  // namespace kaon
