// What the files of bench/gpu share: the GPU, the sizes, how calls are timed; and the parts.
#pragma once

#include <cstdint>
#include <string>

#include "kaon/bench/common.h"
#include "kaon/kaon.h"

namespace kaon::bench {

inline constexpr double per_us = 1e6, per_ms = 1e3, giga = 1e-9, tera = 1e-12;

struct GpuRun {
  bool small;  // shows that every part runs, on an emulated GPU too: the figures say nothing
  int64_t size(int64_t full, int64_t small_size) const { return small ? small_size : full; }
  int calls(int full) const { return small ? 2 : full; }
  int rounds() const { return small ? 1 : 5; }
};

inline Device the_gpu() { return gpu(0); }

// Seconds of each of so many calls, which are waited for at the end.
template <class F>
double seconds_per_call(int calls, const F& f) {
  nd.waitall();
  return seconds([&] {
           for (int i = 0; i < calls; ++i) f();
           nd.waitall();
         }) /
         calls;
}

void matmul(const GpuRun& run);     // float32, TF32 and bfloat16 beside cuBLASLt called bare (bare/gpu_bare.cpp)
void pointwise(const GpuRun& run);  // a + b and a fused chain of 20 operators beside a copy on the device
void resnet(const GpuRun& run);     // ResNet-50: inference and training, imperative, hybridized, as CUDA graphs
void mlp(const GpuRun& run);        // the seeds' MLP at batch 1
void overlap(const GpuRun& run);    // copies and products at the same time beside the longer of the two
void launch(const GpuRun& run);     // an operator pushed, beside one on the CPU

}  // namespace kaon::bench
