// cuDNN's convolutions, by loops. Algorithms that a program may not want are there to be chosen, and are visibly off.
#include "cudnn.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>

#include "libraries.h"

using namespace kaon_emulator;

struct cudnnContext {
  int device;
  cudaStream_t stream = nullptr;
};
struct cudnnTensorStruct {
  cudnnDataType_t type;
  std::vector<int> dims;
  bool is_last = false;  // channels after positions
};
struct cudnnFilterStruct {
  cudnnDataType_t type;
  std::vector<int> dims;
  bool is_last = false;
};
struct cudnnActivationStruct {
  cudnnActivationMode_t mode;
  bool keeps_nan;
};
struct cudnnConvolutionStruct {
  std::vector<int> pad, stride, dilation;
  cudnnDataType_t compute;
  int groups = 1;
  cudnnMathType_t math = CUDNN_DEFAULT_MATH;
};

namespace {

cudnnStatus_t wrong(const char* function, const std::string& why, cudnnStatus_t status = CUDNN_STATUS_BAD_PARAM) {
  return refuse(function, why, status);
}

Element element_of(cudnnDataType_t t) {
  switch (t) {
    case CUDNN_DATA_DOUBLE: return Element::float64;
    case CUDNN_DATA_HALF: return Element::float16;
    case CUDNN_DATA_BFLOAT16: return Element::bfloat16;
    default: return Element::float32;
  }
}

// A convolution with three spatial axes, the first of size 1 where there are two.
struct Problem {
  Element element, read_as;
  int64_t batch, groups, in_channels, out_channels;
  std::array<int64_t, 3> in, out, kernel, stride, dilation, pad;
  bool has_winograd = false;
  bool is_last = false;  // channels after positions

  int64_t x_size() const { return batch * in_channels * in[0] * in[1] * in[2]; }
  int64_t y_size() const { return batch * out_channels * out[0] * out[1] * out[2]; }
  int64_t w_size() const { return out_channels * (in_channels / groups) * kernel[0] * kernel[1] * kernel[2]; }
};

std::array<int64_t, 3> last_three(const std::vector<int>& values, size_t from, int64_t missing) {
  std::array<int64_t, 3> out{missing, missing, missing};
  const size_t count = values.size() - from;
  for (size_t i = 0; i < count; ++i) out[3 - count + i] = values[from + i];
  return out;
}

cudnnStatus_t read_problem(const char* function, const cudnnTensorStruct* x, const cudnnFilterStruct* w,
                           const cudnnConvolutionStruct* conv, const cudnnTensorStruct* y, Problem& p) {
  if (!x || !w || !conv || !y) return wrong(function, "a descriptor is null", CUDNN_STATUS_BAD_PARAM_NULL_POINTER);
  const size_t axes = conv->pad.size();
  if (x->dims.size() != axes + 2 || w->dims.size() != axes + 2 || y->dims.size() != axes + 2 || axes < 2 || axes > 3) {
    return wrong(function, "descriptors have different numbers of axes", CUDNN_STATUS_BAD_PARAM_SHAPE_MISMATCH);
  }
  if (x->type != w->type || x->type != y->type ||
      conv->compute != (x->type == CUDNN_DATA_DOUBLE ? CUDNN_DATA_DOUBLE : CUDNN_DATA_FLOAT)) {
    return wrong(function, "types differ, or the sums would not be float32 or float64");
  }
  if (x->dims[0] != y->dims[0] || w->dims[0] != y->dims[1] || w->dims[1] * conv->groups != x->dims[1] ||
      w->dims[0] % conv->groups != 0) {
    return wrong(function,
                 fmt::format("x {}, w {}, y {}, {} groups do not go together", x->dims, w->dims, y->dims, conv->groups),
                 CUDNN_STATUS_BAD_PARAM_SHAPE_MISMATCH);
  }
  p.is_last = w->is_last;
  const auto differs = [&](const cudnnTensorStruct& t) {  // where that means anything
    const bool has_positions = std::any_of(t.dims.begin() + 2, t.dims.end(), [](int n) { return n > 1; });
    return t.is_last != p.is_last && t.dims[1] > 1 && has_positions;
  };
  if (differs(*x) || differs(*y)) {
    return wrong(function, "x, w and y lie differently", CUDNN_STATUS_NOT_SUPPORTED);
  }
  p.element = element_of(x->type);
  p.read_as = p.element == Element::float32 && conv->math != CUDNN_FMA_MATH ? Element::tf32 : p.element;
  p.batch = x->dims[0], p.groups = conv->groups, p.in_channels = x->dims[1], p.out_channels = y->dims[1];
  p.in = last_three(x->dims, 2, 1), p.out = last_three(y->dims, 2, 1), p.kernel = last_three(w->dims, 2, 1);
  p.stride = last_three(conv->stride, 0, 1), p.dilation = last_three(conv->dilation, 0, 1);
  p.pad = last_three(conv->pad, 0, 0);
  for (size_t i = 0; i < 3; ++i) {
    const int64_t room = p.in[i] + 2 * p.pad[i] - p.dilation[i] * (p.kernel[i] - 1) - 1;
    if (room < 0 || room / p.stride[i] + 1 != p.out[i]) {
      return wrong(function, fmt::format("y {} does not follow from x {} and w {}", y->dims, x->dims, w->dims),
                   CUDNN_STATUS_BAD_PARAM_SHAPE_MISMATCH);
    }
  }
  p.has_winograd = axes == 2 && p.kernel[1] == 3 && p.kernel[2] == 3 && p.stride[1] == 1 && p.stride[2] == 1;
  return CUDNN_STATUS_SUCCESS;
}

// Where row-major element `at` of blocks of (channels, positions) lies.
int64_t place(const Problem& p, int64_t at, int64_t channels, int64_t positions) {
  if (!p.is_last) return at;
  const int64_t position = at % positions, channel = at / positions % channels, block = at / positions / channels;
  return (block * positions + position) * channels + channel;
}

// Calls f(x, w, y) with the indices of each product.
template <class F>
void each_product(const Problem& p, F&& f) {
  const int64_t ins = p.in[0] * p.in[1] * p.in[2], outs = p.out[0] * p.out[1] * p.out[2];
  const int64_t taps = p.kernel[0] * p.kernel[1] * p.kernel[2];
  const int64_t in_each = p.in_channels / p.groups, out_each = p.out_channels / p.groups;
  const auto inside = [&](size_t axis, int64_t out, int64_t tap, int64_t& in) {
    in = out * p.stride[axis] - p.pad[axis] + tap * p.dilation[axis];
    return in >= 0 && in < p.in[axis];
  };
  int64_t y = 0;
  for (int64_t n = 0; n < p.batch; ++n) {
    for (int64_t o = 0; o < p.out_channels; ++o) {
      for (int64_t a = 0; a < p.out[0]; ++a) {
        for (int64_t b = 0; b < p.out[1]; ++b) {
          for (int64_t c = 0; c < p.out[2]; ++c, ++y) {
            for (int64_t i = 0; i < in_each; ++i) {
              const int64_t plane = n * p.in_channels + o / out_each * in_each + i;
              int64_t w = (o * in_each + i) * p.kernel[0] * p.kernel[1] * p.kernel[2];
              int64_t d, h, v;
              for (int64_t ka = 0; ka < p.kernel[0]; ++ka) {
                for (int64_t kb = 0; kb < p.kernel[1]; ++kb) {
                  for (int64_t kc = 0; kc < p.kernel[2]; ++kc, ++w) {
                    if (inside(0, a, ka, d) && inside(1, b, kb, h) && inside(2, c, kc, v)) {
                      const int64_t x = ((plane * p.in[0] + d) * p.in[1] + h) * p.in[2] + v;
                      f(size_t(place(p, x, p.in_channels, ins)), size_t(place(p, w, in_each, taps)),
                        size_t(place(p, y, p.out_channels, outs)));
                    }
                  }
                }
              }
            }
          }
        }
      }
    }
  }
}

enum class Kind { forward, backward_data, backward_filter };

// The result of one of the three from the other two: x w y.
std::vector<double> products(const Problem& p, Kind kind, const void* first, const void* second) {
  using Numbers = std::vector<double>;
  if (kind == Kind::forward) {
    const Numbers x = read_numbers(first, p.x_size(), p.read_as), w = read_numbers(second, p.w_size(), p.read_as);
    Numbers out(size_t(p.y_size()));
    each_product(p, [&](size_t i, size_t j, size_t k) { out[k] += x[i] * w[j]; });
    return out;
  }
  if (kind == Kind::backward_data) {
    const Numbers w = read_numbers(first, p.w_size(), p.read_as), dy = read_numbers(second, p.y_size(), p.read_as);
    Numbers out(size_t(p.x_size()));
    each_product(p, [&](size_t i, size_t j, size_t k) { out[i] += w[j] * dy[k]; });
    return out;
  }
  const Numbers x = read_numbers(first, p.x_size(), p.read_as), dy = read_numbers(second, p.y_size(), p.read_as);
  Numbers out(size_t(p.w_size()));
  each_product(p, [&](size_t i, size_t j, size_t k) { out[j] += x[i] * dy[k]; });
  return out;
}

struct Algorithm {
  int number;
  cudnnStatus_t status;
  size_t memory;
  cudnnDeterminism_t determinism;
  bool is_off;  // its results are not those of a careful program
};

// The fastest first, as cuDNN's heuristics might say: one that wants all memory, Winograd's of large tiles, one whose
// results differ from run to run, one with scratch memory, one without any; one that cannot.
std::vector<Algorithm> algorithms(Kind kind, const Problem& p) {
  constexpr int fft[] = {4, 2, 2}, winograd[] = {CUDNN_CONVOLUTION_FWD_ALGO_WINOGRAD_NONFUSED,
                                                 CUDNN_CONVOLUTION_BWD_DATA_ALGO_WINOGRAD_NONFUSED,
                                                 CUDNN_CONVOLUTION_BWD_FILTER_ALGO_WINOGRAD_NONFUSED};
  const size_t some = 64 * size_t(p.out_channels);
  std::vector<Algorithm> all{{fft[int(kind)], CUDNN_STATUS_SUCCESS, size_t(1) << 50, CUDNN_DETERMINISTIC, true}};
  if (p.has_winograd) all.push_back({winograd[int(kind)], CUDNN_STATUS_SUCCESS, some, CUDNN_DETERMINISTIC, true});
  if (kind == Kind::forward) {
    all.push_back(
        {CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_PRECOMP_GEMM, CUDNN_STATUS_SUCCESS, some, CUDNN_DETERMINISTIC, false});
    all.push_back({CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_GEMM, CUDNN_STATUS_SUCCESS, 0, CUDNN_DETERMINISTIC, false});
  } else {  // both kinds of gradients have these numbers
    all.push_back({0, CUDNN_STATUS_SUCCESS, 0, CUDNN_NON_DETERMINISTIC, true});
    all.push_back({1, CUDNN_STATUS_SUCCESS, some, CUDNN_DETERMINISTIC, false});
  }
  all.push_back({3, CUDNN_STATUS_NOT_SUPPORTED, 0, CUDNN_DETERMINISTIC, true});
  return all;
}

template <class Perf>
cudnnStatus_t list(const char* function, cudnnHandle_t handle, Kind kind, const cudnnTensorStruct* x,
                   const cudnnFilterStruct* w, const cudnnConvolutionStruct* conv, const cudnnTensorStruct* y,
                   int wanted, int* found, Perf* results) {
  std::lock_guard lock(Emulator::get().mutex);
  if (!handle || wanted < 1 || !found || !results) return wrong(function, "handle, count or results");
  Problem p;
  if (const auto status = read_problem(function, x, w, conv, y, p); status != CUDNN_STATUS_SUCCESS) return status;
  *found = 0;
  for (const Algorithm& a : algorithms(kind, p)) {
    if (*found == wanted) break;
    Perf& r = results[(*found)++] = {};
    r.algo = decltype(r.algo)(a.number);
    r.status = a.status;
    r.time = -1;
    r.memory = a.memory;
    r.determinism = a.determinism;
    r.mathType = conv->math;
  }
  return CUDNN_STATUS_SUCCESS;
}

struct Operand {
  const void* data;
  size_t bytes;
  const char* name;
};

// A call that has been checked: what it runs, and where.
struct Launch {
  Problem problem;
  std::shared_ptr<CUstream_st> stream;
  bool is_off = false;
};

cudnnStatus_t check_call(const char* function, cudnnHandle_t handle, Kind kind, int number, void* workspace,
                         size_t workspace_bytes, std::initializer_list<Operand> operands, Launch& launch) {
  if (!handle) return wrong(function, "no handle", CUDNN_STATUS_NOT_INITIALIZED);
  cudaError_t error;
  launch.stream = find_stream(handle->stream, error);
  if (!launch.stream) return wrong(function, "no such stream, or its device has failed", CUDNN_STATUS_EXECUTION_FAILED);
  const int device = launch.stream->device->index;
  if (handle->device != device || caller().device != device) {
    return wrong(function, "handle, stream and the thread's device differ", CUDNN_STATUS_BAD_PARAM_STREAM_MISMATCH);
  }
  for (const Operand& o : operands) {
    if (!is_on_device(device, o.data, o.bytes, function, o.name)) return CUDNN_STATUS_BAD_PARAM;
  }
  for (const Algorithm& a : algorithms(kind, launch.problem)) {
    if (a.number != number) continue;
    if (a.status != CUDNN_STATUS_SUCCESS) return a.status;
    if (workspace_bytes < a.memory) {
      return wrong(function, fmt::format("a workspace of {} bytes, expected {}", workspace_bytes, a.memory),
                   CUDNN_STATUS_BAD_PARAM_SIZE_INSUFFICIENT);
    }
    if (workspace_bytes && !is_on_device(device, workspace, workspace_bytes, function, "workspace")) {
      return CUDNN_STATUS_BAD_PARAM;
    }
    launch.is_off = a.is_off;
    return CUDNN_STATUS_SUCCESS;
  }
  return wrong(function, fmt::format("algorithm {} is not one for this convolution", number),
               CUDNN_STATUS_NOT_SUPPORTED);
}

cudnnStatus_t run(const char* function, cudnnHandle_t handle, Kind kind, const void* alpha, const cudnnTensorStruct* x,
                  const cudnnFilterStruct* w, const cudnnConvolutionStruct* conv, const cudnnTensorStruct* y,
                  int algorithm, const void* first, const void* second, void* out, void* workspace,
                  size_t workspace_bytes, const void* beta) {
  std::lock_guard lock(Emulator::get().mutex);
  Launch launch;
  Problem& p = launch.problem;
  if (const auto status = read_problem(function, x, w, conv, y, p); status != CUDNN_STATUS_SUCCESS) return status;
  const size_t width = size_of(p.element);
  const size_t bytes[] = {size_t(p.x_size()) * width, size_t(p.w_size()) * width, size_t(p.y_size()) * width};
  const size_t of_first = kind == Kind::backward_data ? bytes[1] : bytes[0];
  const size_t of_second = kind == Kind::forward ? bytes[1] : bytes[2];
  const size_t of_out = kind == Kind::forward ? bytes[2] : kind == Kind::backward_data ? bytes[0] : bytes[1];
  if (const auto status = check_call(
          function, handle, kind, algorithm, workspace, workspace_bytes,
          {{first, of_first, "first input"}, {second, of_second, "second input"}, {out, of_out, "result"}}, launch);
      status != CUDNN_STATUS_SUCCESS) {
    return status;
  }
  const double scale = read_factor(alpha, p.element), keep = read_factor(beta, p.element);
  const cudaError_t error = enqueue(launch.stream, [=] {
    scribble(workspace, workspace_bytes);
    std::vector<double> numbers = products(launch.problem, kind, first, second);
    std::vector<double> before;
    if (keep != 0) before = read_numbers(out, int64_t(numbers.size()), launch.problem.element);
    for (size_t i = 0; i < numbers.size(); ++i) {
      numbers[i] *= launch.is_off ? 1.1 * scale : scale;
      if (keep != 0) numbers[i] += keep * before[i];
    }
    write_numbers(numbers, out, launch.problem.element);
  });
  return error == cudaSuccess ? CUDNN_STATUS_SUCCESS : CUDNN_STATUS_EXECUTION_FAILED;
}

template <class T>
cudnnStatus_t create(T** descriptor) {
  *descriptor = new T{};
  return CUDNN_STATUS_SUCCESS;
}
template <class T>
cudnnStatus_t destroy(T* descriptor) {
  delete descriptor;
  return CUDNN_STATUS_SUCCESS;
}

bool are_positive(const std::vector<int>& values) {
  for (int v : values) {
    if (v < 1) return false;
  }
  return true;
}

}  // namespace

cudnnStatus_t cudnnCreate(cudnnHandle_t* handle) {
  std::lock_guard lock(Emulator::get().mutex);
  cudaError_t error;
  const Device* device = current_device(error);
  if (!device) return wrong("cudnnCreate", "no device", CUDNN_STATUS_NOT_INITIALIZED);
  if (forbid_capture() != cudaSuccess) {  // it takes device memory
    return wrong("cudnnCreate", "a stream captures", CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED);
  }
  *handle = new cudnnContext{device->index};
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnSetStream(cudnnHandle_t handle, cudaStream_t stream) {
  std::lock_guard lock(Emulator::get().mutex);
  cudaError_t error;
  const auto found = find_stream(stream, error);
  if (!found) return wrong("cudnnSetStream", "no such stream, or its device has failed", CUDNN_STATUS_EXECUTION_FAILED);
  if (found->device->index != handle->device) {
    return wrong("cudnnSetStream", "a stream of another device", CUDNN_STATUS_BAD_PARAM_STREAM_MISMATCH);
  }
  handle->stream = stream;
  return CUDNN_STATUS_SUCCESS;
}

const char* cudnnGetErrorString(cudnnStatus_t status) {
  switch (CUDNN_STATUS_CATEGORY(int(status))) {
    case 0: return "CUDNN_STATUS_SUCCESS";
    case CUDNN_STATUS_BAD_PARAM: return "CUDNN_STATUS_BAD_PARAM";
    case CUDNN_STATUS_NOT_SUPPORTED: return "CUDNN_STATUS_NOT_SUPPORTED";
    case CUDNN_STATUS_EXECUTION_FAILED: return "CUDNN_STATUS_EXECUTION_FAILED";
    default: return "another status";
  }
}

void cudnnGetLastErrorString(char* message, size_t size) {
  std::lock_guard lock(Emulator::get().mutex);
  std::snprintf(message, size, "%s", Emulator::get().message.c_str());
}

cudnnStatus_t cudnnCreateTensorDescriptor(cudnnTensorDescriptor_t* tensor) { return create(tensor); }
cudnnStatus_t cudnnDestroyTensorDescriptor(cudnnTensorDescriptor_t tensor) { return destroy(tensor); }

// Dense tensors only, row-major or with the channels last.
cudnnStatus_t cudnnSetTensorNdDescriptor(cudnnTensorDescriptor_t tensor, cudnnDataType_t type, int count,
                                         const int dims[], const int strides[]) {
  std::lock_guard lock(Emulator::get().mutex);
  constexpr const char* function = "cudnnSetTensorNdDescriptor";
  if (!tensor || count < 3 || count > 8) return wrong(function, fmt::format("{} dimensions", count));
  *tensor = {type, std::vector<int>(dims, dims + count)};
  std::vector<int> rows{0, 1}, last{0};  // dimensions from the first to the last in memory
  for (int i = 2; i < count; ++i) rows.push_back(i), last.push_back(i);
  last.push_back(1);
  const auto is_dense = [&](const std::vector<int>& order) {
    int64_t size = 1;
    for (int i = count - 1; i >= 0; --i) {
      if (strides[order[size_t(i)]] != size) return false;
      size *= dims[order[size_t(i)]];
    }
    return true;
  };
  tensor->is_last = !is_dense(rows);
  if (tensor->is_last && !is_dense(last)) return wrong(function, "strides are not those of a dense tensor");
  return are_positive(tensor->dims) ? CUDNN_STATUS_SUCCESS : wrong(function, fmt::format("dims {}", tensor->dims));
}

cudnnStatus_t cudnnCreateFilterDescriptor(cudnnFilterDescriptor_t* filter) { return create(filter); }
cudnnStatus_t cudnnDestroyFilterDescriptor(cudnnFilterDescriptor_t filter) { return destroy(filter); }

cudnnStatus_t cudnnSetFilterNdDescriptor(cudnnFilterDescriptor_t filter, cudnnDataType_t type,
                                         cudnnTensorFormat_t format, int count, const int dims[]) {
  std::lock_guard lock(Emulator::get().mutex);
  constexpr const char* function = "cudnnSetFilterNdDescriptor";
  if (!filter || count < 3 || count > 8 || (format != CUDNN_TENSOR_NCHW && format != CUDNN_TENSOR_NHWC)) {
    return wrong(function, "count or format");
  }
  *filter = {type, std::vector<int>(dims, dims + count), format == CUDNN_TENSOR_NHWC};
  return are_positive(filter->dims) ? CUDNN_STATUS_SUCCESS : wrong(function, fmt::format("dims {}", filter->dims));
}

cudnnStatus_t cudnnCreateActivationDescriptor(cudnnActivationDescriptor_t* activation) { return create(activation); }
cudnnStatus_t cudnnDestroyActivationDescriptor(cudnnActivationDescriptor_t activation) { return destroy(activation); }

cudnnStatus_t cudnnSetActivationDescriptor(cudnnActivationDescriptor_t activation, cudnnActivationMode_t mode,
                                           cudnnNanPropagation_t nan, double) {
  *activation = {mode, nan == CUDNN_PROPAGATE_NAN};
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnCreateConvolutionDescriptor(cudnnConvolutionDescriptor_t* conv) { return create(conv); }
cudnnStatus_t cudnnDestroyConvolutionDescriptor(cudnnConvolutionDescriptor_t conv) { return destroy(conv); }

cudnnStatus_t cudnnSetConvolutionNdDescriptor(cudnnConvolutionDescriptor_t conv, int count, const int pad[],
                                              const int stride[], const int dilation[], cudnnConvolutionMode_t mode,
                                              cudnnDataType_t compute) {
  std::lock_guard lock(Emulator::get().mutex);
  constexpr const char* function = "cudnnSetConvolutionNdDescriptor";
  if (!conv || count < 2 || count > 3 || mode != CUDNN_CROSS_CORRELATION) return wrong(function, "count or mode");
  conv->pad.assign(pad, pad + count);
  conv->stride.assign(stride, stride + count);
  conv->dilation.assign(dilation, dilation + count);
  conv->compute = compute;
  for (int p : conv->pad) {
    if (p < 0) return wrong(function, "a negative padding");
  }
  if (!are_positive(conv->stride) || !are_positive(conv->dilation)) return wrong(function, "stride or dilation");
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnSetConvolutionGroupCount(cudnnConvolutionDescriptor_t conv, int groups) {
  conv->groups = groups;
  return groups > 0 ? CUDNN_STATUS_SUCCESS : CUDNN_STATUS_BAD_PARAM;
}

cudnnStatus_t cudnnSetConvolutionMathType(cudnnConvolutionDescriptor_t conv, cudnnMathType_t math) {
  conv->math = math;
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnGetConvolutionForwardAlgorithm_v7(cudnnHandle_t handle, cudnnTensorDescriptor_t x,
                                                     cudnnFilterDescriptor_t w, cudnnConvolutionDescriptor_t conv,
                                                     cudnnTensorDescriptor_t y, int wanted, int* found,
                                                     cudnnConvolutionFwdAlgoPerf_t* results) {
  return list("cudnnGetConvolutionForwardAlgorithm_v7", handle, Kind::forward, x, w, conv, y, wanted, found, results);
}

cudnnStatus_t cudnnGetConvolutionBackwardDataAlgorithm_v7(cudnnHandle_t handle, cudnnFilterDescriptor_t w,
                                                          cudnnTensorDescriptor_t dy, cudnnConvolutionDescriptor_t conv,
                                                          cudnnTensorDescriptor_t dx, int wanted, int* found,
                                                          cudnnConvolutionBwdDataAlgoPerf_t* results) {
  return list("cudnnGetConvolutionBackwardDataAlgorithm_v7", handle, Kind::backward_data, dx, w, conv, dy, wanted,
              found, results);
}

cudnnStatus_t cudnnGetConvolutionBackwardFilterAlgorithm_v7(cudnnHandle_t handle, cudnnTensorDescriptor_t x,
                                                            cudnnTensorDescriptor_t dy,
                                                            cudnnConvolutionDescriptor_t conv,
                                                            cudnnFilterDescriptor_t dw, int wanted, int* found,
                                                            cudnnConvolutionBwdFilterAlgoPerf_t* results) {
  return list("cudnnGetConvolutionBackwardFilterAlgorithm_v7", handle, Kind::backward_filter, x, dw, conv, dy, wanted,
              found, results);
}

cudnnStatus_t cudnnConvolutionForward(cudnnHandle_t handle, const void* alpha, cudnnTensorDescriptor_t x_desc,
                                      const void* x, cudnnFilterDescriptor_t w_desc, const void* w,
                                      cudnnConvolutionDescriptor_t conv, cudnnConvolutionFwdAlgo_t algo,
                                      void* workspace, size_t workspace_bytes, const void* beta,
                                      cudnnTensorDescriptor_t y_desc, void* y) {
  return run("cudnnConvolutionForward", handle, Kind::forward, alpha, x_desc, w_desc, conv, y_desc, algo, x, w, y,
             workspace, workspace_bytes, beta);
}

cudnnStatus_t cudnnConvolutionBackwardData(cudnnHandle_t handle, const void* alpha, cudnnFilterDescriptor_t w_desc,
                                           const void* w, cudnnTensorDescriptor_t dy_desc, const void* dy,
                                           cudnnConvolutionDescriptor_t conv, cudnnConvolutionBwdDataAlgo_t algo,
                                           void* workspace, size_t workspace_bytes, const void* beta,
                                           cudnnTensorDescriptor_t dx_desc, void* dx) {
  return run("cudnnConvolutionBackwardData", handle, Kind::backward_data, alpha, dx_desc, w_desc, conv, dy_desc, algo,
             w, dy, dx, workspace, workspace_bytes, beta);
}

cudnnStatus_t cudnnConvolutionBackwardFilter(cudnnHandle_t handle, const void* alpha, cudnnTensorDescriptor_t x_desc,
                                             const void* x, cudnnTensorDescriptor_t dy_desc, const void* dy,
                                             cudnnConvolutionDescriptor_t conv, cudnnConvolutionBwdFilterAlgo_t algo,
                                             void* workspace, size_t workspace_bytes, const void* beta,
                                             cudnnFilterDescriptor_t dw_desc, void* dw) {
  return run("cudnnConvolutionBackwardFilter", handle, Kind::backward_filter, alpha, x_desc, dw_desc, conv, dy_desc,
             algo, x, dy, dw, workspace, workspace_bytes, beta);
}

// Not for groups, so that programs meet the refusal.
cudnnStatus_t cudnnConvolutionBiasActivationForward(
    cudnnHandle_t handle, const void* alpha1, cudnnTensorDescriptor_t x_desc, const void* x,
    cudnnFilterDescriptor_t w_desc, const void* w, cudnnConvolutionDescriptor_t conv, cudnnConvolutionFwdAlgo_t algo,
    void* workspace, size_t workspace_bytes, const void* alpha2, cudnnTensorDescriptor_t z_desc, const void* z,
    cudnnTensorDescriptor_t bias_desc, const void* bias, cudnnActivationDescriptor_t activation,
    cudnnTensorDescriptor_t y_desc, void* y) {
  constexpr const char* function = "cudnnConvolutionBiasActivationForward";
  std::lock_guard lock(Emulator::get().mutex);
  Launch launch;
  Problem& p = launch.problem;
  if (const auto status = read_problem(function, x_desc, w_desc, conv, y_desc, p); status != CUDNN_STATUS_SUCCESS) {
    return status;
  }
  if (!activation || !bias_desc || !z_desc || !bias || !z) return wrong(function, "a pointer is null");
  std::vector<int> of_bias(y_desc->dims.size(), 1);
  of_bias[1] = y_desc->dims[1];
  if (bias_desc->dims != of_bias || bias_desc->type != y_desc->type || z_desc->dims != y_desc->dims ||
      z_desc->type != y_desc->type) {
    return wrong(function, "bias or z have other sizes than y", CUDNN_STATUS_BAD_PARAM_SHAPE_MISMATCH);
  }
  if (p.groups > 1 ||
      (activation->mode == CUDNN_ACTIVATION_IDENTITY && algo != CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_PRECOMP_GEMM)) {
    return CUDNN_STATUS_NOT_SUPPORTED;
  }
  const double scale = read_factor(alpha1, p.element), of_z = read_factor(alpha2, p.element);
  if (of_z != 0 && z == y) return wrong(function, "z is y");
  const size_t width = size_of(p.element), y_bytes = size_t(p.y_size()) * width;
  if (const auto status = check_call(function, handle, Kind::forward, algo, workspace, workspace_bytes,
                                     {{x, size_t(p.x_size()) * width, "x"},
                                      {w, size_t(p.w_size()) * width, "w"},
                                      {z, y_bytes, "z"},
                                      {bias, size_t(p.out_channels) * width, "bias"},
                                      {y, y_bytes, "y"}},
                                     launch);
      status != CUDNN_STATUS_SUCCESS) {
    return status;
  }
  const cudaError_t error = enqueue(launch.stream, [=, act = *activation] {
    const Problem& p = launch.problem;
    scribble(workspace, workspace_bytes);
    std::vector<double> numbers = products(p, Kind::forward, x, w);
    const std::vector<double> shift = read_numbers(bias, p.out_channels, p.element);
    const std::vector<double> addend = of_z != 0 ? read_numbers(z, p.y_size(), p.element) : std::vector<double>();
    const size_t positions = size_t(p.out[0] * p.out[1] * p.out[2]);
    for (size_t i = 0; i < numbers.size(); ++i) {
      const size_t channel = (p.is_last ? i : i / positions) % shift.size();
      double v = numbers[i] * (launch.is_off ? 1.1 * scale : scale) + shift[channel];
      if (of_z != 0) v += of_z * addend[i];
      if (act.mode == CUDNN_ACTIVATION_RELU) v = v > 0 || (std::isnan(v) && act.keeps_nan) ? v : 0;
      numbers[i] = v;
    }
    write_numbers(numbers, y, p.element);
  });
  return error == cudaSuccess ? CUDNN_STATUS_SUCCESS : CUDNN_STATUS_EXECUTION_FAILED;
}
