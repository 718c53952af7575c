// A message's tag says what its sender computes, so that it is not taken for another one: a rank whose call is not that
// of the others waits, and the watch finds out why. The lower bits tell a call's messages apart.
#pragma once

#include <mpi.h>

#include <algorithm>

#include "kaon/comm/backend/backend.h"

namespace kaon::comm::tags {
constexpr int low_bits = 15, dtypes = 16, reductions = 8, kinds = 16, priorities = 16;
constexpr int priority_bit = low_bits + 11;  // dtypes, reductions and kinds have 11 bits

// MPI promises tags below 32768; OpenMPI and MPICH have more.
inline int largest() {
  static const int found = [] {
    int* tag = nullptr;
    int is_set = 0;
    MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, &tag, &is_set);
    return is_set ? *tag : 0;
  }();
  return found;
}
inline bool has_room() { return largest() >> priority_bit > 0; }
inline int of(const Call& c) {
  static_assert(dtypes * reductions * kinds == 1 << (priority_bit - low_bits));
  if (!has_room()) return 0;
  const bool reduces = c.kind == Kind::all_reduce || c.kind == Kind::reduce_scatter;
  int tag = ((int(c.kind) * reductions + (reduces ? int(c.op) : 0)) * dtypes + int(c.dtype)) << low_bits;
  const int different = std::min(priorities, (largest() >> priority_bit) + 1);  // MPICH has room for 4
  if (c.priority) tag += int(unsigned(*c.priority) % unsigned(different)) << priority_bit;
  return tag;
}
inline Kind kind_of(int tag) { return Kind((tag >> low_bits) / dtypes / reductions % kinds); }
inline DType dtype_of(int tag) { return DType((tag >> low_bits) % dtypes); }
// Of a call's messages; rings add 2 and more to of().
inline int own(const Call& c) { return of(c) + (c.kind == Kind::send ? 0 : 1); }
}  // namespace kaon::comm::tags
