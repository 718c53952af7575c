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

// Where the first position of a channel of an image lies, and how far apart its positions are.
struct Channel {
  int64_t first, step;
  Channel(const TensorView& images, int64_t image, int64_t channel, int64_t channels, int64_t positions) {
    const bool last = images.layout == Layout::channels_last;
    first = image * channels * positions + channel * (last ? 1 : positions);
    step = last ? channels : 1;
  }
  int64_t at(int64_t position) const { return first + position * step; }
};

// Calls body(channel of x, channel of y, the taps of both as a channel of w) for the channel pairs of image n.
template <class Body>
void for_each_pair(const ConvGeometry& g, const TensorView& x, const TensorView& y, int64_t n, int64_t first_out,
                   int64_t last_out, Body&& body) {
  const int64_t per_group_in = g.in_channels / g.groups, per_group_out = g.out_channels / g.groups;
  TensorView w;
  w.layout = g.weights_channels_last ? Layout::channels_last : Layout::row_major;
  for (int64_t o = first_out; o < last_out; ++o) {
    for (int64_t i = 0; i < per_group_in; ++i) {
      const int64_t channel = o / per_group_out * per_group_in + i;
      body(Channel(x, n, channel, g.in_channels, g.in_positions()), Channel(y, n, o, g.out_channels, g.out_positions()),
           Channel(w, o, i, per_group_in, g.taps()));
    }
  }
}

}  // namespace

void conv_forward_double(KernelContext& c, const ConvGeometry& g, const TensorView& x, const double* w,
                         const TensorView& y, const Epilogue<double>& epilogue) {
  const double* const from = x.as<const double>();
  c.run.parallel_for(g.batch * g.out_channels, 1, [&](int64_t begin, int64_t end) {
    const int64_t positions = g.out_positions();
    const Scratch sums(size_t(positions) * sizeof(double));  // y may hold the addend
    double* const sum = sums.as<double>();
    for (int64_t plane = begin; plane < end; ++plane) {
      const int64_t n = plane / g.out_channels, o = plane % g.out_channels;
      std::fill_n(sum, positions, 0.0);
      for_each_pair(g, x, y, n, o, o + 1, [&](Channel in, Channel, Channel taps) {
        for_each_product(g, [&](int64_t i, int64_t p, int64_t k) { sum[p] += from[in.at(i)] * w[taps.at(k)]; });
      });
      const Channel to(y, n, o, g.out_channels, positions);
      finish_rows(sum, 1, y.as<double>() + to.first, to.step, positions, 1, epilogue.at(o, to.first));
    }
  });
}

void conv_backward_data_double(KernelContext& c, const ConvGeometry& g, const TensorView& dy, const double* w,
                               const TensorView& dx) {
  const double* const from = dy.as<const double>();
  double* const to = dx.as<double>();
  c.run.parallel_for(g.batch, 1, [&](int64_t begin, int64_t end) {
    const int64_t image = g.in_channels * g.in_positions();
    std::fill(to + begin * image, to + end * image, 0.0);
    for (int64_t n = begin; n < end; ++n) {
      for_each_pair(g, dx, dy, n, 0, g.out_channels, [&](Channel in, Channel out, Channel taps) {
        for_each_product(g, [&](int64_t i, int64_t p, int64_t k) { to[in.at(i)] += from[out.at(p)] * w[taps.at(k)]; });
      });
    }
  });
}

void conv_backward_weight_double(KernelContext& c, const ConvGeometry& g, const TensorView& dy, const TensorView& x,
                                 double* dw, double* db) {
  const double *const heads = dy.as<const double>(), *const from = x.as<const double>();
  std::fill_n(dw, g.weights(), 0.0);
  if (db) std::fill_n(db, g.out_channels, 0.0);
  c.run.parallel_for(g.out_channels, 1, [&](int64_t begin, int64_t end) {
    for (int64_t n = 0; n < g.batch; ++n) {
      for_each_pair(g, x, dy, n, begin, end, [&](Channel in, Channel out, Channel taps) {
        for_each_product(g,
                         [&](int64_t i, int64_t p, int64_t k) { dw[taps.at(k)] += heads[out.at(p)] * from[in.at(i)]; });
      });
      for (int64_t o = begin; db && o < end; ++o) {
        const Channel plane(dy, n, o, g.out_channels, g.out_positions());
        for (int64_t p = 0; p < g.out_positions(); ++p) db[o] += heads[plane.at(p)];
      }
    }
  });
}

}  // namespace kaon::ops
