// The directional derivative (JVP) of a pooling, from which the gradients of its gradient are made.
#include <algorithm>

#include "kaon/ops/nn/pooling/kernels/pooling_kernels.h"

namespace kaon::ops {
namespace {

// One axis of the windows; axes that the data lacks have size 1.
struct Axis {
  int64_t in = 1, out = 1, kernel = 1, stride = 1, pad = 0, dilation = 1;
  int64_t begin(int64_t position) const {
    const int64_t start = position * stride - pad;
    return start < 0 ? start + (dilation - 1 - start) / dilation * dilation : start;
  }
  int64_t end(int64_t position) const { return std::min(in, position * stride - pad + (kernel - 1) * dilation + 1); }
};

// The tangent at the element that gets the gradient: the first that equals the maximum, or the first NaN. Elements of
// one channel are `step` apart.
template <class T>
void along_channel(const Axis (&a)[3], const T* x, const T* y, const T* tangent, T* out, int64_t step) {
  for (int64_t p = 0; p < a[0].out; ++p) {
    for (int64_t q = 0; q < a[1].out; ++q) {
      for (int64_t r = 0; r < a[2].out; ++r) {
        const int64_t to = ((p * a[1].out + q) * a[2].out + r) * step;
        const T top = y[to];
        const auto first = [&] {
          for (int64_t z = a[0].begin(p); z < a[0].end(p); z += a[0].dilation) {
            for (int64_t i = a[1].begin(q); i < a[1].end(q); i += a[1].dilation) {
              for (int64_t j = a[2].begin(r); j < a[2].end(r); j += a[2].dilation) {
                const int64_t from = ((z * a[1].in + i) * a[2].in + j) * step;
                if (x[from] == top || x[from] != x[from]) return tangent[from];
              }
            }
          }
          return T(0);
        };
        out[to] = first();
      }
    }
  }
}

}  // namespace

template <class T>
void pool_along(RunContext& run, const PoolJob<T>& job) {
  if (job.type != PoolType::max) {  // linear
    PoolJob<T> linear = job;
    linear.x = job.head;
    return pool_forward(run, linear);
  }
  const ConvGeometry& g = job.g;
  Axis axes[3];
  for (int i = 0; i < g.axes; ++i) {
    const size_t k = size_t(i);
    axes[3 - g.axes + i] = {g.in[k], g.out[k], g.kernel[k], g.stride[k], g.pad[k], g.dilate[k]};
  }
  const int64_t channels = g.in_channels, in = g.in_positions(), out = g.out_positions();
  const int64_t grain = std::max<int64_t>(1, (1 << 16) / std::max<int64_t>(1, in));
  run.parallel_for(g.batch * channels, grain, [&](int64_t begin, int64_t end) {
    for (int64_t unit = begin; unit < end; ++unit) {
      const int64_t image = unit / channels, channel = unit % channels;
      const int64_t from = job.channels_last ? image * in * channels + channel : unit * in;
      const int64_t to = job.channels_last ? image * out * channels + channel : unit * out;
      along_channel(axes, job.x + from, job.y + to, job.head + from, job.out + to, job.channels_last ? channels : 1);
    }
  });
}

template void pool_along(RunContext&, const PoolJob<float>&);
template void pool_along(RunContext&, const PoolJob<double>&);

}  // namespace kaon::ops
