// The emulated NVRTC: sources become kernels, and wrong ones a log.
#include <cuda_runtime.h>
#include <nvrtc.h>

#include <catch2/catch.hpp>
#include <string>
#include <vector>

namespace {

struct Program {
  nvrtcProgram handle = nullptr;
  explicit Program(const char* source, std::vector<const char*> headers = {}, std::vector<const char*> names = {}) {
    REQUIRE(nvrtcCreateProgram(&handle, source, "fused.cu", int(headers.size()), headers.data(), names.data()) ==
            NVRTC_SUCCESS);
  }
  ~Program() { nvrtcDestroyProgram(&handle); }
  nvrtcResult compile(std::vector<const char*> options) {
    return nvrtcCompileProgram(handle, int(options.size()), options.data());
  }
  std::string log() {
    size_t bytes = 0;
    nvrtcGetProgramLogSize(handle, &bytes);
    std::string text(bytes, ' ');
    nvrtcGetProgramLog(handle, text.data());
    return text.c_str();
  }
  std::string cubin() {
    size_t bytes = 0;
    REQUIRE(nvrtcGetCUBINSize(handle, &bytes) == NVRTC_SUCCESS);
    std::string code(bytes, ' ');
    if (bytes > 0) REQUIRE(nvrtcGetCUBIN(handle, code.data()) == NVRTC_SUCCESS);
    return code;
  }
};

cudaError_t load(cudaLibrary_t* library, const void* code) {
  return cudaLibraryLoadData(library, code, nullptr, nullptr, 0, nullptr, nullptr, 0);
}

struct Scale {
  double factor;
  int offset;
};

}  // namespace

TEST_CASE("emulator: NVRTC compiles a kernel, which runs with the arguments of its launch", "[cuda]") {
  Program program(R"(
      #include "scale.h"
      // Each block sums with its neighbours.
      extern "C" __global__ void __launch_bounds__(64)
      scaled(const float* x, double* y, int n, Scale s, unsigned long long* count) {
        __shared__ float all[64];
        const int i = blockIdx.x * blockDim.x + threadIdx.x;
        all[threadIdx.x] = i < n ? x[i] : 0;
        __syncthreads();
        const float next = all[(threadIdx.x + 1) % blockDim.x];
        if (i < n) {
          y[i] = next * s.factor + s.offset + EXTRA;
          atomicAdd(count, 1ull);
        }
      }
      extern "C" __global__ void nothing() {})",
                  {"struct Scale { double factor; int offset; };"}, {"scale.h"});
  const nvrtcResult compiled = program.compile({"--gpu-architecture=sm_90", "--std=c++17", "-DEXTRA=0.5"});
  INFO(program.log());
  REQUIRE(compiled == NVRTC_SUCCESS);
  const std::string code = program.cubin();
  cudaLibrary_t library;
  REQUIRE(load(&library, code.data()) == cudaSuccess);
  cudaKernel_t kernel, nothing;
  REQUIRE(cudaLibraryGetKernel(&kernel, library, "scaled") == cudaSuccess);
  REQUIRE(cudaLibraryGetKernel(&nothing, library, "nothing") == cudaSuccess);
  CHECK(cudaLibraryGetKernel(&nothing, library, "missing") == cudaErrorSymbolNotFound);

  const unsigned long long loads = kaon_emulator_kernel_loads();
  cudaFuncAttributes attributes;
  REQUIRE(cudaFuncGetAttributes(&attributes, static_cast<const void*>(kernel)) == cudaSuccess);
  CHECK(cudaFuncGetAttributes(&attributes, static_cast<const void*>(&loads)) == cudaErrorInvalidDeviceFunction);
  CHECK(kaon_emulator_kernel_loads() == loads + 1);  // `nothing` has not been used
  cudaGetLastError();

  constexpr int n = 100;
  std::vector<float> host(n);
  for (int i = 0; i < n; ++i) host[i] = float(i);
  float* x;
  double* y;
  unsigned long long* count;
  REQUIRE(cudaMalloc(&x, n * sizeof(float)) == cudaSuccess);
  REQUIRE(cudaMalloc(&y, n * sizeof(double)) == cudaSuccess);
  REQUIRE(cudaMalloc(&count, sizeof *count) == cudaSuccess);
  REQUIRE(cudaMemcpy(x, host.data(), n * sizeof(float), cudaMemcpyDefault) == cudaSuccess);
  REQUIRE(cudaMemset(count, 0, sizeof *count) == cudaSuccess);
  cudaStream_t stream;
  REQUIRE(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking) == cudaSuccess);
  REQUIRE(cudaDeviceSynchronize() == cudaSuccess);
  {
    int size = n;
    Scale scale{2, 3};
    void* arguments[] = {&x, &y, &size, &scale, &count};
    const cudaLaunchConfig_t config{2, 64, 0, stream, nullptr, 0};
    REQUIRE(cudaLaunchKernelExC(&config, kernel, arguments) == cudaSuccess);
    size = 0;
    scale = {};
    REQUIRE(cudaLaunchKernel(nothing, 1, 1, nullptr, 0, stream) == cudaSuccess);
  }
  CHECK(kaon_emulator_kernel_loads() == loads + 2);
  REQUIRE(cudaLibraryUnload(library) == cudaSuccess);  // what has been launched runs all the same
  REQUIRE(cudaStreamSynchronize(stream) == cudaSuccess);
  std::vector<double> got(n);
  unsigned long long counted = 0;
  REQUIRE(cudaMemcpy(got.data(), y, n * sizeof(double), cudaMemcpyDefault) == cudaSuccess);
  REQUIRE(cudaMemcpy(&counted, count, sizeof counted, cudaMemcpyDefault) == cudaSuccess);
  for (int i = 0; i < n; ++i) {
    const int next = i / 64 * 64 + (i + 1) % 64;
    CHECK(got[i] == (next < n ? next : 0) * 2.0 + 3 + 0.5);
  }
  CHECK(counted == n);
  const cudaLaunchConfig_t config{1, 1, 0, stream, nullptr, 0};
  CHECK(cudaLaunchKernelExC(&config, kernel, nullptr) == cudaErrorInvalidDeviceFunction);
  cudaGetLastError();
  for (void* block : {static_cast<void*>(x), static_cast<void*>(y), static_cast<void*>(count)}) cudaFree(block);
  cudaStreamDestroy(stream);
}

TEST_CASE("emulator: sources of the same names keep to themselves", "[cuda]") {
  int* x;
  REQUIRE(cudaMalloc(&x, 2 * sizeof(int)) == cudaSuccess);
  cudaLibrary_t libraries[2];
  cudaKernel_t kernels[2];
  for (int i = 0; i < 2; ++i) {
    Program program(R"(inline int next() { static int value = 7 * VALUE; return value++; }
                       extern "C" __global__ void put(int* x) { x[VALUE] = next(); })");
    REQUIRE(program.compile({"-arch=sm_90", i ? "-DVALUE=1" : "-DVALUE=0"}) == NVRTC_SUCCESS);
    REQUIRE(load(&libraries[i], program.cubin().data()) == cudaSuccess);
    REQUIRE(cudaLibraryGetKernel(&kernels[i], libraries[i], "put") == cudaSuccess);
  }
  void* arguments[] = {&x};
  for (cudaKernel_t kernel : kernels) {
    REQUIRE(cudaLaunchKernel(kernel, 1, 1, arguments, 0, nullptr) == cudaSuccess);
  }
  int got[2];
  REQUIRE(cudaMemcpy(got, x, sizeof got, cudaMemcpyDefault) == cudaSuccess);
  CHECK(got[0] == 0);
  CHECK(got[1] == 7);
  for (cudaLibrary_t library : libraries) REQUIRE(cudaLibraryUnload(library) == cudaSuccess);
  REQUIRE(cudaFree(x) == cudaSuccess);
}

TEST_CASE("emulator: NVRTC's errors", "[cuda]") {
  Program wrong("extern \"C\" __global__ void f(int* x) {\n  *x = unknown_name;\n}");
  CHECK(wrong.compile({"-arch=sm_90"}) == NVRTC_ERROR_COMPILATION);
  CHECK_THAT(wrong.log(), Catch::Contains("fused.cu:2") && Catch::Contains("unknown_name"));
  size_t bytes;
  CHECK(nvrtcGetCUBINSize(wrong.handle, &bytes) == NVRTC_ERROR_INVALID_PROGRAM);

  Program right("extern \"C\" __global__ void f(int* x) { *x = 1; }");
  CHECK(right.compile({"-arch=sm_90", "--unheard-of"}) == NVRTC_ERROR_INVALID_OPTION);
  CHECK_THAT(right.log(), Catch::Contains("--unheard-of"));
  CHECK(right.compile({"-arch=ninety"}) == NVRTC_ERROR_INVALID_OPTION);

  cudaLibrary_t library;
  REQUIRE(right.compile({"-arch=compute_80"}) == NVRTC_SUCCESS);
  CHECK(right.cubin().empty());  // only PTX, which can be compiled further
  REQUIRE(nvrtcGetPTXSize(right.handle, &bytes) == NVRTC_SUCCESS);
  std::string ptx(bytes, ' ');
  REQUIRE(nvrtcGetPTX(right.handle, ptx.data()) == NVRTC_SUCCESS);
  REQUIRE(load(&library, ptx.data()) == cudaSuccess);
  REQUIRE(cudaLibraryUnload(library) == cudaSuccess);

  REQUIRE(right.compile({"-arch=sm_80"}) == NVRTC_SUCCESS);  // of another device
  CHECK(load(&library, right.cubin().data()) == cudaErrorNoKernelImageForDevice);
  const std::string nonsense(1000, 'x');
  CHECK(load(&library, nonsense.data()) == cudaErrorInvalidKernelImage);
  cudaGetLastError();
}
