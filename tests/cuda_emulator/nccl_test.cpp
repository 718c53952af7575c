// The emulated NCCL itself: its calls run when their stream comes to them, and it finds the mistakes it is there to
// find.
#include "nccl.h"

#include <cuda_runtime.h>

#include <catch2/catch.hpp>
#include <cstring>
#include <functional>
#include <thread>
#include <vector>

namespace {

// One of two ranks, which are threads of this process with a device each.
struct Rank {
  Rank(int rank, const ncclUniqueId& id) : rank(rank) {
    cudaSetDevice(rank);
    ncclConfig_t config{sizeof config, 0xcafebeef, 21400, 0};
    is_good = ncclCommInitRankConfig(&comm, 2, id, rank, &config) == ncclInProgress && wait() == ncclSuccess &&
              cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking) == cudaSuccess &&
              cudaMalloc(reinterpret_cast<void**>(&x), 4 * sizeof(float)) == cudaSuccess;
    for (int i = 0; i < 4; ++i) put(i, float(rank + 1));
  }
  ncclResult_t wait() const {
    ncclResult_t state = ncclInProgress;
    while (ncclCommGetAsyncError(comm, &state) == ncclSuccess && state == ncclInProgress) std::this_thread::yield();
    return state;
  }
  // Whether the call has been taken.
  bool takes(ncclResult_t result) const { return result == ncclInProgress && wait() == ncclSuccess; }
  void put(int at, float value) const { cudaMemcpy(x + at, &value, sizeof value, cudaMemcpyHostToDevice); }
  float get(int at) const {
    float value = -1;
    cudaMemcpyAsync(&value, x + at, sizeof value, cudaMemcpyDeviceToHost, stream);
    return value;
  }
  bool destroy() const { return takes(ncclCommFinalize(comm)) && ncclCommDestroy(comm) == ncclSuccess; }

  const int rank;
  ncclComm_t comm = nullptr;
  cudaStream_t stream = nullptr;
  float* x = nullptr;
  bool is_good = false;
};

// Each on a thread of its own; all that they say must be true.
void run_two(const std::function<bool(Rank&)>& body) {
  ncclUniqueId id;
  REQUIRE(ncclGetUniqueId(&id) == ncclSuccess);
  bool results[2] = {};
  std::vector<std::thread> threads;
  for (int r = 0; r < 2; ++r) {
    threads.emplace_back([&, r] {
      Rank rank(r, id);
      results[r] = rank.is_good && body(rank);
    });
  }
  for (std::thread& t : threads) t.join();
  CHECK(results[0]);
  CHECK(results[1]);
}

}  // namespace

TEST_CASE("emulator nccl: a call runs when its stream comes to it, and what follows there waits", "[cuda]") {
  run_two([](Rank& r) {
    // The input is written on the stream behind a callback that takes its time.
    cudaStreamAddCallback(
        r.stream, [](cudaStream_t, cudaError_t, void*) { std::this_thread::sleep_for(std::chrono::milliseconds(20)); },
        nullptr, 0);
    cudaMemsetAsync(r.x + 1, 0, sizeof(float), r.stream);
    return r.takes(ncclAllReduce(r.x, r.x, 4, ncclFloat32, ncclSum, r.comm, r.stream)) && r.get(0) == 3 &&
           r.get(1) == 0 && r.takes(ncclBroadcast(r.x, r.x, 1, ncclFloat32, 1, r.comm, r.stream)) && r.destroy();
  });
}

TEST_CASE("emulator nccl: sends and receives of a group go at once", "[cuda]") {
  run_two([](Rank& r) {
    ncclGroupStart();
    ncclSend(r.x, 1, ncclFloat32, 1 - r.rank, r.comm, r.stream);
    ncclRecv(r.x + 1, 1, ncclFloat32, 1 - r.rank, r.comm, r.stream);
    return r.takes(ncclGroupEnd()) && r.get(1) == float(2 - r.rank) && r.destroy();
  });
}

TEST_CASE("emulator nccl: what NCCL would refuse, or would do wrong", "[cuda]") {
  run_two([](Rank& r) {
    float host[4] = {};
    const auto reduce = [&](const void* in, void* out, size_t count, int type = ncclFloat32, int op = ncclSum) {
      return ncclAllReduce(in, out, count, ncclDataType_t(type), ncclRedOp_t(op), r.comm, r.stream);
    };
    ncclUniqueId other{};
    ncclConfig_t config{sizeof config, 1, 21400, 0};
    ncclComm_t none = nullptr;
    bool all = ncclCommInitRankConfig(&none, 2, other, 0, &config) == ncclInvalidArgument;
    config.magic = 0xcafebeef;
    all &= ncclCommInitRankConfig(&none, 2, other, 2, &config) == ncclInvalidArgument;
    all &= reduce(host, r.x, 4) == ncclInvalidArgument;     // memory of the host
    all &= reduce(r.x, r.x, 5) == ncclInvalidArgument;      // beyond the block
    all &= reduce(r.x, r.x + 1, 2) == ncclInvalidArgument;  // overlapping
    all &= reduce(r.x, r.x, 4, 77) == ncclInvalidArgument;  // no type
    all &= reduce(r.x, r.x, 4, ncclFloat32, 9) == ncclInvalidArgument;
    all &= ncclBroadcast(r.x, r.x, 1, ncclFloat32, 2, r.comm, r.stream) == ncclInvalidArgument;  // no rank
    cudaSetDevice(1 - r.rank);
    all &= reduce(r.x, r.x, 4) == ncclInvalidUsage;  // another device is current
    cudaSetDevice(r.rank);
    all &= ncclCommDestroy(r.comm) == ncclInvalidUsage;  // not finalized
    all &= ncclGroupEnd() == ncclInvalidUsage;           // none was begun
    all &= r.destroy();
    return all && reduce(r.x, r.x, 4) == ncclInvalidArgument && ncclCommAbort(r.comm) == ncclInvalidArgument;
  });
}

TEST_CASE("emulator nccl: calls that differ are an error, and an abort lets the stream go on", "[cuda]") {
  run_two([](Rank& r) {
    if (ncclAllReduce(r.x, r.x, size_t(3 + r.rank), ncclFloat32, ncclSum, r.comm, r.stream) != ncclInProgress) {
      return false;
    }
    ncclResult_t state = ncclInProgress;
    while (state == ncclInProgress || state == ncclSuccess) ncclCommGetAsyncError(r.comm, &state);
    const bool is_held = cudaStreamQuery(r.stream) == cudaErrorNotReady;
    return state == ncclInvalidArgument && is_held && ncclCommAbort(r.comm) == ncclSuccess &&
           cudaStreamSynchronize(r.stream) == cudaSuccess &&
           ncclAllReduce(r.x, r.x, 4, ncclFloat32, ncclSum, r.comm, r.stream) == ncclInvalidArgument;
  });
}
