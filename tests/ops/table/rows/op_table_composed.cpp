// Rows of the test table: normalisations, attention and sequence operators that are made of others; order.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "kaon/tests/ops/table/op_table.h"

namespace kaon::test {
namespace {

// Calls visit(position) for each position of `shape`, by the number of the group that `group_of` says.
template <class GroupOf>
std::vector<std::pair<double, double>> moments_by(const Host& x, size_t groups, GroupOf&& group_of) {
  std::vector<double> count(groups), mean(groups), var(groups);
  each(x.shape, [&](const Shape& p) { count[group_of(p)] += 1, mean[group_of(p)] += x.at(p); });
  for (size_t g = 0; g < groups; ++g) mean[g] /= count[g];
  each(x.shape, [&](const Shape& p) { var[group_of(p)] += std::pow(x.at(p) - mean[group_of(p)], 2); });
  std::vector<std::pair<double, double>> all;
  for (size_t g = 0; g < groups; ++g) all.emplace_back(mean[g], var[g] / count[g]);
  return all;
}

// The reference of InstanceNorm and GroupNorm: `groups` of neighbouring channels.
Reference by_groups(int64_t groups, double eps) {
  return [=](const Hosts& in) {
    const Host& x = in[0];
    const int64_t own = groups == 0 ? 0 : std::max<int64_t>(1, x.shape[1] / groups);
    const auto group = [&](const Shape& p) { return p[1] / own; };
    const auto all =
        moments_by(x, size_t(x.shape[0] * groups), [&](const Shape& p) { return size_t(p[0] * groups + group(p)); });
    return generate(x.shape, [&](const Shape& p) {
      const auto [mean, var] = all[size_t(p[0] * groups + group(p))];
      return in[1].at(Shape(group(p))) * (x.at(p) - mean) / std::sqrt(var + eps) + in[2].at(Shape(group(p)));
    });
  };
}

void instance_norm(Rows& rows, const op::InstanceNorm& op, const Shape& data) {
  rows.emplace_back(op, std::vector{in(data), in(Shape(data[1])), in(Shape(data[1]))}, by_groups(data[1], op.eps),
                    RowOptions{.loosen = 8, .loosen_gradient = 16});
}

void group_norm(Rows& rows, const op::GroupNorm& op, const Shape& data) {
  const Shape groups(op.num_groups);
  Reference reference = by_groups(op.num_groups, op.eps);
  if (op.output_mean_var) {
    reference = [normal = reference, op](const Hosts& in) {
      const Host& x = in[0];
      const int64_t own = x.shape[1] / op.num_groups;
      const auto all = moments_by(x, size_t(x.shape[0] * op.num_groups),
                                  [&](const Shape& p) { return size_t(p[0] * op.num_groups + p[1] / own); });
      Hosts out = normal(in);
      out.resize(3, zeros({x.shape[0], op.num_groups}));
      for (size_t i = 0; i < all.size(); ++i) {
        out[1].values[i] = all[i].first, out[2].values[i] = std::sqrt(all[i].second + op.eps);
      }
      return out;
    };
  }
  rows.emplace_back(op, std::vector{in(data), in(groups), in(groups)}, reference,
                    RowOptions{.loosen = 8, .loosen_gradient = 16});
}

void l2(Rows& rows, const op::L2Normalization& op, const Shape& data) {
  rows.emplace_back(
      op, std::vector{in(data, Fill::nonzero)},
      [=](const Hosts& in) {
        const Host& x = in[0];
        const int64_t second = x.shape.ndim() > 1 ? x.shape[1] : 1,
                      inner = x.shape.product(std::min(2, x.shape.ndim()), x.shape.ndim());
        const auto group = [&](const Shape& p) {
          int64_t flat = 0;
          for (int i = 2; i < p.ndim(); ++i) flat = flat * x.shape[i] + p[i];
          return size_t(op.mode == L2Mode::instance  ? p[0]
                        : op.mode == L2Mode::spatial ? p[0] * second + p[1]
                                                     : p[0] * inner + flat);
        };
        std::vector<double> sum(size_t(std::max<int64_t>(1, x.shape.size())));
        each(x.shape, [&](const Shape& p) { sum[group(p)] += x.at(p) * x.at(p); });
        return generate(x.shape, [&](const Shape& p) { return x.at(p) / std::sqrt(sum[group(p)] + op.eps); });
      },
      RowOptions{.loosen = 4, .loosen_gradient = 8});
}

void lrn(Rows& rows, const op::LRN& op, const Shape& data) {
  rows.emplace_back(
      op, std::vector{in(data)},
      [=](const Hosts& in) {
        return generate(data, [&](const Shape& p) {
          double sum = 0;
          for (int64_t c = std::max<int64_t>(0, p[1] - op.nsize / 2); c <= std::min(data[1] - 1, p[1] + op.nsize / 2);
               ++c) {
            Shape at = p;
            at[1] = c;
            sum += in[0].at(at) * in[0].at(at);
          }
          return in[0].at(p) / std::pow(op.knorm + op.alpha / op.nsize * sum, op.beta);
        });
      },
      RowOptions{.loosen = 4, .loosen_gradient = 8});
}

void rms_norm(Rows& rows, const op::RMSNorm& op, const Shape& data) {
  const int axis = op.axis < 0 ? op.axis + data.ndim() : op.axis;
  rows.emplace_back(
      op, std::vector{in(data), in(Shape(data[axis]))},
      [=](const Hosts& in) {
        return generate(data, [&](const Shape& p) {
          double sum = 0;
          for (int64_t i = 0; i < data[axis]; ++i) {
            Shape at = p;
            at[axis] = i;
            sum += in[0].at(at) * in[0].at(at);
          }
          return in[1].at(Shape(p[axis])) * in[0].at(p) / std::sqrt(sum / double(data[axis]) + op.eps);
        });
      },
      RowOptions{.loosen = 4, .loosen_gradient = 8});
}

template <class Norm>
void batch_norm(Rows& rows, const Norm& op, const Shape& data, bool training) {
  constexpr bool rectified = std::is_same_v<Norm, op::BatchNormWithReLU>;
  const Shape c(data[1]);
  const bool by_batch = training && !op.use_global_stats;
  rows.emplace_back(
      op, std::vector{in(data), in(c), in(c), constant(in(c)), constant(in(c, Fill::positive))},
      [=](const Hosts& in) {
        auto all = moments_by(in[0], size_t(c[0]), [](const Shape& p) { return size_t(p[1]); });
        Host mean = in[3], var = in[4];
        for (int64_t k = 0; k < c[0]; ++k) {
          const Shape at(k);
          if (!by_batch) all[size_t(k)] = {mean.at(at), var.at(at)};
          const double keep = by_batch ? op.momentum : 1;
          mean.at(at) = keep * mean.at(at) + (1 - keep) * all[size_t(k)].first;
          var.at(at) = keep * var.at(at) + (1 - keep) * all[size_t(k)].second;
        }
        const Host y = generate(data, [&](const Shape& p) {
          const auto [m, v] = all[size_t(p[1])];
          const double gamma = op.fix_gamma ? 1 : in[1].at(Shape(p[1]));
          const double z = gamma * (in[0].at(p) - m) / std::sqrt(v + op.eps) + in[2].at(Shape(p[1]));
          return rectified ? std::max(z, 0.0) : z;
        });
        Hosts results{y};
        if (op.output_mean_var) {
          Host used = zeros(c), spread = zeros(c);
          for (size_t k = 0; k < size_t(c[0]); ++k) {
            const double v = all[k].second;
            used.values[k] = all[k].first, spread.values[k] = rectified ? 1 / std::sqrt(v + op.eps) : v;
          }
          results.insert(results.end(), {used, spread});
        }
        results.insert(results.end(), {mean, var});
        return results;
      },
      RowOptions{.loosen = 8, .loosen_gradient = 16, .training = training});
}

void moments(Rows& rows, const op::Moments& op, const Shape& data, const Shape& out) {
  rows.emplace_back(
      op, std::vector{in(data)},
      [=](const Hosts& in) {
        std::vector<bool> reduced(size_t(data.ndim()));
        for (int64_t a : op.axes) reduced[size_t(a < 0 ? a + data.ndim() : a)] = true;
        const auto all = moments_by(in[0], size_t(std::max<int64_t>(out.size(), 1)), [&](const Shape& p) {
          int64_t flat = 0;
          for (int i = 0; i < p.ndim(); ++i) {
            if (!reduced[size_t(i)]) flat = flat * data[i] + p[i];
          }
          return size_t(flat);
        });
        Hosts results(2, zeros(out));
        for (size_t i = 0; i < size_t(out.size()); ++i) {
          results[0].values[i] = all[i].first;
          results[1].values[i] = all[i].second;
        }
        return results;
      },
      RowOptions{.loosen = 4, .loosen_gradient = 8});
}

// x[step, sample, head, kind, i] of queries, keys and values side by side.
struct Interleaved {
  int64_t heads, kinds;
  double at(const Host& x, int64_t step, int64_t row, int64_t kind, int64_t i) const {
    const int64_t d = x.shape[2] / heads / kinds;
    return x.at({step, row / heads, ((row % heads) * kinds + kind) * d + i});
  }
};

template <class Op>
void scores(Rows& rows, int heads, const std::vector<Shape>& data) {
  std::vector<Input> inputs;
  for (const Shape& s : data) inputs.push_back(in(s));
  rows.emplace_back(
      Op{.heads = heads}, inputs,
      [=](const Hosts& in) {
        const bool self = in.size() == 1;
        const Interleaved q{heads, self ? 3 : 1}, k{heads, self ? 3 : 2};
        const Host& keys = in[self ? 0 : 1];
        const int64_t d = keys.shape[2] / heads / k.kinds;
        return generate(Shape(keys.shape[1] * heads, in[0].shape[0], keys.shape[0]), [&](const Shape& p) {
          double sum = 0;
          for (int64_t i = 0; i < d; ++i)
            sum += q.at(in[0], p[1], p[0], 0, i) * k.at(keys, p[2], p[0], self ? 1 : 0, i);
          return sum / std::sqrt(double(d));
        });
      },
      RowOptions{.loosen = 4, .loosen_gradient = 4});
}

template <class Op>
void weighted(Rows& rows, int heads, int64_t kinds, const Shape& values, int64_t steps) {
  const Shape attention(values[1] * heads, steps, values[0]);
  rows.emplace_back(
      Op{.heads = heads}, std::vector{in(values), in(attention)},
      [=](const Hosts& in) {
        const Interleaved v{heads, kinds};
        const int64_t d = values[2] / heads / kinds;
        return generate(Shape(steps, values[1], heads * d), [&](const Shape& p) {
          const int64_t row = p[1] * heads + p[2] / d;
          double sum = 0;
          for (int64_t k = 0; k < values[0]; ++k)
            sum += in[1].at({row, p[0], k}) * v.at(in[0], k, row, kinds - 1, p[2] % d);
          return sum;
        });
      },
      RowOptions{.loosen = 4, .loosen_gradient = 4});
}

void arange_like(Rows& rows, const op::ArangeLike& op, const Shape& data) {
  const int n = data.ndim();
  const Shape out = op.axis ? Shape(data[*op.axis < 0 ? *op.axis + n : *op.axis]) : data;
  rows.emplace_back(
      op, std::vector{in(data)},
      [=](const Hosts&) {
        Host y = zeros(out);
        for (size_t i = 0; i < y.values.size(); ++i) y.values[i] = op.start + double(i / size_t(op.repeat)) * op.step;
        return y;
      },
      RowOptions{.dtypes = numbers, .differentiate = false});
}

template <class Op>
void sequence(Rows& rows, Op op, const Shape& data, std::vector<double> lengths = {}) {
  std::vector<Input> inputs{in(data)};
  op.use_sequence_length = !lengths.empty();
  if (!lengths.empty()) inputs.push_back(index(Shape(data[1 - op.axis]), lengths));
  rows.emplace_back(
      op, inputs,
      [=](const Hosts& in) {
        const int64_t steps = data[op.axis];
        const auto length = [&](int64_t sample) {
          return in.size() == 1 ? steps : std::min(steps, int64_t(in[1].at(Shape(sample))));
        };
        if constexpr (std::is_same_v<Op, op::SequenceReverse>) {
          return generate(data, [&](const Shape& p) {
            Shape at = p;
            if (p[0] < length(p[1])) at[0] = length(p[1]) - 1 - p[0];
            return in[0].at(at);
          });
        } else {
          Shape out(data[1 - op.axis]);
          for (int i = 2; i < data.ndim(); ++i) out.push_back(data[i]);
          return generate(out, [&](const Shape& p) {
            const int64_t step = std::max<int64_t>(length(p[0]), 1) - 1;
            Shape at = op.axis == 0 ? Shape(step, p[0]) : Shape(p[0], step);
            for (int i = 1; i < p.ndim(); ++i) at.push_back(p[i]);
            return in[0].at(at);
          });
        }
      },
      RowOptions{.dtypes = every_dtype});
}

// The indices of the first k elements of each row along `axis`, of an array with that axis last.
struct Ordered {
  int axis;
  int64_t k;
  bool is_ascend;

  // Calls visit(position of the row with 0 along the axis, indices).
  template <class Visit>
  void each_row(const Host& x, Visit&& visit) const {
    Shape outer = x.shape;
    outer[axis] = std::min<int64_t>(1, outer[axis]);
    each(outer, [&](Shape p) {
      std::vector<int64_t> order(size_t(x.shape[axis]));
      std::iota(order.begin(), order.end(), 0);
      const auto value = [&](int64_t i) { return p[axis] = i, x.at(p); };
      const auto is_less = [&](int64_t a, int64_t b) {  // NaN is above all numbers
        return value(a) < value(b) || (std::isnan(value(b)) && !std::isnan(value(a)));
      };
      std::stable_sort(order.begin(), order.end(),
                       [&](int64_t a, int64_t b) { return is_ascend ? is_less(a, b) : is_less(b, a); });
      order.resize(size_t(k));
      p[axis] = 0;
      visit(p, order);
    });
  }
  Host values(const Host& x, bool of_indices, std::optional<DType> dtype = {}) const {
    Host y = zeros(x.shape);
    y.shape[axis] = k;
    y.values.resize(size_t(y.shape.size()));
    y.dtype = dtype;
    each_row(x, [&](Shape p, const std::vector<int64_t>& order) {
      for (int64_t j = 0; j < k; ++j) {
        Shape from = p, to = p;
        from[axis] = order[size_t(j)], to[axis] = j;
        y.at(to) = of_indices ? double(order[size_t(j)]) : x.at(from);
      }
    });
    return y;
  }
  Host mask(const Host& x) const {
    Host y = zeros(x.shape);
    each_row(x, [&](Shape p, const std::vector<int64_t>& order) {
      for (int64_t i : order) p[axis] = i, y.at(p) = 1;
    });
    return y;
  }
};

Host flattened(Host x, const std::optional<int>& axis) {
  if (!axis) x.shape = Shape(x.size());
  return x;
}

void top_k(Rows& rows, const op::TopK& op, const Shape& data, Fill fill = Fill::distinct) {
  const int n = op.axis ? data.ndim() : 1, axis = op.axis ? (*op.axis + n) % n : 0;
  const int64_t length = op.axis ? data[axis] : data.size();
  rows.emplace_back(
      op, std::vector{in(data, fill)},
      [=](const Hosts& in) {
        const Ordered ordered{axis, op.k < 1 ? length : op.k, op.is_ascend};
        const Host x = flattened(in[0], op.axis);
        if (op.ret_typ == TopKReturn::mask) {
          Host y = ordered.mask(x);
          y.shape = data;
          return Hosts{y};
        }
        Hosts results;
        if (op.ret_typ != TopKReturn::indices) results.push_back(ordered.values(x, false));
        if (op.ret_typ != TopKReturn::value) results.push_back(ordered.values(x, true, op.dtype));
        return results;
      },
      RowOptions{.dtypes = numbers,
                 .differentiate = op.ret_typ == TopKReturn::value || op.ret_typ == TopKReturn::both});
}

template <class Op>
void in_order(Rows& rows, const Op& op, const Shape& data, Fill fill = Fill::distinct) {
  constexpr bool is_indices = std::is_same_v<Op, op::ArgSort>;
  const int n = op.axis ? data.ndim() : 1, axis = op.axis ? (*op.axis + n) % n : 0;
  const int64_t length = op.axis ? data[axis] : data.size();
  rows.emplace_back(
      op, std::vector{in(data, fill)},
      [=](const Hosts& in) {
        std::optional<DType> dtype;
        if constexpr (is_indices) dtype = op.dtype;
        return Ordered{axis, length, op.is_ascend}.values(flattened(in[0], op.axis), is_indices, dtype);
      },
      RowOptions{.dtypes = numbers, .differentiate = !is_indices});
}

void order(Rows& rows, const op::Order& op, const Shape& data) {
  rows.emplace_back(
      op, std::vector{in(data, Fill::distinct)},
      [=](const Hosts& in) {
        const int64_t end = op.k > 0 ? op.first + op.k : data.back();
        const Ordered ordered{data.ndim() - 1, end, op.is_ascend};
        const auto rest = [&](const Host& h) {
          Host y = generate(with(h.shape, -1, end - op.first),
                            [&](const Shape& p) { return h.at(with(p, -1, p[p.ndim() - 1] + op.first)); });
          y.dtype = h.dtype;
          return y;
        };
        return Hosts{rest(ordered.values(in[0], false)), rest(ordered.values(in[0], true, DType::int64))};
      },
      RowOptions{.dtypes = numbers});
}

}  // namespace

Rows composed_rows() {
  Rows rows;
  for (double eps : {1e-3, 0.125}) {
    instance_norm(rows, {.eps = eps}, {2, 3, 4, 5});
    instance_norm(rows, {.eps = eps}, {1, 2, 7});
    group_norm(rows, {.num_groups = 2, .eps = eps}, {2, 4, 3, 3});
    group_norm(rows, {.eps = eps}, {1, 3, 5});
    group_norm(rows, {.num_groups = 3, .eps = eps}, {2, 3, 1, 2, 3});
  }
  instance_norm(rows, {}, {0, 3, 4, 5});
  group_norm(rows, {.num_groups = 2}, {0, 4, 5});
  group_norm(rows, {.num_groups = 2, .output_mean_var = true}, {2, 4, 3});
  for (L2Mode mode : {L2Mode::instance, L2Mode::channel, L2Mode::spatial}) {
    l2(rows, {.mode = mode}, {2, 3, 4, 5});
    l2(rows, {.eps = 0.25, .mode = mode}, {1, 2, 7});
    l2(rows, {.mode = mode}, {2, 0, 4});
  }
  l2(rows, {}, {5});
  l2(rows, {}, {3, 4});
  lrn(rows, {.nsize = 3}, {2, 5, 3, 4});
  lrn(rows, {.alpha = 0.5, .beta = 0.5, .knorm = 1, .nsize = 5}, {1, 3, 5, 1});
  lrn(rows, {.alpha = 0.1, .nsize = 1}, {2, 7});
  lrn(rows, {.nsize = 3}, {0, 5, 3, 4});
  rms_norm(rows, {}, {3, 5});
  rms_norm(rows, {.axis = 1, .eps = 0.25}, {1, 3, 4});
  rms_norm(rows, {}, {0, 4});
  batch_norm(rows, op::SyncBatchNorm{}, {3, 2, 4}, false);
  for (bool training : {false, true}) {
    batch_norm(rows, op::BatchNormWithReLU{}, {3, 2, 5}, training);
    batch_norm(rows, op::BatchNormWithReLU{.eps = 0.125, .momentum = 0.5, .fix_gamma = false}, {5, 3}, training);
    batch_norm(rows, op::BatchNormWithReLU{.use_global_stats = true, .output_mean_var = true, .axis = -2}, {1, 3, 5},
               training);
  }
  batch_norm(rows, op::BatchNormWithReLU{}, {0, 3, 1}, false);
  for (bool training : {false, true}) {
    batch_norm(rows, op::SyncBatchNorm{.eps = 0.125, .momentum = 0.5, .fix_gamma = false}, {3, 2, 4, 3}, training);
  }
  batch_norm(rows, op::SyncBatchNorm{.use_global_stats = true, .ndev = 2, .key = {"norm"}}, {2, 3, 1}, true);
  batch_norm(rows, op::SyncBatchNorm{}, {0, 3, 1}, false);
  batch_norm(rows, op::SyncBatchNorm{}, {1, 3, 5}, false);
  batch_norm(rows, op::SyncBatchNorm{.output_mean_var = true}, {3, 2, 4}, true);
  batch_norm(rows, op::SyncBatchNorm{.fix_gamma = false, .output_mean_var = true}, {2, 3, 1}, false);
  moments(rows, {.axes = {0, 2}}, {2, 3, 4}, Shape(3));
  moments(rows, {.axes = {-1}, .keepdims = true}, {3, 5}, {3, 1});
  moments(rows, {.axes = {0}}, {7}, Shape(1));
  moments(rows, {.axes = {1, 2}}, {1, 3, 5}, Shape(1));
  moments(rows, {.axes = {1}}, {0, 3}, Shape(0));
  scores<op::SelfAttentionQK>(rows, 2, {{3, 2, 24}});
  scores<op::SelfAttentionQK>(rows, 1, {{5, 1, 9}});
  scores<op::SelfAttentionQK>(rows, 3, {{1, 2, 9}});
  scores<op::SelfAttentionQK>(rows, 2, {{3, 0, 12}});
  scores<op::EncoderDecoderQK>(rows, 2, {{5, 2, 6}, {3, 2, 12}});
  scores<op::EncoderDecoderQK>(rows, 1, {{1, 3, 2}, {4, 3, 4}});
  scores<op::EncoderDecoderQK>(rows, 2, {{0, 2, 6}, {3, 2, 12}});
  weighted<op::SelfAttentionValue>(rows, 2, 3, {3, 2, 24}, 3);
  weighted<op::SelfAttentionValue>(rows, 1, 3, {1, 1, 9}, 1);
  weighted<op::SelfAttentionValue>(rows, 2, 3, {3, 0, 12}, 3);
  weighted<op::EncoderDecoderValue>(rows, 2, 2, {3, 2, 12}, 5);
  weighted<op::EncoderDecoderValue>(rows, 1, 2, {4, 3, 4}, 1);
  weighted<op::EncoderDecoderValue>(rows, 1, 2, {1, 3, 4}, 3);
  weighted<op::EncoderDecoderValue>(rows, 2, 2, {3, 2, 12}, 0);
  for (const Shape& s : {Shape(2, 3, 4), Shape(1, 5), Shape(0, 3), Shape(7), Shape()}) {
    if (s.ndim() > 0)
      rows.emplace_back(op::DivSqrtDim{}, std::vector{in(s)}, [=](const Hosts& in) {
        return generate(s, [&](const Shape& p) { return in[0].at(p) / std::sqrt(double(s.back())); });
      });
    rows.emplace_back(
        op::ShapeArray{}, std::vector{in(s)},
        [=](const Hosts&) {
          Host y{.shape = Shape(s.ndim()), .values = std::vector<double>(size_t(s.ndim())), .dtype = DType::int64};
          for (int i = 0; i < s.ndim(); ++i) y.values[size_t(i)] = double(s[i]);
          return y;
        },
        RowOptions{.dtypes = every_dtype, .differentiate = false});
    rows.emplace_back(
        op::SizeArray{}, std::vector{in(s)},
        [=](const Hosts&) { return Host{.shape = Shape(1), .values = {double(s.size())}, .dtype = DType::int64}; },
        RowOptions{.dtypes = every_dtype, .differentiate = false});
    arange_like(rows, {}, s);
  }
  arange_like(rows, {.start = 2, .step = 3, .axis = -1}, {2, 5});
  arange_like(rows, {.start = 7, .step = -1, .repeat = 2, .axis = 0}, {5, 1});
  arange_like(rows, {.repeat = 5}, {2, 3, 4});
  sequence(rows, op::SequenceLast{}, {3, 2, 2});
  sequence(rows, op::SequenceLast{.axis = 1}, {3, 5});
  sequence(rows, op::SequenceLast{.axis = 1}, {1, 5, 3}, {4});
  sequence(rows, op::SequenceLast{}, {4, 3, 2}, {1, 4, 2});
  sequence(rows, op::SequenceLast{.axis = 1}, {3, 4, 1}, {3, 9, 0});
  sequence(rows, op::SequenceLast{}, {4, 2, 0}, {1, 4});
  sequence(rows, op::SequenceReverse{}, {3, 2, 2});
  sequence(rows, op::SequenceReverse{}, {1, 3, 2});
  sequence(rows, op::SequenceReverse{}, {5, 3}, {1, 5, 2});
  sequence(rows, op::SequenceReverse{}, {4, 3, 1}, {0, 9, 3});
  sequence(rows, op::SequenceReverse{}, {4, 2, 0}, {1, 4});
  for (bool is_ascend : {false, true}) {
    order(rows, {.is_ascend = is_ascend}, {3, 7});
    order(rows, {.k = 2, .is_ascend = is_ascend}, {1, 2, 5});
    order(rows, {.k = 1, .is_ascend = is_ascend}, {129});
    for (TopKReturn ret_typ : {TopKReturn::value, TopKReturn::indices, TopKReturn::mask, TopKReturn::both}) {
      top_k(rows, {.k = 2, .ret_typ = ret_typ, .is_ascend = is_ascend}, {3, 5});
      top_k(rows, {.ret_typ = ret_typ, .is_ascend = is_ascend}, {1, 7});
      top_k(rows, {.axis = 1, .k = 0, .ret_typ = ret_typ, .is_ascend = is_ascend}, {2, 3, 4});
      top_k(rows, {.axis = std::nullopt, .k = 3, .ret_typ = ret_typ, .is_ascend = is_ascend, .dtype = DType::int32},
            {2, 7});
    }
    in_order(rows, op::Sort{.is_ascend = is_ascend}, {3, 5});
    in_order(rows, op::Sort{.is_ascend = is_ascend}, {1, 9});
    in_order(rows, op::Sort{.axis = 0, .is_ascend = is_ascend}, {4, 1, 3});
    in_order(rows, op::Sort{.axis = std::nullopt, .is_ascend = is_ascend}, {2, 3});
    in_order(rows, op::ArgSort{.is_ascend = is_ascend}, {3, 5});
    in_order(rows, op::ArgSort{.is_ascend = is_ascend}, {1, 9});
    in_order(rows, op::ArgSort{.axis = -2, .is_ascend = is_ascend, .dtype = DType::int64}, {4, 1, 3}, Fill::normal);
    in_order(rows, op::ArgSort{.axis = std::nullopt, .is_ascend = is_ascend}, {2, 3});
  }
  order(rows, {}, {0, 4}), order(rows, {.first = 2}, {3, 5}),
      order(rows, {.k = 2, .is_ascend = false, .first = 3}, {2, 7});
  order(rows, {.first = 3}, {2, 3});
  top_k(rows, {}, {0, 4});
  in_order(rows, op::Sort{}, {2, 0});
  in_order(rows, op::ArgSort{}, {0, 4});
  return rows;
}

}  // namespace kaon::test
