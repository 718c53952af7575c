// libnccl.so.2 for the emulated devices: NCCL's functions, and what they refuse.
#include "nccl.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <map>

#include "../memory.h"
#include "communicator.h"

using namespace kaon_emulator;
using namespace kaon_emulator::nccl;

struct ncclComm {
  std::shared_ptr<kaon_emulator::nccl::Communicator> communicator;
};

namespace {

std::mutex g_mutex;
std::map<ncclComm_t, std::unique_ptr<ncclComm>>& live() {
  static auto* all = new std::map<ncclComm_t, std::unique_ptr<ncclComm>>;
  return *all;
}

std::shared_ptr<nccl::Communicator> find(ncclComm_t comm) {
  std::lock_guard lock(g_mutex);
  const auto found = live().find(comm);
  return found == live().end() ? nullptr : found->second->communicator;
}
std::unique_ptr<ncclComm> take(ncclComm_t comm) {
  std::lock_guard lock(g_mutex);
  const auto found = live().find(comm);
  if (found == live().end()) return nullptr;
  auto taken = std::move(found->second);
  live().erase(found);
  return taken;
}
ncclResult_t refuse_unknown(const char* function) {
  return refuse(fmt::format("{}: there is no such communicator, or it has been destroyed or aborted", function),
                ncclInvalidArgument);
}

// What this thread has put into its group.
struct Group {
  int depth = 0;
  ncclResult_t result = ncclSuccess;
  std::vector<Operation> operations;
  ncclComm_t comm = nullptr;
  cudaStream_t stream = nullptr;
};
thread_local Group t_group;

bool is_on_device(const nccl::Communicator& c, const void* pointer, size_t bytes) {
  std::lock_guard lock(Emulator::get().mutex);
  bool is_wrong = false;
  const Block* block = Memory::get().find(pointer, bytes, is_wrong);
  return block && !is_wrong && block->device == c.device();
}
bool overlap(const std::byte* a, size_t a_bytes, const std::byte* b, size_t b_bytes) {
  return a < b + b_bytes && b < a + a_bytes;
}

// Empty: nothing is wrong with it.
std::string why_not(const nccl::Communicator& c, const Operation& o) {
  if (size_of(o.type) == 0) return fmt::format("there is no type {}", int(o.type));
  if (o.op < ncclSum || o.op > ncclMin) return fmt::format("there is no operation {}", int(o.op));
  if (o.root < 0 || o.root >= c.ranks()) return fmt::format("there is no rank {} among {}", o.root, c.ranks());
  const size_t bytes = o.count * size_of(o.type), all = bytes * size_t(c.ranks());
  const bool is_root = o.root == c.rank();
  const bool reads = o.kind != Kind::recv && (o.kind != Kind::broadcast || is_root);
  const bool writes = o.kind != Kind::send && (o.kind != Kind::reduce || is_root);
  const size_t read = o.kind == Kind::reduce_scatter ? all : bytes, written = o.kind == Kind::all_gather ? all : bytes;
  if (o.count == 0) return {};
  if (reads && !is_on_device(c, o.in, read)) return fmt::format("{} bytes to read are not on the device", read);
  if (writes && !is_on_device(c, o.out, written))
    return fmt::format("{} bytes to write are not on the device", written);
  if (!reads || !writes || !overlap(o.in, read, o.out, written)) return {};
  const size_t own = size_t(c.rank()) * bytes;
  const bool is_in_place = o.kind == Kind::all_gather       ? o.in == o.out + own
                           : o.kind == Kind::reduce_scatter ? o.out == o.in + own
                                                            : o.in == o.out;
  return is_in_place ? std::string() : "input and output overlap";
}

ncclResult_t end_group() {
  Group group = std::exchange(t_group, {});
  if (group.result != ncclSuccess) return group.result;
  if (!group.comm) return ncclSuccess;
  const auto c = find(group.comm);
  if (!c) return refuse_unknown("ncclGroupEnd");
  std::erase_if(group.operations, [](const Operation& o) { return o.count == 0; });
  if (group.operations.empty()) return ncclSuccess;
  return c->submit(std::move(group.operations), group.stream);
}

ncclResult_t call(const char* name, Kind kind, const void* in, void* out, size_t count, ncclDataType_t type,
                  ncclRedOp_t op, int root, ncclComm_t comm, cudaStream_t stream) {
  const auto c = find(comm);
  const bool is_alone = t_group.depth == 0;
  const auto fail = [&](ncclResult_t result) {
    if (!is_alone) t_group.result = result;
    return result;
  };
  if (!c) return fail(refuse_unknown(name));
  if (caller().device != c->device())
    return fail(refuse(fmt::format("{}: another device is current", name), ncclInvalidUsage));
  const Operation o{kind, static_cast<const std::byte*>(in), static_cast<std::byte*>(out), count, type, op, root};
  if (const std::string why = why_not(*c, o); !why.empty()) {
    return fail(refuse(fmt::format("{}: {}", name, why), ncclInvalidArgument));
  }
  {
    std::lock_guard lock(Emulator::get().mutex);
    cudaError_t error;
    const auto found = find_stream(stream, error);
    if (!found) return fail(ncclUnhandledCudaError);
    if (found->device->index != c->device() || found->capture) return fail(ncclInvalidUsage);
  }
  const bool is_pair = kind == Kind::send || kind == Kind::recv;
  if (t_group.comm && (t_group.comm != comm || t_group.stream != stream)) {
    return fail(refuse("a group of several communicators or streams is not emulated", ncclInvalidUsage));
  }
  if (!t_group.operations.empty()) {
    const Kind first = t_group.operations[0].kind;
    if (is_pair != (first == Kind::send || first == Kind::recv)) {
      return fail(refuse("a group of sends and collectives is not emulated", ncclInvalidUsage));
    }
  }
  t_group.comm = comm;
  t_group.stream = stream;
  t_group.operations.push_back(o);
  return is_alone ? end_group() : ncclSuccess;
}

}  // namespace

extern "C" {

const char* ncclGetErrorString(ncclResult_t result) {
  static constexpr const char* texts[] = {"no error",
                                          "unhandled cuda error",
                                          "unhandled system error",
                                          "internal error",
                                          "invalid argument",
                                          "invalid usage",
                                          "remote process exited or there was a network error",
                                          "in progress"};
  return result >= 0 && size_t(result) < std::size(texts) ? texts[result] : "unknown result";
}

ncclResult_t ncclGetVersion(int* version) {
  *version = 21400;
  return ncclSuccess;
}

ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  *id = {};
  std::strcpy(id->internal, Meeting::make_name().c_str());
  return ncclSuccess;
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t* comm, int ranks, ncclUniqueId id, int rank, ncclConfig_t* config) {
  *comm = nullptr;
  if (!config || config->magic != 0xcafebeef || config->size < sizeof *config || config->version < 21400 ||
      config->blocking != 0) {
    return refuse("ncclCommInitRankConfig: emulated are communicators that do not block", ncclInvalidArgument);
  }
  if (ranks < 1 || ranks > Meeting::most_ranks || rank < 0 || rank >= ranks) {
    return refuse(fmt::format("ncclCommInitRankConfig: rank {} of {}", rank, ranks), ncclInvalidArgument);
  }
  const std::string name(id.internal, strnlen(id.internal, sizeof id.internal));
  if (!name.starts_with("/kaon_nccl_")) return refuse("ncclCommInitRankConfig: not an id", ncclInvalidArgument);
  auto made = std::make_unique<ncclComm>();
  made->communicator = std::make_shared<nccl::Communicator>(name, rank, ranks, caller().device);
  made->communicator->begin();
  *comm = made.get();
  std::lock_guard lock(g_mutex);
  live().emplace(*comm, std::move(made));
  return ncclInProgress;
}

ncclResult_t ncclCommFinalize(ncclComm_t comm) {
  const auto c = find(comm);
  return c ? c->finalize() : refuse_unknown("ncclCommFinalize");
}

ncclResult_t ncclCommDestroy(ncclComm_t comm) {
  const auto c = find(comm);
  if (!c) return refuse_unknown("ncclCommDestroy");
  if (!c->is_final() || c->state() == ncclInProgress) {
    return refuse("ncclCommDestroy: not finalized", ncclInvalidUsage);
  }
  take(comm)->communicator->stop();
  return ncclSuccess;
}

ncclResult_t ncclCommAbort(ncclComm_t comm) {
  const auto taken = take(comm);
  if (!taken) return refuse_unknown("ncclCommAbort");
  taken->communicator->stop();
  return ncclSuccess;
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* error) {
  const auto c = find(comm);
  if (!c) return refuse_unknown("ncclCommGetAsyncError");
  *error = c->state();
  return ncclSuccess;
}

ncclResult_t ncclAllReduce(const void* in, void* out, size_t count, ncclDataType_t type, ncclRedOp_t op,
                           ncclComm_t comm, cudaStream_t stream) {
  return call("ncclAllReduce", Kind::all_reduce, in, out, count, type, op, 0, comm, stream);
}
ncclResult_t ncclReduce(const void* in, void* out, size_t count, ncclDataType_t type, ncclRedOp_t op, int root,
                        ncclComm_t comm, cudaStream_t stream) {
  return call("ncclReduce", Kind::reduce, in, out, count, type, op, root, comm, stream);
}
ncclResult_t ncclReduceScatter(const void* in, void* out, size_t out_count, ncclDataType_t type, ncclRedOp_t op,
                               ncclComm_t comm, cudaStream_t stream) {
  return call("ncclReduceScatter", Kind::reduce_scatter, in, out, out_count, type, op, 0, comm, stream);
}
ncclResult_t ncclAllGather(const void* in, void* out, size_t in_count, ncclDataType_t type, ncclComm_t comm,
                           cudaStream_t stream) {
  return call("ncclAllGather", Kind::all_gather, in, out, in_count, type, ncclSum, 0, comm, stream);
}
ncclResult_t ncclBroadcast(const void* in, void* out, size_t count, ncclDataType_t type, int root, ncclComm_t comm,
                           cudaStream_t stream) {
  return call("ncclBroadcast", Kind::broadcast, in, out, count, type, ncclSum, root, comm, stream);
}
ncclResult_t ncclSend(const void* in, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                      cudaStream_t stream) {
  return call("ncclSend", Kind::send, in, nullptr, count, type, ncclSum, peer, comm, stream);
}
ncclResult_t ncclRecv(void* out, size_t count, ncclDataType_t type, int peer, ncclComm_t comm, cudaStream_t stream) {
  return call("ncclRecv", Kind::recv, nullptr, out, count, type, ncclSum, peer, comm, stream);
}

ncclResult_t ncclGroupStart() {
  ++t_group.depth;
  return ncclSuccess;
}
ncclResult_t ncclGroupEnd() {
  if (t_group.depth == 0) return refuse("ncclGroupEnd without ncclGroupStart", ncclInvalidUsage);
  return --t_group.depth == 0 ? end_group() : ncclSuccess;
}

}  // extern "C"
