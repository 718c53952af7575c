#include "kaon/ops/elementwise/kernels/pointwise.h"

#include <algorithm>
#include <cstdint>

namespace kaon::ops {
namespace {

// From this traffic on (all inputs and the output) an output is written past the caches: less than that is in the last
// one when it is read next.
constexpr int64_t stream_bytes = 24 << 20;

const char* at(const void* p, size_t byte) { return static_cast<const char*>(p) + byte; }

void half_tile(TileFn tile, const void* attrs, DType dtype, const void* const* in, int inputs, void* out, size_t n) {
  alignas(64) float buffers[max_pointwise_inputs][pointwise_tile];
  const float* wide[max_pointwise_inputs];
  for (int k = 0; k < inputs; ++k) {
    half_to_float32(dtype)(in[k], buffers[k], n);
    wide[k] = buffers[k];
  }
  tile(attrs, wide, buffers[0], n);
  float32_to_half(dtype)(buffers[0], out, n);
}

// Computes tiles in L1 and copies them out with non-temporal stores, for any tile function. Prefetching the next tile
// during that overlaps reads and writes (measured: as fast as streaming in the loop itself).
void stream_piece(TileFn tile, const void* attrs, const float* const* in, int inputs, float* out, size_t n) {
  constexpr size_t size = 512, line = 64 / sizeof(float);
  alignas(64) float buffer[size];
  const float* moved[max_pointwise_inputs];
  // up to the first whole cache line
  const size_t head = std::min(n, (0 - reinterpret_cast<uintptr_t>(out)) / sizeof(float) % line);
  if (head > 0) tile(attrs, in, out, head);
  for (size_t i = head; i < n; i += size) {
    const size_t m = std::min(size, n - i), next = std::min(size, n - i - m);
    for (int k = 0; k < inputs; ++k) moved[k] = in[k] + i;
    tile(attrs, moved, buffer, m);
    for (size_t j = 0; j < next; j += line) {
      for (int k = 0; k < inputs; ++k) __builtin_prefetch(moved[k] + size + j);
    }
    stream_copy(out + i, buffer, m);
  }
}

}  // namespace

void run_piece(const PointwiseKernels& kernels, const void* attrs, DType dtype, const void* const* in, int inputs,
               void* out, size_t n, bool stream) {
  if (dtype == DType::float32) {
    const float* floats[max_pointwise_inputs];
    for (int k = 0; k < inputs; ++k) floats[k] = static_cast<const float*>(in[k]);
    if (stream) {
      stream_piece(kernels.float32, attrs, floats, inputs, static_cast<float*>(out), n);
    } else {
      kernels.float32(attrs, floats, static_cast<float*>(out), n);
    }
  } else if (is_half(dtype)) {
    const void* moved[max_pointwise_inputs];
    for (size_t i = 0; i < n; i += pointwise_tile) {
      for (int k = 0; k < inputs; ++k) moved[k] = at(in[k], 2 * i);
      half_tile(kernels.float32, attrs, dtype, moved, inputs, static_cast<char*>(out) + 2 * i,
                std::min(pointwise_tile, n - i));
    }
  } else {
    kernels.typed(dtype)(attrs, in, out, n);
  }
}

bool wants_stream(DType dtype, int64_t n, int inputs) {
  return dtype == DType::float32 && n * 4 * (inputs + 1) >= stream_bytes;
}

void run_pointwise(const PointwiseKernels& kernels, const void* attrs, DType dtype, const void* const* in, int inputs,
                   void* out, int64_t n, RunContext& run) {
  if (n <= pointwise_grain) {
    if (n > 0) run_piece(kernels, attrs, dtype, in, inputs, out, size_t(n), false);
    return;
  }
  const size_t width = size_of(dtype);
  bool stream = wants_stream(dtype, n, inputs);
  for (int k = 0; k < inputs; ++k) stream = stream && in[k] != out;  // in place: the line is in the cache anyway
  run.parallel_for(n, pointwise_grain, [&](int64_t begin, int64_t end) {
    const void* moved[max_pointwise_inputs];
    for (int k = 0; k < inputs; ++k) moved[k] = at(in[k], size_t(begin) * width);
    run_piece(kernels, attrs, dtype, moved, inputs, static_cast<char*>(out) + size_t(begin) * width,
              size_t(end - begin), stream);
    if (stream) stream_flush();
  });
}

void run_pointwise(const PointwiseKernels& kernels, const void* attrs, KernelContext& c) {
  const void* in[max_pointwise_inputs];
  const int inputs = c.num_inputs();
  for (int k = 0; k < inputs; ++k) in[k] = c.in(k).data;
  run_pointwise(kernels, attrs, c.out().dtype, in, inputs, c.out().data, c.out().size(), c.run);
}

}  // namespace kaon::ops
