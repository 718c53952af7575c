#include "kaon/ops/nn/conv/cuda/conv_products.h"

#include <algorithm>

#include "kaon/engine/device/cuda/tf32.h"
#include "kaon/ops/cuda/launch.cuh"
#include "kaon/ops/cuda/library_cache.h"
#include "kaon/ops/kernels/strided_copy.cuh"
#include "kaon/ops/linalg/cuda/blas.h"
#include "kaon/ops/reduce/kernels/reduce_driver.h"

namespace kaon::cuda {
namespace {

bool has_steps(const ConvGeometry& g) {
  for (size_t i = 0; i < size_t(g.axes); ++i) {
    if (g.stride[i] != 1) return true;
  }
  return false;
}

// The copy between row-major images and the positions that a convolution with a stride reads.
StridedCopy looked_at(const ConvGeometry& g, bool towards_images) {
  StridedCopy copy;
  const auto push = [&](int64_t size, int64_t of_images, int64_t of_some) {
    copy.dims.push(size, towards_images ? of_some : of_images, towards_images ? of_images : of_some);
  };
  push(g.batch * g.in_channels, g.in_positions(), g.out_positions());
  int64_t image = g.in_positions(), some = g.out_positions();
  for (size_t i = 0; i < size_t(g.axes); ++i) {
    image /= g.in[i], some /= g.out[i];
    push(g.out[i], image * g.stride[i], some);
  }
  return copy;
}

// Scratch elements that a product of row-major images takes besides its operands.
int64_t scratch_elements(const ConvGeometry& g, ConvDirection direction) {
  const int64_t some = has_steps(g) ? g.batch * g.in_channels * g.out_positions() : 0;
  const bool of_images = direction == ConvDirection::backward_weight && g.batch > 1;
  return some + (of_images ? g.batch * g.weights() : 0);
}

void* scratch(KernelContext& c, int64_t elements, DType t) {
  return library_workspace(c, size_t(elements) * size_of(t));
}

}  // namespace

bool is_product(const ConvSetup& setup, ConvDirection direction) {
  const ConvGeometry& g = setup.geometry;
  for (size_t i = 0; i < size_t(g.axes); ++i) {
    if (g.kernel[i] != 1 || g.pad[i] != 0 || (g.in[i] - 1) / g.stride[i] + 1 != g.out[i]) return false;
  }
  if (g.groups != 1 || g.batch * g.in_positions() == 0) return false;
  if (setup.layout == Layout::channels_last) return !has_steps(g);
  const bool on_tensor_cores =
      size_of(setup.dtype) == 2 || (setup.dtype == DType::float32 && tf32_allowed.load(std::memory_order_relaxed));
  if (direction == ConvDirection::forward || on_tensor_cores) return false;
  const int64_t bytes = scratch_elements(g, direction) * int64_t(size_of(setup.dtype));
  if (bytes > std::clamp<int64_t>(setup.workspace, 0, 1 << 20) << 20) return false;
  constexpr int64_t enough = 128;  // positions: the weights' gradients of all images are written and summed up
  return direction == ConvDirection::backward_data || g.out_positions() >= enough;
}

void product_forward(KernelContext& c, const ConvSetup& setup, const void* x, const void* w, void* y,
                     const Epilogue<void>& epilogue) {
  const ConvGeometry& g = setup.geometry;
  multiply(c, {.a = x,
               .b = w,
               .c = y,
               .dtype = setup.dtype,
               .m = g.batch * g.out_positions(),
               .n = g.out_channels,
               .k = g.in_channels,
               .transpose_b = true,
               .epilogue = epilogue});
}

void product_backward_data(KernelContext& c, const ConvSetup& setup, const void* dy, const void* w, void* dx) {
  const ConvGeometry& g = setup.geometry;
  const DType t = setup.dtype;
  if (setup.layout == Layout::channels_last) {
    return multiply(c, {.a = dy,
                        .b = w,
                        .c = dx,
                        .dtype = t,
                        .m = g.batch * g.out_positions(),
                        .n = g.in_channels,
                        .k = g.out_channels});
  }
  const bool steps = has_steps(g);
  void* const to = steps ? scratch(c, g.batch * g.in_channels * g.out_positions(), t) : dx;
  multiply(c, {.a = w,
               .b = dy,
               .c = to,
               .dtype = t,
               .m = g.in_channels,
               .n = g.out_positions(),
               .k = g.out_channels,
               .transpose_a = true,
               .batch = g.batch,
               .same_a = true});
  if (!steps) return;
  zero_bytes(c, dx, size_t(g.batch * g.in_channels * g.in_positions()) * size_of(t));
  strided_copy(c, looked_at(g, true), to, dx, size_of(t));
}

void product_backward_weight(KernelContext& c, const ConvSetup& setup, const void* dy, const void* x, void* dw) {
  const ConvGeometry& g = setup.geometry;
  const DType t = setup.dtype;
  if (setup.layout == Layout::channels_last) {
    return multiply(c, {.a = dy,
                        .b = x,
                        .c = dw,
                        .dtype = t,
                        .m = g.out_channels,
                        .n = g.in_channels,
                        .k = g.batch * g.out_positions(),
                        .transpose_a = true});
  }
  if (has_steps(g)) {
    void* const some = scratch(c, g.batch * g.in_channels * g.out_positions(), t);
    strided_copy(c, looked_at(g, false), x, some, size_of(t));
    x = some;
  }
  void* const of_images = g.batch == 1 ? dw : scratch(c, g.batch * g.weights(), t);
  multiply(c, {.a = dy,
               .b = x,
               .c = of_images,
               .dtype = t,
               .m = g.out_channels,
               .n = g.in_channels,
               .k = g.out_positions(),
               .transpose_b = true,
               .batch = g.batch});
  if (g.batch == 1) return;
  const ReduceDim dims[] = {{g.batch, true}, {g.weights(), false}};
  reduce_dims(c, Combine::sum, {of_images, Shape(g.batch, g.weights()), t}, dims, false, {.data = dw, .dtype = t});
}

}  // namespace kaon::cuda
