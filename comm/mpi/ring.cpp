#include "kaon/comm/mpi/ring.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "kaon/comm/mpi/check.h"

namespace kaon::comm {

namespace {
// Other messages have 0 and 1. A lane has an even number, and more than pieces under way.
constexpr int first_tag = 2, num_tags = (1 << 14) / Ring::lanes / 2 * 2;
constexpr int64_t alignment = 64;

const char* name(const Call& call) {
  return call.kind == Kind::all_reduce ? "all_reduce" : call.kind == Kind::all_gather ? "all_gather" : "reduce_scatter";
}
int64_t round_up(int64_t n, int64_t unit) { return (n + unit - 1) / unit * unit; }
}  // namespace

Ring::Ring(const Call& call, std::span<const int64_t> part_elements, std::shared_ptr<RingMemory> memory,
           MPI_Datatype type, MPI_Op op, MPI_Comm comm, int rank, int size, int tag, int lane)
    : all_(std::move(memory)),
      call_(call),
      element_bytes_(int64_t(size_of(call.dtype))),
      type_(type),
      op_(op),
      comm_(comm),
      rank_(rank),
      size_(size),
      first_tag_(tag + first_tag + lane * num_tags),
      first_hop_(call.kind == Kind::all_gather ? size - 1 : 0),
      end_hop_(call.kind == Kind::reduce_scatter ? size - 1 : 2 * (size - 1)) {
  RingMemory& m = *all_;
  if (!m.partial && size > 1) m.partial = MessageMemory(m.window * size_t(m.most_bytes));
  m.part_begins.resize(size_t(size));
  m.part_bytes.resize(size_t(size));
  int64_t begin = 0;
  for (int r = 0; r < size; ++r) {
    int64_t bytes = 0;
    if (call.kind == Kind::all_reduce) {
      // Parts whose lengths are multiples of the alignment, but for the last ones.
      const int64_t all = call.count * element_bytes_;
      bytes = std::min(round_up((all + size - 1) / size, alignment), all - begin);
    } else {
      bytes = part_elements[size_t(r)] * element_bytes_;
    }
    m.part_begins[size_t(r)] = begin;
    m.part_bytes[size_t(r)] = bytes;
    begin += bytes;
    longest_ = std::max(longest_, bytes);
  }
  const int64_t pieces = std::max<int64_t>(1, (longest_ + m.most_bytes - 1) / m.most_bytes);
  piece_bytes_ = std::max(alignment, round_up((longest_ + pieces - 1) / pieces, alignment));
  if (size == 1) {
    if (call.in != call.out && longest_ > 0) std::memcpy(call.out, call.in, size_t(longest_));
    are_all_begun_ = true;
    return;
  }
  // What this rank gives to an all_gather is part of the result.
  if (call.kind == Kind::all_gather && m.part_bytes[size_t(rank)] > 0) {
    std::memcpy(static_cast<std::byte*>(call.out) + m.part_begins[size_t(rank)], call.in,
                size_t(m.part_bytes[size_t(rank)]));
  }
}

// This rank's own values of the piece.
const std::byte* Ring::own(const RingMemory::Piece& piece) const {
  return static_cast<const std::byte*>(call_.in) + all_->part_begins[size_t(piece.owner)] + piece.begin;
}

// Where the piece's result belongs, if this rank gets it.
std::byte* Ring::result(const RingMemory::Piece& piece) const {
  const int64_t part = call_.kind == Kind::reduce_scatter ? 0 : all_->part_begins[size_t(piece.owner)];
  return static_cast<std::byte*>(call_.out) + part + piece.begin;
}

// Sets owner and begin of the next piece. False: there is none.
bool Ring::next_piece() {
  for (;;) {
    if (++next_owner_ == size_) {
      next_owner_ = 0;
      next_begin_ += piece_bytes_;
      if (next_begin_ >= longest_) return false;
    }
    if (next_begin_ < all_->part_bytes[size_t(next_owner_)]) return true;
  }
}

// Begins what this rank does with the piece first.
void Ring::enter(size_t place) {
  RingMemory::Piece& piece = all_->pieces[place];
  piece.owner = next_owner_;
  piece.begin = next_begin_;
  piece.bytes = std::min(piece_bytes_, all_->part_bytes[size_t(next_owner_)] - next_begin_);
  // Hop h leaves rank owner + 1 + h.
  const auto hops_until = [&](int from) { return ((from % size_) + size_) % size_; };
  const int to_send = hops_until(rank_ - piece.owner - 1 - first_hop_);
  const int to_receive = hops_until(rank_ - piece.owner - 2 - first_hop_);
  piece.receives = to_receive < to_send;
  piece.hop = first_hop_ + std::min(to_send, to_receive);
  go_on(place);
}

// Begins the hop, if there is one.
void Ring::go_on(size_t place) {
  const RingMemory::Piece& piece = all_->pieces[place];
  if (piece.hop >= end_hop_) return;
  const bool is_partial = reduces(piece.hop);
  const uint64_t window = all_->window;
  const uint64_t number = ended_ + (place + window - ended_ % window) % window;
  const int tag = first_tag_ + int((2 * number + !is_partial) % num_tags);
  std::byte* const partial = all_->partial.data() + place * size_t(all_->most_bytes);
  if (piece.receives) {
    check(MPI_Irecv(is_partial ? partial : result(piece), int(piece.bytes), MPI_BYTE, (rank_ + size_ - 1) % size_, tag,
                    comm_, &all_->requests[place]),
          name(call_));
    return;
  }
  const std::byte* const sent = !is_partial ? result(piece) : piece.hop == first_hop_ ? own(piece) : partial;
  check(MPI_Isend(sent, int(piece.bytes), MPI_BYTE, (rank_ + 1) % size_, tag, comm_, &all_->requests[place]),
        name(call_));
}

// A hop of the piece has ended: adds what has come, and begins the next one.
void Ring::took(size_t place) {
  ++hops_;
  RingMemory::Piece& piece = all_->pieces[place];
  if (!piece.receives) {
    piece.hop += size_ - 1;  // when it has come round
    piece.receives = true;
    return go_on(place);
  }
  if (reduces(piece.hop)) {
    std::byte* const partial = all_->partial.data() + place * size_t(all_->most_bytes);
    // The sum is to be where the next hop looks for it: the result's place once it is whole.
    const bool is_whole = !reduces(piece.hop + 1);
    const int count = int(piece.bytes / element_bytes_);
    if (is_whole && own(piece) == result(piece)) {
      check(MPI_Reduce_local(partial, result(piece), count, type_, op_), name(call_));
    } else {
      check(MPI_Reduce_local(own(piece), partial, count, type_, op_), name(call_));
      if (is_whole) std::memcpy(result(piece), partial, size_t(piece.bytes));
    }
  }
  ++piece.hop;
  piece.receives = false;
  go_on(place);
}

bool Ring::has_ended() {
  RingMemory& m = *all_;
  while (!differs_) {
    for (; ended_ < begun_; ++ended_) {
      const RingMemory::Piece& piece = m.pieces[ended_ % m.window];
      if (piece.hop < end_hop_) break;
    }
    while (!are_all_begun_ && !is_held_back_ && begun_ < ended_ + m.window) {
      are_all_begun_ = !next_piece();
      if (!are_all_begun_) enter(begun_++ % m.window);
    }
    if (are_all_begun_ && ended_ == begun_) return true;
    int done = 0;
    const int code = MPI_Testsome(int(m.window), m.requests.data(), &done, m.ended.data(), m.statuses.data());
    if (code != MPI_SUCCESS && code != MPI_ERR_IN_STATUS) check(code, name(call_));
    if (done <= 0) return false;
    for (int i = 0; i < done; ++i) {
      const size_t place = size_t(m.ended[size_t(i)]);
      const MPI_Status& status = m.statuses[size_t(i)];
      const RingMemory::Piece& piece = m.pieces[place];
      int got = int(piece.bytes);
      if (code == MPI_ERR_IN_STATUS && status.MPI_ERROR != MPI_SUCCESS) {
        int kind = 0;
        MPI_Error_class(status.MPI_ERROR, &kind);
        if (kind != MPI_ERR_TRUNCATE) check(status.MPI_ERROR, name(call_));
        differs_ = true;
      } else if (piece.receives) {
        MPI_Get_count(&status, MPI_BYTE, &got);
      }
      if (differs_ || got != piece.bytes) return differs_ = true, false;
      took(place);
    }
  }
  return false;
}

}  // namespace kaon::comm
