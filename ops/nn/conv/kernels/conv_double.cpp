// Convolutions in double: plain loops, for tests of gradients and for users of float64.
#include <algorithm>

#include "kaon/ops/kernels/scratch.h"
#include "kaon/ops/nn/conv/kernels/conv_kernels.h"

namespace kaon::ops {
namespace {

// Calls visit(position in `in`, position in `out`, tap) for every product of one channel pair.
template <class Visit>
void for_each_product(const ConvGeometry& g, Visit&& visit) {
  // two-dimensional sizes as three-dimensional ones
  const auto at = [&](const std::array<int64_t, 3>& v, int axis, int64_t none) {
    return g.axes == 3 ? v[size_t(axis)] : axis == 0 ? none : v[size_t(axis - 1)];
  };
  int64_t in[3], out[3], kernel[3], stride[3], dilate[3], pad[3];
  for (int a = 0; a < 3; ++a) {
    in[a] = at(g.in, a, 1), out[a] = at(g.out, a, 1), kernel[a] = at(g.kernel, a, 1);
    stride[a] = at(g.stride, a, 1), dilate[a] = at(g.dilate, a, 1), pad[a] = at(g.pad, a, 0);
  }
  for (int64_t z = 0; z < out[0]; ++z) {
    for (int64_t kz = 0; kz < kernel[0]; ++kz) {
      const int64_t iz = z * stride[0] - pad[0] + kz * dilate[0];
      if (iz < 0 || iz >= in[0]) continue;
      for (int64_t y = 0; y < out[1]; ++y) {
        for (int64_t ky = 0; ky < kernel[1]; ++ky) {
          const int64_t iy = y * stride[1] - pad[1] + ky * dilate[1];
          if (iy < 0 || iy >= in[1]) continue;
          for (int64_t x = 0; x < out[2]; ++x) {
            for (int64_t kx = 0; kx < kernel[2]; ++kx) {
              const int64_t ix = x * stride[2] - pad[2] + kx * dilate[2];
              if (ix < 0 || ix >= in[2]) continue;
              visit((iz * in[1] + iy) * in[2] + ix, (z * out[1] + y) * out[2] + x,
                    (kz * kernel[1] + ky) * kernel[2] + kx);
            }
          }
        }
      }
    }
  }
}

// Calls body(offset in x, offset in y, offset in w) for the channel pairs of image n.
template <class Body>
void for_each_pair(const ConvGeometry& g, int64_t n, int64_t first_out, int64_t last_out, Body&& body) {
  const int64_t per_group_in = g.in_channels / g.groups, per_group_out = g.out_channels / g.groups;
  for (int64_t o = first_out; o < last_out; ++o) {
    for (int64_t i = 0; i < per_group_in; ++i) {
      const int64_t channel = o / per_group_out * per_group_in + i;
      body((n * g.in_channels + channel) * g.in_positions(), (n * g.out_channels + o) * g.out_positions(),
           (o * per_group_in + i) * g.taps());
    }
  }
}

}  // namespace

void conv_forward_double(KernelContext& c, const ConvGeometry& g, const double* x, const double* w, double* y,
                         const Epilogue<double>& epilogue) {
  c.run.parallel_for(g.batch * g.out_channels, 1, [&](int64_t begin, int64_t end) {
    const int64_t positions = g.out_positions();
    const Scratch sums(size_t(positions) * sizeof(double));  // y may hold the addend
    double* const sum = sums.as<double>();
    for (int64_t plane = begin; plane < end; ++plane) {
      const int64_t n = plane / g.out_channels, o = plane % g.out_channels;
      std::fill_n(sum, positions, 0.0);
      for_each_pair(g, n, o, o + 1, [&](int64_t from, int64_t, int64_t taps) {
        for_each_product(g, [&](int64_t i, int64_t p, int64_t k) { sum[p] += x[from + i] * w[taps + k]; });
      });
      finish_planes(sum, y + plane * positions, 1, 1, positions, epilogue.at(o, plane * positions));
    }
  });
}

void conv_backward_data_double(KernelContext& c, const ConvGeometry& g, const double* dy, const double* w, double* dx) {
  c.run.parallel_for(g.batch, 1, [&](int64_t begin, int64_t end) {
    const int64_t image = g.in_channels * g.in_positions();
    std::fill(dx + begin * image, dx + end * image, 0.0);
    for (int64_t n = begin; n < end; ++n) {
      for_each_pair(g, n, 0, g.out_channels, [&](int64_t to, int64_t from, int64_t taps) {
        for_each_product(g, [&](int64_t i, int64_t p, int64_t k) { dx[to + i] += dy[from + p] * w[taps + k]; });
      });
    }
  });
}

void conv_backward_weight_double(KernelContext& c, const ConvGeometry& g, const double* dy, const double* x, double* dw,
                                 double* db) {
  std::fill_n(dw, g.weights(), 0.0);
  if (db) std::fill_n(db, g.out_channels, 0.0);
  c.run.parallel_for(g.out_channels, 1, [&](int64_t begin, int64_t end) {
    for (int64_t n = 0; n < g.batch; ++n) {
      for_each_pair(g, n, begin, end, [&](int64_t from, int64_t head, int64_t taps) {
        for_each_product(g, [&](int64_t i, int64_t p, int64_t k) { dw[taps + k] += dy[head + p] * x[from + i]; });
      });
      for (int64_t o = begin; db && o < end; ++o) {
        const double* plane = dy + (n * g.out_channels + o) * g.out_positions();
        for (int64_t p = 0; p < g.out_positions(); ++p) db[o] += plane[p];
      }
    }
  });
}

}  // namespace kaon::ops
