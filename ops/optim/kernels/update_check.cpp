#include "kaon/ops/optim/kernels/update_check.h"

#include <cmath>

#include "kaon/ops/attributes.h"
#include "kaon/ops/math/dispatch.h"

namespace kaon::ops {
namespace {

void check_rule(const InferContext& c, const UpdateRule& r) {
  for (double v : {r.momentum, r.beta1, r.beta2, r.epsilon, r.rescale_grad, r.clip_gradient, r.lamda, r.beta, r.wd_lh,
                   r.clip_weights, r.eta, r.lower_bound, r.upper_bound}) {
    if (std::isnan(v)) c.fail_value("attributes must not be NaN");
  }
}

bool has_16_bits(DType t) { return t == DType::float16 || t == DType::bfloat16; }

void expect_float32(InferContext& c, int i, const char* what) {
  if (c.dtype(i) != DType::float32) c.fail_dtype(std::string(what) + " must be float32, got " + to_text(c.dtype(i)));
}

// Inputs [first, first + arrays): a weight, its gradient and its states, the last of which may be the float32 copy.
void check_group(InferContext& c, int first, int arrays, bool multi_precision) {
  c.expect_floating(first);
  if (multi_precision && c.dtype(first) == DType::float64) {
    c.fail_dtype("a weight with a float32 copy must be of 16 bits or float32, got float64");
  }
  for (int i = first + 1; i < first + arrays; ++i) {
    c.expect_shape(i, c.shape(first));
    if (multi_precision && i > first + 1) {
      expect_float32(c, i, "states and weight32");
    } else if (c.dtype(i) != c.dtype(first)) {
      c.fail_dtype("a weight, its gradient and its states must have one dtype, got " + to_text(c.dtype(first)) +
                   " and " + to_text(c.dtype(i)));
    }
  }
}

void expect_one(InferContext& c, int i, const char* what) {
  c.expect_floating(i);
  if (c.shape(i).is_known() && c.shape(i).size() != 1) {
    c.fail(std::string(what) + " must be one number, got shape " + c.shape(i).str());
  }
}

}  // namespace

UpdateNumbers update_numbers(const UpdateRule& rule, double lr, double wd, double eta, const UpdateCount& count) {
  const double rest1 = 1 - std::pow(rule.beta1, double(count.t)),
               root2 = std::sqrt(1 - std::pow(rule.beta2, double(count.t)));
  switch (rule.kind) {
    case UpdateKind::adamw: return {eta * lr, eta * wd};
    case UpdateKind::ftml: return {rest1 / (lr * root2), wd, root2};
    case UpdateKind::lamb:
    case UpdateKind::lamb_direction:
      if (count.bias_correction) return {lr, wd, root2, root2 / rest1};
      [[fallthrough]];
    default: return {lr, wd};
  }
}

double number_at(const TensorView& view) {
  return dispatch_float("update", view.dtype, [&]<class T>() { return double(accumulate_t<T>(*view.as<T>())); });
}

void check_update(InferContext& c, const UpdateCall& call, int weights) {
  check_rule(c, call.rule);
  const int group = group_of(call.form), shared = shared_inputs(call.form), n = c.num_inputs();
  if (weights < 0 || n != int64_t(weights) * group + shared) {
    c.fail("expected " + to_text(group) + " arrays for each of " + to_text(weights) + " weights and " +
           to_text(shared) + " for all, got " + to_text(n) + " inputs");
  }
  if (n == 0) c.fail("expected one weight or more, got no inputs");
  for (int i = 0; i < weights; ++i) check_group(c, i * group, group, call.form.multi_precision);
  if (call.form.shared == UpdateForm::Shared::rescale_grad) {
    expect_one(c, n - 1, "rescale_grad");
  } else if (call.form.shared == UpdateForm::Shared::lrs_and_wds) {
    for (int i : {n - 2, n - 1}) {
      c.expect_shape(i, Shape(weights));
      expect_float32(c, i, "learning rates and weight decays");
    }
    return;
  }
  for (int i = 0; i < weights; ++i) {
    const UpdateNumbers numbers = call.numbers(call.op, i);
    if (std::isnan(numbers.lr) || std::isnan(numbers.wd)) c.fail_value("lr and wd must not be NaN");
  }
}

void check_multi_update(InferContext& c, const UpdateRule& rule, int arrays) {
  check_rule(c, rule);
  const std::string name(to_text(rule.kind));
  if (rule.kind >= UpdateKind::lamb_direction) c.fail_value("rule must be a whole rule, got " + name);
  const int states = traits_of(rule.kind).states, expected = UpdateTensor::first_state + states;
  if (arrays != expected && arrays != expected + 1) {
    c.fail_value("rule " + name + " takes groups of " + to_text(expected) + " arrays, and weight32; got " +
                 to_text(arrays));
  }
  const int n = c.num_inputs(), weights = (n - 1) / arrays, rates = weights * arrays;
  if (n < 1 || n > rates + 2) {
    c.fail("inputs must be groups of " + to_text(arrays) + " arrays, the rates, and perhaps a factor, got " +
           to_text(n) + " inputs");
  }
  for (int first = 0; first < rates; first += arrays) {
    const bool copied = arrays > expected && has_16_bits(c.dtype(first));
    check_group(c, first, copied ? arrays : expected, copied);
    if (arrays > expected && !copied) c.expect_shape(first + expected, Shape(0));
  }
  c.expect_shape(rates, Shape(4 * weights));
  expect_float32(c, rates, "rates");
  if (n == rates + 2) {
    c.expect_shape(n - 1, Shape(1));
    expect_float32(c, n - 1, "the factor");
  }
  c.set_output(Shape(0), DType::float32);
}

void check_lamb_step(InferContext& c, double lr, double lower_bound, double upper_bound, bool multi_precision) {
  for (double v : {lr, lower_bound, upper_bound}) {
    if (std::isnan(v)) c.fail_value("attributes must not be NaN");
  }
  c.expect_floating(0);
  if (multi_precision && c.dtype(0) == DType::float64) {
    c.fail_dtype("a weight with a float32 copy must be of 16 bits or float32, got float64");
  }
  const DType wanted = multi_precision ? DType::float32 : c.dtype(0);
  for (int i = 1; i < c.num_inputs(); ++i) {
    if (i == 2 || i == 3) {
      expect_one(c, i, "a norm");
      continue;
    }
    c.expect_shape(i, c.shape(0));
    if (c.dtype(i) != wanted) c.fail_dtype("expected " + to_text(wanted) + ", got " + to_text(c.dtype(i)));
  }
}

}  // namespace kaon::ops
