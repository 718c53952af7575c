#include "kaon/ops/linalg/cuda/blas.h"

#include <cublasLt.h>
#include <fmt/format.h>

#include "kaon/engine/device/cuda/shared_library.h"
#include "kaon/engine/device/cuda/tf32.h"
#include "kaon/engine/error.h"
#include "kaon/ops/cuda/library_cache.h"
#include "kaon/ops/kernels/finish.h"

namespace kaon::cuda {
namespace {

struct CublasLt {
  SharedLibrary library{"matrix products",
                        {fmt::format("libcublasLt.so.{}", CUBLAS_VER_MAJOR), "libcublasLt.so.13", "libcublasLt.so.12"}};
  decltype(&::cublasLtCreate) create = library.function("cublasLtCreate");
  decltype(&::cublasLtGetStatusName) status_name = library.function("cublasLtGetStatusName");
  decltype(&::cublasLtMatmul) matmul = library.function("cublasLtMatmul");
  decltype(&::cublasLtMatmulAlgoGetHeuristic) get_heuristic = library.function("cublasLtMatmulAlgoGetHeuristic");
  decltype(&::cublasLtMatmulDescInit_internal) init_operation = library.function("cublasLtMatmulDescInit_internal");
  decltype(&::cublasLtMatmulDescSetAttribute) set_operation = library.function("cublasLtMatmulDescSetAttribute");
  decltype(&::cublasLtMatrixLayoutInit_internal) init_layout = library.function("cublasLtMatrixLayoutInit_internal");
  decltype(&::cublasLtMatrixLayoutSetAttribute) set_layout = library.function("cublasLtMatrixLayoutSetAttribute");
  decltype(&::cublasLtMatmulPreferenceInit_internal) init_preference =
      library.function("cublasLtMatmulPreferenceInit_internal");
  decltype(&::cublasLtMatmulPreferenceSetAttribute) set_preference =
      library.function("cublasLtMatmulPreferenceSetAttribute");
};

const CublasLt& lt() {
  static const CublasLt* library = new CublasLt;
  return *library;
}

void check(cublasStatus_t status, const char* what) {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  const std::string text = fmt::format("[{}] cuBLASLt: {}", what, lt().status_name(status));
  if (status == CUBLAS_STATUS_ALLOC_FAILED) throw MemoryError(text);
  throw DeviceError(text);
}

// Lives as long as the process. Any number of threads may use it at once.
struct LtHandle {
  LtHandle() { check(lt().create(&value), "cublasLtCreate"); }
  cublasLtHandle_t value = nullptr;
};

struct Types {
  cudaDataType_t element, scalar;
  cublasComputeType_t compute;
};

Types types_of(DType t, bool tf32) {
  switch (t) {
    case DType::float64: return {CUDA_R_64F, CUDA_R_64F, CUBLAS_COMPUTE_64F};
    case DType::float16: return {CUDA_R_16F, CUDA_R_32F, CUBLAS_COMPUTE_32F};
    case DType::bfloat16: return {CUDA_R_16BF, CUDA_R_32F, CUBLAS_COMPUTE_32F};
    default: return {CUDA_R_32F, CUDA_R_32F, tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F};
  }
}

// 0 or 1 in the type of a product's scalars.
const void* scalar(const Types& types, bool one) {
  static constexpr float floats[] = {0, 1};
  static constexpr double doubles[] = {0, 1};
  return types.scalar == CUDA_R_64F ? static_cast<const void*>(doubles + one) : floats + one;
}

// The parts of an epilogue that cuBLASLt applies to a product itself.
struct OnTheWay {
  const void* bias = nullptr;
  bool relu = false;
  bool any() const { return bias || relu; }
  cublasLtEpilogue_t epilogue() const {
    return !relu ? CUBLASLT_EPILOGUE_BIAS : bias ? CUBLASLT_EPILOGUE_RELU_BIAS : CUBLASLT_EPILOGUE_RELU;
  }
};

struct Operation {
  Operation(const Types& types, bool transpose_a, bool transpose_b, const OnTheWay& way) {
    check(lt().init_operation(&value, sizeof value, types.compute, types.scalar), "matrix product");
    set(CUBLASLT_MATMUL_DESC_TRANSA, transpose_a ? CUBLAS_OP_T : CUBLAS_OP_N);
    set(CUBLASLT_MATMUL_DESC_TRANSB, transpose_b ? CUBLAS_OP_T : CUBLAS_OP_N);
    if (way.any()) set(CUBLASLT_MATMUL_DESC_EPILOGUE, way.epilogue());
    if (way.bias) set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, way.bias);
  }
  template <class T>
  void set(cublasLtMatmulDescAttributes_t attribute, const T& v) {
    check(lt().set_operation(&value, attribute, &v, sizeof v), "matrix product");
  }
  cublasLtMatmulDescOpaque_t value;
};

// A column-major matrix: a row-major one seen as its transpose.
struct Matrix {
  Matrix(const Types& types, int64_t rows, int64_t columns, int64_t batch, bool repeated = false) {
    check(lt().init_layout(&value, sizeof value, types.element, uint64_t(rows), uint64_t(columns), rows), "matrix");
    if (batch == 1) return;
    set(CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, int32_t(batch));
    set(CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, repeated ? 0 : rows * columns);
  }
  template <class T>
  void set(cublasLtMatrixLayoutAttribute_t attribute, const T& v) {
    check(lt().set_layout(&value, attribute, &v, sizeof v), "matrix");
  }
  cublasLtMatrixLayoutOpaque_t value;
};

// cuBLASLt is column-major: a row-major matrix is its transpose there, and C' = op(B)' op(A)'. So B comes first, a bias
// of C's columns is one of rows, and the transpose flags stay.
struct Descriptors {
  Descriptors(const MatrixProduct& p, const Types& types, const OnTheWay& way)
      : operation(types, p.transpose_b, p.transpose_a, way),
        b(types, p.transpose_b ? p.k : p.n, p.transpose_b ? p.n : p.k, p.batch),
        a(types, p.transpose_a ? p.m : p.k, p.transpose_a ? p.k : p.m, p.batch, p.same_a),
        c(types, p.n, p.m, p.batch) {}
  Operation operation;
  Matrix b, a, c;
};

// The largest power of two, up to 256, that divides an address.
uint32_t alignment(const void* p) {
  const auto at = reinterpret_cast<uintptr_t>(p) | 256;
  return uint32_t(at & (~at + 1));
}

// 32 MiB: as cuBLAS itself uses on Hopper.
constexpr size_t workspace_limit = size_t(32) << 20;

// How to compute a product of certain sizes.
struct Choice {
  cublasLtMatmulAlgo_t algorithm;
  size_t workspace;
  bool does_all;  // applies the whole requested epilogue
};

bool choose(cublasLtHandle_t handle, const MatrixProduct& p, const Types& types, const OnTheWay& way,
            const void* addend, Choice& choice) {
  Descriptors d(p, types, way);
  cublasLtMatmulPreferenceOpaque_t preference;
  const auto prefer = [&](cublasLtMatmulPreferenceAttributes_t attribute, auto v) {
    check(lt().set_preference(&preference, attribute, &v, sizeof v), "matrix product");
  };
  check(lt().init_preference(&preference, sizeof preference), "matrix product");
  prefer(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, uint64_t(workspace_limit));
  // partial sums are added in float32 in a fixed order
  prefer(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, uint32_t(CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE));
  prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, alignment(p.b));
  prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, alignment(p.a));
  prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, alignment(addend ? addend : p.c));
  prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, alignment(p.c));
  cublasLtMatmulHeuristicResult_t result{};
  int found = 0;
  const cublasStatus_t status = lt().get_heuristic(handle, &d.operation.value, &d.b.value, &d.a.value, &d.c.value,
                                                   &d.c.value, &preference, 1, &result, &found);
  if (status == CUBLAS_STATUS_NOT_SUPPORTED) return false;
  check(status, "matrix product");
  if (found == 0 || result.state != CUBLAS_STATUS_SUCCESS) return false;
  choice = {result.algo, result.workspaceSize, way.any()};
  return true;
}

std::shared_ptr<const Choice> choice_for(int device, cublasLtHandle_t handle, const MatrixProduct& p, bool tf32,
                                         const OnTheWay& way, const void* addend) {
  static auto* cache = new BoundedCache<Choice>;
  const Key key{device,
                int64_t(p.dtype),
                tf32,
                p.m,
                p.n,
                p.k,
                p.batch,
                p.same_a,
                p.transpose_a,
                p.transpose_b,
                alignment(p.a),
                alignment(p.b),
                alignment(p.c),
                way.relu,
                addend ? alignment(addend) : 0,
                way.bias ? alignment(way.bias) : 0};
  return cache->obtain(key, [&] {
    auto choice = std::make_shared<Choice>();
    const Types types = types_of(p.dtype, tf32);
    // cuBLASLt does not take every address of a bias
    if ((way.any() && choose(handle, p, types, way, addend, *choice)) ||
        choose(handle, p, types, {}, addend, *choice)) {
      return choice;
    }
    throw DeviceError(fmt::format("[matrix product] cuBLASLt has no algorithm for ({}, {}) x ({}, {}) {}, batch {}",
                                  p.m, p.k, p.k, p.n, name_of(p.dtype), p.batch));
  });
}

}  // namespace

void multiply(KernelContext& c, const MatrixProduct& p) {
  const int64_t size = p.batch * p.m * p.n;
  if (size == 0) return;
  const cudaStream_t stream = native(*c.run.stream());
  Epilogue<void> rest = p.epilogue;
  if (p.k == 0) {
    check(cudaMemsetAsync(p.c, 0, size_t(size) * size_of(p.dtype), stream), "memset");
  } else {
    if (p.batch > INT32_MAX) throw DeviceError(fmt::format("[matrix product] batch {} exceeds 2^31 - 1", p.batch));
    OnTheWay way{rest.take_bias()};
    const void* addend = rest.scale ? nullptr : std::exchange(rest.addend, nullptr);
    way.relu = !rest.scale && rest.activation == FusedActivation::relu;
    static auto* handles = new PerDevice<LtHandle>;
    const int device = current_device();
    const cublasLtHandle_t handle = handles->of(device).value;
    const bool tf32 = p.dtype == DType::float32 && tf32_allowed.load(std::memory_order_relaxed);  // a setting, alone
    const auto choice = choice_for(device, handle, p, tf32, way, addend);
    if (!choice->does_all) {
      if (way.bias) rest.shift = way.bias;
      way = {};
    } else if (way.relu) {
      rest.activation = FusedActivation::none;
    }
    const Types types = types_of(p.dtype, tf32);
    Descriptors d(p, types, way);
    check(lt().matmul(handle, &d.operation.value, scalar(types, true), p.b, &d.b.value, p.a, &d.a.value,
                      scalar(types, addend != nullptr), addend ? addend : p.c, &d.c.value, p.c, &d.c.value,
                      &choice->algorithm, library_workspace(c, choice->workspace), choice->workspace, stream),
          "matrix product");
  }
  finish(c, {.x = p.c, .y = p.c, .dtype = p.dtype, .n = size, .inner = 1, .channels = p.n}, rest);
}

}  // namespace kaon::cuda
