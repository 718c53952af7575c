// libkaon_nccl.so: collectives between GPUs by NCCL. A library of its own, so that a program without GPUs or without
// ranks does not depend on NCCL. It calls nothing of CUDA: streams are the caller's.
#include <dlfcn.h>
#include <fmt/format.h>

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <thread>

#include "kaon/comm/backend/backend.h"
#include "kaon/comm/nccl/nccl.h"

namespace kaon::comm {
namespace {

constexpr int least_version = 21400;  // communicators whose calls do not block
constexpr auto poll_time = std::chrono::microseconds(20);

struct Nccl {
  explicit Nccl(const char* name) {
    void* library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (!library) throw CommError(fmt::format("NCCL cannot be loaded: {}", dlerror()));
    const auto find = [&](const char* function, auto*& pointer) {
      pointer = reinterpret_cast<std::remove_reference_t<decltype(pointer)>>(dlsym(library, function));
    };
    find("ncclGetErrorString", ncclGetErrorString);
    find("ncclGetLastError", ncclGetLastError);  // since 2.13
    find("ncclGetVersion", ncclGetVersion);
    int version = 0;
    if (ncclGetVersion) ncclGetVersion(&version);
    if (version < least_version || !ncclGetErrorString) {
      throw CommError(fmt::format("{} is version {}: expected {} or later", name, version, least_version));
    }
#define FUNCTION(name, parameters) \
  find(#name, name);               \
  if (!name) throw CommError("NCCL has no function " #name);
    KAON_NCCL_FUNCTIONS(FUNCTION)
#undef FUNCTION
  }
  // What a failed call says, with NCCL's last words where it has some.
  std::string text_of(ncclResult_t result, ncclComm_t comm) const {
    const char* last = ncclGetLastError ? ncclGetLastError(comm) : nullptr;
    return fmt::format("NCCL: {}{}{}", ncclGetErrorString(result), last && *last ? ": " : "", last ? last : "");
  }

#define FUNCTION(name, parameters) ncclResult_t(*name) parameters = nullptr;
  KAON_NCCL_FUNCTIONS(FUNCTION)
#undef FUNCTION
  const char* (*ncclGetErrorString)(ncclResult_t) = nullptr;
  const char* (*ncclGetLastError)(ncclComm_t) = nullptr;
};

// What NCCL takes an element for: where nothing is computed, every dtype is bytes.
struct Elements {
  ncclDataType_t type;
  size_t factor;  // of the number of elements
};
Elements elements_of(DType dtype, bool computes) {
  switch (dtype) {
    case DType::float32: return {ncclFloat32, 1};
    case DType::float64: return {ncclFloat64, 1};
    case DType::float16: return {ncclFloat16, 1};
    case DType::bfloat16: return {ncclBfloat16, 1};
    case DType::uint8:
    case DType::boolean: return {ncclUint8, 1};  // its min and max are those of 0 and 1
    case DType::int8: return {ncclInt8, 1};
    case DType::int32: return {ncclInt32, 1};
    case DType::uint32: return {ncclUint32, 1};
    case DType::int64: return {ncclInt64, 1};
    case DType::uint64: return {ncclUint64, 1};
    case DType::int16:
    case DType::uint16:
      if (!computes) return {ncclUint8, size_of(dtype)};
  }
  throw CommError(fmt::format("[nccl] {} has no arithmetic", name_of(dtype)));
}
ncclRedOp_t operation_of(Reduce op) {
  switch (op) {
    case Reduce::sum:
    case Reduce::mean: return ncclSum;  // the communicator divides
    case Reduce::min: return ncclMin;
    case Reduce::max: return ncclMax;
    case Reduce::prod: return ncclProd;
  }
  throw CommError("[nccl] unknown reduction");
}

// No call of NCCL's blocks, so that abort() can come between.
class NcclGroup final : public GpuGroup {
 public:
  NcclGroup(const Nccl& nccl, const ncclUniqueId& id, int rank, int size, const std::function<bool()>& is_over)
      : nccl_(nccl), rank_(rank), size_(size) {
    ncclConfig_t config;
    config.blocking = 0;
    try {
      submit(
          "nccl", [&] { return nccl_.ncclCommInitRankConfig(&comm_, size, id, rank, &config); }, &is_over);
    } catch (...) {
      abort();
      throw;
    }
  }
  ~NcclGroup() override {
    try {
      if (comm_) submit("nccl", [&] { return nccl_.ncclCommFinalize(comm_); });
      if (comm_) nccl_.ncclCommDestroy(comm_);
    } catch (...) {
      abort();
    }
  }

  void launch(const Call& c, void* stream_of_gpu) override {
    auto* const stream = static_cast<CUstream_st*>(stream_of_gpu);
    const bool computes = c.kind == Kind::all_reduce || c.kind == Kind::reduce_scatter;
    const Elements e = elements_of(c.dtype, computes);
    const size_t count = size_t(c.count) * e.factor;
    const ncclRedOp_t op = operation_of(c.op);
    switch (c.kind) {
      case Kind::all_reduce:
        return submit("all_reduce", [&] { return nccl_.ncclAllReduce(c.in, c.out, count, e.type, op, comm_, stream); });
      case Kind::reduce_scatter:
        if (!c.counts) {
          return submit("reduce_scatter",
                        [&] { return nccl_.ncclReduceScatter(c.in, c.out, count, e.type, op, comm_, stream); });
        }
        return submit_parts(c, e, [&](size_t begin, size_t n, int r) {
          return nccl_.ncclReduce(byte(c.in, begin), r == rank_ ? c.out : nullptr, n, e.type, op, r, comm_, stream);
        });
      case Kind::all_gather:
        if (!c.counts) {
          return submit("all_gather", [&] { return nccl_.ncclAllGather(c.in, c.out, count, e.type, comm_, stream); });
        }
        return submit_parts(c, e, [&](size_t begin, size_t n, int r) {
          void* out = byte(c.out, begin);
          return nccl_.ncclBroadcast(r == rank_ ? c.in : out, out, n, e.type, r, comm_, stream);
        });
      case Kind::broadcast:
        return submit("broadcast",
                      [&] { return nccl_.ncclBroadcast(c.in, c.out, count, e.type, c.peer, comm_, stream); });
      case Kind::exchange:
        return submit_together("exchange", [&](auto&& add) {
          add(nccl_.ncclSend(c.in, count, e.type, c.peer, comm_, stream));
          add(nccl_.ncclRecv(c.out, count, e.type, c.peer, comm_, stream));
        });
      case Kind::send:
      case Kind::recv:
      case Kind::barrier:
      case Kind::split: break;
    }
    throw CommError("[nccl] not a call of GPUs");
  }

  std::string failure() override {
    std::lock_guard lock(mutex_);
    ncclResult_t result = ncclSuccess;
    if (comm_) nccl_.ncclCommGetAsyncError(comm_, &result);
    return result == ncclSuccess || result == ncclInProgress ? std::string() : nccl_.text_of(result, comm_);
  }

  void abort() noexcept override {
    std::lock_guard lock(mutex_);
    if (comm_) nccl_.ncclCommAbort(std::exchange(comm_, nullptr));
    is_aborted_ = true;
  }

 private:
  // Until NCCL has taken the call; it goes on by itself meanwhile.
  template <class F>
  void submit(const char* name, F&& call, const std::function<bool()>* is_over = nullptr) {
    std::unique_lock lock(mutex_);
    check_whole(name);
    ncclResult_t result = call();
    while (result == ncclInProgress) {
      lock.unlock();
      std::this_thread::sleep_for(poll_time);
      lock.lock();
      check_whole(name);
      if (is_over && (*is_over)()) throw CommError(fmt::format("[{}] the communicator has failed", name));
      if (const ncclResult_t asked = nccl_.ncclCommGetAsyncError(comm_, &result); asked != ncclSuccess) result = asked;
    }
    if (result != ncclSuccess) throw CommError(fmt::format("[{}] {}", name, nccl_.text_of(result, comm_)));
  }
  // Several calls of NCCL's that are one.
  template <class F>
  void submit_together(const char* name, F&& calls) {
    submit(name, [&] {
      ncclResult_t result = nccl_.ncclGroupStart();
      if (result != ncclSuccess) return result;
      calls([&](ncclResult_t r) {
        if (r != ncclSuccess && r != ncclInProgress) result = r;
      });
      const ncclResult_t ended = nccl_.ncclGroupEnd();
      return result != ncclSuccess ? result : ended;
    });
  }
  // One for each rank that has a part: call(its first byte, its elements for NCCL, the rank).
  template <class F>
  void submit_parts(const Call& c, const Elements& e, F&& call) {
    submit_together(c.kind == Kind::all_gather ? "all_gather" : "reduce_scatter", [&](auto&& add) {
      size_t begin = 0;
      for (int r = 0; r < size_; ++r) {
        const size_t n = size_t((*c.counts)[size_t(r)]);
        if (n > 0) add(call(begin * size_of(c.dtype), n * e.factor, r));
        begin += n;
      }
    });
  }
  void check_whole(const char* name) const {
    if (is_aborted_) throw CommError(fmt::format("[{}] the communicator has failed", name));
  }
  static const void* byte(const void* p, size_t at) { return static_cast<const char*>(p) + at; }
  static void* byte(void* p, size_t at) { return static_cast<char*>(p) + at; }

  const Nccl& nccl_;
  const int rank_, size_;
  std::mutex mutex_;
  ncclComm_t comm_ = nullptr;
  bool is_aborted_ = false;
};

class NcclBackend final : public GpuBackend {
 public:
  NcclBackend() : nccl_(name()) {}
  // As hexadecimal digits: texts are exchanged.
  std::string make_id() override {
    ncclUniqueId id;
    if (const ncclResult_t result = nccl_.ncclGetUniqueId(&id); result != ncclSuccess) {
      throw CommError(fmt::format("[nccl] {}", nccl_.text_of(result, nullptr)));
    }
    std::string text;
    for (const char c : id.internal) text += fmt::format("{:02x}", uint8_t(c));
    return text;
  }
  std::unique_ptr<GpuGroup> join(const std::string& text, int rank, int size,
                                 const std::function<bool()>& is_over) override {
    ncclUniqueId id{};
    if (text.size() != 2 * sizeof id.internal) throw CommError("[nccl] expected the id of a communicator");
    for (size_t i = 0; i < sizeof id.internal; ++i) {
      id.internal[i] = char(std::strtol(text.substr(2 * i, 2).c_str(), nullptr, 16));
    }
    return std::make_unique<NcclGroup>(nccl_, id, rank, size, is_over);
  }

 private:
  static const char* name() {
    const char* other = std::getenv("KAON_NCCL_LIBRARY");
    return other ? other : "libnccl.so.2";
  }
  const Nccl nccl_;
};

}  // namespace
}  // namespace kaon::comm

// Throws CommError where there is no NCCL.
extern "C" [[gnu::visibility("default")]] kaon::comm::GpuBackend* kaon_nccl_backend() {
  static auto* const backend = new kaon::comm::NcclBackend;
  return backend;
}
