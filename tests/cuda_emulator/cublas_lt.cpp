// cuBLASLt: matrix products by loops, with one algorithm for each problem.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <type_traits>

#include "cublasLt.h"
#include "libraries.h"

using namespace kaon_emulator;

struct cublasLtContext {
  int device;
};

namespace {

// What the opaque structures hold; the mark says that they were made by their init function.
struct Operation {
  static constexpr uint64_t valid = 0x6f7065726174696f;
  uint64_t mark = valid;
  cublasComputeType_t compute;
  cudaDataType_t scale;
  cublasOperation_t transpose[2] = {CUBLAS_OP_N, CUBLAS_OP_N};
  cublasLtEpilogue_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
  const void* bias = nullptr;
  bool has_bias() const { return epilogue == CUBLASLT_EPILOGUE_BIAS || epilogue == CUBLASLT_EPILOGUE_RELU_BIAS; }
  bool is_relu() const { return epilogue == CUBLASLT_EPILOGUE_RELU || epilogue == CUBLASLT_EPILOGUE_RELU_BIAS; }
};
struct Layout {
  static constexpr uint64_t valid = 0x6c61796f7574;
  uint64_t mark = valid;
  cudaDataType_t type;
  int32_t batch = 1;
  uint64_t rows, columns;
  int64_t leading, stride = 0;

  // elements from the first to the last
  int64_t span() const { return int64_t(columns - 1) * leading + int64_t(rows) + (batch - 1) * stride; }
};
struct Preference {
  static constexpr uint64_t valid = 0x707265666572;
  uint64_t mark = valid;
  uint64_t workspace = 0;
  uint32_t reductions = CUBLASLT_REDUCTION_SCHEME_MASK;
  uint32_t alignment[4] = {256, 256, 256, 256};  // of A, B, C, D
};
struct Algorithm {
  static constexpr uint64_t valid = 0x616c676f72;
  uint64_t mark = valid;
  uint64_t workspace = 0, problem = 0;
  uint32_t alignment[4] = {};
};

template <class T, class Opaque>
T unpack(const Opaque* opaque) {
  static_assert(sizeof(T) <= sizeof(Opaque) && std::is_trivially_copyable_v<T>);
  T value;
  std::memcpy(static_cast<void*>(&value), opaque, sizeof value);
  return value;
}
template <class T, class Opaque>
void pack(const T& value, Opaque* opaque) {
  static_assert(sizeof(T) <= sizeof(Opaque));
  std::memcpy(static_cast<void*>(opaque), &value, sizeof value);
}

cublasStatus_t wrong(const char* function, const std::string& why,
                     cublasStatus_t status = CUBLAS_STATUS_INVALID_VALUE) {
  return refuse(function, why, status);
}

template <class T, class Opaque>
cublasStatus_t init(const char* function, Opaque* opaque, size_t size, const T& value) {
  std::lock_guard lock(Emulator::get().mutex);
  if (!opaque || size < sizeof(Opaque)) return wrong(function, "the structure is too small");
  pack(value, opaque);
  return CUBLAS_STATUS_SUCCESS;
}

// Sets a member of what is packed.
template <class T>
class Setter {
 public:
  template <class Opaque>
  Setter(const char* function, Opaque* opaque) : function_(function), value(unpack<T>(opaque)) {}
  template <class Member>
  cublasStatus_t set(Member& member, const void* from, size_t size) {
    if (value.mark != T::valid) return wrong(function_, "the structure was not initialised");
    if (size != sizeof member) return wrong(function_, fmt::format("size {}, expected {}", size, sizeof member));
    std::memcpy(&member, from, size);
    return CUBLAS_STATUS_SUCCESS;
  }

 private:
  const char* function_;

 public:
  T value;
};

Element element_of(cudaDataType_t t) {
  switch (t) {
    case CUDA_R_64F: return Element::float64;
    case CUDA_R_16F: return Element::float16;
    case CUDA_R_16BF: return Element::bfloat16;
    default: return Element::float32;
  }
}

struct Problem {
  Operation operation;
  Layout a, b, c, d;
  int64_t m, n, k;

  uint64_t hash() const {
    uint64_t h = 0;
    const auto add = [&](uint64_t v) { h = (h ^ v) * 0x9e3779b97f4a7c15u, h ^= h >> 29; };
    for (uint64_t v : {uint64_t(operation.compute), uint64_t(operation.scale), uint64_t(operation.transpose[0]),
                       uint64_t(operation.transpose[1]), uint64_t(operation.epilogue)}) {
      add(v);
    }
    for (const Layout* l : {&a, &b, &c, &d}) {
      for (uint64_t v :
           {uint64_t(l->type), uint64_t(l->batch), l->rows, l->columns, uint64_t(l->leading), uint64_t(l->stride)}) {
        add(v);
      }
    }
    return h;
  }
};

cublasStatus_t read_problem(const char* function, cublasLtMatmulDesc_t operation, cublasLtMatrixLayout_t a,
                            cublasLtMatrixLayout_t b, cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d, Problem& p) {
  if (!operation || !a || !b || !c || !d) return wrong(function, "a descriptor is null");
  p.operation = unpack<Operation>(operation);
  if (p.operation.mark != Operation::valid) return wrong(function, "the operation was not initialised");
  const cublasLtMatrixLayout_t layouts[] = {a, b, c, d};
  Layout* const into[] = {&p.a, &p.b, &p.c, &p.d};
  for (int i = 0; i < 4; ++i) {
    Layout& l = *into[i] = unpack<Layout>(layouts[i]);
    if (l.mark != Layout::valid) return wrong(function, fmt::format("layout {} was not initialised", "ABCD"[i]));
    if (l.rows < 1 || l.columns < 1 || l.leading < int64_t(l.rows) || l.batch < 1) {
      return wrong(function, fmt::format("{} has {} rows, {} columns, leading dimension {}, batch {}", "ABCD"[i],
                                         l.rows, l.columns, l.leading, l.batch));
    }
    if (l.type != p.a.type) return wrong(function, "types differ", CUBLAS_STATUS_NOT_SUPPORTED);
    if (l.batch != p.a.batch) return wrong(function, "batch counts differ");
    if (l.batch > 1 && i == 3 && l.stride < int64_t(l.columns - 1) * l.leading + int64_t(l.rows)) {
      return wrong(function, "results overlap");
    }
  }
  const bool ta = p.operation.transpose[0] == CUBLAS_OP_T, tb = p.operation.transpose[1] == CUBLAS_OP_T;
  p.m = int64_t(ta ? p.a.columns : p.a.rows), p.k = int64_t(ta ? p.a.rows : p.a.columns);
  p.n = int64_t(tb ? p.b.rows : p.b.columns);
  const int64_t k = int64_t(tb ? p.b.columns : p.b.rows);
  if (k != p.k || int64_t(p.d.rows) != p.m || int64_t(p.d.columns) != p.n || p.c.rows != p.d.rows ||
      p.c.columns != p.d.columns) {
    return wrong(function, fmt::format("({}, {}) x ({}, {}) is not ({}, {})", p.m, p.k, k, p.n, p.d.rows, p.d.columns));
  }
  const bool is_double = p.a.type == CUDA_R_64F, takes_tf32 = p.operation.compute == CUBLAS_COMPUTE_32F_FAST_TF32;
  if (is_double != (p.operation.compute == CUBLAS_COMPUTE_64F) || is_double != (p.operation.scale == CUDA_R_64F) ||
      (takes_tf32 && p.a.type != CUDA_R_32F) || (!is_double && p.operation.scale != CUDA_R_32F)) {
    return wrong(function, "types, compute type and scale type do not go together", CUBLAS_STATUS_NOT_SUPPORTED);
  }
  return CUBLAS_STATUS_SUCCESS;
}

// Of column-major matrices.
void run(const Problem& p, double alpha, const void* a_data, const void* b_data, double beta, const void* c_data,
         void* d_data) {
  const Element e = element_of(p.a.type);
  const Element read_as = p.operation.compute == CUBLAS_COMPUTE_32F_FAST_TF32 ? Element::tf32 : e;
  const std::vector<double> a = read_numbers(a_data, p.a.span(), read_as);
  const std::vector<double> b = read_numbers(b_data, p.b.span(), read_as);
  const std::vector<double> c = beta != 0 ? read_numbers(c_data, p.c.span(), e) : std::vector<double>();
  const bool has_bias = p.operation.has_bias(), is_relu = p.operation.is_relu();
  const std::vector<double> bias = has_bias ? read_numbers(p.operation.bias, p.m, e) : std::vector<double>();
  std::vector<double> d = read_numbers(d_data, p.d.span(), e);  // what lies between the columns stays
  const bool ta = p.operation.transpose[0] == CUBLAS_OP_T, tb = p.operation.transpose[1] == CUBLAS_OP_T;
  for (int64_t batch = 0; batch < p.d.batch; ++batch) {
    for (int64_t j = 0; j < p.n; ++j) {
      for (int64_t i = 0; i < p.m; ++i) {
        double sum = 0;
        for (int64_t l = 0; l < p.k; ++l) {
          sum += a[size_t(batch * p.a.stride + (ta ? l + i * p.a.leading : i + l * p.a.leading))] *
                 b[size_t(batch * p.b.stride + (tb ? j + l * p.b.leading : l + j * p.b.leading))];
        }
        sum *= alpha;
        if (beta != 0) sum += beta * c[size_t(batch * p.c.stride + i + j * p.c.leading)];
        if (has_bias) sum += bias[size_t(i)];
        d[size_t(batch * p.d.stride + i + j * p.d.leading)] = is_relu && sum < 0 ? 0 : sum;
      }
    }
  }
  write_numbers(d, d_data, e);
}

bool is_multiple(const void* p, uint64_t of) { return reinterpret_cast<uintptr_t>(p) % of == 0; }

}  // namespace

cublasStatus_t cublasLtCreate(cublasLtHandle_t* handle) {
  std::lock_guard lock(Emulator::get().mutex);
  cudaError_t error;
  const Device* device = current_device(error);
  if (!device) return wrong("cublasLtCreate", "no device", CUBLAS_STATUS_NOT_INITIALIZED);
  if (forbid_capture() != cudaSuccess) {  // it takes device memory
    return wrong("cublasLtCreate", "a stream captures", CUBLAS_STATUS_ALLOC_FAILED);
  }
  *handle = new cublasLtContext{device->index};
  return CUBLAS_STATUS_SUCCESS;
}

const char* cublasLtGetStatusName(cublasStatus_t status) {
  switch (status) {
    case CUBLAS_STATUS_SUCCESS: return "CUBLAS_STATUS_SUCCESS";
    case CUBLAS_STATUS_NOT_INITIALIZED: return "CUBLAS_STATUS_NOT_INITIALIZED";
    case CUBLAS_STATUS_INVALID_VALUE: return "CUBLAS_STATUS_INVALID_VALUE";
    case CUBLAS_STATUS_EXECUTION_FAILED: return "CUBLAS_STATUS_EXECUTION_FAILED";
    case CUBLAS_STATUS_NOT_SUPPORTED: return "CUBLAS_STATUS_NOT_SUPPORTED";
    default: return "another status";
  }
}

cublasStatus_t cublasLtMatmulDescInit_internal(cublasLtMatmulDesc_t operation, size_t size, cublasComputeType_t compute,
                                               cudaDataType_t scale) {
  return init("cublasLtMatmulDescInit", operation, size, Operation{.compute = compute, .scale = scale});
}

cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t operation, cublasLtMatmulDescAttributes_t attribute,
                                              const void* value, size_t size) {
  std::lock_guard lock(Emulator::get().mutex);
  Setter<Operation> s("cublasLtMatmulDescSetAttribute", operation);
  const auto status = attribute == CUBLASLT_MATMUL_DESC_TRANSA     ? s.set(s.value.transpose[0], value, size)
                      : attribute == CUBLASLT_MATMUL_DESC_TRANSB   ? s.set(s.value.transpose[1], value, size)
                      : attribute == CUBLASLT_MATMUL_DESC_EPILOGUE ? s.set(s.value.epilogue, value, size)
                                                                   : s.set(s.value.bias, value, size);
  pack(s.value, operation);
  return status;
}

cublasStatus_t cublasLtMatrixLayoutInit_internal(cublasLtMatrixLayout_t layout, size_t size, cudaDataType type,
                                                 uint64_t rows, uint64_t columns, int64_t leading) {
  return init("cublasLtMatrixLayoutInit", layout, size,
              Layout{.type = type, .rows = rows, .columns = columns, .leading = leading});
}

cublasStatus_t cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t layout,
                                                cublasLtMatrixLayoutAttribute_t attribute, const void* value,
                                                size_t size) {
  std::lock_guard lock(Emulator::get().mutex);
  Setter<Layout> s("cublasLtMatrixLayoutSetAttribute", layout);
  const auto status = attribute == CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT ? s.set(s.value.batch, value, size)
                                                                      : s.set(s.value.stride, value, size);
  pack(s.value, layout);
  return status;
}

cublasStatus_t cublasLtMatmulPreferenceInit_internal(cublasLtMatmulPreference_t preference, size_t size) {
  return init("cublasLtMatmulPreferenceInit", preference, size, Preference{});
}

cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t preference,
                                                    cublasLtMatmulPreferenceAttributes_t attribute, const void* value,
                                                    size_t size) {
  std::lock_guard lock(Emulator::get().mutex);
  Setter<Preference> s("cublasLtMatmulPreferenceSetAttribute", preference);
  const auto status =
      attribute == CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES ? s.set(s.value.workspace, value, size)
      : attribute == CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK
          ? s.set(s.value.reductions, value, size)
          : s.set(s.value.alignment[attribute - CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES], value, size);
  pack(s.value, preference);
  return status;
}

// A bias is for 16-byte addresses and not for float64, so that programs meet both cases. Sums of 64 products and more
// want scratch memory where they may have it.
cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t handle, cublasLtMatmulDesc_t operation,
                                              cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                              cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                              cublasLtMatmulPreference_t preference, int wanted,
                                              cublasLtMatmulHeuristicResult_t results[], int* found) {
  constexpr const char* function = "cublasLtMatmulAlgoGetHeuristic";
  std::lock_guard lock(Emulator::get().mutex);
  if (!handle || !preference || wanted < 1) return wrong(function, "handle, preference or count");
  Problem p;
  if (const auto status = read_problem(function, operation, a, b, c, d, p); status != CUBLAS_STATUS_SUCCESS) {
    return status;
  }
  const auto limits = unpack<Preference>(preference);
  if (limits.mark != Preference::valid) return wrong(function, "the preference was not initialised");
  *found = 0;
  if (p.operation.has_bias() && (p.a.type == CUDA_R_64F || !is_multiple(p.operation.bias, 16))) {
    return CUBLAS_STATUS_NOT_SUPPORTED;
  }
  Algorithm algorithm{.problem = p.hash()};
  const uint64_t sums = 2 * 4 * uint64_t(p.m * p.n * p.d.batch);
  if (p.k >= 64 && (limits.reductions & CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE) && sums <= limits.workspace) {
    algorithm.workspace = sums;
  }
  for (int i = 0; i < 4; ++i) algorithm.alignment[i] = std::min<uint32_t>(limits.alignment[i], 16);
  results[0] = {};
  pack(algorithm, &results[0].algo);
  results[0].workspaceSize = algorithm.workspace;
  results[0].state = CUBLAS_STATUS_SUCCESS;
  *found = 1;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t operation, const void* alpha, const void* a,
                              cublasLtMatrixLayout_t a_layout, const void* b, cublasLtMatrixLayout_t b_layout,
                              const void* beta, const void* c, cublasLtMatrixLayout_t c_layout, void* d,
                              cublasLtMatrixLayout_t d_layout, const cublasLtMatmulAlgo_t* algo, void* workspace,
                              size_t workspace_bytes, cudaStream_t stream_handle) {
  constexpr const char* function = "cublasLtMatmul";
  std::lock_guard lock(Emulator::get().mutex);
  cudaError_t error;
  const auto stream = find_stream(stream_handle, error);
  if (!stream) return wrong(function, "no such stream, or its device has failed", CUBLAS_STATUS_EXECUTION_FAILED);
  const int device = stream->device->index;
  if (!handle || handle->device != device || caller().device != device) {
    return wrong(function, "handle, stream and the thread's device differ");
  }
  Problem p;
  if (const auto status = read_problem(function, operation, a_layout, b_layout, c_layout, d_layout, p);
      status != CUBLAS_STATUS_SUCCESS) {
    return status;
  }
  const Element e = element_of(p.a.type);
  const auto algorithm = algo ? unpack<Algorithm>(algo) : Algorithm{.mark = 0};
  if (algorithm.mark != Algorithm::valid || algorithm.problem != p.hash()) {
    return wrong(function, "the algorithm is not one for this problem", CUBLAS_STATUS_NOT_SUPPORTED);
  }
  const double factor = read_factor(beta, e);
  const void* const data[] = {a, b, c, d};
  const Layout* const layouts[] = {&p.a, &p.b, &p.c, &p.d};
  for (int i = 0; i < 4; ++i) {
    if (!is_on_device(device, data[i], size_t(layouts[i]->span()) * size_of(e), function,
                      std::string(1, "ABCD"[i]).c_str())) {
      return CUBLAS_STATUS_INVALID_VALUE;
    }
    if (!is_multiple(data[i], algorithm.alignment[i])) {
      return wrong(function, fmt::format("{} is less aligned than was said", "ABCD"[i]));
    }
  }
  if (p.operation.has_bias() && (!is_on_device(device, p.operation.bias, size_t(p.m) * size_of(e), function, "bias") ||
                                 !is_multiple(p.operation.bias, 16))) {
    return wrong(function, "the bias is not as it was said to be");
  }
  if (workspace_bytes < algorithm.workspace ||
      (workspace_bytes > 0 &&
       (!is_multiple(workspace, 256) || !is_on_device(device, workspace, workspace_bytes, function, "workspace")))) {
    return wrong(function, fmt::format("the workspace of {} bytes at {}: expected {} at a multiple of 256",
                                       workspace_bytes, workspace, algorithm.workspace));
  }
  error = enqueue(stream, [=, one = read_factor(alpha, e)] {
    scribble(workspace, workspace_bytes);
    run(p, one, a, b, factor, c, d);
  });
  return error == cudaSuccess ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_EXECUTION_FAILED;
}
