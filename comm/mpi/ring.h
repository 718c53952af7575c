// Ring: long sums, their parts, and the ranks' parts together, in pieces that go round the ranks.
#pragma once

#include <mpi.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "kaon/comm/backend/backend.h"
#include "kaon/comm/mpi/message_memory.h"
#include "kaon/engine/block_pool.h"

namespace kaon::comm {

// Memory that one call leaves to the next. One ring at a time.
struct RingMemory {
  explicit RingMemory(bool shares_memory)
      : most_bytes(shares_memory ? 256 << 10 : 60 << 10), window(shares_memory ? 16 : 32) {}

  // Over a network a piece is short enough to be sent without being asked for by TCP, where OpenMPI's limit is 64 KB
  // with its own header; a window of them is as much as a link of 1 Gbit/s carries in 16 ms. Within a machine one rank
  // reads a piece from the other's memory, which costs a few messages each; it is to stay in a core's cache.
  const int64_t most_bytes;
  const size_t window;  // pieces that are under way at a time

  // A piece that is under way. Its steps are counted by hops: hop h brings it from rank owner + 1 + h to the next one.
  struct Piece {
    int owner = 0;
    int64_t begin = 0, bytes = 0;  // within the owner's part
    int hop = 0;                   // that this rank does now
    bool receives = false;
  };

  std::vector<Piece> pieces = std::vector<Piece>(window);
  std::vector<MPI_Request> requests = std::vector<MPI_Request>(window, MPI_REQUEST_NULL);
  std::vector<MPI_Status> statuses = std::vector<MPI_Status>(window);
  std::vector<int> ended = std::vector<int>(window);
  std::vector<int64_t> part_begins, part_bytes;  // by owner
  MessageMemory partial;                         // a piece as it comes, for each place of the window; made at first use
};

// An all_reduce, reduce_scatter or all_gather over ranks. An array is cut into pieces, each of which has an
// owner: it goes round the ranks, each of which adds its own, until its owner has the sum; then round once more. Each
// link carries 2 (ranks - 1) / ranks times the array, in both directions at once. (Patarasuk and Yuan, Bandwidth
// Optimal All-reduce Algorithms for Clusters of Workstations, 2009.) A piece is added while others are on their way, so
// that links are busy although the rank looks after them from time to time only. The order of the additions is the same
// in every run.
class Ring final : public Pending, public engine::Pooled {
 public:
  // `part_elements`: of each rank, for reduce_scatter and all_gather. The call's memory holds all of them, or this
  // rank's, one after another.
  // tag: what is added to those of its messages, 2 to 16,385. lane: of rings that are under way at a time, one each,
  // the same on all ranks; below `lanes`.
  Ring(const Call& call, std::span<const int64_t> part_elements, std::shared_ptr<RingMemory> memory, MPI_Datatype type,
       MPI_Op op, MPI_Comm comm, int rank, int size, int tag, int lane);
  static constexpr int lanes = int(Group::most_together) + 1;
  bool has_ended() override;
  uint64_t progress() const override { return hops_; }
  bool wants_more() const override { return !are_all_begun_; }
  void hold_back(bool is_held) override { is_held_back_ = is_held; }
  bool takes_company() const override { return call_.priority.has_value(); }

 private:
  bool reduces(int hop) const { return hop < size_ - 1; }
  bool next_piece();
  void enter(size_t place);
  void go_on(size_t place);
  void took(size_t place);
  const std::byte* own(const RingMemory::Piece& piece) const;
  std::byte* result(const RingMemory::Piece& piece) const;

  const std::shared_ptr<RingMemory> all_;
  const Call call_;
  const int64_t element_bytes_;
  const MPI_Datatype type_;
  const MPI_Op op_;
  const MPI_Comm comm_;
  const int rank_, size_, first_tag_;
  int first_hop_ = 0, end_hop_ = 0;
  int64_t piece_bytes_ = 0, longest_ = 0;  // of a piece, and of the longest part
  // The next piece to begin: of each owner's part in turn.
  int next_owner_ = -1;
  int64_t next_begin_ = 0;
  uint64_t begun_ = 0, ended_ = 0;  // pieces
  uint64_t hops_ = 0;               // that have ended
  bool are_all_begun_ = false;
  bool is_held_back_ = false;
  bool differs_ = false;  // another rank has called something else, which the watch will find
};

}  // namespace kaon::comm
