// Rows of the dense layer, activations, softmax and the output layers.
#include <algorithm>
#include <cmath>
#include <numbers>

#include "kaon/tests/ops/table/op_table.h"

namespace kaon::test {
namespace {

using Values = std::vector<double>;
using F1 = std::function<double(double)>;

void dense_rows(Rows& rows) {
  auto dense = [&](const Shape& data, int hidden, bool no_bias, bool flatten) {
    const int64_t width = flatten ? data.product(1, data.ndim()) : data[data.ndim() - 1];
    const Shape to = flatten ? Shape(data[0], hidden) : with(data, -1, hidden);
    std::vector<Input> inputs{in(data), in({hidden, width})};
    if (!no_bias) inputs.push_back(in({hidden}));
    rows.emplace_back(op::FullyConnected{.num_hidden = hidden, .no_bias = no_bias, .flatten = flatten}, inputs,
                      [=](const Hosts& in) {
                        const int64_t samples = width == 0 ? to.size() / hidden : data.size() / width;
                        Host y = zeros({samples, hidden});
                        each(y.shape, [&](const Shape& p) {
                          double sum = no_bias ? 0 : in[2][size_t(p[1])];
                          for (int64_t k = 0; k < width; ++k)
                            sum += in[0][size_t(p[0] * width + k)] * in[1].at({p[1], k});
                          y.at(p) = sum;
                        });
                        return reshaped(y, to);
                      });
  };
  for (bool no_bias : {false, true}) {
    dense({3, 5}, 7, no_bias, true), dense({2, 3, 5}, 4, no_bias, true), dense({2, 3, 5}, 4, no_bias, false);
    dense({1, 7}, 3, no_bias, true), dense({1, 33}, 17, no_bias, true), dense({0, 4}, 3, no_bias, true),
        dense({3, 0}, 2, no_bias, true), dense({2, 3, 0}, 4, no_bias, true), dense({2, 3, 0}, 4, no_bias, false);
  }
}

struct Slope {
  ActivationType type;
  F1 f, slope;  // the derivative from the output
};

void activation_rows(Rows& rows) {
  const Slope slopes[] = {
      {ActivationType::relu, [](double x) { return larger(x, 0); },
       [](double y) { return std::isnan(y) ? y : double(y > 0); }},
      {ActivationType::sigmoid, [](double x) { return 1 / (1 + std::exp(-x)); }, [](double y) { return y * (1 - y); }},
      {ActivationType::tanh, [](double x) { return std::tanh(x); }, [](double y) { return 1 - y * y; }},
      {ActivationType::softrelu, [](double x) { return std::log1p(std::exp(x)); },
       [](double y) { return -std::expm1(-y); }},
      {ActivationType::softsign,
       [](double x) { return std::isinf(x) ? std::copysign(1, x) : x / (1 + std::abs(x)); },  // the limit
       [](double y) { return (1 - std::abs(y)) * (1 - std::abs(y)); }}};
  for (const Slope& s : slopes) {
    const Fill fill = s.type == ActivationType::softrelu ? Fill::positive : Fill::unit;
    for (const Shape& shape : {Shape(3, 5), Shape(1, 7), Shape(0, 4), Shape(2, 3, 3, 5), Shape()}) {
      rows.emplace_back(op::Activation{.act_type = s.type}, std::vector{in(shape)}, elementwise(s.f),
                        RowOptions{.loosen_gradient = 2});
      rows.emplace_back(op::BackwardActivation{.act_type = s.type}, std::vector{in(shape), in(shape, fill)},
                        broadcasting([s](double h, double y, DType) {
                          const bool is_blocked = s.type == ActivationType::relu && y <= 0;
                          return is_blocked ? 0 : h * s.slope(y);
                        }),
                        RowOptions{.loosen = 2, .loosen_gradient = 2});
    }
  }
}

double leaky(LeakyType type, double x, double slope) {
  constexpr double alpha = 1.6732632423543772, lambda = 1.0507009873554805;
  switch (type) {
    case LeakyType::elu: return x > 0 ? x : slope * std::expm1(x);
    case LeakyType::selu: return lambda * (x > 0 ? x : alpha * std::expm1(x));
    case LeakyType::gelu: return x == -INFINITY ? -0.0 : x / 2 * (1 + std::erf(x / std::numbers::sqrt2));  // the limit
    default: return x > 0 ? x : slope * x;
  }
}

double leaky_slope(double x, double gamma) { return std::isnan(x) ? x : x > 0 ? 1 : gamma; }

// Left of the corner, 0 included, and right of it.
double slope_beside_0(LeakyType type, double x, double slope) {
  constexpr double alpha = 1.6732632423543772, lambda = 1.0507009873554805;
  switch (type) {
    case LeakyType::gelu: return 0.5;
    case LeakyType::selu: return x > 0 ? lambda : lambda * alpha;
    default: return x > 0 ? 1 : slope;
  }
}

void leaky_rows(Rows& rows) {
  const Shape shapes[] = {{3, 5}, {1, 7}, {0, 4}, {2, 3, 5}, {}};
  for (const Shape& shape : shapes) {
    for (LeakyType type : {LeakyType::leaky, LeakyType::elu, LeakyType::selu, LeakyType::gelu}) {
      for (double slope : {0.25, 0.5}) {
        rows.emplace_back(op::LeakyReLU{.act_type = type, .slope = slope}, std::vector{in(shape, Fill::nonzero)},
                          elementwise([=](double x) { return leaky(type, x, slope); }));
        rows.emplace_back(op::BackwardLeakyReLU{.act_type = type, .slope = slope},
                          std::vector{in(shape), in(shape, Fill::nonzero)},
                          broadcasting([=](double h, double x, DType) {
                            constexpr double step = 1e-5;
                            if (std::abs(x) < step) return h * slope_beside_0(type, x, slope);
                            if (std::isinf(x)) x = std::copysign(1e3, x);  // the limit
                            return h * (leaky(type, x + step, slope) - leaky(type, x - step, slope)) / (2 * step);
                          }),
                          RowOptions{.loosen = 2, .loosen_gradient = 10, .tolerance = 1e-7});
      }
    }
    std::vector<Shape> gammas{{1}};
    if (!shape.empty()) gammas.insert(gammas.end(), {{shape[1]}, {shape[0], shape[1]}, {1, shape[1]}, {shape[0], 1}});
    for (const Shape& gamma : gammas) {
      auto place = [gamma](const Shape& p) -> size_t {
        if (gamma.ndim() == 1) return gamma[0] == 1 ? 0 : size_t(p[1]);
        return size_t((gamma[0] == 1 ? 0 : p[0] * gamma[1]) + (gamma[1] == 1 ? 0 : p[1]));
      };
      auto gamma_of = [place](const Hosts& in, size_t g, const Shape& p) { return in[g][place(p)]; };
      rows.emplace_back(
          op::LeakyReLU{.act_type = LeakyType::prelu}, std::vector{in(shape, Fill::nonzero), in(gamma, Fill::unit)},
          [=](const Hosts& in) {
            return generate(shape,
                            [&](const Shape& p) { return leaky(LeakyType::leaky, in[0].at(p), gamma_of(in, 1, p)); });
          },
          RowOptions{.infers = gamma.ndim() == 1 && gamma[0] != 1});
      rows.emplace_back(op::BackwardLeakyReLU{.act_type = LeakyType::prelu},
                        std::vector{in(shape), in(shape, Fill::nonzero), in(gamma, Fill::unit)}, [=](const Hosts& in) {
                          return generate(shape, [&](const Shape& p) {
                            return in[0].at(p) * leaky_slope(in[1].at(p), gamma_of(in, 2, p));
                          });
                        });
      rows.emplace_back(op::BackwardPReLUGamma{}, std::vector{in(shape), in(shape), in(gamma)}, [=](const Hosts& in) {
        Host out = zeros(gamma);
        each(shape, [&](const Shape& p) {
          if (!(in[1].at(p) > 0)) out.values[place(p)] += in[0].at(p) * in[1].at(p);
        });
        return out;
      });
    }
    // rrelu: the mean slope, or while training one in the bounds for each negative element
    for (auto [low, high] : {std::pair(0.125, 0.334), std::pair(0.25, 0.75)}) {
      const op::LeakyReLU op{.act_type = LeakyType::rrelu, .lower_bound = low, .upper_bound = high};
      rows.emplace_back(op, std::vector{in(shape, Fill::nonzero)}, elementwise([low = low, high = high](double x) {
                          return leaky(LeakyType::leaky, x, (low + high) / 2);
                        }));
      RowOptions training{.training = true};
      training.inspect = [low = low, high = high](const Hosts& inputs, const Hosts& outputs) -> std::string {
        for (size_t i = 0; i < inputs[0].values.size(); ++i) {
          const double x = inputs[0][i], y = outputs[0][i], slope = x > 0 ? 1 : y / x;
          if (x > 0 ? y != x : slope < low * 0.99 || slope > high * 1.01) return "slope " + std::to_string(slope);
          if (std::abs(outputs[1][i] - slope) > 0.01 * slope) return "kept slope " + std::to_string(outputs[1][i]);
        }
        return "";
      };
      rows.emplace_back(op, std::vector{in(shape, Fill::nonzero)}, Reference(), training);
    }
  }
}

void softmax_of(Values& x, double scale) {
  double top = -INFINITY, sum = 0;
  for (double v : x) top = std::max(top, v * scale);
  for (double& v : x) sum += v = std::exp(v * scale - top);
  for (double& v : x) v /= sum;
}
void log_softmax_of(Values& x, double scale) {
  Values p = x;
  softmax_of(p, scale);
  for (size_t i = 0; i < x.size(); ++i) x[i] = std::log(p[i]);
}

void softmax_rows(Rows& rows) {
  const std::pair<Shape, int> cases[] = {{{3, 5}, -1}, {{3, 5}, 0},  {{2, 3, 5}, 1}, {{1, 7}, 1},
                                         {{0, 4}, -1}, {{4, 0}, -1}, {{7}, 0},       {{2, 33}, -1}};
  for (const auto& [shape, axis] : cases) {
    for (double t : {1.0, 0.5}) {
      const std::optional<double> temperature = t == 1 ? std::nullopt : std::optional(t);
      auto rows_with = [axis = axis](auto f) { return [=](const Hosts& in) { return along(in[0], axis, f); }; };
      auto open = [](Host h) { return Host{h.shape, h.values}; };
      const RowOptions loose{.loosen = 2};
      rows.emplace_back(
          op::Softmax{.axis = axis, .temperature = temperature}, std::vector{in(shape)},
          [=](const Hosts& x) { return open(rows_with([t](Values& v) { softmax_of(v, 1 / t); })(x)); }, loose);
      rows.emplace_back(
          op::Softmin{.axis = axis, .temperature = temperature}, std::vector{in(shape)},
          [=](const Hosts& x) { return open(rows_with([t](Values& v) { softmax_of(v, -1 / t); })(x)); }, loose);
      rows.emplace_back(
          op::LogSoftmax{.axis = axis, .temperature = temperature}, std::vector{in(shape)},
          [=](const Hosts& x) { return open(rows_with([t](Values& v) { log_softmax_of(v, 1 / t); })(x)); }, loose);
      auto back = [axis = axis, t](bool log) {
        return [=](const Hosts& in) {
          Host product = in[0];
          for (size_t i = 0; i < product.values.size() && !log; ++i) product.values[i] *= in[1][i];
          const Host sums = along(product, axis, [](Values& v) {
            double s = 0;
            for (double x : v) s += x;
            std::fill(v.begin(), v.end(), s);
          });
          Host out = zeros(in[0].shape);
          for (size_t i = 0; i < out.values.size(); ++i) {
            const double h = in[0][i], y = in[1][i];
            out.values[i] = t * (log ? h - std::exp(y) * sums[i] : y * (h - sums[i]));
          }
          return out;
        };
      };
      rows.emplace_back(op::BackwardSoftmax{.axis = axis, .scale = t}, std::vector{in(shape), in(shape, Fill::unit)},
                        back(false), RowOptions{.loosen = 4, .loosen_gradient = 2});
      rows.emplace_back(op::BackwardLogSoftmax{.axis = axis, .scale = t}, std::vector{in(shape), in(shape, Fill::unit)},
                        back(true), RowOptions{.loosen = 4, .loosen_gradient = 2});
    }
  }
  const auto with_length = [&](const Shape& shape, int axis) {
    const Shape lengths = without(shape, axis);
    const int64_t most = shape[axis < 0 ? axis + shape.ndim() : axis];
    rows.emplace_back(
        op::Softmax{.axis = axis, .use_length = true},
        std::vector{in(shape), index(lengths, 0, double(most + 2), DType::int32)},
        [=](const Hosts& in) {
          Host out = zeros(shape);
          each(lengths, [&](const Shape& p) {
            Values v;
            for (int64_t i = 0; i < most && double(i) < in[1].at(p); ++i) v.push_back(in[0].at(inserted(p, axis, i)));
            softmax_of(v, 1);
            for (size_t i = 0; i < v.size(); ++i) out.at(inserted(p, axis, int64_t(i))) = v[i];
          });
          return out;
        },
        RowOptions{.loosen = 2});
  };
  with_length({3, 5}, 0), with_length({2, 3, 4}, 1), with_length({2, 5, 67}, -2), with_length({2, 0, 3}, 1);
  for (const Shape& shape : {Shape(3, 5), Shape(2, 3, 4), Shape(1, 7), Shape(0, 4)}) {
    with_length(shape, -1);
    for (SoftmaxMode mode : {SoftmaxMode::instance, SoftmaxMode::channel}) {
      const Shape rows_shape = mode == SoftmaxMode::channel ? shape : Shape(shape[0], shape.product(1, shape.ndim()));
      rows.emplace_back(
          op::SoftmaxActivation{.mode = mode}, std::vector{in(shape)},
          [=](const Hosts& in) {
            return reshaped(along({rows_shape, in[0].values}, 1, [](Values& v) { softmax_of(v, 1); }), shape);
          },
          RowOptions{.loosen = 2});
      rows.emplace_back(
          op::BackwardSoftmaxActivation{.mode = mode}, std::vector{in(shape), in(shape, Fill::unit)},
          [=](const Hosts& in) {
            Host product{rows_shape, in[0].values};
            for (size_t i = 0; i < product.values.size(); ++i) product.values[i] *= in[1][i];
            const Host sums = along(product, 1, [](Values& v) {
              double s = 0;
              for (double x : v) s += x;
              std::fill(v.begin(), v.end(), s);
            });
            Host out = zeros(shape);
            for (size_t i = 0; i < out.values.size(); ++i) out.values[i] = in[1][i] * (in[0][i] - sums[i]);
            return out;
          },
          RowOptions{.loosen = 4});
    }
  }
  // results of another dtype
  for (const auto& [from, to] : {std::pair(DType::float16, DType::float32),
                                 {DType::bfloat16, DType::float32},
                                 {DType::float32, DType::float64},
                                 {DType::float16, DType::float64},
                                 {DType::float64, DType::float32},
                                 {DType::float32, DType::float16},
                                 {DType::float16, DType::bfloat16}}) {
    for (const int axis : {-1, 0}) {
      auto other = [axis, to = to](auto f) {
        return [axis, to, f](const Hosts& in) {
          Host y = along(in[0], axis, f);
          y.dtype = to;
          return y;
        };
      };
      Input x = in({3, 5});
      x.dtype = from;
      const RowOptions tolerant{.loosen_gradient = 100};
      rows.emplace_back(op::Softmax{.axis = axis, .dtype = to}, std::vector{constant(x)},
                        other([](Values& v) { softmax_of(v, 1); }), tolerant);
      rows.emplace_back(op::Softmin{.axis = axis, .dtype = to}, std::vector{constant(x)},
                        other([](Values& v) { softmax_of(v, -1); }), tolerant);
      rows.emplace_back(op::LogSoftmax{.axis = axis, .dtype = to}, std::vector{constant(x)},
                        other([](Values& v) { log_softmax_of(v, 1); }), tolerant);
    }
  }
  rows.emplace_back(op::Softmin{.use_length = true}, std::vector{in({3, 5})}, Reference(), RowOptions{.refused = true});
  rows.emplace_back(op::LogSoftmax{.use_length = true}, std::vector{in({3, 5})}, Reference(),
                    RowOptions{.refused = true});
}

// What SoftmaxOutput's gradient is, from its output and the labels.
Host softmax_output_gradient(const op::SoftmaxOutput& op, const Host& y, const Host& label, const Host& head) {
  const Shape& s = y.shape;
  const int axis = op.multi_output ? 1 : s.ndim() - 1;
  Host out = zeros(s);
  double divisor = op.normalization == Normalization::batch ? double(s[0]) : 1;
  if (op.normalization == Normalization::valid) {
    divisor = 0;
    for (double l : label.values) divisor += l != op.ignore_label;  // also without use_ignore
    divisor = std::max(1.0, divisor);
  } else if (op.multi_output && label.shape != s) {
    divisor *= double(s.product(2, s.ndim()));
  }
  if (label.shape == s) divisor = 1;
  each(s, [&](const Shape& p) {
    double want = 0;
    if (label.shape == s) {
      want = label.at(p);
    } else {
      const double l = label.at(without(p, axis));
      if (op.use_ignore && l == op.ignore_label) return;
      want = std::trunc(l) == double(p[axis]) ? 1 - op.smooth_alpha : op.smooth_alpha / double(s[axis] - 1);
    }
    out.at(p) = (y.at(p) - want) * op.grad_scale / divisor * (op.out_grad ? head.at(p) : 1);
  });
  return out;
}

void output_rows(Rows& rows) {
  auto softmax_output = [&](op::SoftmaxOutput op, const Shape& shape, bool probabilities = false) {
    const int axis = op.multi_output ? 1 : shape.ndim() - 1;
    const double classes = double(shape[axis]);
    const Input label =
        probabilities ? constant(in(shape, Fill::unit)) : index(without(shape, axis), op.use_ignore ? -1 : 0, classes);
    auto forward = [=](const Host& x) { return along({x.shape, x.values}, axis, [](Values& v) { softmax_of(v, 1); }); };
    RowOptions options{.loosen = 2, .loosen_gradient = 2, .infers = !probabilities};
    options.gradient = [=](const Hosts& in, const Hosts& heads) {
      return Hosts{softmax_output_gradient(op, forward(in[0]), in[1], heads[0])};
    };
    rows.emplace_back(
        op, std::vector{in(shape), label}, [=](const Hosts& in) { return forward(in[0]); }, options);
    const op::BackwardSoftmaxOutput back{op.grad_scale,     op.ignore_label,  op.multi_output, op.use_ignore,
                                         op.preserve_shape, op.normalization, op.out_grad,     op.smooth_alpha};
    std::vector<Input> inputs{in(shape, Fill::unit), label};
    if (op.out_grad) inputs.push_back(in(shape));
    rows.emplace_back(
        back, inputs, [=](const Hosts& in) { return softmax_output_gradient(op, in[0], in[1], in.back()); },
        RowOptions{.loosen = 4});
  };
  softmax_output({}, {3, 5}), softmax_output({}, {1, 7}), softmax_output({}, {0, 4}),
      softmax_output({.grad_scale = 0.5}, {3, 5});
  softmax_output({.multi_output = true}, {2, 3, 5}),
      softmax_output({.multi_output = true, .normalization = Normalization::batch}, {2, 3, 5});
  softmax_output({.use_ignore = true}, {5, 3}),
      softmax_output({.ignore_label = 1, .use_ignore = true, .normalization = Normalization::valid}, {7, 3}),
      softmax_output({.ignore_label = 1, .normalization = Normalization::valid}, {7, 3});
  softmax_output({.multi_output = true, .use_ignore = true, .normalization = Normalization::valid}, {2, 3, 5});
  softmax_output({.preserve_shape = true}, {2, 3, 5}), softmax_output({.normalization = Normalization::batch}, {3, 5});
  softmax_output({.out_grad = true}, {3, 5}), softmax_output({.smooth_alpha = 0.25}, {3, 5}),
      softmax_output({.grad_scale = 2}, {3, 5}, true);

  for (const Shape& shape : {Shape(3, 5), Shape(1, 7), Shape(0, 4)}) {
    const Input label = index({shape[0]}, -1, double(shape[1] + 1), DType::int32);
    auto clipped = [=](double l) { return size_t(std::clamp<double>(l, 0, double(shape[1] - 1))); };
    rows.emplace_back(
        op::SoftmaxCrossEntropy{}, std::vector{in(shape), label},
        [=](const Hosts& in) {
          const Host p = along(in[0], 1, [](Values& v) { log_softmax_of(v, 1); });
          double sum = 0;
          for (int64_t i = 0; i < shape[0]; ++i) sum -= p.at({i, int64_t(clipped(in[1][size_t(i)]))});
          return Host{{1}, {sum}};
        },
        RowOptions{.loosen = 4});
    rows.emplace_back(
        op::BackwardSoftmaxCrossEntropy{}, std::vector{in({1}), in(shape), label},
        [=](const Hosts& in) {
          const Host p = along(in[1], 1, [](Values& v) { softmax_of(v, 1); });
          return generate(shape, [&](const Shape& at) {
            return in[0][0] * (p.at(at) - double(clipped(in[2][size_t(at[0])]) == size_t(at[1])));
          });
        },
        RowOptions{.loosen = 4});
  }

  auto regression = [&]<RegressionKind K>(const Shape& shape, const Shape& label, double scale) {
    auto slope = [=](const Host& y, const Host& l) {
      Host out = zeros(y.shape);
      for (size_t i = 0; i < out.values.size(); ++i) {
        const double e = y[i] - l[i], n = double(y.size()) / double(y.shape[0]);
        out.values[i] = (K == RegressionKind::mae ? (e > 0 ? 1 : e < 0 ? -1 : e) : e) * scale / n;
      }
      return out;
    };
    auto forward = elementwise([](double x) { return K == RegressionKind::logistic ? 1 / (1 + std::exp(-x)) : x; });
    RowOptions options{.loosen = 2};
    options.gradient = [=](const Hosts& in, const Hosts&) { return Hosts{slope(forward(in)[0], in[1])}; };
    rows.emplace_back(op::RegressionOutput<K>{.grad_scale = scale}, std::vector{in(shape), constant(in(label))},
                      forward, options);
    rows.emplace_back(
        op::BackwardRegressionOutput{.kind = K, .grad_scale = scale}, std::vector{in(shape), in(label)},
        [=](const Hosts& in) { return slope(in[0], in[1]); }, RowOptions{.loosen = 2});
  };
  for (auto [shape, label] : {std::pair(Shape(3, 5), Shape(3, 5)),
                              {Shape(7, 1), Shape(7)},
                              {Shape(1, 7), Shape(1, 7)},
                              {Shape(0, 4), Shape(0, 4)}}) {
    for (double scale : {1.0, 0.25}) {
      regression.operator()<RegressionKind::linear>(shape, label, scale);
      regression.operator()<RegressionKind::mae>(shape, label, scale);
      regression.operator()<RegressionKind::logistic>(shape, label, scale);
    }
  }
  auto make_loss = [&](const op::MakeLoss& op, const Shape& shape) {
    auto slope = [=](const Host& x) {
      double divisor = op.normalization == Normalization::batch ? double(shape[0]) : 1;
      if (op.normalization == Normalization::valid) {
        divisor = 0;
        for (double v : x.values) divisor += v > op.valid_thresh;
        divisor = std::max(1.0, divisor);
      }
      return zeros(shape, op.grad_scale / divisor);
    };
    RowOptions options;
    options.gradient = [=](const Hosts& in, const Hosts&) { return Hosts{slope(in[0])}; };
    rows.emplace_back(op, std::vector{in(shape)}, elementwise([](double x) { return x; }), options);
    rows.emplace_back(op::BackwardMakeLoss{op.grad_scale, op.valid_thresh, op.normalization}, std::vector{in(shape)},
                      [=](const Hosts& in) { return slope(in[0]); });
  };
  for (const Shape& shape : {Shape(3, 5), Shape(1, 7), Shape(0, 4), Shape()}) {
    make_loss({}, shape), make_loss({.valid_thresh = 0.25, .normalization = Normalization::valid}, shape);
    if (!shape.empty()) make_loss({.grad_scale = 0.5, .normalization = Normalization::batch}, shape);
  }
}

void dropout_rows(Rows& rows) {
  auto dropout = [&](const op::Dropout& op, const Shape& shape, bool training) {
    if (!training && op.mode == DropoutMode::training) {
      rows.emplace_back(op, std::vector{in(shape)}, elementwise([](double x) { return x; }));
      return;
    }
    RowOptions options{.training = training};
    options.inspect = [=](const Hosts& inputs, const Hosts& outputs) -> std::string {
      const Host &x = inputs[0], &y = outputs[0];
      Host mask = generate(shape, [&](const Shape& p) { return x.at(p) == 0 ? 0 : y.at(p) / x.at(p); });
      std::string wrong;
      int64_t kept = 0;
      each(shape, [&](const Shape& p) {
        Shape first = p;
        for (int64_t a : op.axes) first[int(a)] = 0;
        const double m = mask.at(p), scale = 1 / (1 - op.p);
        if (m != 0 && std::abs(m - scale) > 0.01 * scale) wrong = "scaled by " + std::to_string(m);
        if ((m != 0) != (mask.at(first) != 0)) wrong = "shared axes differ at " + p.str();
        kept += m != 0;
      });
      const double share = double(kept) / double(std::max<int64_t>(1, shape.size()));
      if (shape.size() > 500 && std::abs(share - (1 - op.p)) > 0.1) wrong = "kept " + std::to_string(share);
      return wrong;
    };
    rows.emplace_back(op, std::vector{in(shape, Fill::nonzero)}, Reference(), options);
  };
  for (bool training : {false, true}) {
    for (double p : {0.5, 0.25}) {
      dropout({.p = p}, {23, 23}, training), dropout({.p = p}, {1, 7}, training), dropout({.p = p}, {0, 4}, training),
          dropout({.p = p}, {}, training);
      dropout({.p = p, .mode = DropoutMode::always}, {5, 7}, training),
          dropout({.p = p, .axes = {1}}, {5, 3, 7}, training);
    }
  }
}

void built_in_gradients(Rows& rows) {
  const auto svm = [&](const op::SVMOutput& op, const Shape& shape) {
    RowOptions options{.loosen = 2};
    options.gradient = [=](const Hosts& in, const Hosts&) {
      return Hosts{generate(shape, [&](const Shape& p) {
        const double s = in[1][size_t(p[0])] == double(p[1]) ? 1 : -1, reached = s * in[0].at(p);
        const double r = op.regularization_coefficient;
        return op.use_linear ? (reached < op.margin ? -r * s : 0) : -2 * r * s * std::max(0.0, op.margin - reached);
      })};
    };
    Input label = in(Shape(shape[0]), Fill::integers);
    label.high = double(shape[1]);
    rows.emplace_back(
        op, std::vector{in(shape), constant(label)}, [](const Hosts& in) { return in[0]; }, options);
  };
  for (bool linear : {false, true}) {
    svm({.use_linear = linear}, {5, 3}), svm({.margin = 0.7, .use_linear = linear}, {1, 7});
    svm({.regularization_coefficient = 0.25, .use_linear = linear}, {0, 4});
  }
  const auto sparse = [&](const op::IdentityAttachKLSparseReg& op, const Shape& shape, bool training) {
    const auto averages = [=](const Hosts& in) {
      Host m = in[1];
      for (int64_t j = 0; training && shape[0] > 0 && j < shape[1]; ++j) {
        double mean = 0;
        for (int64_t i = 0; i < shape[0]; ++i) mean += in[0].at({i, j}) / double(shape[0]);
        m.at(Shape(j)) = op.momentum * m.at(Shape(j)) + (1 - op.momentum) * mean;
      }
      return m;
    };
    // a second call while training moves the average again, and its gradient with it
    RowOptions options{
        .loosen = 2, .loosen_gradient = 16, .training = training, .differentiate = !training || op.momentum == 1};
    options.gradient = [=](const Hosts& in, const Hosts& heads) {
      const Host m = averages(in);
      return Hosts{generate(shape, [&](const Shape& p) {
        const double a = m.at(Shape(p[1])), t = op.sparseness_target;
        return heads[0].at(p) + op.penalty * ((1 - t) / (1 - a) - t / a);
      })};
    };
    rows.emplace_back(
        op, std::vector{in(shape), constant(in(Shape(shape[1]), Fill::above_one))},
        [=](const Hosts& in) {
          const Host m = averages(in);
          return Hosts{in[0], m, m};
        },
        options);
  };
  for (bool training : {false, true}) {
    sparse({}, {5, 3}, training),
        sparse({.sparseness_target = 0.25, .penalty = 0.5, .momentum = 0.75}, {1, 7}, training);
    sparse({.penalty = 0.5, .momentum = 1}, {5, 3}, training);
    sparse({}, {0, 4}, training), sparse({.penalty = 0.25}, {3, 0}, training);
  }
}

}  // namespace

Rows nn_rows() {
  Rows rows;
  dense_rows(rows);
  activation_rows(rows);
  leaky_rows(rows);
  softmax_rows(rows);
  output_rows(rows);
  dropout_rows(rows);
  built_in_gradients(rows);
  return rows;
}

}  // namespace kaon::test
