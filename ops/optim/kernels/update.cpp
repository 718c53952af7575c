#include "kaon/ops/optim/kernels/update_kernel.h"

#include <algorithm>
#include <cmath>
#include <new>

#include "kaon/ops/attributes.h"

namespace kaon::ops {
namespace {

constexpr int64_t grain = 65536;  // elements per piece

void check_rule(const InferContext& c, const UpdateRule& rule) {
  for (double v : {rule.momentum, rule.beta1, rule.beta2, rule.epsilon, rule.rescale, rule.clip}) {
    if (std::isnan(v)) c.fail_value("attributes must not be NaN");
  }
}

// The arrays of one tensor: inputs [first, first + count).
void check_group(InferContext& c, int first, int count) {
  c.expect_floating(first);
  for (int i = first + 1; i < first + count; ++i) {
    c.expect_shape(i, c.shape(first));
    if (c.dtype(i) != c.dtype(first)) c.fail_dtype("a weight, its gradient and its states must have one dtype");
  }
}

UpdateTensor tensor_of(KernelContext& c, int first, int count, double lr, double wd) {
  UpdateTensor t{.dtype = c.in(first).dtype, .size = c.in(first).size(), .lr = lr, .wd = wd};
  for (int k = 0; k < count; ++k) t.arrays[k] = c.in(first + k).data;
  return t;
}

}  // namespace

void update_all(const UpdateRule& rule, std::span<const UpdateTensor> tensors, RunContext& run) {
  int64_t* ends = static_cast<int64_t*>(run.workspace(sizeof(int64_t) * std::max<size_t>(1, tensors.size())));
  int64_t total = 0;
  for (size_t i = 0; i < tensors.size(); ++i) ends[i] = total += tensors[i].size;
  run.updates_are_whole = false;
  run.parallel_for(total, grain, [&](int64_t begin, int64_t end) {
    size_t i = size_t(std::upper_bound(ends, ends + tensors.size(), begin) - ends);
    while (begin < end) {
      const int64_t start = ends[i] - tensors[i].size, stop = std::min(end, ends[i]);
      if (begin < stop) update_range(rule, tensors[i], begin - start, stop - start);
      begin = stop;
      ++i;
    }
  });
}

void infer_update(InferContext& c, const UpdateRule& rule, double lr, double wd) {
  check_rule(c, rule);
  if (std::isnan(lr) || std::isnan(wd)) c.fail_value("lr and wd must not be NaN");
  check_group(c, 0, c.num_inputs());
}

void run_update(const UpdateRule& rule, double lr, double wd, KernelContext& c) {
  c.run.updates_are_whole = true;  // until the first is written: there may be no memory to work with
  const UpdateTensor tensor = tensor_of(c, 0, c.num_inputs(), lr, wd);
  update_all(rule, {&tensor, 1}, c.run);
}

void infer_multi_update(InferContext& c, const UpdateRule& rule, int period) {
  check_rule(c, rule);
  const int n = c.num_inputs();
  if (n % period != 1) {
    c.fail("inputs must be groups of " + to_text(period) + " arrays and the rates, got " + to_text(n) + " inputs");
  }
  for (int first = 0; first < n - 1; first += period) check_group(c, first, period);
  c.expect_shape(n - 1, Shape(2 * (n / period)));
  if (c.dtype(n - 1) != DType::float32) c.fail_dtype("rates must be float32, got " + to_text(c.dtype(n - 1)));
  c.set_output(Shape(0), DType::float32);
}

void run_multi_update(const UpdateRule& rule, int period, KernelContext& c) {
  c.run.updates_are_whole = true;  // as above
  const int count = c.num_inputs() / period;
  const float* rates = c.in(c.num_inputs() - 1).as<float>();
  UpdateTensor* tensors =
      static_cast<UpdateTensor*>(c.run.workspace(sizeof(UpdateTensor) * size_t(std::max(1, count))));
  for (int i = 0; i < count; ++i) {
    new (tensors + i) UpdateTensor(tensor_of(c, i * period, period, rates[i], rates[count + i]));
  }
  update_all(rule, {tensors, size_t(count)}, c.run);
}

}  // namespace kaon::ops
