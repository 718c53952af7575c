// World: what all communicators of a process share.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "kaon/comm/watch/watch.h"

namespace kaon::comm {

class Driver;

// The watch of all communicators of a process, and what becomes of them when a rank fails. Thread safety: any thread.
class World {
 public:
  explicit World(const Options& options) : options(options) {}
  const Options options;
  void begin_watch(Group& group);
  int size() const { return size_; }
  void add(const std::shared_ptr<Driver>& driver);
  std::string failure() const;  // empty while all is well
  void report(const std::string& failure);
  void report_unless_explained(const std::string& failure);  // see Watch
  // Ends the watch. Blocks until all ranks have come to their end, which gives true, or one has failed.
  bool end();
  bool has_ended() const { return has_ended_; }
  // The GPU of this rank: by its number on its machine, where it sees several. Throws DeviceError.
  Device device() const;

 private:
  void fail(const std::string& text);
  std::vector<std::shared_ptr<Driver>> drivers();
  mutable std::mutex mutex_;
  std::string failure_;
  std::vector<std::weak_ptr<Driver>> drivers_;
  std::unique_ptr<Watch> watch_;
  int size_ = 1, local_rank_ = 0;
  std::atomic<bool> has_ended_{false};
};

}  // namespace kaon::comm
