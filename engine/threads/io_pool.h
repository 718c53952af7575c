// IoPool: the threads for files and timers, and the executor of coroutines that run on them.
#pragma once

#include <boost/asio/basic_waitable_timer.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/thread_pool.hpp>
#include <chrono>
#include <coroutine>
#include <memory>
#include <mutex>
#include <utility>

#include "kaon/engine/await.h"
#include "kaon/engine/base/coroutine_queue.h"
#include "kaon/engine/threads/call_memory.h"
#include "kaon/engine/threads/worker_threads.h"

namespace kaon::engine {

// Posting a coroutine allocates nothing unless very many are pending: see CoroutineQueue and CallMemory. A thread of
// the pool that has been called takes one coroutine, and calls another thread if there are more. Thread safety: any
// thread.
class IoPool final : public Executor {
 public:
  explicit IoPool(int threads) : calls_(threads), threads_(threads) {}  // throws StateError
  void post(std::coroutine_handle<> work) override;

  // Calls `work` on the pool, at once or after `delay`. Throws std::bad_alloc.
  template <class F>
  void call(F&& work) {
    boost::asio::post(threads_, std::forward<F>(work));
  }
  template <class F>
  void call_after(std::chrono::nanoseconds delay, F work) {
    auto timer = std::make_shared<Timer>(threads_.get_executor(), delay);
    timer->async_wait([timer, work = std::move(work)](const boost::system::error_code&) mutable { work(); });
  }
  void join() { threads_.join(); }  // blocks: runs the remaining work, then ends the threads

 private:
  // Its handlers run on the pool. Unlike boost::asio::steady_timer, which erases the type of its executor, it allocates
  // nothing when it fires: an exception there would end the process.
  using Timer =
      boost::asio::basic_waitable_timer<std::chrono::steady_clock, boost::asio::wait_traits<std::chrono::steady_clock>,
                                        boost::asio::thread_pool::executor_type>;
  void call_thread() noexcept;
  void run_one();

  CallMemory calls_;
  std::mutex mutex_;
  CoroutineQueue queue_;  // under mutex_
  WorkerThreads threads_;
};

}  // namespace kaon::engine
