// Watch: signs of life between the ranks of a program, by TCP, beside the collectives. A rank whose process ends, stops
// or fails is noticed by its neighbours, who tell all others.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "kaon/comm/backend/backend.h"

namespace kaon::comm {

// What a communicator is doing, for its other ranks: they find calls that differ by it.
struct Progress {
  uint64_t communicator = 0;  // the same number on all its ranks
  uint64_t place = 0;         // of the call that began last
  uint64_t history = 0;       // a hash of all calls up to it
  std::string call;           // "all_reduce (sum) of 6 elements of float32"
};

// A call on GPUs that has been running for long.
struct LongCall {
  uint64_t communicator = 0, place = 0;  // as in Progress, once it had begun
  size_t ranks = 0;                      // of the communicator
  std::string call;
  auto key() const { return std::pair(communicator, place); }
};

// A call that has been waiting for long for other ranks, and sends nothing any more.
struct Waiting {
  uint64_t communicator = 0, place = 0;  // of the call
  uint64_t begun = 0;                    // collectives that this rank has begun there
  int rank = 0, peer = -1;               // of the communicator; peer: -1 where it waits for all
  std::string call;
  // Whether each waits for the other: two that receive, or one that receives from the other, which is in a collective
  // that this one has not begun.
  bool waits_for_each_other(const Waiting& other) const {
    return peer == other.rank && (other.peer == rank || (other.peer < 0 && other.begun > begun));
  }
};

// Thread safety: any thread.
class Watch {
 public:
  struct Callbacks {
    std::function<void(const std::string&)> failed;            // once, with the text of the first failure
    std::function<std::vector<Progress>()> progress;           // of this rank
    std::function<std::string(int, const Progress&)> differs;  // of another rank: why it does not fit; empty if it does
    // Whether a call has been running for long that needs one of these ranks, which have ended their program.
    std::function<bool(const std::set<int>& gone)> waits;
    // Calls on GPUs that have been running for that long here, and whether this rank has begun one of them. Nothing
    // ends where all ranks have: after another such time the communicator has failed.
    std::function<std::vector<LongCall>(std::chrono::steady_clock::duration)> long_calls;
    std::function<bool(uint64_t communicator, uint64_t place)> has_begun;
    std::function<std::vector<Waiting>(std::chrono::steady_clock::duration)> waiting;  // calls of this rank
  };
  // Connects the ranks of `group`. Blocks. Throws CommError.
  Watch(Group& group, const Options& options, Callbacks callbacks);
  ~Watch();  // says goodbye
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;

  // This rank has failed: every rank gets the text.
  void report(const std::string& failure);
  // The same, unless within two signs of life something else is found, such as calls that differ: of those a library's
  // words would be a consequence.
  void report_unless_explained(const std::string& failure);
  // No call of this rank follows. Blocks until every rank has said so, which gives true, or one has failed.
  bool say_goodbye();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace kaon::comm
