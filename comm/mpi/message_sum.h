// MessageSum: sums of few numbers, in as few messages as there can be.
#pragma once

#include <mpi.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "kaon/comm/backend/backend.h"
#include "kaon/comm/mpi/check.h"
#include "kaon/comm/mpi/message_memory.h"
#include "kaon/comm/mpi/short_sum.h"

namespace kaon::comm {

// What a rank does for a short all_reduce, by recursive doubling: in each step the ranks whose numbers differ in one
// bit exchange what they have so far. Ranks beyond the last power of two give theirs to a neighbour first and get the
// result from it in the end. (Thakur, Rabenseifner and Gropp, Optimization of Collective Communication Operations in
// MPICH, 2005.) MPI_Iallreduce would do, but OpenMPI 4 makes progress with it at every eighth look only, and where
// ranks share a core each look may take a turn of the scheduler's.
struct MessageSteps {
  static constexpr int64_t most_bytes = 64 << 10;  // times the number of steps
  enum class Kind : uint8_t { exchange, give, add, get };
  struct Step {
    int peer;
    Kind kind;
  };

  MessageSteps(int rank, int size) {
    const int rest = ShortSum::first_pairs(size), own = rank < 2 * rest ? rank / 2 : rank - rest;
    const bool is_paired = rank < 2 * rest;
    if (is_paired && rank % 2 == 0) {
      steps = {{rank + 1, Kind::give}, {rank + 1, Kind::get}};
    } else {
      if (is_paired) steps.push_back({rank - 1, Kind::add});
      for (int bit = 1; bit < size - rest; bit *= 2) {
        const int peer = own ^ bit;
        steps.push_back({peer < rest ? 2 * peer + 1 : peer + rest, Kind::exchange});
      }
      if (is_paired) steps.push_back({rank - 1, Kind::give});
    }
    longest = most_bytes / std::max(1, int(std::bit_width(unsigned(size) - 1)));
  }

  std::vector<Step> steps;
  int64_t longest;                  // the bytes of an array that is short
  MessageMemory other{most_bytes};  // another rank's part
};

class MessageSum final : public ShortSum {
 public:
  MessageSum(const Call& call, std::shared_ptr<MessageSteps> all, MPI_Datatype type, MPI_Op op, MPI_Comm comm, int rank,
             int tag)
      : ShortSum(call, type, op, comm, tag), all_(std::move(all)), rank_(rank) {
    if (call.in != call.out && bytes_ > 0) std::memcpy(out_, call.in, size_t(bytes_));
  }
  bool has_ended() override {
    for (; at_ < all_->steps.size(); ++at_, has_begun_ = false) {
      const auto [peer, kind] = all_->steps[at_];
      if (!has_begun_) begin(peer, kind);
      int done = 0;
      MPI_Status states[2];
      check(MPI_Testall(2, requests_, &done, states), "all_reduce");
      if (!done) return false;
      if (kind == Kind::give) continue;
      // A rank that has sent another number of bytes has called something else, which the watch will find.
      if (!is_counted_) MPI_Get_count(&states[0], MPI_BYTE, &got_), is_counted_ = true;
      if (got_ != bytes_) return false;
      if (kind == Kind::get) {
        copy_other();
      } else {
        reduce(peer);
      }
    }
    return true;
  }

 private:
  using Kind = MessageSteps::Kind;

  void begin(int peer, Kind kind) {
    requests_[0] = requests_[1] = MPI_REQUEST_NULL;
    is_counted_ = false;
    has_begun_ = true;
    if (kind != Kind::give) {
      check(MPI_Irecv(all_->other.data(), int(MessageSteps::most_bytes), MPI_BYTE, peer, tag_, comm_, &requests_[0]),
            "all_reduce");
    }
    if (kind == Kind::give || kind == Kind::exchange) {
      check(MPI_Isend(out_, bytes_, MPI_BYTE, peer, tag_, comm_, &requests_[1]), "all_reduce");
    }
  }
  void copy_other() {
    if (bytes_ > 0) std::memcpy(out_, all_->other.data(), size_t(bytes_));
  }
  // The lower rank's first: the same bits on both sides, also of NaN.
  void reduce(int peer) {
    std::byte *first = out_, *second = all_->other.data();
    if (peer < rank_) std::swap(first, second);
    add(first, second);
    if (second != out_) copy_other();
  }

  const std::shared_ptr<MessageSteps> all_;
  const int rank_;
  size_t at_ = 0;
  bool has_begun_ = false;
  int got_ = 0, is_counted_ = false;
  MPI_Request requests_[2] = {MPI_REQUEST_NULL, MPI_REQUEST_NULL};
};

}  // namespace kaon::comm
