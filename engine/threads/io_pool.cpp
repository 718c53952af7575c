#include "kaon/engine/threads/io_pool.h"

#include <boost/asio/bind_allocator.hpp>

namespace kaon::engine {

void IoPool::post(std::coroutine_handle<> work) {
  {
    std::lock_guard lock(mutex_);
    queue_.push(work);
  }
  call_thread();
}

void IoPool::call_thread() noexcept {
  void* const memory = calls_.take();
  if (!memory) return;  // as many threads as there are have been called and have yet to look at the queue
  boost::asio::post(threads_, boost::asio::bind_allocator(CallAllocator<void>(calls_, memory), [this] { run_one(); }));
}

void IoPool::run_one() {
  std::unique_lock lock(mutex_);
  const std::coroutine_handle<> work = queue_.pop();
  const bool has_more = !queue_.is_empty();
  lock.unlock();
  if (has_more) call_thread();
  if (work) resume_coroutine(work);
}

}  // namespace kaon::engine
