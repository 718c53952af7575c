// What libraries of collectives do for Kaon: MPI for arrays of the host, NCCL for those of GPUs. Each is behind a
// library of Kaon's that is opened on demand.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "kaon/comm/communicator.h"
#include "kaon/engine/block_pool.h"

namespace kaon::comm {

enum class Kind : uint8_t { all_reduce, reduce_scatter, all_gather, broadcast, exchange, send, recv, barrier, split };
constexpr const char* name_of(Kind kind) {
  constexpr std::array<const char*, 9> names{"all_reduce", "reduce_scatter", "all_gather", "broadcast", "exchange",
                                             "send",       "recv",           "barrier",    "split"};
  return names[size_t(kind)];
}

// One call of the communicator. `count` elements: of all_reduce, broadcast and exchange of each array, of
// reduce_scatter of the result, of all_gather of what a rank gives.
struct Call {
  Kind kind = Kind::barrier;
  Reduce op = Reduce::sum;
  DType dtype = DType::float32;
  bool on_gpus = false;           // where the arrays are, on every rank
  std::optional<int> priority{};  // set: it may be under way beside others that have one
  int peer = 0;                   // root, or the other rank
  int64_t count = 0;
  const void* in = nullptr;  // equal to `out`: in place
  void* out = nullptr;
  // Of reduce_scatter and all_gather whose ranks have different parts: the elements of each rank. `count`: of all.
  std::shared_ptr<const engine::PooledVector<int64_t>> counts{};
};

// A call that is under way. Destroyed without an end, it keeps its memory for ever. Thread safety: as Group's.
class Pending {
 public:
  virtual ~Pending() = default;
  // Does what can be done at once, and says whether the call has ended. Throws CommError.
  virtual bool has_ended() = 0;
  // A number that has changed when something has been done since the last look.
  virtual uint64_t progress() const { return 0; }
  // Of calls that are under way together: whether parts of it wait to be begun, and whether they may be. Parts that are
  // under way go on.
  virtual bool wants_more() const { return false; }
  virtual void hold_back(bool) {}
  // Whether another call may begin before this one has ended.
  virtual bool takes_company() const { return false; }
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
  // Whether the ranks meet in the memory of one machine. Else the library may keep the thread that calls it, and a
  // connection that breaks raises SIGPIPE there.
  virtual bool shares_memory() const = 0;
  // Begins a call, of any kind but split. One at a time, apart from sends, and from calls with a priority: of these as
  // many as `most_together` in a row may be under way beside each other. Does not block.
  static constexpr uint64_t most_together = 16;
  virtual std::unique_ptr<Pending> begin(const Call& call) = 0;
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

// The GPUs of a communicator's ranks, one each. Thread safety: one thread at a time; failure() and abort() any thread.
class GpuGroup {
 public:
  virtual ~GpuGroup() = default;  // what has been launched has run, or abort() has been called
  // Launches the call, whose arrays are memory of the GPU and not empty, on the stream, a cudaStream_t; the GPU is
  // current for this thread. Throws CommError, also when abort() is called meanwhile.
  virtual void launch(const Call& call, void* stream) = 0;
  // What has gone wrong with launched calls; empty: nothing yet.
  virtual std::string failure() = 0;
  // Ends calls that are under way, whose arrays then hold anything. Blocks until the GPU has left them.
  virtual void abort() noexcept = 0;
};

class GpuBackend {
 public:
  virtual ~GpuBackend() = default;
  // Text that names a new group, for one of its ranks to give to all.
  virtual std::string make_id() = 0;
  // All ranks of the group call it, each with its GPU current. Blocks. Throws CommError, also when is_over() says so.
  virtual std::unique_ptr<GpuGroup> join(const std::string& id, int rank, int size,
                                         const std::function<bool()>& is_over) = 0;
};

// Opens libkaon_mpi.so, or the file that KAON_MPI_LIBRARY names. Throws CommError.
Backend& mpi_backend();
// Opens libkaon_nccl.so, which opens libnccl.so.2 or the file that KAON_NCCL_LIBRARY names. Throws CommError.
GpuBackend& nccl_backend();

}  // namespace kaon::comm
