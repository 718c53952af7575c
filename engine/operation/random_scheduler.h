// RandomScheduler: the ready operations of an engine under a schedule that looks for trouble.
#pragma once

#include <cstdint>
#include <filesystem>
#include <random>
#include <vector>

#include "kaon/engine/base/spin_lock.h"
#include "kaon/engine/engine.h"
#include "kaon/engine/operation.h"

namespace kaon::engine {

// The ready operations of an engine without workers, and the choices among them. A program of one thread makes the same
// choices with the same seed, so a wrong result can be reproduced. Thread safety: any thread.
class RandomScheduler {
 public:
  // Throws IoError or ValueError for a file that cannot be replayed.
  explicit RandomScheduler(const Schedule& schedule);

  // Makes room for add(), which must not fail: called before the ops are queued at their vars.
  void reserve(size_t ops);
  void add(OpNode& op) noexcept;
  OpNode* pick();  // any of them; nullptr when there is none
  size_t burst();  // how many to run after a push
  bool is_empty() const noexcept;

  // Writes the choices so far, one number a line, then "end", for Schedule::replay. A choice is a random number modulo
  // the number of candidates, so the numbers are drawn again from the seed instead of being kept. Throws IoError.
  void save(const std::filesystem::path& file) const;

 private:
  size_t choose(size_t n);  // in [0, n); under the lock

  mutable SpinLock lock_;
  std::vector<OpNode*> ready_;
  const uint64_t seed_;
  std::mt19937_64 random_;
  const bool replays_;
  std::vector<uint32_t> replayed_;
  uint64_t choices_ = 0;  // made so far
};

}  // namespace kaon::engine
