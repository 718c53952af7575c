// Learning rates that follow from norms, for both devices. A light header.
#pragma once

#include <cmath>

#include "kaon/ops/host_device.h"
#include "kaon/ops/optim/optim.h"

namespace kaon::ops {

// Of lamb, from the norms of the weight and of its direction.
KAON_HOST_DEVICE inline double lamb_rate(double lr, double lower_bound, double upper_bound, double weight,
                                         double direction) {
  if (lower_bound >= 0 && weight < lower_bound) weight = lower_bound;  // NaN stays
  if (upper_bound >= 0 && weight > upper_bound) weight = upper_bound;
  return weight == 0 || direction == 0 ? lr : lr * (weight / direction);
}

// Of lars, from the norms of the weight and of its gradient.
KAON_HOST_DEVICE inline double lars_rate(double lr, double wd, double eta, double epsilon, double weight, double grad) {
  return weight > 0 && grad > 0 ? lr * (eta * weight / (grad + wd * weight + epsilon)) : lr;
}

// An element of multi_lars.
KAON_HOST_DEVICE inline float lars_rate(const op::MultiLars& op, float lr, float wd, float weight_squares,
                                        float grad_squares) {
  if (!(weight_squares > 0 && grad_squares > 0)) return lr;
  const double weight = ::sqrt(double(weight_squares)), grad = op.rescale_grad * ::sqrt(double(grad_squares));
  return float(lr * (op.eta * weight / (grad + wd * weight + op.eps)));
}

// From the sums that steps_of(rule.kind).sums gives.
KAON_HOST_DEVICE inline double adapted_rate(const UpdateRule& rule, const UpdateNumbers& n, double first,
                                            double second) {
  const double weight = ::sqrt(first), other = ::sqrt(second);
  if (rule.kind == UpdateKind::lamb) return lamb_rate(n.lr, rule.lower_bound, rule.upper_bound, weight, other);
  return n.x != 0 ? lars_rate(n.lr, n.wd, rule.eta, rule.epsilon, weight, other) : n.lr;
}

}  // namespace kaon::ops
