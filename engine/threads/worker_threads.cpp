#include "kaon/engine/threads/worker_threads.h"

#include <fmt/format.h>

#include <system_error>

#include "kaon/engine/error.h"

namespace kaon::engine {

WorkerThreads::WorkerThreads(int count) : boost::asio::thread_pool(0) {
  try {
    threads_.reserve(size_t(count));
    for (int i = 0; i < count; ++i) threads_.emplace_back([this] { attach(); });
  } catch (const std::system_error& e) {
    const size_t started = threads_.size();
    end();
    throw StateError(fmt::format("[Engine] cannot start thread {} of {}: {}", started + 1, count, e.code().message()));
  } catch (...) {
    end();
    throw;
  }
}

WorkerThreads::~WorkerThreads() { end(); }

void WorkerThreads::end() noexcept {
  stop();
  for (std::thread& t : threads_) t.join();
  threads_.clear();
}

void WorkerThreads::join() {
  if (threads_.empty()) return;
  wait();  // no more work will be posted: run() returns when all is done
  for (std::thread& t : threads_) t.join();
  threads_.clear();
}

}  // namespace kaon::engine
