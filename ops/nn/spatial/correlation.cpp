#include <fmt/format.h>

#include <algorithm>

#include "kaon/ops/functions.h"
#include "kaon/ops/kernels/as_float32.h"
#include "kaon/ops/kernels/scratch.h"
#include "kaon/ops/nn/spatial/kernels/correlation_job.h"
#include "kaon/ops/op_def.h"

namespace kaon {

using namespace ops;
namespace {

// Checks the attributes and two images from input `at` on.
template <class Op>
CorrelationJob expect_correlation(InferContext& c, const Op& op, int at) {
  c.expect_same_dtype();
  c.expect_floating();
  c.expect_ndim(at, 4);
  const Shape data = c.shape(at);
  c.expect_shape(at + 1, data);
  constexpr int most = 1 << 12;
  const auto expect = [&](const char* name, int value, int least) {
    if (value < least || value > most)
      c.fail_value(fmt::format("{} must be {} to {}, got {}", name, least, most, value));
  };
  expect("kernel_size", op.kernel_size, 1), expect("max_displacement", op.max_displacement, 0);
  expect("stride1", op.stride1, 1), expect("stride2", op.stride2, 1), expect("pad_size", op.pad_size, 0);
  if (op.kernel_size % 2 == 0) c.fail_value(fmt::format("kernel_size must be odd, got {}", op.kernel_size));
  const CorrelationJob job(op, data);
  if (job.rows < 1 || job.columns < 1) {
    c.fail(fmt::format("patches of {} that move by up to {} do not fit into {} with pads of {}", op.kernel_size,
                       op.max_displacement, data.str(), op.pad_size));
  }
  return job;
}

// The images surrounded by zeros, in workspace.
template <class T>
const T* padded(KernelContext& c, const CorrelationJob& job, const T* data) {
  if (job.pad == 0) return data;
  const int64_t area = job.padded_height() * job.padded_width(), planes = job.images * job.channels;
  T* const made = static_cast<T*>(c.run.workspace(size_t(planes * area) * sizeof(T)));
  c.run.parallel_for(planes, std::max<int64_t>(1, (1 << 15) / area), [&](int64_t begin, int64_t end) {
    std::fill(made + begin * area, made + end * area, T(0));
    for (int64_t line = begin * job.height; line < end * job.height; ++line) {
      T* const to = made + line / job.height * area + (line % job.height + job.pad) * job.padded_width() + job.pad;
      std::copy_n(data + line * job.width, job.width, to);
    }
  });
  return made;
}

// A row of results for one displacement down and all to the right.
template <class T>
void correlate_row(const CorrelationJob& job, const T* one, const T* two, int64_t image, int64_t p, int64_t row,
                   T* out) {
  const int64_t line = job.padded_width(), area = job.padded_height() * line, step = job.stride1, n = job.columns;
  const T scale = T(job.divisor());
  for (int64_t q = 0; q < job.across; ++q) {
    T* const to = out + ((image * job.across + p) * job.across + q) * job.rows * n + row * n;
    std::fill_n(to, n, T(0));
    for (int64_t i = 0; i < job.channels * job.kernel * job.kernel; ++i) {
      const int64_t channel = i / (job.kernel * job.kernel), h = i / job.kernel % job.kernel, w = i % job.kernel;
      const int64_t at = (image * job.channels + channel) * area + (row * step + job.reach + h) * line + job.reach + w;
      const T* const a = one + at;
      const T* const b = two + at + job.shift(p) * line + job.shift(q);
      if (job.is_multiply && step == 1) {
        for (int64_t j = 0; j < n; ++j) to[j] += a[j] * b[j];
      } else {
        for (int64_t j = 0; j < n; ++j) to[j] += job.term(a[j * step], b[j * step]);
      }
    }
    for (int64_t j = 0; j < n; ++j) to[j] /= scale;
  }
}

// Adds the gradient of one plane, `second` of data2, to sums of the padded plane.
template <class T>
void add_plane(const CorrelationJob& job, const T* head, const T* one, const T* two, int64_t plane, bool second,
               T* sums) {
  const int64_t line = job.padded_width(), area = job.padded_height() * line, step = job.stride1, n = job.columns;
  const int64_t image = plane / job.channels, squared = job.kernel * job.kernel;
  for (int64_t displacement = 0; displacement < job.across * job.across; ++displacement) {
    const int64_t moved = job.shift(displacement / job.across) * line + job.shift(displacement % job.across);
    const T* heads = head + (image * job.across * job.across + displacement) * job.rows * n;
    for (int64_t row = 0; row < job.rows; ++row, heads += n) {
      for (int64_t i = 0; i < squared; ++i) {
        const int64_t at = (row * step + job.reach + i / job.kernel) * line + job.reach + i % job.kernel;
        const T* const a = one + plane * area + at;
        const T* const b = two + plane * area + at + moved;
        T* const to = sums + at + (second ? moved : 0);
        for (int64_t j = 0; j < n; ++j) {
          to[j * step] += heads[j] * job.slope(a[j * step], b[j * step], second);
        }
      }
    }
  }
}

}  // namespace

constinit const OpDef op::Correlation::def = make_op_def<op::Correlation>();
constinit const OpDef op::BackwardCorrelation::def = make_op_def<op::BackwardCorrelation>();

void op::Correlation::infer(InferContext& c) const { c.set_output(expect_correlation(c, *this, 0).out(), c.dtype()); }

void op::Correlation::grad(GradContext& g) const {
  if (!g.has_head(0)) return;
  const std::vector<NDArray> found = nd._backward_Correlation(
      g.head(), g.input(0), g.input(1), {kernel_size, max_displacement, stride1, stride2, pad_size, is_multiply});
  for (int i = 0; i < 2; ++i) {
    if (g.wants(i)) g.set(i, found[size_t(i)]);
  }
}

double op::Correlation::flops(std::span<const TensorMeta> inputs, std::span<const TensorMeta> outputs) const {
  return 2 * double(outputs[0].shape.size()) * kernel_size * kernel_size * double(inputs[0].shape[1]);
}

void run_cpu(const op::Correlation& op, KernelContext& context) {
  in_float_or_double(context, [&]<class T>(KernelContext& c) {
    if (c.out().size() == 0) return;
    const CorrelationJob job(op, c.in(0).shape);
    const T *const one = padded(c, job, c.in(0).as<const T>()), *const two = padded(c, job, c.in(1).as<const T>());
    const int64_t cost = std::max<int64_t>(1, job.terms()) * job.across * job.columns;
    c.run.parallel_for(job.images * job.across * job.rows, std::max<int64_t>(1, (1 << 14) / cost),
                       [&](int64_t begin, int64_t end) {
                         for (int64_t i = begin; i < end; ++i) {
                           const int64_t p = i / job.rows % job.across, image = i / job.rows / job.across;
                           correlate_row(job, one, two, image, p, i % job.rows, c.out().as<T>());
                         }
                       });
  });
}

void op::BackwardCorrelation::infer(InferContext& c) const {
  c.expect_shape(0, expect_correlation(c, *this, 1).out());
  for (int i = 0; i < 2; ++i) c.set_output(i, c.shape(1), c.dtype());
}

double op::BackwardCorrelation::flops(std::span<const TensorMeta> inputs, std::span<const TensorMeta>) const {
  return 4 * double(inputs[0].shape.size()) * kernel_size * kernel_size * double(inputs[1].shape[1]);
}

void run_cpu(const op::BackwardCorrelation& op, KernelContext& context) {
  in_float_or_double(context, [&]<class T>(KernelContext& c) {
    if (c.in(1).size() == 0) return;
    const CorrelationJob job(op, c.in(1).shape);
    const T *const one = padded(c, job, c.in(1).as<const T>()), *const two = padded(c, job, c.in(2).as<const T>());
    const int64_t planes = job.images * job.channels, line = job.padded_width(), area = job.padded_height() * line;
    const T scale = T(job.divisor());
    c.run.parallel_for(2 * planes, 1, [&](int64_t begin, int64_t end) {
      const Scratch scratch(size_t(area) * sizeof(T));
      T* const sums = scratch.as<T>();
      for (int64_t i = begin; i < end; ++i) {
        const bool second = i >= planes;
        const int64_t plane = i % planes;
        T* to = c.out(second).as<T>();
        if (!to) continue;
        std::fill_n(sums, area, T(0));
        add_plane(job, c.in(0).as<const T>(), one, two, plane, second, sums);
        to += plane * job.height * job.width;
        for (int64_t y = 0; y < job.height; ++y) {
          for (int64_t x = 0; x < job.width; ++x) *to++ = sums[(y + job.pad) * line + x + job.pad] / scale;
        }
      }
    });
  });
}

}  // namespace kaon
