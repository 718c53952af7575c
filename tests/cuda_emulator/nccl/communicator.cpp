#include "communicator.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <random>

#include "../memory.h"
#include "kaon/ops/dtype.h"

namespace kaon_emulator::nccl {
namespace {

constexpr const char *hang = "KAON_NCCL_EMULATOR_HANG", *fail = "KAON_NCCL_EMULATOR_FAIL";
// Whether the call of this process with that number is to go wrong, from 1; 0: the making of communicators.
bool is_asked_for(const char* name, uint64_t number) {
  const char* text = std::getenv(name);
  return text && std::strtoull(text, nullptr, 10) == number;
}
std::atomic<uint64_t> g_calls{0};

template <class T>
T combine(T a, T b, ncclRedOp_t op) {
  switch (op) {
    case ncclSum: return T(a + b);
    case ncclProd: return T(a * b);
    case ncclMax: return a > b || a != a ? a : b;
    case ncclMin: return a < b || a != a ? a : b;
  }
  return a;
}
// `to` and `from` combined, in the order of ranks.
template <class T, class Wide = T>
void combine_all(std::byte* to, const std::byte* from, size_t count, ncclRedOp_t op) {
  T* a = reinterpret_cast<T*>(to);
  const T* b = reinterpret_cast<const T*>(from);
  for (size_t i = 0; i < count; ++i) a[i] = T(combine<Wide>(Wide(a[i]), Wide(b[i]), op));
}
void combine_all(std::byte* to, const std::byte* from, size_t count, ncclDataType_t type, ncclRedOp_t op) {
  switch (type) {
    case ncclInt8: return combine_all<int8_t>(to, from, count, op);
    case ncclUint8: return combine_all<uint8_t>(to, from, count, op);
    case ncclInt32: return combine_all<int32_t>(to, from, count, op);
    case ncclUint32: return combine_all<uint32_t>(to, from, count, op);
    case ncclInt64: return combine_all<int64_t>(to, from, count, op);
    case ncclUint64: return combine_all<uint64_t>(to, from, count, op);
    case ncclFloat16: return combine_all<kaon::float16, float>(to, from, count, op);
    case ncclBfloat16: return combine_all<kaon::bfloat16, float>(to, from, count, op);
    case ncclFloat32: return combine_all<float>(to, from, count, op);
    case ncclFloat64: return combine_all<double>(to, from, count, op);
  }
}

}  // namespace

size_t size_of(ncclDataType_t type) {
  switch (type) {
    case ncclInt8:
    case ncclUint8: return 1;
    case ncclFloat16:
    case ncclBfloat16: return 2;
    case ncclInt32:
    case ncclUint32:
    case ncclFloat32: return 4;
    case ncclInt64:
    case ncclUint64:
    case ncclFloat64: return 8;
  }
  return 0;
}

ncclResult_t refuse(const std::string& why, ncclResult_t result) {
  std::lock_guard lock(Emulator::get().mutex);
  Emulator::get().complain("NCCL: " + why);
  return result;
}

Communicator::Communicator(std::string name, int rank, int ranks, int device)
    : name_(std::move(name)), rank_(rank), ranks_(ranks), device_(device) {}
Communicator::~Communicator() { stop(); }

void Communicator::begin() {
  thread_ = std::thread([this] { run(); });
}

void Communicator::stop() {
  {
    std::lock_guard lock(mutex_);
    is_stopped_ = true;
  }
  wake_.notify_all();
  if (thread_.joinable()) thread_.join();
  for (const auto& end : std::exchange(open_ends_, {})) reach(end);
}

void Communicator::reach(const std::shared_ptr<Moment>& end) {
  std::lock_guard lock(Emulator::get().mutex);
  end->is_reached = true;
  end->at = Clock::now();
  Emulator::get().changed.notify_all();
}

void Communicator::run() {
  const DeviceAccess access;
  caller().device = device_;
  try {
    if (is_asked_for(fail, 0)) throw std::runtime_error("no communicator");
    while (is_asked_for(hang, 0)) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
      if (is_stopped_) return;
    }
    meeting_ = std::make_unique<Meeting>(name_, rank_, ranks_, [this] { return is_stopped_.load(); });
    state_ = ncclSuccess;
    std::unique_lock lock(mutex_);
    for (;;) {
      wake_.wait(lock, [&] {
        if (is_final_ && open_ends_.empty() && state_ == ncclInProgress) state_ = ncclSuccess;
        return is_stopped_ || !to_put_.empty() || !started_.empty();
      });
      if (is_stopped_) return;
      if (!to_put_.empty()) {
        const auto put = std::move(to_put_.front());
        to_put_.pop_front();
        lock.unlock();
        put();
        lock.lock();
        continue;
      }
      const std::shared_ptr<Job> job = std::move(started_.front());
      started_.pop_front();
      lock.unlock();
      execute(*job);
      lock.lock();
      std::erase(open_ends_, job->end);
      lock.unlock();
      reach(job->end);
      lock.lock();
    }
  } catch (const Stopped&) {
  } catch (const std::exception& e) {
    state_ = refuse(e.what(), ncclSystemError);
  }
}

ncclResult_t Communicator::submit(std::vector<Operation> operations, cudaStream_t stream) {
  if (is_final_) return refuse("a call on a communicator that has been finalized", ncclInvalidUsage);
  if (state_ == ncclInProgress) return refuse("a call while another one is in progress", ncclInvalidUsage);
  if (state_ != ncclSuccess) return state_;
  Job job{.operations = std::move(operations), .end = std::make_shared<Moment>()};
  const uint64_t number = ++g_calls;
  job.hangs = is_asked_for(hang, number);
  job.fails = is_asked_for(fail, number);
  state_ = ncclInProgress;
  {
    std::lock_guard lock(mutex_);
    to_put_.push_back([this, job = std::move(job), stream]() mutable { put_on_stream(std::move(job), stream); });
  }
  wake_.notify_all();
  return ncclInProgress;
}

void Communicator::put_on_stream(Job job, cudaStream_t handle) {
  const auto shared = std::make_shared<Job>(std::move(job));
  std::lock_guard lock(Emulator::get().mutex);
  cudaError_t error;
  const auto stream = find_stream(handle, error);
  if (!stream) {
    state_ = ncclUnhandledCudaError;
    return;
  }
  {
    std::lock_guard own(mutex_);
    open_ends_.push_back(shared->end);
  }
  Device& device = *stream->device;
  device.push(*stream,
              {.work = [self = shared_from_this(), shared](cudaError_t) { self->start(shared); }, .after = nullptr});
  device.push(*stream, {.work = [](cudaError_t) {}, .after = shared->end});
  state_ = ncclSuccess;
}

void Communicator::start(const std::shared_ptr<Job>& job) {
  {
    std::lock_guard lock(mutex_);
    started_.push_back(job);
  }
  wake_.notify_all();
}

ncclResult_t Communicator::finalize() {
  if (state_ == ncclInProgress) return refuse("finalized while a call is in progress", ncclInvalidUsage);
  if (is_final_) return refuse("finalized twice", ncclInvalidUsage);
  {
    std::lock_guard lock(mutex_);
    is_final_ = true;
    state_ = ncclInProgress;  // until what has been called is done
  }
  wake_.notify_all();
  return ncclInProgress;
}

// Whether all ranks call the same; else the communicator has failed, as it does when NCCL notices.
bool Communicator::agree(const Operation& o) {
  const Post mine{int64_t(o.kind), int64_t(o.count), int64_t(o.type), int64_t(o.op), int64_t(o.root)};
  meeting_->post(rank_) = mine;
  meeting_->wait_for_all();
  bool is_same = true;
  for (int r = 0; r < ranks_; ++r) is_same &= meeting_->post(r) == mine;
  meeting_->wait_for_all();
  if (!is_same) state_ = refuse("the ranks call different operations", ncclInvalidArgument);
  return is_same;
}

void Communicator::execute(const Job& job) {
  if (job.fails) state_ = ncclRemoteError;
  while (job.hangs || job.fails) meeting_->pause();
  if (job.operations[0].kind == Kind::send || job.operations[0].kind == Kind::recv) {
    return send_and_receive(job.operations);
  }
  for (const Operation& o : job.operations) {
    if (!agree(o)) {
      for (;;) meeting_->pause();  // until it is aborted
    }
    const size_t bytes = o.count * size_of(o.type);
    switch (o.kind) {
      case Kind::all_reduce: reduce(o.in, o.out, o.count, o); break;
      case Kind::reduce: reduce(o.in, o.root == rank_ ? o.out : nullptr, o.count, o); break;
      case Kind::reduce_scatter:
        for (int r = 0; r < ranks_; ++r) reduce(o.in + size_t(r) * bytes, r == rank_ ? o.out : nullptr, o.count, o);
        break;
      case Kind::all_gather: gather(o); break;
      case Kind::broadcast: broadcast(o.in, o.out, bytes, o.root); break;
      case Kind::send:
      case Kind::recv: break;
    }
  }
}

void Communicator::reduce(const std::byte* in, std::byte* out, size_t count, const Operation& o) {
  const size_t each = size_of(o.type), most = Meeting::piece_bytes / each;
  std::vector<std::byte> sum(Meeting::piece_bytes);
  for (size_t at = 0; at < count; at += most) {
    const size_t n = std::min(most, count - at);
    std::memcpy(meeting_->piece(rank_), in + at * each, n * each);
    meeting_->wait_for_all();
    if (out) {
      std::memcpy(sum.data(), meeting_->piece(0), n * each);
      for (int r = 1; r < ranks_; ++r) combine_all(sum.data(), meeting_->piece(r), n, o.type, o.op);
      std::memcpy(out + at * each, sum.data(), n * each);
    }
    meeting_->wait_for_all();
  }
}

void Communicator::gather(const Operation& o) {
  const size_t bytes = o.count * size_of(o.type);
  for (size_t at = 0; at < bytes; at += Meeting::piece_bytes) {
    const size_t n = std::min(Meeting::piece_bytes, bytes - at);
    std::memcpy(meeting_->piece(rank_), o.in + at, n);
    meeting_->wait_for_all();
    for (int r = 0; r < ranks_; ++r) std::memcpy(o.out + size_t(r) * bytes + at, meeting_->piece(r), n);
    meeting_->wait_for_all();
  }
}

void Communicator::broadcast(const std::byte* in, std::byte* out, size_t bytes, int root) {
  for (size_t at = 0; at < bytes; at += Meeting::piece_bytes) {
    const size_t n = std::min(Meeting::piece_bytes, bytes - at);
    if (rank_ == root) std::memcpy(meeting_->piece(root), in + at, n);
    meeting_->wait_for_all();
    std::memcpy(out + at, meeting_->piece(root), n);
    meeting_->wait_for_all();
  }
}

// All of a group at once; a call alone waits for its counterpart.
void Communicator::send_and_receive(const std::vector<Operation>& operations) {
  std::vector<size_t> done(operations.size(), 0);
  for (bool is_over = false; !is_over;) {
    is_over = true;
    bool has_moved = false;
    for (size_t i = 0; i < operations.size(); ++i) {
      const Operation& o = operations[i];
      const size_t bytes = o.count * size_of(o.type), n = std::min(Meeting::piece_bytes, bytes - done[i]);
      if (n == 0) continue;
      is_over = false;
      const bool sends = o.kind == Kind::send;
      Meeting::Box& box = sends ? meeting_->box(rank_, o.root) : meeting_->box(o.root, rank_);
      if ((box.is_full.load() != 0) == sends) continue;
      if (sends) {
        std::memcpy(box.data, o.in + done[i], n);
        box.bytes = uint32_t(n);
      } else if (box.bytes != n) {
        state_ = refuse("a rank sends another number of bytes than is received", ncclInvalidArgument);
        for (;;) meeting_->pause();
      } else {
        std::memcpy(o.out + done[i], box.data, n);
      }
      box.is_full = sends;
      done[i] += n;
      has_moved = true;
    }
    if (!has_moved && !is_over) meeting_->pause();
  }
}

}  // namespace kaon_emulator::nccl
