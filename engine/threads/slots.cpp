#include "kaon/engine/threads/slots.h"

namespace kaon::engine {

bool Slots::take() noexcept {
  int taken = active_.load(std::memory_order_seq_cst);
  while (taken < count_) {
    if (active_.compare_exchange_weak(taken, taken + 1, std::memory_order_seq_cst)) return true;
  }
  return false;
}

void Slots::post() noexcept {
  spinning_.fetch_add(1, std::memory_order_seq_cst);
  posted_workers_.fetch_add(1, std::memory_order_seq_cst);
}

bool Slots::claim_posted() noexcept {
  int posted = posted_workers_.load(std::memory_order_seq_cst);
  while (posted > 0) {
    if (posted_workers_.compare_exchange_weak(posted, posted - 1, std::memory_order_seq_cst)) return true;
  }
  return false;
}

bool Slots::take_over() noexcept {
  if (!claim_posted()) return false;
  spinning_.fetch_sub(1, std::memory_order_seq_cst);
  return true;
}

int Slots::busy(bool caller_helps) const noexcept {
  const int helping = helping_.load(std::memory_order_relaxed) - caller_helps;
  return active_.load(std::memory_order_relaxed) - spinning_.load(std::memory_order_relaxed) - helping;
}

}  // namespace kaon::engine
