// EventHandler: what happens beside the steps of Estimator::fit.
#pragma once

#include "kaon/engine/api.h"
#include "kaon/engine/task.h"
#include "kaon/gluon/data/batchify.h"
#include "kaon/ops/ndarray.h"

namespace KAON_API kaon {
namespace gluon {

class Estimator;

// What a batch gave: one loss for each sample.
struct BatchResult {
  NDArray prediction, label, loss;
};

// Derive and override what is needed: each is awaited where its name says, by the coroutine that trains, in the order
// in which the handlers were added. An exception leaves fit(). Thread safety: fit() calls one at a time.
class EventHandler {
 public:
  virtual ~EventHandler() = default;
  virtual Task<void> train_begin(Estimator& estimator);
  virtual Task<void> epoch_begin(Estimator& estimator);
  virtual Task<void> batch_begin(Estimator& estimator, const data::Batch& batch);
  virtual Task<void> batch_end(Estimator& estimator, const data::Batch& batch, const BatchResult& result);
  virtual Task<void> epoch_end(Estimator& estimator);
  virtual Task<void> train_end(Estimator& estimator);  // after stop() too, not after an exception
};

}  // namespace gluon
}  // namespace kaon
