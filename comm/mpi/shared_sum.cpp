#include "kaon/comm/mpi/shared_sum.h"

#include <cstring>
#include <new>
#include <utility>

#include "kaon/comm/mpi/check.h"

namespace kaon::comm {

std::unique_ptr<SharedPlaces> SharedPlaces::make(MPI_Comm comm, int rank, int size, int64_t most_bytes) {
  const int64_t bytes = int64_t(sizeof(Place)) + (most_bytes + 63) / 64 * 64;
  // Pages of its own for each rank.
  MPI_Info info;
  check(MPI_Info_create(&info), "mpi");
  check(MPI_Info_set(info, "alloc_shared_noncontig", "true"), "mpi");
  std::byte* own = nullptr;
  MPI_Win window = MPI_WIN_NULL;  // kept until MPI ends
  int is_there = MPI_Win_allocate_shared(MPI_Aint(2 * bytes), 1, info, comm, &own, &window) == MPI_SUCCESS;
  MPI_Info_free(&info);
  check(MPI_Allreduce(MPI_IN_PLACE, &is_there, 1, MPI_INT, MPI_MIN, comm), "mpi");
  if (!is_there) return nullptr;
  for (int i = 0; i < 2; ++i) new (own + i * bytes) Place{};
  std::vector<std::byte*> memory;
  for (int r = 0; r < size; ++r) {
    MPI_Aint length = 0;
    int unit = 0;
    check(MPI_Win_shared_query(window, r, &length, &unit, &memory.emplace_back()), "mpi");
  }
  check(MPI_Barrier(comm), "mpi");
  return std::unique_ptr<SharedPlaces>(new SharedPlaces(rank, bytes, std::move(memory)));
}

SharedSum::SharedSum(const Call& call, SharedPlaces& places, MPI_Datatype type, MPI_Op op, MPI_Comm comm, int tag)
    : ShortSum(call, type, op, comm, tag),
      places_(places),
      number_(places.begin_call()),
      pairs_(first_pairs(places.size())) {
  SharedPlaces::Place& own = places_.of(places_.rank(), number_);
  own.tag = tag_;
  own.bytes = bytes_;
  if (bytes_ > 0) std::memcpy(own.numbers(), call.in, size_t(bytes_));
  own.call.store(number_, std::memory_order_release);
}

bool SharedSum::has_ended() {
  for (; came_ < places_.size(); ++came_) {
    const SharedPlaces::Place& place = places_.of(came_, number_);
    if (place.call.load(std::memory_order_acquire) != number_) {
      // What this rank has sent before may need MPI to go on with it.
      constexpr unsigned between = 64;
      int is_there = 0;
      if (++looks_ % between == 0)
        check(MPI_Iprobe(MPI_ANY_SOURCE, tag_, comm_, &is_there, MPI_STATUS_IGNORE), "all_reduce");
      return false;
    }
    // A rank that has called something else, which the watch will find.
    if (place.tag != tag_ || place.bytes != bytes_) return false;
  }
  if (bytes_ > 0) add_up(0, places_.size() - pairs_, out_, 0);
  return true;
}

void SharedSum::add_up(int first, int count, std::byte* to, int depth) const {
  const auto rank_of = [&](int value) { return value < pairs_ ? 2 * value : value + pairs_; };
  if (count == 1) {
    const int rank = rank_of(first);
    const bool is_pair = first < pairs_;
    std::memcpy(to, numbers_of(is_pair ? rank + 1 : rank), size_t(bytes_));
    if (is_pair) add(numbers_of(rank), to);
    return;
  }
  const int half = count / 2;
  add_up(first + half, half, to, depth);
  if (half == 1 && first >= pairs_) return add(numbers_of(rank_of(first)), to);
  std::byte* const before = places_.partial(depth);
  add_up(first, half, before, depth + 1);
  add(before, to);
}

}  // namespace kaon::comm
