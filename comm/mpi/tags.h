// A message's tag says what its sender computes, so that it is not taken for another one: a rank whose call is not that
// of the others waits, and the watch finds out why. The lower bits tell a call's messages apart.
#pragma once

#include <mpi.h>

#include "kaon/comm/backend/backend.h"

namespace kaon::comm::tags {
constexpr int low_bits = 15, dtypes = 16, reductions = 8,
              most = (int(Kind::split) + 1) * reductions * dtypes << low_bits;

// MPI promises tags below 32768; OpenMPI and MPICH have more.
inline bool has_room() {
  static const bool has = [] {
    int* largest = nullptr;
    int is_set = 0;
    MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, &largest, &is_set);
    return is_set && *largest >= most;
  }();
  return has;
}
inline int of(const Call& c) {
  const bool reduces = c.kind == Kind::all_reduce || c.kind == Kind::reduce_scatter;
  return has_room() ? ((int(c.kind) * reductions + (reduces ? int(c.op) : 0)) * dtypes + int(c.dtype)) << low_bits : 0;
}
inline Kind kind_of(int tag) { return Kind((tag >> low_bits) / dtypes / reductions); }
inline DType dtype_of(int tag) { return DType((tag >> low_bits) % dtypes); }
// Of a call's one message; rings add more than 1.
inline int own(const Call& c) { return of(c) + (c.kind == Kind::send ? 0 : 1); }
// What the peer's message has that belongs to this recv or exchange.
inline int of_peer(const Call& c) {
  Call theirs = c;
  if (c.kind == Kind::recv) theirs.kind = Kind::send;
  return own(theirs);
}
}  // namespace kaon::comm::tags
