#include "kaon/gluon/step_watch.h"

#include <atomic>
#include <deque>

namespace kaon::gluon {

// Each waiter in a queue holds one reference.
struct StepWatch::Shared : RefCounted<StepWatch::Shared> {
  struct Waiter : WaitNode {
    Waiter(Shared& shared, const NDArray& array)
        : WaitNode(type, array.var(), AccessMode::read), shared(shared), array(array) {}
    void finish() noexcept {
      array = NDArray();                                       // its error is in the node by now
      shared.missing.fetch_sub(1, std::memory_order_release);  // pairs with is_done
      shared.release();
    }
    static constexpr OpType type{.signal = [](OpBase& base) noexcept { static_cast<Waiter&>(base).finish(); }};
    Shared& shared;
    NDArray array;
  };
  std::deque<Waiter> waiters;
  std::atomic<size_t> missing{0};
};

StepWatch::StepWatch(std::span<const NDArray> arrays) : shared_(new Shared) {
  shared_->missing.store(arrays.size(), std::memory_order_relaxed);
  for (const NDArray& a : arrays) {
    Shared::Waiter& waiter = shared_->waiters.emplace_back(*shared_, a);
    shared_->retain();
    if (!a.engine().enqueue_waiter(waiter)) waiter.finish();
  }
}

StepWatch::~StepWatch() = default;
StepWatch::StepWatch(StepWatch&&) noexcept = default;
StepWatch& StepWatch::operator=(StepWatch&&) noexcept = default;

bool StepWatch::is_done() const { return shared_->missing.load(std::memory_order_acquire) == 0; }

IntrusivePtr<const OpError> StepWatch::error() const {
  IntrusivePtr<const OpError> first;
  for (const Shared::Waiter& w : shared_->waiters) {
    if (w.error && (!first || w.error->sequence < first->sequence)) first = w.error;
  }
  return first;
}

}  // namespace kaon::gluon
