#include <algorithm>
#include <cmath>
#include <new>

#include "kaon/ops/attributes.h"
#include "kaon/ops/optim/kernels/adapted_rate.h"
#include "kaon/ops/optim/kernels/update_check.h"
#include "kaon/ops/optim/kernels/update_kernel.h"

namespace kaon::ops {
namespace {

constexpr int64_t grain = 16;  // blocks per piece

template <class T>
T* work_memory(RunContext& run, size_t count) {
  return static_cast<T*>(run.workspace(sizeof(T) * std::max<size_t>(1, count)));
}

// One step for all weights; two sums for each block of each, where it gives them.
void run_step(const UpdateRule& rule, std::span<const UpdateTensor> tensors, RunContext& run, double* sums) {
  int64_t* ends = work_memory<int64_t>(run, tensors.size());
  int64_t total = 0;
  for (size_t i = 0; i < tensors.size(); ++i) ends[i] = total += tensors[i].blocks();
  const UpdateTraits traits = traits_of(rule.kind);
  if (traits.writes_weight || traits.writes_states) run.updates_are_whole = false;
  run.parallel_for(total, grain, [&](int64_t begin, int64_t end) {
    size_t i = size_t(std::upper_bound(ends, ends + tensors.size(), begin) - ends);
    while (begin < end) {
      const int64_t first = ends[i] - tensors[i].blocks(), stop = std::min(end, ends[i]);
      if (begin < stop) update_blocks(rule, tensors[i], begin - first, stop - first, sums ? sums + 2 * begin : nullptr);
      begin = stop;
      ++i;
    }
  });
}

}  // namespace

UpdateTensor update_tensor(const KernelContext& c, int first, int states, bool multi_precision) {
  UpdateTensor t{.size = c.in(first).size()};
  for (int k = 0; k < UpdateTensor::first_state + states; ++k) t.set(k, c.in(first + k));
  const int last = first + UpdateTensor::first_state + states;
  if (multi_precision && c.in(last).size() == t.size) t.set(UpdateTensor::master, c.in(last));
  return t;
}

void sum_all(const UpdateRule& rule, std::span<const UpdateTensor> tensors, RunContext& run, double* sums) {
  int64_t blocks = 0;
  for (const UpdateTensor& t : tensors) blocks += t.blocks();
  double* parts = work_memory<double>(run, size_t(2 * blocks));
  std::fill_n(parts, 2 * blocks, 0.0);
  run_step(rule, tensors, run, parts);
  for (const UpdateTensor& t : tensors) {
    sums[0] = sums[1] = 0;
    for (int64_t i = 0; i < t.blocks(); ++i, parts += 2) sums[0] += parts[0], sums[1] += parts[1];
    sums += 2;
  }
}

void update_all(const UpdateRule& rule, std::span<UpdateTensor> tensors, RunContext& run) {
  const UpdateSteps steps = steps_of(rule.kind);
  UpdateRule step = rule;
  if (steps.sums != steps.last) {
    double* sums = work_memory<double>(run, 2 * tensors.size());
    step.kind = steps.sums;
    sum_all(step, tensors, run, sums);
    for (UpdateTensor& t : tensors) {
      t.numbers.lr = adapted_rate(rule, t.numbers, sums[0], sums[1]);
      sums += 2;
    }
    step.kind = steps.last;
  }
  run_step(step, tensors, run, nullptr);
}

void run_update(const UpdateCall& call, KernelContext& c) {
  c.run.updates_are_whole = true;  // until the first is written: there may be no memory to work with
  const UpdateForm& form = call.form;
  UpdateRule rule = call.rule;
  const int states = inputs_as_states(form), group = group_of(form), shared = shared_inputs(form);
  const int count = (c.num_inputs() - shared) / group;
  if (form.shared == UpdateForm::Shared::rescale_grad) {
    rule.rescale_grad = number_at(c.in(c.num_inputs() - 1));
    if (!std::isfinite(rule.rescale_grad) || rule.rescale_grad == 0) return;
  }
  const bool preloaded = form.shared == UpdateForm::Shared::lrs_and_wds;
  UpdateTensor* tensors = work_memory<UpdateTensor>(c.run, size_t(count));
  for (int i = 0; i < count; ++i) {
    UpdateTensor* t = new (tensors + i) UpdateTensor(update_tensor(c, i * group, states, form.multi_precision));
    if (preloaded) {
      t->numbers.lr = double(c.in(c.num_inputs() - 2).as<float>()[i]);
      t->numbers.wd = double(c.in(c.num_inputs() - 1).as<float>()[i]);
    } else {
      t->numbers = call.numbers(call.op, i);
    }
    if (!c.outputs.empty()) t->set(UpdateTensor::first_state + states, c.out());  // the direction of lamb
  }
  update_all(rule, {tensors, size_t(count)}, c.run);
}

void run_multi_update(const UpdateRule& given, int arrays, KernelContext& c) {
  c.run.updates_are_whole = true;  // as above
  UpdateRule rule = given;
  const int states = traits_of(rule.kind).states, n = (c.num_inputs() - 1) / arrays;
  if (c.num_inputs() == n * arrays + 2) {
    const double factor = double(*c.in(c.num_inputs() - 1).as<float>());
    if (factor == 0) return;
    rule.rescale_grad *= factor;
  }
  const bool multi_precision = arrays > UpdateTensor::first_state + states;
  const float* rates = c.in(n * arrays).as<float>();
  UpdateTensor* tensors = work_memory<UpdateTensor>(c.run, size_t(n));
  for (int i = 0; i < n; ++i) {
    UpdateTensor* t = new (tensors + i) UpdateTensor(update_tensor(c, i * arrays, states, multi_precision));
    t->numbers = {double(rates[i]), double(rates[n + i]), double(rates[2 * n + i]), double(rates[3 * n + i])};
  }
  update_all(rule, {tensors, size_t(n)}, c.run);
}

void run_lamb_step(double lr, double lower_bound, double upper_bound, KernelContext& c) {
  UpdateTensor t{.size = c.in(0).size()};
  t.set(UpdateTensor::weight, c.in(0));
  t.set(UpdateTensor::grad, c.in(1));
  if (c.num_inputs() > 4) t.set(UpdateTensor::master, c.in(4));
  t.numbers.lr = lamb_rate(lr, lower_bound, upper_bound, number_at(c.in(2)), number_at(c.in(3)));
  update_all({.kind = UpdateKind::sgd}, {&t, 1}, c.run);
}

}  // namespace kaon::ops
