// Communicator: the processes of a parallel program, its ranks, and what they compute together on arrays.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <source_location>
#include <span>
#include <string>

#include "kaon/engine/api.h"
#include "kaon/engine/error.h"
#include "kaon/ops/ndarray.h"

namespace KAON_API kaon {

// A collective that cannot end: another rank has died, has given no sign of life, has failed itself, or called another
// collective. what() names rank and collective. It fails all collectives that were under way, which is one event: waits
// for what several of them were to give throw the first.
class CommError : public Error, public OneEvent {
 public:
  using Error::Error;
  std::exception_ptr with_context(const std::string& text) const override {
    return std::make_exception_ptr(CommError(what() + text));
  }
};

namespace comm {

class Driver;

enum class Reduce : uint8_t { sum, mean, min, max, prod };

struct Options {
  // For how long a rank may give no sign of life. A rank gives them while it computes, loads or waits: a thread of its
  // own sends them. A rank whose process ends is noticed at once.
  std::chrono::milliseconds timeout{30000};
};

// A handle: a copy is the same communicator. Each function pushes an operation to the engine and returns at once; what
// it gives is an array to compute with, to wait for or to await:
//
//     NDArray sum = co_await world.all_reduce(gradient);
//
// All ranks must call the same functions on arrays of the same shapes and dtypes in one order, which is the order of
// the calls; a thread of the communicator runs them one after another, when their arrays are ready; those of
// all_reduce_by_priority() may run beside each other. Where one rank fails, dies or calls something else, the waits of
// all of them throw CommError within Options::timeout, and so does every later call; the engine and other arrays stay
// usable.
// Arrays are on the CPU, from where they go by MPI, or on this rank's GPU, device(), and go by NCCL from GPU to GPU; on
// every rank alike. The first call with arrays on GPUs opens NCCL. Throws DeviceError for an array elsewhere, CommError
// where there is no NCCL, TypeError for dtypes that an operation does not take, ShapeError,
// ValueError for ranks that do not exist, StateError for a default-constructed handle, and where a call would write to
// an array that is part of a recorded computation. Autograd does not record calls: what they give counts as a constant.
// Thread safety: one thread, since the order of the calls matters; waiting: any thread.
class Communicator {
 public:
  Communicator() = default;
  explicit Communicator(std::shared_ptr<Driver> driver) : driver_(std::move(driver)) {}

  bool defined() const { return bool(driver_); }
  int rank() const;        // of this process: 0 .. size() - 1
  int size() const;        // the number of ranks
  int local_rank() const;  // among the ranks of this machine
  int local_size() const;
  // The GPU of this rank: the only one that it sees, or the one with the number local_rank() has among all ranks.
  // Throws DeviceError where there is none.
  Device device() const;

  // The sum, or another reduction, of x over the ranks, element by element, on each of them. Halves are added in
  // float32 and rounded once per addition. `mean` is for floating dtypes; bool takes min and max; on
  // GPUs int16 and uint16 are refused, here and in reduce_scatter(). Same ranks: the same
  // bits in every run, and on every rank.
  NDArray all_reduce(const NDArray& x, Reduce op = Reduce::sum,
                     std::source_location site = std::source_location::current()) const;
  // The same, written to x itself.
  void all_reduce_in_place(const NDArray& x, Reduce op = Reduce::sum,
                           std::source_location site = std::source_location::current()) const;
  // The same for several sums at once: one may begin before those called earlier have ended, and those of a higher
  // priority are sent first, as far as they are ready on all ranks. All ranks give the same priorities. Any other call
  // still waits for all sums called before it. The same bits as all_reduce_in_place(). On GPUs they follow each other.
  void all_reduce_by_priority(const NDArray& x, int priority, Reduce op = Reduce::sum,
                              std::source_location site = std::source_location::current()) const;
  // The reduction's rows that belong to this rank: of (size * n, ...) those from rank * n, as (n, ...). Throws
  // ShapeError unless the rows divide by size().
  NDArray reduce_scatter(const NDArray& x, Reduce op = Reduce::sum,
                         std::source_location site = std::source_location::current()) const;
  // The same where rank r gets rows[r] of the rows. Throws ValueError for another number of ranks than there are, and a
  // negative number, ShapeError where they are not all rows.
  NDArray reduce_scatter(const NDArray& x, std::span<const int64_t> rows, Reduce op = Reduce::sum,
                         std::source_location site = std::source_location::current()) const;
  // The ranks' rows one after another: (n, ...) becomes (size * n, ...).
  NDArray all_gather(const NDArray& x, std::source_location site = std::source_location::current()) const;
  // The same where rank r gives rows[r] rows. Throws as reduce_scatter() does.
  NDArray all_gather(const NDArray& x, std::span<const int64_t> rows,
                     std::source_location site = std::source_location::current()) const;
  // Writes the root's values to x on every rank.
  void broadcast(const NDArray& x, int root = 0, std::source_location site = std::source_location::current()) const;
  // From one rank to another, in the order of the calls. A send does not wait for its recv. Arrays of GPUs go through
  // the host; what is received is put on `device`, wherever it was before.
  void send(const NDArray& x, int to, std::source_location site = std::source_location::current()) const;
  NDArray recv(const Shape& shape, DType dtype, int from, Device device = cpu(),
               std::source_location site = std::source_location::current()) const;
  // What `other` gives for x, of the same shape and dtype: both call it. A copy where `other` is this rank.
  NDArray exchange(const NDArray& x, int other, std::source_location site = std::source_location::current()) const;
  // An array that is ready once every rank has come here: for a wait, or co_await.
  NDArray barrier(std::source_location site = std::source_location::current()) const;

  // A communicator of the ranks that gave the same color, in the order of key, then rank; undefined where the color is
  // negative. All ranks call it. Blocks.
  Communicator split(int color, int key = 0, std::source_location site = std::source_location::current()) const;

  // Why the communicator cannot be used any more; empty while it can.
  std::string failure() const;

 private:
  Driver& driver() const;
  std::shared_ptr<Driver> driver_;
};

// All ranks that MPI has started (mpirun, srun, kaon-launch); one rank without them. The library of MPI is opened at
// the first call, which all ranks make; later calls give the same communicator. Blocks. Throws CommError where there is
// no libkaon_mpi.so, or MPI cannot begin; ValueError for a timeout below a tenth of a second.
KAON_API Communicator mpi(const Options& options = {});
// The same communicator, in a program that is to compute on GPUs: throws where this rank has none (DeviceError), or
// where libkaon_nccl.so or NCCL is missing (CommError), and not only at the first call with such an array.
KAON_API Communicator nccl(const Options& options = {});

}  // namespace comm
}  // namespace kaon
