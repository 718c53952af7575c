// What a library of collectives does for Kaon. The one for MPI implements it and is opened on demand.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "kaon/comm/communicator.h"

namespace kaon::comm {

enum class Kind : uint8_t { all_reduce, reduce_scatter, all_gather, broadcast, send, recv, barrier, split };

// One call of the communicator. `count` elements: of all_reduce and broadcast of each array, of reduce_scatter of the
// result, of all_gather of what a rank gives.
struct Call {
  Kind kind = Kind::barrier;
  Reduce op = Reduce::sum;
  DType dtype = DType::float32;
  int peer = 0;  // root, or the other rank
  int64_t count = 0;
  const void* in = nullptr;  // equal to `out`: in place
  void* out = nullptr;
  // Of reduce_scatter and all_gather whose ranks have different parts: the elements of each rank. `count`: of all.
  std::shared_ptr<const std::vector<int64_t>> counts{};
};

// A call that is under way. Destroyed without an end, it keeps its memory for ever. Thread safety: as Group's.
class Pending {
 public:
  virtual ~Pending() = default;
  // Does what can be done at once, and says whether the call has ended. Throws CommError.
  virtual bool has_ended() = 0;
};

// The ranks of one communicator. Thread safety: one thread at a time. Every function throws CommError with the
// library's text.
class Group {
 public:
  virtual ~Group() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;
  virtual int local_rank() const = 0;
  virtual int local_size() const = 0;
  // Begins a call that needs no thread: a send, and what is so short that a thread would take longer. Null for others.
  virtual std::unique_ptr<Pending> begin(const Call& call) = 0;
  // Runs one of these others. Blocks until it has ended here.
  virtual void run(const Call& call) = 0;
  // Blocks. Null where color is negative.
  virtual std::unique_ptr<Group> split(int color, int key) = 0;
  // Each rank's text, by rank. Blocks.
  virtual std::vector<std::string> exchange(const std::string& text) = 0;
};

class Backend {
 public:
  virtual ~Backend() = default;
  virtual std::unique_ptr<Group> world() = 0;
  // At the end of the process, when every rank has said goodbye. Blocks.
  virtual void finalize() noexcept = 0;
};

// Opens libkaon_mpi.so, or the file that KAON_MPI_LIBRARY names. Throws CommError.
Backend& mpi_backend();

}  // namespace kaon::comm
