// TrainingStep: forward, loss, gradients and update as one submission to the engine.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "kaon/engine/api.h"
#include "kaon/gluon/block.h"
#include "kaon/gluon/trainer.h"

namespace KAON_API kaon {
namespace gluon {

namespace detail {
struct Traced;
}

// Plans a whole training step as a hybridized net plans its forward: no value is kept for a later backward(), and the
// gradients are in the plan's arena only, where the optimizer's operator reads them. The numbers are those of
// record(), backward() and Trainer::step(data.shape()[0]), bit for bit under {.exact = true}. The parameters' attached
// gradients do not change.
//
//     gluon::TrainingStep step(net, loss_fn, trainer);
//     while (auto batch = co_await batches.next()) NDArray loss = step(batch->data, batch->label);
//
// Blocks only where Trainer::step does, and with {.verify}. Thread safety: one thread. The trainer must live as long.
class TrainingStep {
 public:
  // The loss is loss(net(data), label): hybrid blocks, or anything else that takes Symbols and returns one. The first
  // step traces it.
  template <class Net, class Loss>
  TrainingStep(Net net, Loss loss, Trainer& trainer, const HybridizeOptions& options = default_options())
      : TrainingStep(trainer, options, [net, loss](std::span<const Symbol> in) mutable {
          return std::vector<Symbol>{loss(net(in[0]), in[1])};
        }) {}

  // One step. Returns the loss of each sample, before the update. When one of the inputs has failed or an operator
  // fails, no parameter changes, the loss fails, and a later step throws the failure as Trainer::step does. Throws
  // ShapeError for data without samples, StateError while recording, for a parameter of the trainer that the loss does
  // not depend on or that has grad_req add, and, with PlanPolicy::error, for new shapes.
  NDArray operator()(const NDArray& data, const NDArray& label,
                     std::source_location site = std::source_location::current());

  // The plan of the latest step, to be looked at. Throws StateError before the first.
  engine::IntrusivePtr<PlanReport> plan() const;

 private:
  using Trace = std::function<std::vector<Symbol>(std::span<const Symbol>)>;
  struct Program;
  struct Arenas;
  static HybridizeOptions default_options() { return {.static_alloc = true, .static_shape = true}; }
  TrainingStep(Trainer& trainer, const HybridizeOptions& options, Trace trace);
  bool fits(const Program& program, std::span<const NDArray* const> inputs) const;
  void refuse_new_shapes(std::span<const NDArray* const> inputs) const;  // under PlanPolicy::error
  Program& find(std::span<const NDArray* const> inputs);
  std::shared_ptr<Program> make(std::span<const NDArray* const> inputs) const;

  Trainer* trainer_;
  HybridizeOptions options_;
  Trace trace_;
  std::shared_ptr<Arenas> arenas_;
  std::vector<std::shared_ptr<Program>> programs_;  // most recently used first
  // Kept between steps, so that these allocate nothing.
  std::vector<NDArray> held_;
  std::vector<const NDArray*> arrays_;
  std::vector<Trainer::Slot*> slots_;
};

}  // namespace gluon
}  // namespace kaon
