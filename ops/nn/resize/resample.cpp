#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "kaon/ops/functions.h"
#include "kaon/ops/kernels/as_float32.h"
#include "kaon/ops/kernels/scratch.h"
#include "kaon/ops/nn/resize/kernels/resample_axis.h"
#include "kaon/ops/op_def.h"

namespace kaon {

using namespace ops;
namespace {

// What each target of one axis is made of: a run of sources with their weights.
template <class T>
class AxisTable {
 public:
  // The targets are the map's results, or its pixels when transposed.
  AxisTable(const ResampleAxis& axis, bool transposed) : sources_(transposed ? axis.out : axis.in) {
    const int64_t targets = transposed ? axis.in : axis.out;
    first_.reserve(size_t(targets) + 1), begin_.reserve(size_t(targets)), divisor_.reserve(size_t(targets));
    for (int64_t t = 0; t < targets; ++t) {
      ResampleAxis::Range r = transposed ? axis.results_of(t) : axis.pixels_of(t);
      const auto weight = [&](int64_t s) {
        return transposed ? axis.weight<T>(s, t) / T(axis.divisor(s)) : axis.weight<T>(t, s);
      };
      while (transposed && r.begin < r.end && weight(r.begin) == 0) ++r.begin;
      while (transposed && r.begin < r.end && weight(r.end - 1) == 0) --r.end;
      begin_.push_back(r.begin), first_.push_back(weights_.size());
      divisor_.push_back(transposed ? T(1) : T(axis.divisor(t)));
      for (int64_t s = r.begin; s < r.end; ++s) weights_.push_back(weight(s));
      most_ = std::max(most_, r.end - r.begin);
      if (pairs_ == t && r.end - r.begin == 2 && divisor_.back() == 1) ++pairs_;
    }
    first_.push_back(weights_.size());
  }
  int64_t sources() const { return sources_; }
  int64_t targets() const { return int64_t(begin_.size()); }
  int64_t most() const { return most_; }  // sources of one target
  int64_t begin(int64_t t) const { return begin_[size_t(t)]; }
  int64_t count(int64_t t) const { return int64_t(first_[size_t(t) + 1] - first_[size_t(t)]); }
  const T* weights(int64_t t) const { return weights_.data() + first_[size_t(t)]; }
  T divisor(int64_t t) const { return divisor_[size_t(t)]; }
  // How many targets, from the first one on, are sums of two sources that no divisor follows.
  int64_t leading_pairs() const { return pairs_; }
  bool is_copy(int64_t t) const { return count(t) == 1 && *weights(t) == 1 && divisor(t) == 1; }

 private:
  int64_t sources_, most_ = 0, pairs_ = 0;
  std::vector<int64_t> begin_;
  std::vector<size_t> first_;
  std::vector<T> weights_, divisor_;
};

// out[k] = the sum of weights[i] x[i * step + k], divided, for k in [0, n).
template <class T>
void weighted_sum(const T* x, int64_t step, const T* weights, int64_t count, T divisor, T* out, int64_t n) {
  if (count == 0) return std::fill_n(out, n, T(0)), void();
  if (count == 2 && divisor == 1) {
    const T a = weights[0], b = weights[1];
    const T* const y = x + step;
    for (int64_t k = 0; k < n; ++k) out[k] = a * x[k] + b * y[k];
    return;
  }
  for (int64_t k = 0; k < n; ++k) out[k] = weights[0] * x[k];
  for (int64_t i = 1; i < count; ++i) {
    const T* const row = x + i * step;
    const T w = weights[i];
    for (int64_t k = 0; k < n; ++k) out[k] += w * row[k];
  }
  if (divisor == 1) return;
  for (int64_t k = 0; k < n; ++k) out[k] /= divisor;
}

template <class T>
class Resampler {
 public:
  Resampler(const ResampleJob& job, const T* x, T* y)
      : planes_(job.planes),
        inner_(job.inner),
        rows_(job.rows, job.transposed),
        columns_(job.columns, job.transposed),
        x_(x),
        y_(y) {}

  void run(RunContext& run) const {
    constexpr int64_t piece = 1 << 14;  // products
    const int64_t row_cost = std::max<int64_t>(
        1, rows_.most() * columns_.sources() * inner_ + columns_.most() * columns_.targets() * inner_);
    run.parallel_for(planes_ * rows_.targets(), std::max<int64_t>(1, piece / row_cost),
                     [&](int64_t begin, int64_t end) { some_rows(begin, end); });
  }

 private:
  // Rows [begin, end) of the results: each is a sum of rows, whose pixels are then summed.
  void some_rows(int64_t begin, int64_t end) const {
    const int64_t from = columns_.sources() * inner_, to = columns_.targets() * inner_;
    Scratch scratch(size_t(from) * sizeof(T));
    T* const summed = reinterpret_cast<T*>(scratch.data());
    for (int64_t i = begin; i < end; ++i) {
      const int64_t plane = i / rows_.targets(), row = i % rows_.targets();
      T* const out = y_ + i * to;
      if (i > begin && row > 0 && rows_.is_copy(row) && rows_.is_copy(row - 1) &&
          rows_.begin(row) == rows_.begin(row - 1)) {
        std::memcpy(out, out - to, size_t(to) * sizeof(T));
        continue;
      }
      const T* const image = x_ + plane * rows_.sources() * from;
      const T* sum = image + rows_.begin(row) * from;
      if (!rows_.is_copy(row)) {
        weighted_sum(sum, from, rows_.weights(row), rows_.count(row), rows_.divisor(row), summed, from);
        sum = summed;
      }
      if (inner_ == 1) {
        sum_pixels(sum, out);
      } else {
        for (int64_t c = 0; c < columns_.targets(); ++c) {
          weighted_sum(sum + columns_.begin(c) * inner_, inner_, columns_.weights(c), columns_.count(c),
                       columns_.divisor(c), out + c * inner_, inner_);
        }
      }
    }
  }

  void sum_pixels(const T* x, T* out) const {
    int64_t c = 0;
    const T* pair = columns_.weights(0);
    for (; c < columns_.leading_pairs(); ++c, pair += 2) {
      const T* const from = x + columns_.begin(c);
      out[c] = pair[0] * from[0] + pair[1] * from[1];
    }
    for (; c < columns_.targets(); ++c) {
      const T* const from = x + columns_.begin(c);
      const T* const w = columns_.weights(c);
      const int64_t n = columns_.count(c);
      T sum = n > 0 ? w[0] * from[0] : T(0);
      for (int64_t i = 1; i < n; ++i) sum += w[i] * from[i];
      out[c] = sum / columns_.divisor(c);
    }
  }

  int64_t planes_, inner_;
  AxisTable<T> rows_, columns_;
  const T* x_;
  T* y_;
};

}  // namespace

constinit const OpDef op::Resample::def = make_op_def<op::Resample>();

void op::Resample::infer(InferContext& c) const {
  c.expect_floating();
  c.expect_ndim(0, 4);
  Shape shape = c.shape(0);
  const int64_t pixels = transposed ? std::min(height, width) : std::min(shape[2], shape[3]);
  const int64_t results = transposed ? std::min(shape[2], shape[3]) : std::min(height, width);
  if (pixels < 1 || results < 0) {
    c.fail(fmt::format("cannot make images of {} x {} from data {}", height, width, shape.str()));
  }
  shape[2] = height, shape[3] = width;
  c.set_output(shape, c.dtype());
}

void op::Resample::grad(GradContext& g) const {
  if (!g.wants(0)) return;
  const Shape& data = g.input_like(0).shape();
  Resample back = *this;
  back.height = data[2], back.width = data[3], back.transposed = !transposed;
  g.set(0, nd._resample(g.head(), back));
}

void run_cpu(const op::Resample& op, KernelContext& context) {
  in_float_or_double(context, [&]<class T>(KernelContext& c) {
    if (c.out().size() == 0) return;
    Resampler<T>(ResampleJob(op, c.in(0), c.out()), c.in(0).as<const T>(), c.out().as<T>()).run(c.run);
  });
}

}  // namespace kaon
