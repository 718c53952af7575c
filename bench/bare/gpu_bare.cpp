// gpu_bare.so: see gpu_bare.h.
#include "kaon/bench/gpu/gpu_bare.h"

#include <cublasLt.h>
#include <cuda_runtime.h>

#include <chrono>
#include <memory>
#include <random>
#include <string>
#include <vector>

namespace kaon::bench {
namespace {

std::string last_problem;

struct Failed {};
void check(cudaError_t status, const char* what) {
  if (status == cudaSuccess) return;
  last_problem = std::string(what) + ": " + cudaGetErrorString(status);
  throw Failed{};
}
void check(cublasStatus_t status, const char* what) {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  last_problem = std::string(what) + ": " + cublasLtGetStatusString(status);
  throw Failed{};
}

// Memory of the device.
class Block {
 public:
  explicit Block(size_t bytes) { check(cudaMalloc(&address_, bytes), "cudaMalloc"); }
  ~Block() { cudaFree(address_); }
  Block(const Block&) = delete;
  Block& operator=(const Block&) = delete;
  void* get() const { return address_; }

 private:
  void* address_ = nullptr;
};

constexpr size_t workspace_bytes = size_t(32) << 20;  // as NVIDIA recommends for Hopper

class Product {
 public:
  Product(BareType type, int64_t n)
      : bytes_(size_t(n) * size_t(n) * (type == BareType::bfloat16 ? 2 : 4)), a_(bytes_), b_(bytes_), c_(bytes_) {
    fill(a_, type, n), fill(b_, type, n);
    check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
    check(cublasLtCreate(&handle_), "cublasLtCreate");
    check(cublasLtMatmulDescCreate(
              &operation_, type == BareType::tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F, CUDA_R_32F),
          "cublasLtMatmulDescCreate");
    check(cublasLtMatrixLayoutCreate(&layout_, type == BareType::bfloat16 ? CUDA_R_16BF : CUDA_R_32F, uint64_t(n),
                                     uint64_t(n), n),
          "cublasLtMatrixLayoutCreate");
    cublasLtMatmulPreference_t preference;
    check(cublasLtMatmulPreferenceCreate(&preference), "cublasLtMatmulPreferenceCreate");
    check(cublasLtMatmulPreferenceSetAttribute(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &workspace_bytes,
                                               sizeof(workspace_bytes)),
          "cublasLtMatmulPreferenceSetAttribute");
    int found = 0;
    check(cublasLtMatmulAlgoGetHeuristic(handle_, operation_, layout_, layout_, layout_, layout_, preference, 1,
                                         &heuristic_, &found),
          "cublasLtMatmulAlgoGetHeuristic");
    cublasLtMatmulPreferenceDestroy(preference);
    if (found == 0) check(CUBLAS_STATUS_NOT_SUPPORTED, "cublasLtMatmulAlgoGetHeuristic");
  }
  ~Product() {
    if (stream_) cudaStreamSynchronize(stream_), cudaStreamDestroy(stream_);
    if (layout_) cublasLtMatrixLayoutDestroy(layout_);
    if (operation_) cublasLtMatmulDescDestroy(operation_);
    if (handle_) cublasLtDestroy(handle_);
  }
  Product(const Product&) = delete;
  Product& operator=(const Product&) = delete;

  double seconds(int calls) {
    const float one = 1, zero = 0;
    check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
    const auto start = std::chrono::steady_clock::now();
    for (int i = 0; i < calls; ++i) {
      check(cublasLtMatmul(handle_, operation_, &one, a_.get(), layout_, b_.get(), layout_, &zero, c_.get(), layout_,
                           c_.get(), layout_, &heuristic_.algo, workspace_.get(), workspace_bytes, stream_),
            "cublasLtMatmul");
    }
    check(cudaStreamSynchronize(stream_), "cudaStreamSynchronize");
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count() / calls;
  }

 private:
  // With what the multipliers have to work as hard on as on real data. A row's numbers come again, shifted.
  void fill(const Block& block, BareType type, int64_t n) {
    std::mt19937 random(7);
    std::normal_distribution<float> normal;
    std::vector<float> values(4099);  // a prime: no two rows begin alike
    for (float& v : values) v = normal(random);
    std::vector<unsigned char> host(bytes_);
    for (size_t i = 0, count = size_t(n) * size_t(n); i < count; ++i) {
      const float v = values[i % values.size()];
      if (type != BareType::bfloat16) {
        reinterpret_cast<float*>(host.data())[i] = v;
        continue;
      }
      uint32_t bits;
      static_assert(sizeof(bits) == sizeof(v));
      __builtin_memcpy(&bits, &v, sizeof(v));
      reinterpret_cast<uint16_t*>(host.data())[i] = uint16_t(bits >> 16);
    }
    check(cudaMemcpy(block.get(), host.data(), bytes_, cudaMemcpyHostToDevice), "cudaMemcpy");
  }

  size_t bytes_;
  Block a_, b_, c_, workspace_{workspace_bytes};
  cudaStream_t stream_ = nullptr;
  cublasLtHandle_t handle_ = nullptr;
  cublasLtMatmulDesc_t operation_ = nullptr;
  cublasLtMatrixLayout_t layout_ = nullptr;
  cublasLtMatmulHeuristicResult_t heuristic_{};
};

const char* device() try {
  static cudaDeviceProp properties;
  check(cudaGetDeviceProperties(&properties, 0), "cudaGetDeviceProperties");
  return properties.name;
} catch (Failed) {
  return nullptr;
}
const char* problem() { return last_problem.c_str(); }
void* open(BareType type, int64_t n) try { return new Product(type, n); } catch (Failed) {
  return nullptr;
}
double seconds_per_product(void* product, int calls) try {
  return static_cast<Product*>(product)->seconds(calls);
} catch (Failed) {
  return -1;
}
void close(void* product) { delete static_cast<Product*>(product); }

}  // namespace

extern "C" __attribute__((visibility("default"))) const GpuBare kaon_gpu_bare;
const GpuBare kaon_gpu_bare{device, problem, open, seconds_per_product, close};

}  // namespace kaon::bench
