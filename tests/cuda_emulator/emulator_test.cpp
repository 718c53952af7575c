// The CUDA emulator itself: kernels, memory, streams, captures, and that it finds the mistakes it is there to find.
#define CATCH_CONFIG_MAIN
#include <cuda_runtime.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <catch2/catch.hpp>
#include <cmath>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <future>
#include <numeric>
#include <string>
#include <vector>

namespace {

// A failed device stays failed, so each case that makes one fail has one of its own; device 0 stays whole.
const bool has_devices = setenv("KAON_CUDA_EMULATOR_DEVICES", "8", 1) == 0;

void ok(cudaError_t status) {
  INFO(cudaGetErrorName(status) << " " << kaon_emulator_message());
  REQUIRE(status == cudaSuccess);
}

// Makes a device current while it lives.
struct OnDevice {
  explicit OnDevice(int device) { ok(cudaSetDevice(device)); }
  ~OnDevice() { cudaSetDevice(0); }
};

struct Stream {
  cudaStream_t handle = nullptr;
  Stream() { ok(cudaStreamCreateWithFlags(&handle, cudaStreamNonBlocking)); }
  ~Stream() { cudaStreamDestroy(handle); }
  operator cudaStream_t() const { return handle; }
};

struct Event {
  cudaEvent_t handle = nullptr;
  Event() { ok(cudaEventCreateWithFlags(&handle, cudaEventDisableTiming)); }
  ~Event() { cudaEventDestroy(handle); }
  operator cudaEvent_t() const { return handle; }
};

template <class T>
struct DeviceArray {
  T* data = nullptr;
  size_t size;
  explicit DeviceArray(size_t n) : size(n) { ok(cudaMalloc(&data, n * sizeof(T))); }
  explicit DeviceArray(const std::vector<T>& values) : DeviceArray(values.size()) {
    ok(cudaMemcpy(data, values.data(), size * sizeof(T), cudaMemcpyHostToDevice));
  }
  ~DeviceArray() { cudaFree(data); }
  DeviceArray(const DeviceArray&) = delete;
  std::vector<T> read() const {
    ok(cudaDeviceSynchronize());
    std::vector<T> values(size);
    ok(cudaMemcpy(values.data(), data, size * sizeof(T), cudaMemcpyDeviceToHost));
    return values;
  }
};

template <class... P, class... A>
cudaError_t launch(dim3 grid, dim3 block, cudaStream_t stream, void (*kernel)(P...), A&&... arguments) {
  const cudaLaunchConfig_t config{grid, block, 0, stream, nullptr, 0};
  return cudaLaunchKernelEx(&config, kernel, std::forward<A>(arguments)...);
}

__global__ void __launch_bounds__(256) axpy(const float* __restrict__ x, float* y, float a, size_t n) {
  for (size_t i = size_t(blockIdx.x) * blockDim.x + threadIdx.x; i < n; i += size_t(gridDim.x) * blockDim.x) {
    y[i] += a * __ldg(x + i);
  }
}

__global__ void sum_blocks(const int* x, int* sums, int n) {
  __shared__ int partial[32];
  const int i = int(blockIdx.x * blockDim.x + threadIdx.x), lane = int(threadIdx.x % 32);
  int sum = i < n ? x[i] : 0;
  for (int d = 16; d > 0; d /= 2) sum += __shfl_xor_sync(0xffffffff, sum, d);
  if (lane == 0) partial[threadIdx.x / 32] = sum;
  __syncthreads();
  if (threadIdx.x < 32) {
    sum = threadIdx.x < blockDim.x / 32 ? partial[threadIdx.x] : 0;
    for (int d = 16; d > 0; d /= 2) sum += __shfl_down_sync(0xffffffff, sum, d);
    if (threadIdx.x == 0) sums[blockIdx.x] = sum;
  }
}

// Reverses within a block.
__global__ void reverse(int* x, bool has_barrier) {
  __shared__ int all[64];
  all[threadIdx.x] = x[threadIdx.x];
  if (has_barrier) __syncthreads();
  x[threadIdx.x] = all[blockDim.x - 1 - threadIdx.x];
}

__global__ void votes(unsigned* ballots, int* answers, double* moved) {
  const int i = int(threadIdx.x);
  ballots[i] = __ballot_sync(0xffffffff, i % 3 == 0);
  answers[4 * i] = __any_sync(0xffffffff, i == 40);
  answers[4 * i + 1] = __all_sync(0xffffffff, i != 40);
  answers[4 * i + 2] = __syncthreads_count(i % 2);
  answers[4 * i + 3] = __syncthreads_or(i == 1) + 2 * __syncthreads_and(i != 1);
  moved[3 * i] = __shfl_sync(0xffffffff, double(i), 5, 8);
  moved[3 * i + 1] = __shfl_up_sync(0xffffffff, double(i), 2);
  if (i % 32 < 4) moved[3 * i + 2] = __shfl_xor_sync(0xf, double(i), 1);
}

__global__ void half_wait(int* x) {
  if (threadIdx.x < 32) __syncthreads();
  if (threadIdx.x >= 32) __syncthreads();
  x[threadIdx.x] = 1;
}

__global__ void early_exit(int* x) {
  if (threadIdx.x % 3 == 0) return;
  __syncthreads();
  x[threadIdx.x] = 1;
}

__global__ void block_against_warp() {
  if (threadIdx.x == 3) {
    __syncthreads();
  } else {
    __syncwarp();
  }
}

__global__ void set(int* x, int value) { *x = value; }
__global__ void append(int* count, int* list, int value) { list[atomicAdd(count, 1)] = value; }

struct Pair {
  int first, second;
};
__global__ void convert(double* out, float f, size_t n, Pair pair, const double* none) {
  out[0] = double(f);
  out[1] = double(n);
  out[2] = pair.first - pair.second;
  out[3] = none == nullptr;
}

std::vector<int> iota(int n) {
  std::vector<int> values(n);
  std::iota(values.begin(), values.end(), 0);
  return values;
}

}  // namespace

TEST_CASE("emulator: a kernel of many threads, with converted arguments", "[cuda]") {
  const Stream stream;
  const size_t n = 100000;
  const DeviceArray<float> x(std::vector<float>(n, 2)), y(std::vector<float>(n, 1));
  const unsigned long long before = kaon_emulator_launches();
  ok(launch(unsigned((n + 255) / 256), 256, stream, axpy, x.data, y.data, 3, n));
  ok(launch(dim3(3, 1, 1), dim3(7), stream, axpy, x.data, y.data, 1.5, n));
  CHECK(y.read() == std::vector<float>(n, 10));
  CHECK(kaon_emulator_launches() == before + 2);
  const DeviceArray<double> out(4);
  ok(launch(1, 1, stream, convert, out.data, 2, 3, Pair{4, 9}, nullptr));
  CHECK(out.read() == std::vector<double>{2, 3, -5, 1});
}

TEST_CASE("emulator: reductions by shuffles and shared memory", "[cuda]") {
  const Stream stream;
  for (int threads : {32, 64, 256, 1024}) {
    const int n = 3000, blocks = (n + threads - 1) / threads;
    const DeviceArray<int> x(iota(n)), sums(blocks);
    ok(launch(blocks, threads, stream, sum_blocks, x.data, sums.data, n));
    const std::vector<int> got = sums.read();
    for (int b = 0; b < blocks; ++b) {
      const int first = b * threads, last = std::min(n, first + threads);
      CHECK(got[b] == (last - first) * (first + last - 1) / 2);
    }
  }
}

TEST_CASE("emulator: a missing barrier shows, one that is there helps", "[cuda]") {
  const Stream stream;
  for (bool has_barrier : {true, false}) {
    for (int i = 0; i < 10; ++i) {
      std::vector<int> values(64);  // others than last time, which shared memory may still hold
      std::iota(values.begin(), values.end(), 100 * i);
      const DeviceArray<int> x(values);
      ok(launch(1, 64, stream, reverse, x.data, has_barrier));
      std::reverse(values.begin(), values.end());
      CHECK((x.read() == values) == has_barrier);
    }
  }
}

TEST_CASE("emulator: votes, shuffles within parts of a warp, counting barriers", "[cuda]") {
  const Stream stream;
  const int threads = 48;  // the second warp is half there
  const DeviceArray<unsigned> ballots(threads);
  const DeviceArray<int> answers(4 * threads);
  const DeviceArray<double> moved(3 * threads);
  ok(launch(1, threads, stream, votes, ballots.data, answers.data, moved.data));
  const auto b = ballots.read();
  const auto a = answers.read();
  const auto m = moved.read();
  for (int i = 0; i < threads; ++i) {
    const int lane = i % 32;
    unsigned ballot = 0;
    for (int j = i - lane; j < std::min(threads, i - lane + 32); ++j) ballot |= unsigned(j % 3 == 0) << j % 32;
    CHECK(b[i] == ballot);
    CHECK(a[4 * i] == (i >= 32));
    CHECK(a[4 * i + 1] == (i < 32));
    CHECK(a[4 * i + 2] == threads / 2);
    CHECK(a[4 * i + 3] == 1);
    CHECK(m[3 * i] == i / 8 * 8 + 5);
    CHECK(m[3 * i + 1] == (lane < 2 ? i : i - 2));
    if (lane < 4) CHECK(m[3 * i + 2] == (i ^ 1));
  }
}

TEST_CASE("emulator: exited threads do not hold a barrier up", "[cuda]") {
  const Stream stream;
  const DeviceArray<int> x(std::vector<int>(100, 0));
  ok(launch(1, 100, stream, early_exit, x.data));
  const auto got = x.read();
  for (int i = 0; i < 100; ++i) CHECK(got[i] == (i % 3 != 0));
}

TEST_CASE("emulator: barriers in branches are reported", "[cuda]") {
  for (int device : {1, 2}) {
    const OnDevice on(device);
    const Stream stream;
    const DeviceArray<int> x(64);
    ok(device == 1 ? launch(1, 64, stream, half_wait, x.data) : launch(1, 32, stream, block_against_warp));
    CHECK(cudaStreamSynchronize(stream) == cudaErrorLaunchFailure);
    CHECK(cudaGetLastError() == cudaErrorLaunchFailure);  // and stays
    CHECK(cudaGetLastError() == cudaErrorLaunchFailure);
    const std::string message = kaon_emulator_message();
    CHECK_THAT(message, Catch::Contains("hangs") && Catch::Contains("__syncthreads") &&
                            Catch::Contains(device == 1 ? "threads 32 to 63 wait" : "threads 3 to 3 wait"));
  }
}

TEST_CASE("emulator: fresh memory is NaN, and a write beside a block is reported", "[cuda]") {
  {
    const DeviceArray<float> x(1000);
    for (float v : x.read()) CHECK(std::isnan(v));
  }
  for (int device : {3, 4}) {
    const OnDevice on(device);
    const Stream stream;
    int* x = nullptr;
    ok(cudaMalloc(&x, 10 * sizeof(int)));
    CHECK(reinterpret_cast<uintptr_t>(x) % 256 == 0);
    ok(launch(1, 1, stream, set, device == 3 ? x + 10 : x - 1, 7));
    CHECK(cudaStreamSynchronize(stream) == cudaErrorIllegalAddress);
    CHECK_THAT(kaon_emulator_message(), Catch::Contains("beside a block of 40 bytes"));
  }
}

TEST_CASE("emulator: wrong pointers and wrong sizes are refused", "[cuda]") {
  const Stream stream;
  int *x = nullptr, *pinned = nullptr, host[20] = {};
  ok(cudaMalloc(&x, 10 * sizeof(int)));
  ok(cudaHostAlloc(&pinned, 10 * sizeof(int), cudaHostAllocPortable));
  CHECK(cudaMemcpyAsync(x, host, 11 * sizeof(int), cudaMemcpyDefault, stream) == cudaErrorInvalidValue);
  CHECK(cudaMemcpyAsync(host, x + 8, 3 * sizeof(int), cudaMemcpyDefault, stream) == cudaErrorInvalidValue);
  CHECK(cudaMemcpyAsync(x, pinned + 5, 6 * sizeof(int), cudaMemcpyDefault, stream) == cudaErrorInvalidValue);
  CHECK(cudaMemcpyAsync(x, host, 4, cudaMemcpyDeviceToHost, stream) == cudaErrorInvalidMemcpyDirection);
  CHECK(cudaMemsetAsync(x, 0, 41, stream) == cudaErrorInvalidValue);
  CHECK(cudaFree(x + 1) == cudaErrorInvalidValue);
  CHECK(cudaFree(host) == cudaErrorInvalidValue);
  CHECK(cudaFreeHost(x) == cudaErrorInvalidValue);
  ok(cudaFree(x));
  CHECK(cudaFree(x) == cudaErrorInvalidValue);
  CHECK(cudaMemsetAsync(x, 0, 4, stream) == cudaErrorInvalidValue);
  ok(cudaFreeHost(pinned));
  CHECK(launch(1, 1025, stream, set, x, 0) == cudaErrorInvalidConfiguration);
  CHECK(launch(0, 32, stream, set, x, 0) == cudaErrorInvalidConfiguration);
  const cudaLaunchConfig_t large{1, 1, 49 << 10, stream, nullptr, 0};
  CHECK(cudaLaunchKernelEx(&large, set, x, 0) == cudaErrorInvalidValue);
  CHECK(cudaStreamSynchronize(reinterpret_cast<cudaStream_t>(host)) == cudaErrorInvalidResourceHandle);
  CHECK(cudaGetLastError() == cudaErrorInvalidResourceHandle);
  CHECK(cudaGetLastError() == cudaSuccess);  // none of them was sticky
}

TEST_CASE("emulator: the host faults on device memory, a kernel on the host's", "[cuda]") {
  const int key = pkey_alloc(0, 0);
  if (key < 0) WARN("no protection keys: device memory is not guarded");
  pkey_free(key);
  int *live = nullptr, *freed = nullptr;
  ok(cudaMalloc(&live, sizeof(int)));
  ok(cudaMalloc(&freed, sizeof(int)));
  ok(cudaFree(freed));
  for (const volatile int* x : {live, freed}) {
    if (key < 0 && x == live) continue;
    const pid_t child = fork();
    if (child == 0) {
      signal(SIGSEGV, SIG_DFL);
      _exit(*x == 0);
    }
    int status = 0;
    REQUIRE(waitpid(child, &status, 0) == child);
    CHECK((WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV));
  }
  ok(cudaFree(live));
  const OnDevice on(6);
  int host = 0;
  CHECK(launch(1, 1, nullptr, set, &host, 1) == cudaErrorIllegalAddress);
  CHECK_THAT(kaon_emulator_message(), Catch::Contains("memory of the host"));
}

TEST_CASE("emulator: memory is limited, and what streams free comes back", "[cuda]") {
  size_t free = 0, total = 0;
  ok(cudaMemGetInfo(&free, &total));
  kaon_emulator_set_memory(1 << 20);
  const Stream stream;
  void *a = nullptr, *b = nullptr;
  CHECK(cudaMalloc(&b, (1 << 20) + 1) == cudaErrorMemoryAllocation);
  ok(cudaMallocAsync(&a, 600 << 10, stream));
  CHECK(cudaMalloc(&b, 600 << 10) == cudaErrorMemoryAllocation);
  ok(cudaFreeAsync(a, stream));
  ok(cudaMallocAsync(&b, 600 << 10, stream));
  ok(cudaFree(b));
  kaon_emulator_set_memory(total);
  cudaGetLastError();
}

TEST_CASE("emulator: streams overtake each other, but for what they wait for", "[cuda]") {
  const Stream streams[2];
  for (bool waits : {false, true}) {
    int overtaken = 0;
    for (int round = 0; round < 100; ++round) {
      const DeviceArray<int> count(std::vector<int>{0}), list(std::vector<int>{-1, -1});
      const Event event;
      ok(launch(1, 1, streams[0], append, count.data, list.data, 0));
      ok(cudaEventRecord(event, streams[0]));
      if (waits) ok(cudaStreamWaitEvent(streams[1], event, 0));
      ok(launch(1, 1, streams[1], append, count.data, list.data, 1));
      overtaken += list.read() == std::vector<int>{1, 0};
    }
    if (waits) CHECK(overtaken == 0);
    if (!waits) CHECK(overtaken > 0);
  }
}

TEST_CASE("emulator: pinned memory is read when the copy runs, other memory at once", "[cuda]") {
  const Stream stream;
  const Stream other;
  std::atomic<bool> is_open{false};
  const auto block = [&] {
    is_open = false;
    ok(cudaLaunchHostFunc(
        other, [](void* open) { static_cast<std::atomic<bool>*>(open)->wait(false); }, &is_open));
  };
  const auto open = [&] {
    is_open = true;
    is_open.notify_all();
  };
  int *pinned = nullptr, pageable = 1;
  ok(cudaHostAlloc(&pinned, sizeof(int), cudaHostAllocDefault));
  *pinned = 1;
  const DeviceArray<int> a(1), b(1);
  const Event event;
  block();
  ok(cudaEventRecord(event, other));
  CHECK(cudaEventQuery(event) == cudaErrorNotReady);
  ok(cudaStreamWaitEvent(stream, event, 0));
  ok(cudaMemcpyAsync(a.data, pinned, sizeof(int), cudaMemcpyHostToDevice, stream));
  ok(cudaMemcpyAsync(b.data, &pageable, sizeof(int), cudaMemcpyHostToDevice, stream));
  *pinned = pageable = 2;
  open();
  CHECK(a.read() == std::vector<int>{2});
  CHECK(b.read() == std::vector<int>{1});
  CHECK(cudaEventQuery(event) == cudaSuccess);
  ok(cudaFreeHost(pinned));
}

TEST_CASE("emulator: a capture is replayed, with its edges alone as its order", "[cuda]") {
  const Stream first, second;
  const Event fork, join;
  const DeviceArray<int> count(std::vector<int>{0}), list(std::vector<int>(4, -1));
  ok(cudaStreamBeginCapture(first, cudaStreamCaptureModeThreadLocal));
  ok(launch(1, 1, first, append, count.data, list.data, 0));
  ok(cudaEventRecord(fork, first));
  ok(cudaStreamWaitEvent(second, fork, 0));
  ok(launch(1, 1, first, append, count.data, list.data, 1));
  ok(launch(1, 1, second, append, count.data, list.data, 2));
  ok(cudaEventRecord(join, second));
  ok(cudaStreamWaitEvent(first, join, 0));
  ok(launch(1, 1, first, append, count.data, list.data, 3));
  cudaStreamCaptureStatus status;
  ok(cudaStreamIsCapturing(second, &status));
  CHECK(status == cudaStreamCaptureStatusActive);
  cudaGraph_t graph;
  ok(cudaStreamEndCapture(first, &graph));
  ok(cudaStreamIsCapturing(second, &status));
  CHECK(status == cudaStreamCaptureStatusNone);
  CHECK(count.read() == std::vector<int>{0});  // nothing has run

  cudaGraphExec_t exec;
  ok(cudaGraphInstantiate(&exec, graph));
  ok(cudaGraphDestroy(graph));
  const unsigned long long before = kaon_emulator_graph_launches();
  bool upwards = false, downwards = false;
  for (int i = 0; i < 40; ++i) {
    ok(cudaMemsetAsync(count.data, 0, sizeof(int), first));
    ok(cudaGraphLaunch(exec, first));
    const auto got = list.read();
    upwards = upwards || got == std::vector<int>{0, 1, 2, 3};
    downwards = downwards || got == std::vector<int>{0, 2, 1, 3};
    CHECK((got[0] == 0 && got[1] + got[2] == 3 && got[3] == 3));
  }
  CHECK(upwards);
  CHECK(downwards);
  CHECK(kaon_emulator_graph_launches() == before + 40);
  ok(cudaGraphExecDestroy(exec));
}

TEST_CASE("emulator: what CUDA forbids during a capture spoils it", "[cuda]") {
  const Stream first, second;
  const Event event;
  const DeviceArray<int> x(1);
  cudaGraph_t graph;
  int host = 0;
  const auto spoils = [&](auto call, cudaError_t expected) {
    ok(cudaStreamBeginCapture(first, cudaStreamCaptureModeGlobal));
    ok(launch(1, 1, first, set, x.data, 1));
    CHECK(call() == expected);
    CHECK(cudaStreamEndCapture(first, &graph) == cudaErrorStreamCaptureInvalidated);
    CHECK(graph == nullptr);
    cudaGetLastError();
  };
  const cudaError_t unsupported = cudaErrorStreamCaptureUnsupported;
  spoils(
      [&] {
        void* p;
        return cudaMalloc(&p, 8);
      },
      unsupported);
  spoils([&] { return cudaStreamSynchronize(first); }, unsupported);
  spoils([&] { return cudaEventQuery(event); }, unsupported);
  spoils([&] { return cudaDeviceSynchronize(); }, unsupported);
  spoils([&] { return cudaMemcpyAsync(x.data, &host, 4, cudaMemcpyDefault, first); }, unsupported);
  spoils(
      [&] {
        return cudaStreamAddCallback(
            first, [](cudaStream_t, cudaError_t, void*) {}, nullptr, 0);
      },
      unsupported);
  spoils([&] { return cudaEventRecord(event, first) ? cudaErrorNotReady : cudaEventQuery(event); },
         cudaErrorCapturedEvent);
  spoils(
      [&] {
        ok(cudaEventRecord(event, second));
        return cudaStreamWaitEvent(first, event, 0);
      },
      cudaErrorStreamCaptureIsolation);
  ok(cudaStreamBeginCapture(first, cudaStreamCaptureModeRelaxed));
  ok(cudaEventRecord(event, first));
  ok(cudaStreamWaitEvent(second, event, 0));
  ok(launch(1, 1, second, set, x.data, 1));
  CHECK(cudaStreamEndCapture(first, &graph) == cudaErrorStreamCaptureUnjoined);
  cudaGetLastError();
}

TEST_CASE("emulator: whom a capture forbids what is a matter of both modes", "[cuda]") {
  const Stream stream;
  const auto in_other_thread = [](auto call) { return std::async(std::launch::async, call).get(); };
  const auto allocate = [](cudaStreamCaptureMode mode) {
    void* block = nullptr;
    ok(cudaThreadExchangeStreamCaptureMode(&mode));
    const cudaError_t status = cudaMalloc(&block, 8);
    ok(cudaThreadExchangeStreamCaptureMode(&mode));
    cudaGetLastError();
    return status;
  };
  constexpr auto global = cudaStreamCaptureModeGlobal, local = cudaStreamCaptureModeThreadLocal,
                 relaxed = cudaStreamCaptureModeRelaxed;
  for (auto capture : {global, local, relaxed}) {
    for (auto thread : {global, local, relaxed}) {
      for (bool is_mine : {true, false}) {
        INFO("capture " << capture << ", thread " << thread << ", mine " << is_mine);
        ok(cudaStreamBeginCapture(stream, capture));
        const cudaError_t status = is_mine ? allocate(thread) : in_other_thread([&] { return allocate(thread); });
        const bool is_forbidden =
            thread != relaxed && (is_mine ? capture != relaxed : capture == global && thread == global);
        CHECK(status == (is_forbidden ? cudaErrorStreamCaptureUnsupported : cudaSuccess));
        cudaGraph_t graph;
        CHECK(cudaStreamEndCapture(stream, &graph) == (is_forbidden ? cudaErrorStreamCaptureInvalidated : cudaSuccess));
        if (graph) ok(cudaGraphDestroy(graph));
        cudaGetLastError();
      }
    }
  }
}

TEST_CASE("emulator: a device that fails says so from then on, and makes its callbacks", "[cuda]") {
  const OnDevice on(5);
  cudaStream_t stream = nullptr;
  ok(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  const DeviceArray<int> x(1);
  ok(cudaDeviceSynchronize());
  kaon_emulator_fail(5);
  std::atomic<int> status{-1};
  cudaError_t pushed = launch(1, 1, stream, set, x.data, 1);
  CHECK(pushed == cudaSuccess);
  pushed = cudaStreamAddCallback(
      stream,
      [](cudaStream_t, cudaError_t status, void* to) {
        int count;
        CHECK(cudaSetDevice(0) == cudaErrorNotPermitted);
        CHECK(cudaGetDeviceCount(&count) == cudaSuccess);
        static_cast<std::atomic<int>*>(to)->store(status);
        static_cast<std::atomic<int>*>(to)->notify_all();
      },
      &status, 0);
  if (pushed == cudaSuccess) {  // else the device had failed by then
    status.wait(-1);
    CHECK(status == cudaErrorIllegalAddress);
  }
  CHECK(cudaDeviceSynchronize() == cudaErrorIllegalAddress);
  int* y = nullptr;
  CHECK(cudaMalloc(&y, 4) == cudaErrorIllegalAddress);
  CHECK(cudaGetLastError() == cudaErrorIllegalAddress);
  CHECK(cudaSetDevice(0) == cudaSuccess);
  ok(cudaDeviceSynchronize());
}

TEST_CASE("emulator: devices", "[cuda]") {
  int count = 0, value = 0;
  ok(cudaGetDeviceCount(&count));
  CHECK(count == 8);
  cudaDeviceProp properties;
  ok(cudaGetDeviceProperties(&properties, 0));
  CHECK(std::strcmp(properties.name, "Kaon's CUDA emulator") == 0);
  CHECK(properties.major == 9);
  ok(cudaDeviceGetAttribute(&value, cudaDevAttrMultiProcessorCount, 0));
  CHECK(value == properties.multiProcessorCount);
  CHECK(cudaSetDevice(8) == cudaErrorInvalidDevice);
  cudaGetLastError();
}
