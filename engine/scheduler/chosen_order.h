// ChosenOrder: the ready operations of an engine under a schedule that looks for trouble.
#pragma once

#include <cstdint>
#include <filesystem>
#include <random>
#include <vector>

#include "kaon/engine/base/spin_lock.h"
#include "kaon/engine/schedule.h"
#include "kaon/engine/scheduler/op_node.h"

namespace kaon {

// The ready operations of an engine without workers, and the choices among them. A program of one thread makes the
// same choices whenever it has the same seed, so a wrong result can be had again. Thread safety: any thread.
class ChosenOrder {
 public:
  // Throws IoError or ValueError for a file that cannot be replayed.
  explicit ChosenOrder(const Schedule& schedule);

  void reserve(size_t ops);  // room for so many, which add() needs: before they are queued at their vars
  void add(OpNode& op) noexcept;
  OpNode* pick();  // any of them; nullptr when there is none
  size_t burst();  // how many to run after a push
  bool is_empty() const noexcept;

  // The choices so far, one number a line, then "end": what Schedule::replay reads. A choice is a number modulo how
  // much there is to choose from, so these are the seed's random numbers, and none is kept meanwhile. Throws IoError.
  void save(const std::filesystem::path& file) const;

 private:
  size_t choose(size_t n);  // in [0, n); under the lock

  mutable SpinLock lock_;
  std::vector<OpNode*> ready_;
  const uint64_t seed_;
  std::mt19937_64 random_;
  const bool replays_;
  std::vector<uint32_t> replayed_;
  uint64_t choices_ = 0;  // how many have been made
};

}  // namespace kaon
