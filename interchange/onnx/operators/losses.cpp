// Losses, and the steps of optimizers.
#include <fmt/format.h>

#include "kaon/interchange/onnx/convert/families.h"
#include "kaon/interchange/onnx/operators/helpers.h"

namespace kaon::onnx::convert {

namespace {

// The loss of logarithms of probabilities (n, classes, d...) for classes (n, d...), with a weight of each class.
Symbol negative_log_likelihood(const Call& c, const Symbol& logs, int target_input, int weight_input) {
  const Shape s = shape_of(logs), t = c.shape(target_input);
  const int64_t classes = s[1];
  const Symbol target = cast(c.x(target_input), DType::int64);
  const Symbol index = sym.clip(target, 0, double(classes - 1));
  Shape one = s;
  one[1] = 1;
  Symbol loss = sym.negative(reshaped(sym.take_along_axis(logs, reshaped(index, one), {.axis = 1}), t));
  Symbol weight =
      c.has(weight_input) ? reshaped(sym.take(c.x(weight_input), index, {.axis = 0}), t) : sym.ones_like(loss);
  if (c.has("ignore_index")) {
    const Symbol counts = cast(sym.not_equal(target, double(c.integer("ignore_index", 0))), dtype_of(logs));
    weight = weight * counts;
    // an ignored place has no loss, whatever is there
    loss = sym.broadcast_where(counts, loss, sym.zeros_like(loss));
  }
  loss = loss * weight;
  const std::string reduction = c.text("reduction", "mean");
  if (reduction == "none") return loss;
  const Symbol sum = reshaped(sym.sum(loss), Shape());
  if (reduction == "sum") return sum;
  return sum / reshaped(sym.sum(weight), Shape());
}

void nll_loss(Call& c) { c.set(negative_log_likelihood(c, c.x(0), 1, 2)); }

void softmax_cross_entropy(Call& c) {
  const Symbol logs = sym.log_softmax(c.x(0), {.axis = 1});
  c.set(0, negative_log_likelihood(c, logs, 1, 2));
  c.set(1, logs);
}

// R, T, then X of each tensor, G of each, and the states of each: `states` lists.
struct Update {
  Symbol rate, step;
  int tensors;
};

Update update_of(const Call& c, int states) {
  const int tensors = (c.count() - 2) / (2 + states);
  if (tensors < 1 || 2 + tensors * (2 + states) != c.count()) c.fail(fmt::format("{} inputs", c.count()));
  return {reshaped(c.x(0), Shape(1)), reshaped(cast(c.x(1), c.dtype(0)), Shape(1)), tensors};
}

void adagrad(Call& c) {
  const Update u = update_of(c, 1);
  const double decay = c.real("decay_factor", 0), eps = c.real("epsilon", 1e-6f), norm = c.real("norm_coefficient", 0);
  const Symbol rate = u.rate / (u.step * decay + 1);
  for (int i = 0; i < u.tensors; ++i) {
    const Symbol &x = c.x(2 + i), &g = c.x(2 + u.tensors + i), &h = c.x(2 + 2 * u.tensors + i);
    const Symbol gradient = x * norm + g;
    const Symbol sum = h + sym.square(gradient);
    c.set(i, reshaped(x - sym.broadcast_mul(gradient / (sym.sqrt(sum) + eps), rate), shape_of(x)));
    c.set(u.tensors + i, sum);
  }
}

void momentum(Call& c) {
  const Update u = update_of(c, 1);
  const double alpha = c.real("alpha", 0), beta = c.real("beta", 0), norm = c.real("norm_coefficient", 0);
  const bool nesterov = c.text("mode", "standard") == "nesterov";
  for (int i = 0; i < u.tensors; ++i) {
    const Symbol &x = c.x(2 + i), &g = c.x(2 + u.tensors + i), &v = c.x(2 + 2 * u.tensors + i);
    const Symbol gradient = x * norm + g;
    // in the first step the gradient counts whole
    const Symbol share = (u.step > 0) * beta + sym.logical_not(u.step > 0);
    const Symbol next = v * alpha + sym.broadcast_mul(gradient, share);
    const Symbol move = nesterov ? gradient + next * alpha : next;
    c.set(i, reshaped(x - sym.broadcast_mul(move, u.rate), shape_of(x)));
    c.set(u.tensors + i, reshaped(next, shape_of(x)));
  }
}

void adam(Call& c) {
  const Update u = update_of(c, 2);
  const double alpha = c.real("alpha", 0.9f), beta = c.real("beta", 0.999f), eps = c.real("epsilon", 1e-6f);
  const double norm = c.real("norm_coefficient", 0), after = c.real("norm_coefficient_post", 0);
  // corrected for the first steps
  const auto rest = [&](double b) { return 1 - sym.power(b, u.step); };
  const Symbol corrected = u.rate * sym.sqrt(rest(beta)) / rest(alpha);
  const Symbol is_first = sym.logical_not(u.step > 0);
  const Symbol rate = sym.broadcast_where(is_first, u.rate, corrected);
  for (int i = 0; i < u.tensors; ++i) {
    const Symbol &x = c.x(2 + i), &g = c.x(2 + u.tensors + i), &v = c.x(2 + 2 * u.tensors + i),
                 &h = c.x(2 + 3 * u.tensors + i);
    const Symbol gradient = x * norm + g;
    const Symbol mean = v * alpha + gradient * (1 - alpha), square = h * beta + sym.square(gradient) * (1 - beta);
    const Symbol next = x - sym.broadcast_mul(mean / (sym.sqrt(square) + eps), rate);
    c.set(i, reshaped(next * (1 - after), shape_of(x)));
    c.set(u.tensors + i, mean);
    c.set(2 * u.tensors + i, square);
  }
}

constexpr std::string_view kTraining = "ai.onnx.preview.training";

constexpr Row loss_table[] = {
    {"NegativeLogLikelihoodLoss", nll_loss},
    {"SoftmaxCrossEntropyLoss", softmax_cross_entropy},
    {"Adagrad", adagrad, 1, kTraining},
    {"Momentum", momentum, 1, kTraining},
    {"Adam", adam, 1, kTraining},
};

}  // namespace

std::span<const Row> loss_rows() { return loss_table; }

}  // namespace kaon::onnx::convert
