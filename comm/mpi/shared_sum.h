// SharedSum: sums of few numbers by the ranks of one machine, through memory that all of them read.
#pragma once

#include <mpi.h>

#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "kaon/comm/backend/backend.h"
#include "kaon/comm/mpi/message_memory.h"
#include "kaon/comm/mpi/short_sum.h"

namespace kaon::comm {

// Memory of MPI's that the ranks of a communicator share: two places for each rank, which that rank alone writes. Calls
// use them in turns. A place may be written again two calls later: the call in between has ended, so that every rank
// had begun it, and had left the one before.
class SharedPlaces {
 public:
  // What a rank gives to a call. Its numbers follow.
  struct alignas(64) Place {
    std::atomic<uint64_t> call;  // its number, from 1; written last
    int tag, bytes;              // what the rank has called

    std::byte* numbers() { return reinterpret_cast<std::byte*>(this + 1); }
  };
  static_assert(std::atomic<uint64_t>::is_always_lock_free);

  // Every rank of the communicator calls it; all are on one machine. Blocks. Null, on every rank, where MPI has no such
  // memory for one of them.
  static std::unique_ptr<SharedPlaces> make(MPI_Comm comm, int rank, int size, int64_t most_bytes);

  Place& of(int rank, uint64_t call) const {
    return *reinterpret_cast<Place*>(memory_[size_t(rank)] + int64_t(call % 2) * bytes_);
  }
  int rank() const { return rank_; }
  int size() const { return int(memory_.size()); }
  uint64_t begin_call() { return ++calls_; }
  // Memory for as many numbers as a place has, of this rank alone. depth: 0 to log2(size).
  std::byte* partial(int depth) const { return partials_.data() + size_t(depth) * size_t(bytes_); }

 private:
  SharedPlaces(int rank, int64_t bytes, std::vector<std::byte*> memory)
      : rank_(rank),
        bytes_(bytes),
        memory_(std::move(memory)),
        partials_(std::bit_width(memory_.size()) * size_t(bytes)) {}

  const int rank_;
  const int64_t bytes_;                   // of a place
  const std::vector<std::byte*> memory_;  // by rank
  const MessageMemory partials_;
  uint64_t calls_ = 0;
};

// Each rank writes what it has, and adds up what all have written. A look costs a cache line of each rank, where a
// message costs a look into every way by which MPI receives.
class SharedSum final : public ShortSum {
 public:
  SharedSum(const Call& call, SharedPlaces& places, MPI_Datatype type, MPI_Op op, MPI_Comm comm, int tag);
  bool has_ended() override;

 private:
  // The sum of what some ranks have written, to `to`: those of `count` values from the first one, of which the first
  // `pairs_` are those of two ranks each.
  void add_up(int first, int count, std::byte* to, int depth) const;
  const std::byte* numbers_of(int rank) const { return places_.of(rank, number_).numbers(); }

  SharedPlaces& places_;
  const uint64_t number_;
  const int pairs_;
  int came_ = 0;  // the ranks before this one have written
  unsigned looks_ = 0;
};

}  // namespace kaon::comm
