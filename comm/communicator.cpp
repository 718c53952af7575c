#include "kaon/comm/communicator.h"

#include <fmt/format.h>

#include <cstdlib>
#include <future>
#include <memory>
#include <mutex>
#include <numeric>
#include <thread>
#include <utility>
#include <vector>

#include "kaon/comm/backend/backend.h"
#include "kaon/comm/driver/driver.h"
#include "kaon/engine/base/process_wide.h"
#include "kaon/engine/block_pool.h"
#include "kaon/ops/functions.h"
#include "kaon/ops/operator/copy_to.h"

namespace kaon::comm {

using engine::PoolAllocator;
using engine::PooledVector;

namespace {
// The communicator of all ranks lives as long as the process: at its end the engine finishes first.
struct Process {
  std::mutex mutex;
  std::shared_ptr<World> world;
  std::shared_ptr<Driver> driver;
  bool ends_before_gpus = false;
};
Process& process() {
  static constinit engine::MadeOnce<Process> made;
  return made.get([] { return new Process; });
}

void end_process() {
  Process& p = process();
  std::lock_guard lock(p.mutex);
  if (!p.driver) return;
  p.driver->drain();
  const bool is_whole = p.world->end();
  p.driver.reset();
  if (!is_whole) return;
  // MPI waits for the other ranks once more. One that dies or stops in this moment must not keep this one.
  auto done = std::make_shared<std::promise<void>>();
  const auto end = done->get_future();
  std::thread([done] {
    mpi_backend().finalize();
    done->set_value();
  }).detach();
  end.wait_for(p.world->options.timeout);
}

// What is registered last is called first: collectives have ended before CUDA does.
void end_before_gpus() {
  Process& p = process();
  std::lock_guard lock(p.mutex);
  if (!std::exchange(p.ends_before_gpus, true)) std::atexit(end_process);
}

// Whether the array is on this rank's GPU.
bool check_array(const char* name, const NDArray& x, const Driver& d) {
  if (x.device().type == DeviceType::cpu) return false;
  if (const Device own = d.world().device(); x.device() != own) {
    throw DeviceError(fmt::format("[{}] expected an array on the CPU or on {}, the GPU of this rank, got one on {}",
                                  name, own.str(), x.device().str()));
  }
  if (d.size() > 1) {
    nccl_backend();
    end_before_gpus();
  }
  return true;
}
void check_dtype(const char* name, DType dtype, Reduce op, bool on_gpus) {
  if (op == Reduce::mean && !is_floating(dtype)) {
    throw TypeError(fmt::format("[{}] a mean needs a floating dtype, got {}", name, name_of(dtype)));
  }
  if (dtype == DType::boolean && op != Reduce::min && op != Reduce::max) {
    throw TypeError(fmt::format("[{}] bool takes min and max, not sum, mean or prod", name));
  }
  if (on_gpus && (dtype == DType::int16 || dtype == DType::uint16)) {
    throw TypeError(fmt::format("[{}] NCCL has no arithmetic on {}: copy the array to the CPU", name, name_of(dtype)));
  }
}
// Before a call that writes to x.
void check_writable(const char* name, const NDArray& x) {
  const auto& annotation = x.node().annotation;
  if (engine::thread_context().recording && annotation && annotation->is_recorded()) {
    throw StateError(
        fmt::format("[{}] writing in place to an array that is part of a recorded computation; call it "
                    "outside of autograd::record, or give x.detach().copy()",
                    name));
  }
}
// Between GPUs where the arrays are there. A rank alone copies.
void push(Driver& d, Call call, const NDArray& in, const NDArray& out, const OpLabel& label) {
  call.on_gpus = out.device().type == DeviceType::gpu;
  if (!call.on_gpus || d.size() > 1) return d.push(call, in, out, label);
  if (in.ptr() != out.ptr()) ops::push_copy_between(in.node(), out.node(), label);
}
// Divides by the number of ranks.
NDArray mean_of(const NDArray& sum, Reduce op, int size, const std::source_location& site) {
  if (op != Reduce::mean) return sum;
  return NDArray::binary(ops::BinaryKind::mul, Arg<NDArray>(sum, site), Arg<NDArray>(1.0 / size, site));
}

}  // namespace

Driver& Communicator::driver() const {
  if (!driver_) throw StateError("[communicator] there is none: comm::mpi() makes one");
  return *driver_;
}

int Communicator::rank() const { return driver().rank(); }
int Communicator::size() const { return driver().size(); }
int Communicator::local_rank() const { return driver().local_rank(); }
int Communicator::local_size() const { return driver().local_size(); }
Device Communicator::device() const { return driver().world().device(); }
std::string Communicator::failure() const { return driver().world().failure(); }

NDArray Communicator::all_reduce(const NDArray& x, Reduce op, std::source_location site) const {
  Driver& d = driver();
  check_dtype("all_reduce", x.dtype(), op, check_array("all_reduce", x, d));
  const NDArray out = NDArray::empty(x.shape(), x.dtype(), x.device());
  push(d, {.kind = Kind::all_reduce, .op = op, .dtype = x.dtype(), .count = x.size()}, x, out, {"all_reduce", site});
  return mean_of(out, op, d.size(), site);
}

void Communicator::all_reduce_in_place(const NDArray& x, Reduce op, std::source_location site) const {
  Driver& d = driver();
  check_writable("all_reduce", x);
  check_dtype("all_reduce", x.dtype(), op, check_array("all_reduce", x, d));
  push(d, {.kind = Kind::all_reduce, .op = op, .dtype = x.dtype(), .count = x.size()}, x, x, {"all_reduce", site});
  if (op == Reduce::mean) NDArray(x) *= 1.0 / d.size();
}

void Communicator::all_reduce_by_priority(const NDArray& x, int priority, Reduce op, std::source_location site) const {
  Driver& d = driver();
  check_writable("all_reduce", x);
  check_dtype("all_reduce", x.dtype(), op, check_array("all_reduce", x, d));
  push(d, {.kind = Kind::all_reduce, .op = op, .dtype = x.dtype(), .priority = priority, .count = x.size()}, x, x,
       {"all_reduce", site});
  if (op == Reduce::mean) NDArray(x) *= 1.0 / d.size();
}

NDArray Communicator::reduce_scatter(const NDArray& x, Reduce op, std::source_location site) const {
  Driver& d = driver();
  check_dtype("reduce_scatter", x.dtype(), op, check_array("reduce_scatter", x, d));
  if (x.ndim() == 0 || x.shape()[0] % d.size() != 0) {
    throw ShapeError(fmt::format("[reduce_scatter] expected rows that divide by the {} ranks, got shape {}", d.size(),
                                 x.shape().str()));
  }
  Shape shape = x.shape();
  shape[0] /= d.size();
  const NDArray out = NDArray::empty(shape, x.dtype(), x.device());
  push(d, {.kind = Kind::reduce_scatter, .op = op, .dtype = x.dtype(), .count = out.size()}, x, out,
       {"reduce_scatter", site});
  return mean_of(out, op, d.size(), site);
}

NDArray Communicator::all_gather(const NDArray& x, std::source_location site) const {
  Driver& d = driver();
  check_array("all_gather", x, d);
  if (x.ndim() == 0) throw ShapeError("[all_gather] expected an array with rows, got one without dimensions");
  Shape shape = x.shape();
  shape[0] *= d.size();
  const NDArray out = NDArray::empty(shape, x.dtype(), x.device());
  push(d, {.kind = Kind::all_gather, .dtype = x.dtype(), .count = x.size()}, x, out, {"all_gather", site});
  return out;
}

namespace {
// In elements of x, of which a row has `each`.
std::shared_ptr<const PooledVector<int64_t>> counts_of(const char* name, std::span<const int64_t> rows, int size,
                                                       int64_t each) {
  if (rows.size() != size_t(size)) {
    throw ValueError(
        fmt::format("[{}] expected a number of rows for each of {} ranks, got {}", name, size, rows.size()));
  }
  auto counts = std::allocate_shared<PooledVector<int64_t>>(PoolAllocator<int64_t>());
  counts->reserve(rows.size());
  for (const int64_t n : rows) {
    if (n < 0) throw ValueError(fmt::format("[{}] expected numbers of rows, got {}", name, n));
    counts->push_back(n * each);
  }
  return counts;
}
int64_t row_of(const char* name, const NDArray& x) {
  if (x.ndim() == 0)
    throw ShapeError(fmt::format("[{}] expected an array with rows, got one without dimensions", name));
  return x.shape().product(1, x.ndim());
}
}  // namespace

NDArray Communicator::reduce_scatter(const NDArray& x, std::span<const int64_t> rows, Reduce op,
                                     std::source_location site) const {
  Driver& d = driver();
  check_dtype("reduce_scatter", x.dtype(), op, check_array("reduce_scatter", x, d));
  auto counts = counts_of("reduce_scatter", rows, d.size(), row_of("reduce_scatter", x));
  Shape shape = x.shape();
  if (const int64_t all = std::accumulate(rows.begin(), rows.end(), int64_t(0)); all != shape[0]) {
    throw ShapeError(
        fmt::format("[reduce_scatter] expected {} rows, those of all ranks, got shape {}", all, x.shape().str()));
  }
  shape[0] = rows[size_t(d.rank())];
  const NDArray out = NDArray::empty(shape, x.dtype(), x.device());
  push(d, {.kind = Kind::reduce_scatter, .op = op, .dtype = x.dtype(), .count = x.size(), .counts = std::move(counts)},
       x, out, {"reduce_scatter", site});
  return mean_of(out, op, d.size(), site);
}

NDArray Communicator::all_gather(const NDArray& x, std::span<const int64_t> rows, std::source_location site) const {
  Driver& d = driver();
  check_array("all_gather", x, d);
  auto counts = counts_of("all_gather", rows, d.size(), row_of("all_gather", x));
  Shape shape = x.shape();
  if (shape[0] != rows[size_t(d.rank())]) {
    throw ShapeError(fmt::format("[all_gather] expected {} rows of rank {}, got shape {}", rows[size_t(d.rank())],
                                 d.rank(), x.shape().str()));
  }
  shape[0] = std::accumulate(rows.begin(), rows.end(), int64_t(0));
  const NDArray out = NDArray::empty(shape, x.dtype(), x.device());
  push(d, {.kind = Kind::all_gather, .dtype = x.dtype(), .count = out.size(), .counts = std::move(counts)}, x, out,
       {"all_gather", site});
  return out;
}

namespace {
void check_rank(const char* name, int rank, int size) {
  if (rank < 0 || rank >= size)
    throw ValueError(fmt::format("[{}] expected a rank below {}, got {}", name, size, rank));
}
void check_other(const char* name, int rank, const Driver& d) {
  check_rank(name, rank, d.size());
  if (rank == d.rank()) throw ValueError(fmt::format("[{}] rank {} is this rank itself", name, rank));
}
}  // namespace

void Communicator::broadcast(const NDArray& x, int root, std::source_location site) const {
  Driver& d = driver();
  check_writable("broadcast", x);
  check_array("broadcast", x, d);
  check_rank("broadcast", root, d.size());
  push(d, {.kind = Kind::broadcast, .dtype = x.dtype(), .peer = root, .count = x.size()}, x, x, {"broadcast", site});
}

void Communicator::send(const NDArray& x, int to, std::source_location site) const {
  Driver& d = driver();
  check_other("send", to, d);
  if (x.device().type != DeviceType::cpu) return send(ops::copy_to(x, cpu(), site), to, site);
  const NDArray sent = NDArray::empty({1}, DType::uint8);
  push(d, {.kind = Kind::send, .dtype = x.dtype(), .peer = to, .count = x.size()}, x, sent, {"send", site});
}

NDArray Communicator::recv(const Shape& shape, DType dtype, int from, Device device, std::source_location site) const {
  Driver& d = driver();
  check_other("recv", from, d);
  const NDArray out = NDArray::empty(shape, dtype);
  push(d, {.kind = Kind::recv, .dtype = dtype, .peer = from, .count = out.size()}, {}, out, {"recv", site});
  return device == cpu() ? out : ops::copy_to(out, device, site);
}

NDArray Communicator::exchange(const NDArray& x, int other, std::source_location site) const {
  Driver& d = driver();
  check_array("exchange", x, d);
  check_rank("exchange", other, d.size());
  const NDArray out = NDArray::empty(x.shape(), x.dtype(), x.device());
  if (other == d.rank()) {
    ops::push_copy_between(x.node(), out.node(), {"exchange", site});
  } else {
    push(d, {.kind = Kind::exchange, .dtype = x.dtype(), .peer = other, .count = x.size()}, x, out, {"exchange", site});
  }
  return out;
}

NDArray Communicator::barrier(std::source_location site) const {
  const NDArray out = NDArray::empty({1}, DType::uint8);
  driver().push({.kind = Kind::barrier, .dtype = DType::uint8}, {}, out, {"barrier", site});
  return out;
}

Communicator Communicator::split(int color, int key, std::source_location site) const {
  std::shared_ptr<Driver> part = driver().split(color, key, {"split", site});
  return part ? Communicator(std::move(part)) : Communicator();
}

Communicator mpi(const Options& options) {
  if (options.timeout < std::chrono::milliseconds(100)) {
    throw ValueError(fmt::format("[mpi] expected a timeout of at least 100 ms, got {} ms", options.timeout.count()));
  }
  Process& p = process();
  std::lock_guard lock(p.mutex);
  if (p.driver) return Communicator(p.driver);
  Backend& backend = mpi_backend();
  std::unique_ptr<Group> group = backend.world();
  auto world = std::make_shared<World>(options);
  world->begin_watch(*group);
  p.driver = Driver::start(world, std::move(group), Driver::all_ranks);
  p.world = std::move(world);
  std::atexit(end_process);
  return Communicator(p.driver);
}

Communicator nccl(const Options& options) {
  const Communicator world = mpi(options);
  world.device();
  nccl_backend();
  return world;
}

}  // namespace kaon::comm
