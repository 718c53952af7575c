// The range of numbers for which their levels say most about them.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "kaon/ops/kernels/scratch.h"
#include "kaon/ops/op_def.h"
#include "kaon/ops/quant/kernels/quant_infer.h"
#include "kaon/ops/quant/kernels/ranges.h"

namespace kaon {

using namespace ops;
namespace {

constexpr float unlikely = 0.0001f;  // the probability of bins that are empty

// Gives empty bins a small probability, taken from the others; false where there is none to take.
bool smooth(float* p, int64_t n) {
  const int64_t empty = std::count(p, p + n, 0.f);
  if (empty == n) return false;
  const float taken = unlikely * float(empty) / float(n - empty);
  if (taken >= 1) return false;
  for (int64_t i = 0; i < n; ++i) p[i] += p[i] == 0 ? unlikely : -taken;
  return true;
}

void normalize(float* p, int64_t n) {
  float sum = 0;
  for (int64_t i = 0; i < n; ++i) sum += p[i];
  for (int64_t i = 0; i < n; ++i) p[i] /= sum;
}

// The divergence of the bins within `reach` of the middle one from themselves in `levels` levels.
float divergence(const float* hist, int64_t bins, int64_t reach, int64_t levels) {
  const int64_t begin = bins / 2 - reach, n = 2 * reach + 1, merged = n / levels;
  Scratch memory(size_t(3 * n) * sizeof(float));
  float *const p = memory.as<float>(), *const whole = p + n, *const q = whole + n;
  for (int64_t i = 0; i < n; ++i) p[i] = hist[begin + i], whole[i] = std::trunc(p[i]), q[i] = 0;
  // what lies outside is in the first and in the last bin, but not in levels, nor is the first bin
  p[0] = whole[0] = 0;
  for (int64_t i = 0; i <= begin; ++i) p[0] += hist[i];
  for (int64_t i = begin + n; i < bins; ++i) p[n - 1] += hist[i];
  for (int64_t level = 0; level < levels; ++level) {
    const int64_t from = level * merged, to = level == levels - 1 ? n : from + merged;
    double sum = 0;
    int64_t filled = 0;
    for (int64_t i = from; i < to; ++i) sum += double(whole[i]), filled += whole[i] != 0;
    for (int64_t i = from; filled && i < to; ++i) {
      if (p[i] != 0) q[i] = float(sum) / float(filled);
    }
  }
  smooth(p, n);
  if (!smooth(q, n)) return std::numeric_limits<float>::infinity();
  normalize(p, n), normalize(q, n);
  float total = 0;
  for (int64_t i = 0; i < n; ++i) total += p[i] * std::log(p[i] / q[i]);
  return total;
}

}  // namespace

constinit const OpDef op::CalibrateEntropy::def = make_op_def<op::CalibrateEntropy>();

void op::CalibrateEntropy::infer(InferContext& c) const {
  for (int i : {0, 1}) expect_dtype(c, i, {DType::float32});
  c.expect_ndim(0, 1);
  const int64_t bins = c.shape(0)[0];
  if (bins % 2 == 0) c.fail(fmt::format("hist must have an odd number of bins, got {}", bins));
  if (num_quantized_bins < 1 || num_quantized_bins > bins) {
    c.fail_value(fmt::format("num_quantized_bins must be 1 to {}, the bins of hist, got {}", bins, num_quantized_bins));
  }
  c.expect_shape(1, Shape(bins + 1));
  set_range(c, 0);
}

void run_cpu(const op::CalibrateEntropy& op, KernelContext& c) {
  const int64_t bins = c.in(0).size(), levels = op.num_quantized_bins, first = levels / 2, count = bins / 2 + 1 - first;
  auto* const all = static_cast<float*>(c.run.workspace(size_t(count) * sizeof(float)));
  c.run.parallel_for(count, 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) all[i] = divergence(c.in(0).as<const float>(), bins, first + i, levels);
  });
  int64_t best = 0;
  float least = std::numeric_limits<float>::max();
  for (int64_t i = 0; i < count; ++i) {
    if (all[i] < least) least = all[i], best = i;
  }
  put_number(c, 0, c.in(1).as<const float>()[bins / 2 + first + best + 1]);
  put_number(c, 1, least);
}

}  // namespace kaon
