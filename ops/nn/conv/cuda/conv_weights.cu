#include "kaon/ops/nn/conv/cuda/conv_weights.h"

#include "kaon/ops/cuda/launch.cuh"
#include "kaon/ops/kernels/strided_copy.cuh"
#include "kaon/ops/math/dispatch.h"

namespace kaon::cuda {
namespace {

// A: of the numbers per output.
template <class T, class A>
struct ScaleWeights {
  const T* from;
  const A *scale, *shift;
  T *to, *bias;
  int64_t size;
  FastDivide filter, inputs, taps;
  bool rearranged;

  // Indices after the weights are the biases.
  __device__ void operator()(int64_t i) const {
    if (i >= size) {
      bias[i - size] = T(shift[i - size]);
      return;
    }
    int64_t at = i;
    const int64_t output = filter.split(at);
    if (rearranged) {
      const int64_t tap = inputs.split(at);
      at = at * taps.divisor() + tap;
    }
    to[i] = T(A(from[output * filter.divisor() + at]) * scale[output]);
  }
};

}  // namespace

void transpose_planes(KernelContext& c, DType t, int64_t planes, int64_t rows, int64_t columns, const void* from,
                      void* to) {
  StridedCopy copy;
  copy.dims.push(planes, rows * columns, rows * columns);
  copy.dims.push(columns, 1, rows);
  copy.dims.push(rows, columns, 1);
  strided_copy(c, copy, from, to, size_of(t));
}

void scale_weights(KernelContext& c, const ConvWeights& w, const void* from, const void* scale, const void* shift,
                   void* to, void* bias) {
  dispatch_float("Convolution", w.dtype, [&]<class T>() {
    using A = accumulate_t<T>;
    for_each(c, w.size() + w.outputs,
             ScaleWeights<T, A>{static_cast<const T*>(from), static_cast<const A*>(scale), static_cast<const A*>(shift),
                                static_cast<T*>(to), static_cast<T*>(bias), w.size(), FastDivide(w.inputs * w.taps),
                                FastDivide(w.inputs), FastDivide(w.taps), w.rearranged});
  });
}

void arrange_weights(KernelContext& c, const ConvWeights& w, const void* from, void* to) {
  transpose_planes(c, w.dtype, w.outputs, w.inputs, w.taps, from, to);
}
void restore_weights(KernelContext& c, const ConvWeights& w, const void* from, void* to) {
  transpose_planes(c, w.dtype, w.outputs, w.taps, w.inputs, from, to);
}

}  // namespace kaon::cuda
