#include "kaon/ops/nn/conv/cuda/dnn.h"

#include <cudnn.h>
#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <span>
#include <vector>

#include "kaon/engine/device/cuda/shared_library.h"
#include "kaon/engine/device/cuda/tf32.h"
#include "kaon/engine/error.h"
#include "kaon/ops/cuda/library_cache.h"
#include "kaon/ops/kernels/finish.h"
#include "kaon/ops/nn/conv/cuda/conv_products.h"
#include "kaon/ops/nn/conv/cuda/conv_weights.h"

namespace kaon::cuda {
namespace {

struct Cudnn {
  SharedLibrary library{"convolutions", {"libcudnn.so.9"}};
  decltype(&::cudnnCreate) create = library.function("cudnnCreate");
  decltype(&::cudnnSetStream) set_stream = library.function("cudnnSetStream");
  decltype(&::cudnnGetErrorString) error_string = library.function("cudnnGetErrorString");
  decltype(&::cudnnGetLastErrorString) last_error = library.function("cudnnGetLastErrorString");

  decltype(&::cudnnCreateTensorDescriptor) create_tensor = library.function("cudnnCreateTensorDescriptor");
  decltype(&::cudnnSetTensorNdDescriptor) set_tensor = library.function("cudnnSetTensorNdDescriptor");
  decltype(&::cudnnDestroyTensorDescriptor) destroy_tensor = library.function("cudnnDestroyTensorDescriptor");
  decltype(&::cudnnCreateFilterDescriptor) create_filter = library.function("cudnnCreateFilterDescriptor");
  decltype(&::cudnnSetFilterNdDescriptor) set_filter = library.function("cudnnSetFilterNdDescriptor");
  decltype(&::cudnnDestroyFilterDescriptor) destroy_filter = library.function("cudnnDestroyFilterDescriptor");
  decltype(&::cudnnCreateActivationDescriptor) create_activation = library.function("cudnnCreateActivationDescriptor");
  decltype(&::cudnnSetActivationDescriptor) set_activation = library.function("cudnnSetActivationDescriptor");
  decltype(&::cudnnDestroyActivationDescriptor) destroy_activation =
      library.function("cudnnDestroyActivationDescriptor");
  decltype(&::cudnnCreateConvolutionDescriptor) create_conv = library.function("cudnnCreateConvolutionDescriptor");
  decltype(&::cudnnSetConvolutionNdDescriptor) set_conv = library.function("cudnnSetConvolutionNdDescriptor");
  decltype(&::cudnnSetConvolutionGroupCount) set_groups = library.function("cudnnSetConvolutionGroupCount");
  decltype(&::cudnnSetConvolutionMathType) set_math = library.function("cudnnSetConvolutionMathType");
  decltype(&::cudnnDestroyConvolutionDescriptor) destroy_conv = library.function("cudnnDestroyConvolutionDescriptor");

  decltype(&::cudnnGetConvolutionForwardAlgorithm_v7) get_forward =
      library.function("cudnnGetConvolutionForwardAlgorithm_v7");
  decltype(&::cudnnGetConvolutionBackwardDataAlgorithm_v7) get_backward_data =
      library.function("cudnnGetConvolutionBackwardDataAlgorithm_v7");
  decltype(&::cudnnGetConvolutionBackwardFilterAlgorithm_v7) get_backward_filter =
      library.function("cudnnGetConvolutionBackwardFilterAlgorithm_v7");
  decltype(&::cudnnConvolutionForward) forward = library.function("cudnnConvolutionForward");
  decltype(&::cudnnConvolutionBiasActivationForward) fused_forward =
      library.function("cudnnConvolutionBiasActivationForward");
  decltype(&::cudnnConvolutionBackwardData) backward_data = library.function("cudnnConvolutionBackwardData");
  decltype(&::cudnnConvolutionBackwardFilter) backward_filter = library.function("cudnnConvolutionBackwardFilter");
};

const Cudnn& dnn() {
  static const Cudnn* library = new Cudnn;
  return *library;
}

void check(cudnnStatus_t status, const char* what) {
  if (status == CUDNN_STATUS_SUCCESS) return;
  char reason[512] = "";
  dnn().last_error(reason, sizeof reason);
  const std::string text =
      fmt::format("[{}] cuDNN: {}{}{}", what, dnn().error_string(status), reason[0] ? ": " : "", reason);
  if (status == CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED ||
      status == CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED) {
    throw MemoryError(text);
  }
  throw DeviceError(text);
}

bool is_unsupported(cudnnStatus_t status) { return CUDNN_STATUS_CATEGORY(int(status)) == CUDNN_STATUS_NOT_SUPPORTED; }

// A handle is for one thread at a time. Lives as long as the process.
struct DnnHandle {
  DnnHandle() { check(dnn().create(&value), "cudnnCreate"); }
  const int device = current_device();
  std::mutex mutex;
  cudnnHandle_t value = nullptr;  // under mutex
};

struct Destroy {
  void operator()(cudnnTensorStruct* d) const { dnn().destroy_tensor(d); }
  void operator()(cudnnFilterStruct* d) const { dnn().destroy_filter(d); }
  void operator()(cudnnActivationStruct* d) const { dnn().destroy_activation(d); }
  void operator()(cudnnConvolutionStruct* d) const { dnn().destroy_conv(d); }
};
template <class T>
using Descriptor = std::unique_ptr<T, Destroy>;

template <class T>
Descriptor<T> make(cudnnStatus_t (*create)(T**)) {
  T* made = nullptr;
  check(create(&made), "cuDNN descriptor");
  return Descriptor<T>(made);
}

using Sizes = std::vector<int>;

int size_for_cudnn(int64_t n) {
  if (n > INT32_MAX) throw ValueError(fmt::format("[cuDNN] a size must be below 2^31, got {}", n));
  return int(n);
}

// `front`, then one number for each spatial axis.
Sizes sizes(const ConvGeometry& g, const std::array<int64_t, 3>& spatial, std::initializer_list<int64_t> front = {}) {
  Sizes all;
  for (int64_t n : front) all.push_back(size_for_cudnn(n));
  for (int i = 0; i < g.axes; ++i) all.push_back(size_for_cudnn(spatial[size_t(i)]));
  return all;
}

// dims: batch, channels, positions.
Descriptor<cudnnTensorStruct> tensor(cudnnDataType_t type, const Sizes& dims, Layout layout) {
  Sizes strides(dims.size());
  int64_t next = 1;
  const auto add = [&](size_t i) {
    strides[i] = size_for_cudnn(next);
    next *= dims[i];
  };
  if (layout == Layout::channels_last) add(1);
  for (size_t i = dims.size() - 1; i > 1; --i) add(i);
  if (layout != Layout::channels_last) add(1);
  add(0);
  auto made = make(dnn().create_tensor);
  check(dnn().set_tensor(made.get(), type, int(dims.size()), dims.data(), strides.data()), "cuDNN tensor");
  return made;
}

Descriptor<cudnnFilterStruct> filter(cudnnDataType_t type, const Sizes& dims, Layout layout) {
  auto made = make(dnn().create_filter);
  const cudnnTensorFormat_t format = layout == Layout::channels_last ? CUDNN_TENSOR_NHWC : CUDNN_TENSOR_NCHW;
  check(dnn().set_filter(made.get(), type, format, int(dims.size()), dims.data()), "cuDNN filter");
  return made;
}

// relu, or the identity.
cudnnActivationDescriptor_t activation(bool relu) {
  const auto make_one = [](cudnnActivationMode_t mode) {
    auto made = make(dnn().create_activation);
    check(dnn().set_activation(made.get(), mode, CUDNN_PROPAGATE_NAN, 0.0), "cuDNN activation");
    return made.release();
  };
  static const cudnnActivationDescriptor_t both[] = {make_one(CUDNN_ACTIVATION_IDENTITY),
                                                     make_one(CUDNN_ACTIVATION_RELU)};
  return both[relu];
}

cudnnDataType_t type_of(DType t) {
  switch (t) {
    case DType::float64: return CUDNN_DATA_DOUBLE;
    case DType::float16: return CUDNN_DATA_HALF;
    case DType::bfloat16: return CUDNN_DATA_BFLOAT16;
    default: return CUDNN_DATA_FLOAT;
  }
}

// 0 or 1 as cuDNN wants its factors.
const void* factor(DType t, bool one) {
  static constexpr float floats[] = {0, 1};
  static constexpr double doubles[] = {0, 1};
  return t == DType::float64 ? static_cast<const void*>(doubles + one) : floats + one;
}

// A convolution without its pointers. Threads share it: immutable apart from `fuses`.
struct ConvPlan {
  Descriptor<cudnnTensorStruct> x, y, bias;
  Descriptor<cudnnFilterStruct> w;
  Descriptor<cudnnConvolutionStruct> conv;
  int algorithm = 0;  // of the kind's own enumeration
  size_t workspace = 0;
  mutable std::atomic<bool> fuses{true};  // cuDNN takes the epilogue, and gains; says nothing about other memory
};

struct Request {
  ConvDirection direction;
  const ConvSetup& setup;
  bool tf32;
  bool winograd;  // its error is larger
};

void check_positions(const ConvGeometry& g) {
  for (size_t i = 0; i < size_t(g.axes); ++i) {
    const int64_t room = g.in[i] + 2 * g.pad[i] - g.dilate[i] * (g.kernel[i] - 1) - 1;
    if (const int64_t positions = room / g.stride[i] + 1; positions != g.out[i]) {
      throw ValueError(fmt::format(
          "[cuDNN] needs equal padding on both sides of an axis: expected {} positions, got {}", positions, g.out[i]));
    }
  }
}

// The fastest deterministic algorithm of cuDNN's heuristics.
template <class Perf, class Get>
void choose(const Request& r, ConvPlan& plan, int winograd_of_large_tiles, Get&& get) {
  constexpr int most = 16;
  Perf found[most]{};
  int count = 0;
  check(get(most, &count, found), "convolution");
  const size_t limit = size_t(std::clamp<int64_t>(r.setup.workspace, 0, 1 << 20)) << 20;
  for (const Perf& p : std::span(found, size_t(count))) {
    if (p.status != CUDNN_STATUS_SUCCESS || p.determinism != CUDNN_DETERMINISTIC || p.memory > limit) continue;
    if (p.algo == winograd_of_large_tiles && !r.winograd) continue;
    plan.algorithm = p.algo;
    plan.workspace = p.memory;
    return;
  }
  const ConvGeometry& g = r.setup.geometry;
  throw DeviceError(fmt::format(
      "[convolution] cuDNN has no deterministic algorithm within {} MiB for {} in batches of {}: {} channels to {}, {} "
      "groups; the attribute workspace sets the limit",
      limit >> 20, name_of(r.setup.dtype), g.batch, g.in_channels, g.out_channels, g.groups));
}

std::shared_ptr<const ConvPlan> make_plan(cudnnHandle_t handle, const Request& r) {
  const ConvGeometry& g = r.setup.geometry;
  check_positions(g);
  const DType t = r.setup.dtype;
  const cudnnDataType_t type = type_of(t);
  auto plan = std::make_shared<ConvPlan>();
  const Layout layout = r.setup.layout;
  plan->x = tensor(type, sizes(g, g.in, {g.batch, g.in_channels}), layout);
  plan->y = tensor(type, sizes(g, g.out, {g.batch, g.out_channels}), layout);
  plan->bias = tensor(type, sizes(g, {1, 1, 1}, {1, g.out_channels}), layout);
  plan->w = filter(type, sizes(g, g.kernel, {g.out_channels, g.in_channels / g.groups}), layout);
  plan->conv = make(dnn().create_conv);
  const auto conv = plan->conv.get();
  check(dnn().set_conv(conv, g.axes, sizes(g, g.pad).data(), sizes(g, g.stride).data(), sizes(g, g.dilate).data(),
                       CUDNN_CROSS_CORRELATION, t == DType::float64 ? CUDNN_DATA_DOUBLE : CUDNN_DATA_FLOAT),
        "convolution");
  check(dnn().set_groups(conv, size_for_cudnn(g.groups)), "convolution");
  // by default cuDNN takes TF32 for float32
  const bool tensor_cores = size_of(t) == 2 || r.tf32;
  check(dnn().set_math(conv, tensor_cores ? CUDNN_TENSOR_OP_MATH : CUDNN_FMA_MATH), "convolution");
  // kernels for tensor cores would rearrange row-major images first
  plan->fuses.store(!tensor_cores || layout == Layout::channels_last, std::memory_order_relaxed);
  const auto x = plan->x.get(), y = plan->y.get();
  const auto w = plan->w.get();
  if (r.direction == ConvDirection::forward) {
    choose<cudnnConvolutionFwdAlgoPerf_t>(r, *plan, CUDNN_CONVOLUTION_FWD_ALGO_WINOGRAD_NONFUSED,
                                          [&](int most, int* count, auto* found) {
                                            return dnn().get_forward(handle, x, w, conv, y, most, count, found);
                                          });
  } else if (r.direction == ConvDirection::backward_data) {
    choose<cudnnConvolutionBwdDataAlgoPerf_t>(
        r, *plan, CUDNN_CONVOLUTION_BWD_DATA_ALGO_WINOGRAD_NONFUSED, [&](int most, int* count, auto* found) {
          return dnn().get_backward_data(handle, w, y, conv, x, most, count, found);
        });
  } else {
    choose<cudnnConvolutionBwdFilterAlgoPerf_t>(
        r, *plan, CUDNN_CONVOLUTION_BWD_FILTER_ALGO_WINOGRAD_NONFUSED, [&](int most, int* count, auto* found) {
          return dnn().get_backward_filter(handle, x, y, conv, w, most, count, found);
        });
  }
  return plan;
}

Key key_of(int device, const Request& r) {
  const ConvGeometry& g = r.setup.geometry;
  Key key{device,
          int64_t(r.direction),
          int64_t(r.setup.dtype),
          int64_t(r.setup.layout),
          r.setup.workspace,
          r.tf32,
          r.winograd,
          g.batch,
          g.groups,
          g.in_channels,
          g.out_channels,
          g.axes};
  auto at = key.begin() + 12;
  for (const auto* sizes : {&g.in, &g.out, &g.kernel, &g.stride, &g.dilate, &g.pad}) {
    at = std::copy(sizes->begin(), sizes->end(), at);
  }
  return key;
}

// cuDNN at work for one operator: holds the device's handle, on the operator's stream.
class DnnCall {
 public:
  DnnCall(KernelContext& c, ConvDirection direction, const ConvSetup& setup) : handle_(of_device(current_device())) {
    static auto* cache = new BoundedCache<ConvPlan>;
    // a setting, alone
    const bool tf32 = setup.dtype == DType::float32 && tf32_allowed.load(std::memory_order_relaxed);
    const Request request{direction, setup, tf32, c.winograd};
    plan_ = cache->obtain(key_of(handle_.device, request), [&] {
      std::lock_guard lock(handle_.mutex);
      return make_plan(handle_.value, request);
    });
    workspace_ = library_workspace(c, plan_->workspace);  // may wait for memory: not under the lock
    lock_ = std::unique_lock(handle_.mutex);
    check(dnn().set_stream(handle_.value, native(*c.run.stream())), "convolution");
  }
  cudnnHandle_t handle() const { return handle_.value; }
  const ConvPlan& plan() const { return *plan_; }
  void* workspace() const { return workspace_; }

 private:
  static DnnHandle& of_device(int device) {
    static auto* handles = new PerDevice<DnnHandle>;
    return handles->of(device);
  }
  DnnHandle& handle_;
  std::unique_lock<std::mutex> lock_;
  std::shared_ptr<const ConvPlan> plan_;
  void* workspace_ = nullptr;
};

int64_t inputs(const ConvGeometry& g) { return g.batch * g.in_channels * g.in_positions(); }
int64_t outputs(const ConvGeometry& g) { return g.batch * g.out_channels * g.out_positions(); }

void zero(KernelContext& c, void* to, int64_t n, DType t) {
  cuda::check(cudaMemsetAsync(to, 0, size_t(n) * size_of(t), native(*c.run.stream())), "memset");
}

// y = act(x * w + z + bias) in one kernel. False: cuDNN does not have that, and nothing was launched.
bool run_fused(const DnnCall& call, DType t, const void* x, const void* w, void* y, const Epilogue<void>& e) {
  const ConvPlan& p = call.plan();
  const bool relu = e.activation == FusedActivation::relu;
  if (e.scale || !e.shift || (!relu && e.activation != FusedActivation::none)) return false;
  // without an activation only this algorithm can fuse
  if (!relu && p.algorithm != CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_PRECOMP_GEMM) return false;
  // cuDNN's documentation does not say that z may be y
  if (e.addend == y || !p.fuses.load(std::memory_order_relaxed)) return false;
  const cudnnStatus_t status = dnn().fused_forward(
      call.handle(), factor(t, true), p.x.get(), x, p.w.get(), w, p.conv.get(), cudnnConvolutionFwdAlgo_t(p.algorithm),
      call.workspace(), p.workspace, factor(t, e.addend != nullptr), p.y.get(), e.addend ? e.addend : y, p.bias.get(),
      e.shift, activation(relu), p.y.get(), y);
  if (is_unsupported(status)) return p.fuses.store(false, std::memory_order_relaxed), false;
  check(status, "convolution");
  return true;
}

// The weights in the convolution's layout, multiplied by the epilogue's scale, which is removed from `e`.
const void* weights_for(KernelContext& c, const ConvSetup& setup, const void* w, Epilogue<void>& e) {
  const ConvWeights weights(setup.geometry, setup.dtype, setup.layout);
  const size_t width = size_of(setup.dtype);
  if (!e.scale && !weights.rearranged) return w;
  void* const to = library_workspace(c, size_t(weights.size()) * width);
  if (e.scale) {
    void* const bias = library_workspace(c, size_t(weights.outputs) * width);
    scale_weights(c, weights, w, std::exchange(e.scale, nullptr), e.shift, to, bias);
    e.shift = bias;
  } else {
    arrange_weights(c, weights, w, to);
  }
  return to;
}

// cuDNN has no convolutions of float64 with channels last: they are computed row-major.
bool is_row_major_only(const ConvSetup& setup) {
  return setup.dtype == DType::float64 && setup.layout == Layout::channels_last;
}

// Such a convolution in the other order, and the copies of its arrays.
class RowMajor {
 public:
  RowMajor(KernelContext& c, const ConvSetup& outer) : setup(outer), c_(c), given_last_(has_last(outer)) {
    setup.layout = Layout::row_major, setup.geometry.weights_channels_last = false;
  }
  ConvSetup setup;

  void* empty(int64_t n) const { return c_.run.workspace(size_t(n) * size_of(setup.dtype)); }
  const void* images(const void* from, int64_t channels, int64_t positions) const {
    return transposed(setup.geometry.batch, positions, channels, from);
  }
  const void* weights(const void* from) const {
    const ConvGeometry& g = setup.geometry;
    return given_last_ ? transposed(g.out_channels, g.taps(), g.in_channels / g.groups, from) : from;
  }
  void images_back(const void* from, int64_t channels, int64_t positions, void* to) const {
    transpose_planes(c_, setup.dtype, setup.geometry.batch, channels, positions, from, to);
  }
  void weights_back(const void* from, void* to) const {
    const ConvGeometry& g = setup.geometry;
    transpose_planes(c_, setup.dtype, g.out_channels, g.in_channels / g.groups, g.taps(), from, to);
  }
  bool weights_move() const { return given_last_; }

 private:
  static bool has_last(const ConvSetup& s) { return s.geometry.weights_channels_last && s.geometry.taps() > 1; }
  const void* transposed(int64_t planes, int64_t rows, int64_t columns, const void* from) const {
    void* const to = empty(planes * rows * columns);
    transpose_planes(c_, setup.dtype, planes, rows, columns, from, to);
    return to;
  }
  KernelContext& c_;
  bool given_last_;
};

}  // namespace

void conv_forward(KernelContext& c, const ConvSetup& setup, const void* x, const void* w, void* y, Epilogue<void> e) {
  const ConvGeometry& g = setup.geometry;
  const DType t = setup.dtype;
  const int64_t n = outputs(g);
  if (n == 0) return;
  void* z = y;
  const auto apart = [&] {  // the products' memory while y holds the addend
    if (e.addend == y) z = c.run.workspace(size_t(n) * size_of(t));
  };
  if (inputs(g) == 0) {
    apart();
    zero(c, z, n, t);
  } else if (is_row_major_only(setup) && !is_product(setup, ConvDirection::forward)) {
    const RowMajor other(c, setup);
    const void* const scaled = e.scale ? weights_for(c, setup, w, e) : w;
    void* const found = other.empty(n);
    conv_forward(c, other.setup, other.images(x, g.in_channels, g.in_positions()), other.weights(scaled), found, {});
    apart();
    other.images_back(found, g.out_channels, g.out_positions(), z);
  } else {
    w = weights_for(c, setup, w, e);
    if (is_product(setup, ConvDirection::forward)) return product_forward(c, setup, x, w, y, e);
    const DnnCall call(c, ConvDirection::forward, setup);
    if (run_fused(call, t, x, w, y, e)) return;
    apart();
    const ConvPlan& p = call.plan();
    check(dnn().forward(call.handle(), factor(t, true), p.x.get(), x, p.w.get(), w, p.conv.get(),
                        cudnnConvolutionFwdAlgo_t(p.algorithm), call.workspace(), p.workspace, factor(t, false),
                        p.y.get(), z),
          "convolution");
  }
  const bool last = setup.layout == Layout::channels_last;
  finish(c, {.x = z, .y = y, .dtype = t, .n = n, .inner = last ? 1 : g.out_positions(), .channels = g.out_channels}, e);
}

void conv_backward_data(KernelContext& c, const ConvSetup& setup, const void* dy, const void* w, void* dx) {
  const DType t = setup.dtype;
  const int64_t n = inputs(setup.geometry);
  if (n == 0) return;
  if (outputs(setup.geometry) == 0) return zero(c, dx, n, t);
  if (is_product(setup, ConvDirection::backward_data)) return product_backward_data(c, setup, dy, w, dx);
  if (is_row_major_only(setup)) {
    const ConvGeometry& g = setup.geometry;
    const RowMajor other(c, setup);
    void* const found = other.empty(n);
    conv_backward_data(c, other.setup, other.images(dy, g.out_channels, g.out_positions()), other.weights(w), found);
    return other.images_back(found, g.in_channels, g.in_positions(), dx);
  }
  Epilogue<void> none;
  w = weights_for(c, setup, w, none);
  const DnnCall call(c, ConvDirection::backward_data, setup);
  const ConvPlan& p = call.plan();
  check(dnn().backward_data(call.handle(), factor(t, true), p.w.get(), w, p.y.get(), dy, p.conv.get(),
                            cudnnConvolutionBwdDataAlgo_t(p.algorithm), call.workspace(), p.workspace, factor(t, false),
                            p.x.get(), dx),
        "convolution");
}

void conv_backward_weight(KernelContext& c, const ConvSetup& setup, const void* dy, const void* x, void* dw) {
  const DType t = setup.dtype;
  const ConvGeometry& g = setup.geometry;
  if (inputs(g) == 0 || outputs(g) == 0) return zero(c, dw, g.weights(), t);
  if (is_product(setup, ConvDirection::backward_weight)) return product_backward_weight(c, setup, dy, x, dw);
  if (is_row_major_only(setup)) {
    const RowMajor other(c, setup);
    void* const found = other.weights_move() ? other.empty(g.weights()) : dw;
    conv_backward_weight(c, other.setup, other.images(dy, g.out_channels, g.out_positions()),
                         other.images(x, g.in_channels, g.in_positions()), found);
    return found == dw ? void() : other.weights_back(found, dw);
  }
  const ConvWeights weights(g, t, setup.layout);
  void* const found = weights.rearranged ? library_workspace(c, size_t(weights.size()) * size_of(t)) : dw;
  {
    const DnnCall call(c, ConvDirection::backward_weight, setup);
    const ConvPlan& p = call.plan();
    check(dnn().backward_filter(call.handle(), factor(t, true), p.x.get(), x, p.y.get(), dy, p.conv.get(),
                                cudnnConvolutionBwdFilterAlgo_t(p.algorithm), call.workspace(), p.workspace,
                                factor(t, false), p.w.get(), found),
          "convolution");
  }
  if (found != dw) restore_weights(c, weights, found, dw);
}

}  // namespace kaon::cuda
