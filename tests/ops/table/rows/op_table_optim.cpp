// Rows of the operators that update weights, and of those that trainers ask of many arrays.
#include <algorithm>
#include <cmath>

#include "kaon/tests/ops/table/op_table.h"

namespace kaon::test {
namespace {

constexpr uint32_t halves = dtype_bit(DType::float16) | dtype_bit(DType::bfloat16);
constexpr uint32_t narrow = halves | dtype_bit(DType::float32);

double bounded(double v, double bound) { return bound < 0 || std::isnan(v) ? v : std::clamp(v, -bound, bound); }
double sign(double v) { return v > 0 ? 1 : v < 0 ? -1 : v; }
double decayed(double beta, double mean, double v) { return beta * mean + (1 - beta) * v; }
double sum_of_squares(const std::vector<double>& values) {
  double sum = 0;
  for (double v : values) sum += v * v;
  return sum;
}

// One weight, its gradient and its states, which become the new ones.
struct Tensor {
  std::vector<double>&w, g;
  std::vector<std::vector<double>*> states;
  std::vector<double>& state(size_t k) { return *states.at(k); }
};

double lamb_ratio(const UpdateRule& r, double weight, double direction) {
  if (r.lower_bound >= 0 && weight < r.lower_bound) weight = r.lower_bound;
  if (r.upper_bound >= 0 && weight > r.upper_bound) weight = r.upper_bound;
  return weight == 0 || direction == 0 ? 1 : weight / direction;
}

// As ops/optim/rules/rules.h has the rules.
void update(const UpdateRule& r, const UpdateNumbers& n, Tensor t) {
  const auto clipped = [&](double g) { return bounded(g, r.clip_gradient); };
  double lr = n.lr;
  if (r.kind == UpdateKind::lars && n.x != 0) {
    std::vector<double> scaled = t.g;
    for (double& v : scaled) v *= r.rescale_grad;
    const double weight = std::sqrt(sum_of_squares(t.w)), grad = std::sqrt(sum_of_squares(scaled));
    if (weight > 0 && grad > 0) lr *= r.eta * weight / (grad + n.wd * weight + r.epsilon);
  }
  std::vector<double> u(t.w.size());
  for (size_t i = 0; i < t.w.size(); ++i) {
    double none = 0, &w = t.w[i], &a = t.states.size() > 0 ? t.state(0)[i] : none,
           &b = t.states.size() > 1 ? t.state(1)[i] : none, &c = t.states.size() > 2 ? t.state(2)[i] : none;
    const double raw = t.g[i], g = clipped(r.rescale_grad * raw), gd = clipped(r.rescale_grad * raw + n.wd * w);
    switch (r.kind) {
      case UpdateKind::sgd: w = (1 - lr * n.wd) * w - lr * g; break;
      case UpdateKind::sgd_momentum:
      case UpdateKind::lars:
        a = r.momentum * n.y * a - lr * n.wd * w - lr * g;
        w += a;
        break;
      case UpdateKind::nag: {
        const double step = lr * (g + n.wd * w);
        a = r.momentum * a - step;
        w = w + r.momentum * a - step;
        break;
      }
      case UpdateKind::signsgd: w = (1 - lr * n.wd) * w - lr * sign(raw); break;
      case UpdateKind::signum:
        a = r.momentum * a - (1 - r.momentum) * (g + n.wd * w);
        w = (1 - lr * r.wd_lh) * w + lr * sign(a);
        break;
      case UpdateKind::lion:
        w = (1 - lr * n.wd) * w - lr * sign(decayed(r.beta1, a, g));
        a = decayed(r.beta2, a, g);
        break;
      case UpdateKind::adagrad:
        a += g * g;
        w = (1 - lr * n.wd) * w - lr * g / std::sqrt(a + r.epsilon);
        break;
      case UpdateKind::rmsprop:
        a = decayed(r.beta1, a, gd * gd);
        w = bounded(w - lr * gd / std::sqrt(a + r.epsilon), r.clip_weights);
        break;
      case UpdateKind::rmsprop_centered:
        a = decayed(r.beta1, a, gd * gd);
        b = decayed(r.beta1, b, gd);
        c = r.momentum * c - lr * gd / std::sqrt(a - b * b + r.epsilon);
        w = bounded(w + c, r.clip_weights);
        break;
      case UpdateKind::adam:
        a = decayed(r.beta1, a, gd);
        b = decayed(r.beta2, b, gd * gd);
        w -= lr * a / (std::sqrt(b) + r.epsilon);
        break;
      case UpdateKind::adamw:
        a = decayed(r.beta1, a, g);
        b = decayed(r.beta2, b, g * g);
        w = (1 - n.wd) * w - lr * a / (std::sqrt(b) + n.x * r.epsilon);
        break;
      case UpdateKind::adabelief:
        a = decayed(r.beta1, a, g);
        b = decayed(r.beta2, b, (g - a) * (g - a)) + r.epsilon;
        w = (1 - n.wd) * w - lr * a / (std::sqrt(b) + n.x * r.epsilon);
        break;
      case UpdateKind::adamax:
        a = decayed(r.beta1, a, gd);
        b = larger(r.beta2 * b, std::abs(gd));
        w -= b == 0 ? 0 : lr * a / b;
        break;
      case UpdateKind::nadam:
        a = decayed(r.beta1, a, gd);
        b = decayed(r.beta2, b, gd * gd);
        w -= (lr * a + n.y * gd) / (std::sqrt(b) + n.x * r.epsilon);
        break;
      case UpdateKind::adadelta: {
        a = decayed(r.beta1, a, g * g);
        const double step = std::sqrt(b + r.epsilon) / std::sqrt(a + r.epsilon) * g;
        b = decayed(r.beta1, b, step * step);
        w = (1 - n.wd) * w - step;
        break;
      }
      case UpdateKind::ftrl: {
        const double sum = b + g * g;
        a += g - (std::sqrt(sum) - std::sqrt(b)) * w / lr;
        b = sum;
        w = std::abs(a) <= r.lamda ? 0 : (sign(a) * r.lamda - a) / ((r.beta + std::sqrt(b)) / lr + n.wd);
        break;
      }
      case UpdateKind::ftml: {
        b = decayed(r.beta2, b, gd * gd);
        const double divisor = lr * (std::sqrt(b) + n.x * r.epsilon);
        c = decayed(r.beta1, c, gd) - (divisor - r.beta1 * a) * w;
        a = divisor;
        w = -c / a;
        break;
      }
      case UpdateKind::dcasgd: {
        const double slope = g + n.wd * w + r.lamda * g * g * (w - b);
        a = r.momentum * a - lr * slope;
        b = w;
        w += a;
        break;
      }
      case UpdateKind::lbsgd:
        b += raw;
        if (n.x != 0) {
          a = r.momentum * a - lr * n.wd * w - lr * clipped(r.rescale_grad * n.x * b);
          w += a;
          b = 0;
        }
        break;
      default:
        a = decayed(r.beta1, a, g);
        b = decayed(r.beta2, b, g * g);
        u[i] = n.y * a / (std::sqrt(b) + n.x * r.epsilon) + n.wd * w;
        if (r.kind == UpdateKind::lamb_direction) c = u[i];
    }
  }
  if (r.kind != UpdateKind::lamb) return;
  lr *= lamb_ratio(r, std::sqrt(sum_of_squares(t.w)), std::sqrt(sum_of_squares(u)));
  for (size_t i = 0; i < u.size(); ++i) t.w[i] -= lr * u[i];
}

int states_of(UpdateKind kind) {
  switch (kind) {
    case UpdateKind::sgd:
    case UpdateKind::signsgd: return 0;
    case UpdateKind::sgd_momentum:
    case UpdateKind::nag:
    case UpdateKind::signum:
    case UpdateKind::lion:
    case UpdateKind::adagrad:
    case UpdateKind::rmsprop:
    case UpdateKind::lars: return 1;
    case UpdateKind::rmsprop_centered:
    case UpdateKind::ftml: return 3;
    default: return 2;
  }
}

// Sums of squares are positive, and no smaller than the square of a mean.
Fill fill_of(UpdateKind kind, int state) {
  switch (kind) {
    case UpdateKind::adagrad:
    case UpdateKind::rmsprop:
    case UpdateKind::adadelta: return Fill::positive;
    case UpdateKind::rmsprop_centered: return state == 0 ? Fill::above_one : Fill::unit;
    case UpdateKind::ftml: return state == 2 ? Fill::normal : Fill::positive;
    case UpdateKind::sgd_momentum:
    case UpdateKind::nag:
    case UpdateKind::signum:
    case UpdateKind::lion:
    case UpdateKind::lars:
    case UpdateKind::dcasgd:
    case UpdateKind::lbsgd: return Fill::normal;
    default: return state == 1 ? Fill::positive : Fill::normal;
  }
}

// How the inputs of a call lie.
struct Layout {
  int states;
  enum { none, full, empty } copy;  // of weights in float32
  int group() const { return 2 + states + (copy != none); }
};

std::vector<Input> inputs_of(const std::vector<Shape>& shapes, UpdateKind kind, const Layout& layout) {
  std::vector<Input> inputs;
  for (const Shape& s : shapes) {
    inputs.push_back(in(s));
    inputs.push_back(in(s));
    for (int k = 0; k < layout.states; ++k) inputs.push_back(in(s, fill_of(kind, k)));
    if (layout.copy == Layout::full) inputs.push_back(in(s));
    for (size_t i = inputs.size() - size_t(layout.group()) + 2; layout.copy == Layout::full && i < inputs.size(); ++i) {
      inputs[i].dtype = DType::float32;
    }
    if (layout.copy == Layout::empty) inputs.push_back(index(Shape(0), std::vector<double>{}));
  }
  return inputs;
}

// The results of a call: outputs, then the inputs that are updated. `numbers(i)`: of weight i.
template <class F>
Hosts results(Hosts in, size_t weights, const UpdateRule& rule, const Layout& layout, F numbers, Hosts outputs,
              bool changes = true) {
  const size_t group = size_t(layout.group());
  for (size_t i = 0; changes && i < weights; ++i) {
    Host* first = &in[i * group];
    const bool copied = layout.copy == Layout::full;
    std::vector<double> u;
    Tensor t{copied ? first[group - 1].values : first[0].values, first[1].values, {}};
    for (int k = 0; k < layout.states; ++k) t.states.push_back(&first[2 + k].values);
    if (rule.kind == UpdateKind::lamb_direction) u.resize(t.w.size()), t.states.push_back(&u);
    update(rule, numbers(i), t);
    if (copied) first[0].values = t.w;
    if (rule.kind == UpdateKind::lamb_direction) {
      outputs.push_back({first[0].shape, u});
      if (copied) outputs.back().dtype = DType::float32;
    }
  }
  for (size_t k = 0; k < weights * group; ++k) {
    const bool is_weight = k % group == 0 || (layout.copy == Layout::full && k % group == group - 1);
    if (k % group == 1 || (is_weight && rule.kind == UpdateKind::lamb_direction)) continue;
    Host h{in[k].shape, in[k].values};
    if (layout.copy != Layout::none && k % group >= 2) h.dtype = in[k].dtype;
    outputs.push_back(std::move(h));
  }
  return outputs;
}

// A row of an operator of MXNet. `shared`: the inputs that are for all weights.
template <class Op>
void add(Rows& rows, const Op& op, const std::vector<Shape>& shapes, std::vector<Input> shared = {}) {
  const Layout layout{Op::form.kind == UpdateKind::lamb_direction ? 2 : states_of(Op::form.kind),
                      Op::form.multi_precision ? Layout::full : Layout::none};
  std::vector<Input> inputs = inputs_of(shapes, Op::form.kind, layout);
  inputs.insert(inputs.end(), shared.begin(), shared.end());
  RowOptions options{.loosen = 8};
  if (Op::form.multi_precision) options.dtypes = narrow;
  rows.emplace_back(
      op, inputs,
      [op, layout, n = shapes.size()](const Hosts& in) {
        const UpdateCall call = update_call(op);
        UpdateRule rule = call.rule;
        using Shared = UpdateForm::Shared;
        const bool rescaled = Op::form.shared == Shared::rescale_grad;
        if (rescaled) rule.rescale_grad = in.back()[0];
        auto numbers = [&](size_t i) {
          if (Op::form.shared != Shared::lrs_and_wds) return call.numbers(&op, int(i));
          return UpdateNumbers{in[in.size() - 2][i], in.back()[i]};
        };
        const bool changes = !rescaled || (std::isfinite(rule.rescale_grad) && rule.rescale_grad != 0);
        return results(in, n, rule, layout, numbers, {}, changes);
      },
      options);
}

// The bounds and factors that some rows set, for operators that have them.
template <class Op>
Op changed(Op op) {
  if constexpr (requires { op.momentum; }) op.momentum = 0.75;
  if constexpr (requires { op.gamma1; }) op.gamma1 = 0.5;
  if constexpr (requires { op.gamma2; }) op.gamma2 = 0.75;
  if constexpr (requires { op.beta1; }) op.beta1 = 0.5;
  if constexpr (requires { op.beta2; }) op.beta2 = 0.75;
  if constexpr (requires { op.epsilon; }) op.epsilon = 0.125;
  if constexpr (requires { op.lamda1; }) op.lamda1 = 0.5, op.beta = 0.75;
  if constexpr (requires { op.wd; }) op.wd = 0.125;
  if constexpr (requires { op.eta; }) op.eta = 0.5;
  if constexpr (requires { op.rescale_grad; }) op.rescale_grad = 0.5;
  if constexpr (requires { op.clip_gradient; }) op.clip_gradient = 0.25;
  if constexpr (requires { op.clip_grad; }) op.clip_grad = 0.25;
  if constexpr (requires { op.clip_weights; }) op.clip_weights = 0.75;
  if constexpr (requires { op.wd_lh; }) op.wd_lh = 0.25;
  if constexpr (requires { op.lower_bound; }) op.lower_bound = 0.25, op.upper_bound = 2;
  if constexpr (requires { op.bias_correction; }) op.bias_correction = false;
  if constexpr (requires { op.lazy_update; }) op.lazy_update = false;
  return op;
}

template <class Op>
void one_weight(Rows& rows, Op op, std::vector<Input> shared = {}) {
  if constexpr (requires { op.lr; }) op.lr = 0.25;
  if constexpr (requires { op.t; }) op.t = 3;
  if constexpr (requires { op.eta; }) op.eta = 0.75;
  for (const Shape& shape : {Shape(3, 5), Shape(1, 7), Shape(0, 4), Shape(33), Shape()}) {
    add(rows, op, {shape}, shared);
    add(rows, changed(op), {shape}, shared);
  }
}

template <class Op>
void many_weights(Rows& rows, const std::vector<Input>& shared = {}) {
  const std::vector<std::vector<Shape>> lists{{{3, 5}, {1, 7}, {0, 4}, {33}}, {{1}}, {}};
  for (const std::vector<Shape>& list : lists) {
    Op op;
    const int n = int(list.size());
    if (n == 0 && Op::form.shared == UpdateForm::Shared::nothing) continue;  // no inputs at all are refused
    if constexpr (requires { op.num_weights; }) op.num_weights = n;
    if constexpr (requires { op.num_tensors; }) op.num_tensors = n;
    for (int i = 0; i < n; ++i) {
      const float lr = 0.125f * float(i + 1), wd = 0.0625f * float(i + 1);
      if constexpr (requires { op.lrs; }) op.lrs.push_back(lr);
      if constexpr (requires { op.learning_rates; }) op.learning_rates.push_back(lr);
      if constexpr (requires { op.wds; }) op.wds.push_back(wd);
      if constexpr (requires { op.etas; }) op.etas.push_back(0.5f + 0.25f * float(i));
      if constexpr (requires { op.step_count; }) op.step_count.push_back(1 + 2 * i);
    }
    std::vector<Input> last = shared;
    if (Op::form.shared == UpdateForm::Shared::lrs_and_wds) {
      std::vector<double> lrs, wds;
      for (int i = 0; i < n; ++i) lrs.push_back(0.125 * (i + 1)), wds.push_back(0.0625 * (i + 1));
      last = {index({n}, lrs), index({n}, wds)};
    }
    add(rows, op, list, last);
    add(rows, changed(op), list, last);
  }
}

// A row of _kaon_multi_update.
template <int arrays>
void add_rule(Rows& rows, const UpdateRule& rule, const std::vector<Shape>& shapes, uint32_t dtypes) {
  const int states = states_of(rule.kind);
  const Layout layout{states, arrays == 2 + states ? Layout::none : dtypes == halves ? Layout::full : Layout::empty};
  std::vector<Input> inputs = inputs_of(shapes, rule.kind, layout);
  const int64_t n = int64_t(shapes.size());
  std::vector<double> rates;
  for (int64_t i = 0; i < n; ++i) rates.push_back(0.125 * double(i + 1));
  for (int64_t i = 0; i < n; ++i) rates.push_back(0.0625 * double(i));
  for (int64_t i = 0; i < n; ++i) rates.push_back(i % 2 ? 0 : 0.75);
  for (int64_t i = 0; i < n; ++i) rates.push_back(1 - 0.25 * double(i));
  inputs.push_back(index({4 * n}, rates));
  const uint32_t tried = layout.copy == Layout::none ? every_dtype : dtypes;
  rows.emplace_back(
      op::MultiUpdate<arrays>{rule}, inputs,
      [=](const Hosts& in) {
        const Host& r = in.back();
        const size_t weights = shapes.size();
        return results(in, weights, rule, layout,
                       [&](size_t i) {
                         return UpdateNumbers{r[i], r[weights + i], r[2 * weights + i], r[3 * weights + i]};
                       },
                       {{{0}, {}, DType::float32}});
      },
      RowOptions{.dtypes = dtypes, .tried = tried, .loosen = 8});
}

template <int states>
void rule_rows(Rows& rows, UpdateKind kind) {
  UpdateRule rule{.kind = kind};
  const UpdateRule all{.kind = kind,
                       .momentum = 0.75,
                       .beta1 = 0.5,
                       .beta2 = 0.75,
                       .epsilon = 0.125,
                       .rescale_grad = 0.5,
                       .clip_gradient = 0.25,
                       .lamda = 0.5,
                       .beta = 0.75,
                       .wd_lh = 0.25,
                       .clip_weights = 0.75,
                       .eta = 0.5,
                       .lower_bound = 0.25,
                       .upper_bound = 2};
  for (const UpdateRule& r : {rule, all}) {
    for (const std::vector<Shape>& list :
         std::vector<std::vector<Shape>>{{{3, 5}, {1, 7}, {0, 4}, {33}}, {{1}}, {{0}}}) {
      add_rule<2 + states>(rows, r, list, floats);
      add_rule<3 + states>(rows, r, list, halves);
    }
    add_rule<3 + states>(rows, r, {{3, 5}, {1, 7}}, dtype_bit(DType::float32) | dtype_bit(DType::float64));
  }
}

// With a factor: 0 changes nothing.
void factor_rows(Rows& rows) {
  const std::vector<Shape> shapes{{3, 5}, {1, 7}, {0, 4}, {33}};
  for (double factor : {0.5, 0.0}) {
    for (UpdateKind kind : {UpdateKind::adam, UpdateKind::lamb}) {
      const UpdateRule rule{.kind = kind, .epsilon = 0.125, .rescale_grad = 0.5, .clip_gradient = 0.25};
      const Layout layout{2, Layout::none};
      std::vector<Input> inputs = inputs_of(shapes, kind, layout);
      const std::vector<double> rates{0.5, 0.25, 0.125, 0.5, 0, 0.25, 0, 0.25, 1, 1, 1, 1, 1, 1, 1, 1};
      inputs.push_back(index({16}, rates));
      inputs.push_back(index({1}, {factor}));
      rows.emplace_back(
          op::MultiUpdate<4>{rule}, inputs,
          [=](Hosts in) {
            UpdateRule scaled = rule;
            scaled.rescale_grad *= factor;
            in.pop_back();
            const Host r = in.back();
            return results(
                in, 4, scaled, layout,
                [=](size_t i) {
                  return UpdateNumbers{r[i], r[4 + i], r[8 + i], r[12 + i]};
                },
                {{{0}, {}, DType::float32}}, factor != 0);
          },
          RowOptions{.dtypes = floats, .loosen = 8});
    }
  }
  const auto squares_of = [](const Hosts& in, size_t first) {
    double sum = 0;
    for (size_t i = first; i < in.size(); ++i) sum += sum_of_squares(in[i].values);
    return sum;
  };
  const auto clipped = [](double norm, double most) {
    return most < 0 || norm <= most ? 1 : std::isfinite(norm) ? most / (norm + 1e-8) : NAN;
  };
  for (const std::vector<Input>& list : std::vector<std::vector<Input>>{
           {constant(in({3, 5})), constant(in({1, 7})), constant(in({0, 4})), constant(in(Shape()))},
           {constant(in({0}))},
           {constant(in({2})), constant(in({3}, {1, NAN, 2}))}}) {
    for (double most : {-1.0, 0.25, 100.0}) {
      rows.emplace_back(
          op::GradientFactor{.rescale_grad = 0.5, .clip_global_norm = most}, list,
          [=](const Hosts& in) {
            return Host{{1}, {clipped(0.5 * std::sqrt(squares_of(in, 0)), most)}, DType::float32};
          },
          RowOptions{.loosen = 8});
      for (bool unscaled : {false, true}) {
        std::vector<Input> inputs = list;
        inputs.insert(inputs.begin(), index({2}, {4, 1}));
        const op::LossScale op{.rescale_grad = 0.5,
                               .clip_global_norm = most,
                               .scale_factor = 4,
                               .scale_window = most < 0 ? 2.0 : 3.0,
                               .min_scale = most < 1 ? 2.0 : 1.0,
                               .max_scale = most < 1 ? 8.0 : 16777216.0,
                               .unscaled = unscaled};
        rows.emplace_back(
            op, inputs,
            [=](const Hosts& in) {
              const double squares = squares_of(in, 1), scale = in[0][0], by = unscaled ? 1 : scale;
              if (!std::isfinite(squares)) {
                const double less = scale / 4;
                return Hosts{{{1}, {0}, DType::float32},
                             {{2}, {less > op.min_scale ? less : op.min_scale, 0}, DType::float32}};
              }
              const double steps = in[0][1] + 1, more = scale * 4;
              const bool grows = steps >= op.scale_window;
              return Hosts{{{1}, {clipped(0.5 * std::sqrt(squares) / by, most) / by}, DType::float32},
                           {{2},
                            {grows ? (more < op.max_scale ? more : op.max_scale) : scale, grows ? 0 : steps},
                            DType::float32}};
            },
            RowOptions{.loosen = 8});
      }
    }
  }
}

void group_adagrad_rows(Rows& rows) {
  for (const Shape& shape : {Shape(3, 5), Shape(1, 7), Shape(0, 4), Shape(5), Shape(2, 3, 33)}) {
    for (const op::GroupAdagradUpdate& op :
         {op::GroupAdagradUpdate{.lr = 0.5},
          op::GroupAdagradUpdate{.lr = 0.25, .rescale_grad = 0.5, .clip_gradient = 0.25, .epsilon = 0.125}}) {
      rows.emplace_back(
          op, std::vector{in(shape), in(shape), in({shape[0], 1}, Fill::positive)},
          [op](Hosts in) {
            const size_t n = in[2].values.size(), width = n ? in[0].values.size() / n : 0;
            for (size_t row = 0; row < n; ++row) {
              double sum = 0, &h = in[2].values[row];
              for (double& g : std::span(in[1].values).subspan(row * width, width)) {
                g = bounded(op.rescale_grad * g, op.clip_gradient), sum += g * g;
              }
              h += sum / double(width);
              for (size_t i = row * width; i < (row + 1) * width; ++i) {
                in[0].values[i] -= op.lr * in[1][i] / std::sqrt(h + op.epsilon);
              }
            }
            return Hosts{{in[0].shape, in[0].values}, {in[2].shape, in[2].values}};
          },
          RowOptions{.loosen = 8});
    }
  }
}

template <bool mp>
void lamb_step_rows(Rows& rows) {
  using Op = op::LambPhase2Of<mp>;
  for (const Shape& shape : {Shape(3, 5), Shape(1, 7), Shape(0, 4), Shape(33)}) {
    for (const Op& op : {Op{.lr = 0.5}, Op{.lr = 0.25, .lower_bound = 1, .upper_bound = 1.5}}) {
      for (double norm : {2.5, 0.0}) {
        std::vector<Input> inputs{in(shape), in(shape), in({1}, {norm}), in({1}, {0.75})};
        if (mp) {
          inputs.push_back(in(shape));
          for (size_t i = 1; i < inputs.size(); ++i) inputs[i].dtype = DType::float32;
        }
        RowOptions options{.loosen = 8};
        if (mp) options.dtypes = narrow;
        rows.emplace_back(
            op, inputs,
            [op](Hosts in) {
              const UpdateRule bounds{.lower_bound = op.lower_bound, .upper_bound = op.upper_bound};
              const double rate = op.lr * lamb_ratio(bounds, in[2][0], in[3][0]);
              std::vector<double> w = in[mp ? 4 : 0].values;
              for (size_t i = 0; i < w.size(); ++i) w[i] -= rate * in[1][i];
              Hosts out{{in[0].shape, w}};
              if (mp) out.push_back({in[0].shape, w, DType::float32});
              return out;
            },
            options);
      }
    }
  }
}

void array_rows(Rows& rows) {
  auto finite = [](const Hosts& in) {
    bool all = true;
    for (const Host& h : in)
      all = all && std::all_of(h.values.begin(), h.values.end(), [](double v) { return std::isfinite(v); });
    return Host{{1}, {double(all)}, DType::float32};
  };
  for (const std::vector<Input>& list : std::vector<std::vector<Input>>{{in({3, 5}), in({1, 7}), in({0, 4})},
                                                                        {in({3}, {1, INFINITY, 2})},
                                                                        {in(Shape(), {NAN})},
                                                                        {in({1, 7})},
                                                                        {in({3, 5}), in({3}, {1, NAN, 2}), in({2})}}) {
    rows.emplace_back(op::MultiAllFinite{.num_arrays = int(list.size())}, list, finite);
    rows.emplace_back(op::AllFinite{}, std::vector{list.back()}, finite);
    rows.emplace_back(op::AllFinite{}, std::vector{list.front()}, finite);
    rows.emplace_back(op::MultiSumSq{.num_arrays = int(list.size())}, list, [](const Hosts& in) {
      Host out{{int64_t(in.size())}, {}, DType::float32};
      for (const Host& h : in) out.values.push_back(sum_of_squares(h.values));
      return out;
    });
  }
  rows.emplace_back(op::AllFinite{.init_output = false}, std::vector{in({3})}, finite, RowOptions{.refused = true});
  rows.emplace_back(op::MultiAllFinite{.num_arrays = 1, .init_output = false}, std::vector{in({3})}, finite,
                    RowOptions{.refused = true});
  for (const Shape& shape : {Shape(5), Shape(1), Shape(0), Shape(1, 3), Shape(2, 0), Shape()}) {
    for (const op::MultiLars& op :
         {op::MultiLars{.eta = 0.5}, op::MultiLars{.eta = 0.25, .eps = 0.5, .rescale_grad = 0.5}}) {
      const auto of = [&](Fill fill) { return Input{.shape = shape, .fill = fill, .dtype = DType::float32}; };
      Input squares = of(Fill::integers);
      squares.high = 3;
      rows.emplace_back(op, std::vector{of(Fill::positive), squares, of(Fill::positive), of(Fill::positive)},
                        [op](const Hosts& in) {
                          Host out{in[0].shape, in[0].values, DType::float32};
                          for (size_t i = 0; i < out.values.size(); ++i) {
                            if (!(in[1][i] > 0 && in[2][i] > 0)) continue;
                            const double w = std::sqrt(in[1][i]), g = op.rescale_grad * std::sqrt(in[2][i]);
                            out.values[i] *= op.eta * w / (g + in[3][i] * w + op.eps);
                          }
                          return out;
                        });
    }
  }
  for (const std::vector<Shape>& list :
       std::vector<std::vector<Shape>>{{{3, 5}, {1, 7}, {0, 4}, {}}, {{1}}, {{0}}, {{3}}}) {
    std::vector<Input> inputs;
    for (const Shape& s : list) inputs.push_back(in(s));
    rows.emplace_back(
        op::ResetArrays{.num_arrays = int(list.size())}, inputs,
        [](Hosts in) {
          for (Host& h : in) h = zeros(h.shape);
          return in;
        },
        RowOptions{.dtypes = every_dtype});
  }
  for (const std::vector<Shape>& list : std::vector<std::vector<Shape>>{{{3, 5}, {1, 7}, {0, 4}, {}}, {{1}}, {{0}}}) {
    std::vector<Input> inputs;
    for (const Shape& s : list) inputs.insert(inputs.end(), {in(s), in(s)});
    rows.emplace_back(
        op::MultiAdd{}, inputs,
        [](const Hosts& in) {
          Hosts sums;
          for (size_t i = 0; i < in.size(); i += 2) {
            sums.push_back(in[i]);
            for (size_t k = 0; k < in[i].values.size(); ++k) sums.back().values[k] += in[i + 1].values[k];
          }
          return sums;
        },
        RowOptions{.dtypes = floats});
  }
}

}  // namespace

Rows optim_rows() {
  Rows rows;
  one_weight(rows, op::SGDUpdate{});
  one_weight(rows, op::MPSGDUpdate{});
  one_weight(rows, op::SGDMomUpdate{});
  one_weight(rows, op::MPSGDMomUpdate{});
  one_weight(rows, op::NAGMomUpdate{});
  one_weight(rows, op::MPNAGMomUpdate{});
  one_weight(rows, op::SignSGDUpdate{});
  one_weight(rows, op::SignumUpdate{});
  one_weight(rows, op::RMSPropUpdate{});
  one_weight(rows, op::RMSPropAlexUpdate{});
  one_weight(rows, op::FtrlUpdate{});
  one_weight(rows, op::FTMLUpdate{});
  one_weight(rows, op::AdamUpdate{});
  one_weight(rows, op::SparseAdagradUpdate{});
  one_weight(rows, op::LambUpdatePhase1{});
  one_weight(rows, op::MPLambUpdatePhase1{});
  const std::vector<Input> scale{index({1}, {0.75})};
  one_weight(rows, op::AdamWUpdate{}, scale);
  one_weight(rows, op::MPAdamWUpdate{}, scale);
  one_weight(rows, op::AdamWUpdate{}, {index(Shape(), {0.0})});
  one_weight(rows, op::MPAdamWUpdate{}, {index({1}, {INFINITY})});
  many_weights<op::MultiSGDUpdate>(rows);
  many_weights<op::MultiMPSGDUpdate>(rows);
  many_weights<op::MultiSGDMomUpdate>(rows);
  many_weights<op::MultiMPSGDMomUpdate>(rows);
  many_weights<op::PreloadedMultiSGDUpdate>(rows);
  many_weights<op::PreloadedMultiMPSGDUpdate>(rows);
  many_weights<op::PreloadedMultiSGDMomUpdate>(rows);
  many_weights<op::PreloadedMultiMPSGDMomUpdate>(rows);
  many_weights<op::MultiAdamWUpdate>(rows, scale);
  many_weights<op::MultiMPAdamWUpdate>(rows, scale);
  many_weights<op::MultiLambUpdate>(rows);
  many_weights<op::MultiMPLambUpdate>(rows);
  factor_rows(rows);
  group_adagrad_rows(rows);
  lamb_step_rows<false>(rows);
  lamb_step_rows<true>(rows);
  for (int kind = 0; kind < int(UpdateKind::lamb_direction); ++kind) {
    switch (states_of(UpdateKind(kind))) {
      case 0: rule_rows<0>(rows, UpdateKind(kind)); break;
      case 1: rule_rows<1>(rows, UpdateKind(kind)); break;
      case 2: rule_rows<2>(rows, UpdateKind(kind)); break;
      default: rule_rows<3>(rows, UpdateKind(kind));
    }
  }
  array_rows(rows);
  return rows;
}

}  // namespace kaon::test
