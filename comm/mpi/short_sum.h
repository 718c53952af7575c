// ShortSum: what sums of few numbers have in common, whichever way the numbers go.
#pragma once

#include <mpi.h>

#include <bit>
#include <cstddef>

#include "kaon/comm/backend/backend.h"
#include "kaon/comm/mpi/check.h"
#include "kaon/engine/block_pool.h"

namespace kaon::comm {

// Every way adds up by one tree, so that the bits do not depend on it: ranks beyond the last power of two are added to
// a neighbour first, then pairs, pairs of pairs, and so on, the lower ranks' numbers in front.
class ShortSum : public Pending, public engine::Pooled {
 public:
  // Of so many ranks these pairs, which are the first ranks, are added before the others.
  static int first_pairs(int size) { return size - int(std::bit_floor(unsigned(size))); }

 protected:
  ShortSum(const Call& call, MPI_Datatype type, MPI_Op op, MPI_Comm comm, int tag)
      : out_(static_cast<std::byte*>(call.out)),
        count_(int(call.count)),
        bytes_(int(call.count * int64_t(size_of(call.dtype)))),
        tag_(tag),
        comm_(comm),
        type_(type),
        op_(op) {}
  // to = in_front + to
  void add(const std::byte* in_front, std::byte* to) const {
    check(MPI_Reduce_local(in_front, to, count_, type_, op_), "all_reduce");
  }

  std::byte* const out_;
  const int count_, bytes_, tag_;
  const MPI_Comm comm_;

 private:
  const MPI_Datatype type_;
  const MPI_Op op_;
};

}  // namespace kaon::comm
