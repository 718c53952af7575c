// Rows of the test table: attention, its cache and rotary positions.
#include <algorithm>
#include <cmath>
#include <limits>

#include "kaon/ops/nn/attention/attention.h"
#include "kaon/ops/nn/attention/kernels/attention_call.h"
#include "kaon/tests/ops/table/op_table.h"

namespace kaon::test {
namespace {

constexpr double inf = std::numeric_limits<double>::infinity();

// Query i of one head: the weights of the keys that it may look at, and the logarithm of their sum.
struct Weights {
  std::vector<double> of;
  double logsum;
};

template <class Op>
struct Attention {
  Op op;
  const Host &query, &key, &value;
  const Host *mask, *lengths;

  int64_t samples() const { return query.shape[0]; }
  int64_t heads() const { return query.shape[1]; }
  int64_t shared(int64_t h) const { return h / (heads() / key.shape[1]); }
  double scale() const { return op.scale.value_or(query.shape[3] > 0 ? 1 / std::sqrt(double(query.shape[3])) : 1.0); }
  int64_t seen(int64_t b, int64_t i) const {
    const int64_t m = key.shape[2];
    int64_t length = m;
    if (lengths) {
      const double given = lengths->at(Shape(b));
      length = std::isnan(given) ? 0 : int64_t(std::clamp(given, 0.0, double(m)));
    }
    if (op.causal == CausalMask::upper_left) return std::min(length, i + 1);
    if (op.causal == CausalMask::lower_right) return std::clamp<int64_t>(i + 1 + length - query.shape[2], 0, length);
    return length;
  }
  double score(int64_t b, int64_t h, int64_t i, int64_t j) const {
    double s = 0;
    for (int64_t k = 0; k < query.shape[3]; ++k) s += query.at({b, h, i, k}) * key.at({b, shared(h), j, k});
    s *= scale();
    if (!mask) return s;
    const Shape all{b, h, i, j};
    Shape at;
    for (int axis = 0; axis < mask->shape.ndim(); ++axis) {
      at.push_back(mask->shape[axis] == 1 ? 0 : all[axis + 4 - mask->shape.ndim()]);
    }
    if (mask->dtype == DType::boolean) return mask->at(at) != 0 ? s : -inf;
    return s + mask->at(at);
  }
  Weights weights(int64_t b, int64_t h, int64_t i) const {
    Weights w{std::vector<double>(size_t(seen(b, i))), -inf};
    double top = -inf, sum = 0;
    for (size_t j = 0; j < w.of.size(); ++j) top = std::max(top, w.of[j] = score(b, h, i, int64_t(j)));
    for (double& v : w.of) sum += v = std::exp(v - (top == -inf ? 0 : top));
    for (double& v : w.of) v = sum == 0 ? 0 : v / sum;
    w.logsum = sum == 0 ? inf : top + std::log(sum);
    return w;
  }
};

// What a call multiplies weight j of a query by, as its third output says.
struct Dropped {
  ops::AttentionDropout dropout;
  Shape queries;

  Dropped(double p, const Host* drawn, const Shape& query, int64_t m)
      : dropout(ops::attention_dropout(p, m, {})), queries(query) {
    if (p == 0) return;
    uint32_t words[ops::AttentionDropout::words];
    for (size_t i = 0; i < std::size(words); ++i) words[i] = uint32_t((*drawn)[i]);
    dropout.load(words);
  }
  double factor(int64_t b, int64_t h, int64_t i, int64_t j) const {
    return dropout.factor_of((b * queries[1] + h) * queries[2] + i, j);
  }
};

Hosts attended(const op::ScaledDotProductAttention& op, const Hosts& in, const Host* drawn = nullptr) {
  const Attention<op::ScaledDotProductAttention> a{
      op, in[0], in[1], in[2], op.use_mask ? &in[3] : nullptr, op.use_valid_length ? &in.back() : nullptr};
  const Dropped dropped(op.dropout, drawn, in[0].shape, in[1].shape[2]);
  const Shape query = in[0].shape;
  Host output = zeros({query[0], query[1], query[2], in[2].shape[3]}), logsum = zeros({query[0], query[1], query[2]});
  logsum.dtype = in[0].dtype == DType::float64 ? DType::float64 : DType::float32;
  each(logsum.shape, [&](const Shape& p) {
    const Weights w = a.weights(p[0], p[1], p[2]);
    logsum.at(p) = w.logsum;
    for (int64_t k = 0; k < output.shape[3]; ++k) {
      for (size_t j = 0; j < w.of.size(); ++j) {
        output.at({p[0], p[1], p[2], k}) +=
            w.of[j] * dropped.factor(p[0], p[1], p[2], int64_t(j)) * in[2].at({p[0], a.shared(p[1]), int64_t(j), k});
      }
    }
  });
  return {output, logsum};
}

// The gradients, by way of the weights that `logsum` says there were.
Hosts attended_back(const op::BackwardScaledDotProductAttention& op, const Hosts& in) {
  const Attention<op::BackwardScaledDotProductAttention> a{
      op, in[3], in[4], in[5], op.use_mask ? &in[6] : nullptr, op.use_valid_length ? &in[6 + op.use_mask] : nullptr};
  const Dropped dropped(op.dropout, &in.back(), in[3].shape, in[4].shape[2]);
  Host d_query = zeros(in[3].shape), d_key = zeros(in[4].shape), d_value = zeros(in[5].shape);
  each(in[2].shape, [&](const Shape& p) {
    const int64_t b = p[0], h = p[1], i = p[2], s = a.shared(h);
    double mean = 0;
    for (int64_t k = 0; k < in[0].shape[3]; ++k) mean += in[0].at({b, h, i, k}) * in[1].at({b, h, i, k});
    for (int64_t j = 0; j < a.seen(b, i); ++j) {
      const double weight = std::exp(a.score(b, h, i, j) - in[2].at(p));
      const double factor = dropped.factor(b, h, i, j);
      double slope = -mean;
      for (int64_t k = 0; k < in[0].shape[3]; ++k) {
        slope += factor * in[0].at({b, h, i, k}) * in[5].at({b, s, j, k});
        d_value.at({b, s, j, k}) += factor * weight * in[0].at({b, h, i, k});
      }
      for (int64_t k = 0; k < in[3].shape[3]; ++k) {
        d_query.at({b, h, i, k}) += weight * slope * a.scale() * in[4].at({b, s, j, k});
        d_key.at({b, s, j, k}) += weight * slope * a.scale() * in[3].at({b, h, i, k});
      }
    }
  });
  return {d_query, d_key, d_value};
}

struct Sizes {
  int64_t batch, heads, kv_heads, n, m, dim, value_dim;
};

std::vector<Input> inputs_of(const Sizes& s) {
  return {in({s.batch, s.heads, s.n, s.dim}), in({s.batch, s.kv_heads, s.m, s.dim}),
          in({s.batch, s.kv_heads, s.m, s.value_dim})};
}

// The row of the operator, and one of its gradient.
void attention(Rows& rows, op::ScaledDotProductAttention op, const Sizes& s, const std::vector<Input>& more = {}) {
  std::vector<Input> inputs = inputs_of(s);
  inputs.insert(inputs.end(), more.begin(), more.end());
  if (op.dropout == 0) {
    rows.emplace_back(
        op, inputs, [=](const Hosts& in) { return attended(op, in); }, RowOptions{.loosen = 4, .loosen_gradient = 16});
  }
  const op::BackwardScaledDotProductAttention back{.scale = op.scale,
                                                   .causal = op.causal,
                                                   .use_mask = op.use_mask,
                                                   .use_valid_length = op.use_valid_length,
                                                   .dropout = op.dropout};
  const Shape output{s.batch, s.heads, s.n, s.value_dim};
  Input logsum = constant(in({s.batch, s.heads, s.n}, Fill::above_one));
  logsum.dtype = DType::float32;  // of every dtype but float64, which the gradient of the row above has
  std::vector<Input> all{in(output), in(output), logsum};
  all.insert(all.end(), inputs.begin(), inputs.end());
  if (op.dropout > 0) all.push_back(index({5}, {7, 1, 123456789, 0, 1}, DType::uint32));
  const uint32_t narrow = floats & ~dtype_bit(DType::float64);
  rows.emplace_back(
      back, all, [=](const Hosts& in) { return attended_back(back, in); },
      RowOptions{.dtypes = narrow, .tried = narrow, .loosen = 16, .differentiate = false});
}

// A row of a call that drops, in training or not, and one of its gradient.
void dropping_attention(Rows& rows, const op::ScaledDotProductAttention& op, const Sizes& s,
                        const std::vector<Input>& more = {}) {
  std::vector<Input> inputs = inputs_of(s);
  inputs.insert(inputs.end(), more.begin(), more.end());
  for (bool training : {true, false}) {
    RowOptions options{.training = training, .differentiate = false};
    options.inspect = [=](const Hosts& in, const Hosts& outputs) -> std::string {
      const Host& drawn = outputs[2];
      if (drawn[4] != double(training)) return "says that it drops: " + std::to_string(drawn[4]);
      const Hosts expected = attended(op, in, &drawn);
      const double bound = size_of(*outputs[0].dtype) == 2 ? 0.05 : 1e-4;
      for (size_t o = 0; o < 2; ++o) {
        for (size_t i = 0; i < expected[o].values.size(); ++i) {
          const double want = expected[o].values[i], got = outputs[o].values[i];
          if (want == got || std::abs(want - got) <= bound * std::max(1.0, std::abs(want))) continue;
          return "output " + std::to_string(o) + " at " + std::to_string(i) + ": " + std::to_string(got) +
                 ", expected " + std::to_string(want);
        }
      }
      return "";
    };
    rows.emplace_back(op, inputs, Reference(), options);
  }
  attention(rows, op, s, more);
}

Input mask_of(const Shape& shape) {
  std::vector<double> values(size_t(shape.size()));
  for (size_t i = 0; i < values.size(); ++i) values[i] = double(i % 3 != 1);
  return index(shape, values, DType::boolean);
}

void attention_rows(Rows& rows) {
  using Op = op::ScaledDotProductAttention;
  attention(rows, {}, {2, 2, 2, 5, 7, 3, 4});
  attention(rows, {.scale = 0.75}, {1, 4, 2, 3, 4, 5, 2});
  attention(rows, {.scale = -0.5}, {1, 1, 1, 1, 1, 1, 1});
  for (CausalMask causal : {CausalMask::upper_left, CausalMask::lower_right}) {
    attention(rows, {.causal = causal}, {1, 2, 1, 6, 9, 4, 5});
    attention(rows, {.causal = causal}, {2, 1, 1, 8, 3, 2, 3});  // the first queries of lower_right see nothing
    attention(rows, {.causal = causal}, {1, 1, 1, 27, 29, 3, 2});
    attention(rows, {.causal = causal}, {2, 2, 1, 1, 5, 2, 2});
    attention(rows, {.causal = causal, .use_mask = true, .use_valid_length = true}, {3, 2, 2, 5, 6, 3, 2},
              {in({1, 2, 5, 6}), index(Shape(3), {4, 0, 9}, DType::int32)});
  }
  for (const Shape& mask : {Shape(2, 2, 6, 5), Shape(2, 1, 1, 5), Shape(6, 5), Shape(2, 6, 1), Shape(5), Shape(1)}) {
    attention(rows, Op{.use_mask = true}, {2, 2, 1, 6, 5, 3, 3}, {in(mask)});
    attention(rows, Op{.use_mask = true}, {2, 2, 1, 6, 5, 3, 3}, {mask_of(mask)});
  }
  attention(rows, Op{.use_mask = true}, {1, 1, 1, 2, 3, 2, 2}, {mask_of({2, 3})});
  for (DType t : {DType::float32, DType::int64, DType::float16}) {
    attention(rows, Op{.use_valid_length = true}, {3, 1, 1, 5, 4, 2, 3}, {index(Shape(3), {2, 0, 7}, t)});
  }
  dropping_attention(rows, {.dropout = 0.5}, {2, 2, 2, 5, 7, 3, 4});
  dropping_attention(rows, {.causal = CausalMask::lower_right, .dropout = 0.25}, {1, 4, 2, 27, 29, 5, 2});
  dropping_attention(rows, {.causal = CausalMask::upper_left, .dropout = 0.125}, {2, 1, 1, 3, 8, 2, 3});
  dropping_attention(rows, {.use_mask = true, .use_valid_length = true, .dropout = 0.5}, {3, 2, 2, 5, 6, 3, 2},
                     {mask_of({1, 2, 5, 6}), index(Shape(3), {4, 0, 9}, DType::int32)});
  dropping_attention(rows, {.dropout = 0.5}, {2, 2, 2, 5, 0, 2, 2});
  dropping_attention(rows, {.dropout = 0.5}, {0, 2, 1, 3, 3, 2, 2});
  for (const Sizes& s : {Sizes{0, 2, 1, 3, 3, 2, 2}, Sizes{2, 0, 0, 3, 3, 2, 2}, Sizes{2, 2, 2, 0, 3, 2, 2},
                         Sizes{2, 2, 2, 5, 0, 2, 2}, Sizes{2, 2, 2, 5, 3, 0, 2}, Sizes{2, 2, 2, 5, 3, 2, 0}}) {
    attention(rows, {}, s);
  }
}

void cache_rows(Rows& rows) {
  const auto add = [&](const Shape& cache, const Shape& data, const std::vector<double>& position) {
    RowOptions options{.dtypes = every_dtype, .differentiate = false};
    rows.emplace_back(
        op::CacheAppend{},
        std::vector{in(cache), in(data), index(Shape(int64_t(position.size())), position, DType::int32)},
        [=](const Hosts& in) {
          Host out{in[0].shape, in[0].values};
          each(data, [&](const Shape& p) {
            const double at = position[position.size() == 1 ? 0 : size_t(p[0])];
            const int64_t first = int64_t(at) + (at < 0 ? cache[2] - data[2] + 1 : 0);
            out.at({p[0], p[1], p[2] + first, p[3]}) = in[1].at(p);
          });
          return out;
        },
        options);
  };
  add({2, 3, 7, 5}, {2, 3, 2, 5}, {3, 5});
  add({2, 3, 7, 5}, {2, 3, 1, 5}, {6});
  add({1, 1, 4, 3}, {1, 1, 4, 3}, {0});
  add({2, 1, 4, 1}, {2, 1, 1, 1}, {-1, -4});
  add({1, 2, 4, 3}, {1, 2, 0, 3}, {4});
  add({0, 2, 4, 3}, {0, 2, 1, 3}, {1});
  add({1, 1, 1, 1}, {1, 1, 1, 1}, {0});
}

void rotary(Rows& rows, const op::RotaryEmbedding& given, const Shape& data, const std::vector<Input>& positions = {}) {
  op::RotaryEmbedding op = given;
  op.use_positions = !positions.empty();
  std::vector<Input> inputs{in(data)};
  inputs.insert(inputs.end(), positions.begin(), positions.end());
  rows.emplace_back(
      op, inputs,
      [=](const Hosts& in) {
        const int last = data.ndim() - 1;
        const int64_t pairs = (op.dims > 0 ? op.dims : data.back()) / 2;
        return generate(data, [&](const Shape& p) {
          const int64_t k = p[last];
          if (k >= 2 * pairs) return in[0].at(p);
          const int64_t i = op.interleaved ? k / 2 : k % pairs;
          const bool is_second = op.interleaved ? k % 2 == 1 : k >= pairs;
          double at = op.offset + double(p[last - 1]);
          if (op.use_positions) {
            at = op.offset + in[1].at(in[1].shape.ndim() == 2 ? Shape(p[0], p[last - 1]) : Shape(p[last - 1]));
          }
          const double angle = (op.inverse ? -at : at) * std::pow(op.base, -double(i) / double(pairs));
          const double x = in[0].at(with(p, last, op.interleaved ? 2 * i : i));
          const double y = in[0].at(with(p, last, op.interleaved ? 2 * i + 1 : i + pairs));
          return is_second ? x * std::sin(angle) + y * std::cos(angle) : x * std::cos(angle) - y * std::sin(angle);
        });
      },
      RowOptions{.loosen = 4, .loosen_gradient = 4});
}

void rotary_rows(Rows& rows) {
  for (bool interleaved : {false, true}) {
    rotary(rows, {.interleaved = interleaved}, {2, 3, 5, 6});
    rotary(rows, {.base = 100, .offset = 3, .dims = 4, .interleaved = interleaved}, {1, 2, 3, 7});
    rotary(rows, {.interleaved = interleaved, .inverse = true}, {37, 4});
    rotary(rows, {.interleaved = interleaved}, {2, 3, 4, 2}, {index({4}, {5, 6, 2, 3}, DType::int32)});
    rotary(rows, {.offset = 0.5, .interleaved = interleaved}, {2, 2, 3, 4}, {index({2, 3}, {0, 1, 2, 9, 4, 5})});
    rotary(rows, {.interleaved = interleaved}, {2, 3, 4}, {index({2, 3}, {0, 1, 2, 9, 4, 5}, DType::int64)});
  }
  rotary(rows, {}, {1, 2}), rotary(rows, {}, {1, 1, 1, 2}), rotary(rows, {}, {0, 2, 3, 4});
  rotary(rows, {}, {2, 0, 4}), rotary(rows, {}, {2, 3, 0});
  rotary(rows, {}, {0, 3, 4}, {index({0, 3}, std::vector<double>{})});
}

}  // namespace

Rows attention_rows() {
  Rows rows;
  attention_rows(rows);
  cache_rows(rows);
  rotary_rows(rows);
  return rows;
}

}  // namespace kaon::test
