// WorkerThreads: an Asio context with threads that run the work posted to it.
#pragma once

#include <boost/asio/thread_pool.hpp>
#include <thread>
#include <vector>

namespace kaon::engine {

// Replaces boost::asio::thread_pool, whose constructor waits forever when the system refuses one of its threads.
class WorkerThreads : public boost::asio::thread_pool {
 public:
  // Throws StateError when not all of them can be started.
  explicit WorkerThreads(int count);
  ~WorkerThreads();
  void join();  // blocks: runs the remaining work, then ends the threads

 private:
  void end() noexcept;
  std::vector<std::thread> threads_;
};

}  // namespace kaon::engine
