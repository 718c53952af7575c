// Normalisations and dropout.
#include <fmt/format.h>

#include <numeric>

#include "kaon/interchange/onnx/convert/families.h"
#include "kaon/interchange/onnx/operators/helpers.h"

namespace kaon::onnx::convert {

namespace {

// X, scale, B, mean, var
void batch_norm(Call& c) {
  const double eps = c.real("epsilon", 1e-5f), momentum = c.real("momentum", 0.9f);
  const Symbol& x = c.x();
  const int rank = c.rank();
  const bool trains = c.integer("training_mode", 0) != 0 && c.opset() >= 14;
  const bool is_layer = c.input(3).is_parameter && c.input(4).is_parameter && rank >= 2;
  if (is_layer) {  // trained further, it updates its statistics; else it uses them, whatever training_mode says
    c.set(sym.BatchNorm(x, c.x(1), c.x(2), c.x(3), c.x(4), {.eps = eps, .momentum = momentum, .fix_gamma = false}));
    if (!trains) return;
  }
  const int axis = rank >= 2 ? 1 : 0;
  const DType wide = dtype_of(x) == DType::float64 ? DType::float64 : DType::float32;
  Symbol mean = c.x(3), var = c.x(4);
  if (trains) {
    Shape others;
    for (int i = 0; i < rank; ++i) {
      if (i != axis) others.push_back(i);
    }
    const std::vector<Symbol> m = sym.moments(cast(x, wide), {.axes = others});
    const auto running = [&](int i, const Symbol& now) {
      return cast(cast(c.x(i), wide) * momentum + now * (1 - momentum), c.dtype(i));
    };
    c.set(1, running(3, m[0]));
    c.set(2, running(4, m[1]));
    if (!c.input(3).is_constant() || !c.input(4).is_constant()) mean = m[0], var = m[1];
  }
  if (is_layer) return;
  const auto channels = [&](const Symbol& s) { return per_channel(cast(s, wide), rank, axis); };
  const Symbol scale = sym.broadcast_div(channels(c.x(1)), sym.sqrt(channels(var) + eps));
  const Symbol y =
      sym.broadcast_add(sym.broadcast_mul(sym.broadcast_sub(cast(x, wide), channels(mean)), scale), channels(c.x(2)));
  c.set(0, cast(y, c.dtype()));
}

void instance_norm(Call& c) { c.set(sym.InstanceNorm(c.x(0), c.x(1), c.x(2), {.eps = c.real("epsilon", 1e-5f)})); }

// Rows over all axes from `axis` on, in float32 where stash_type says so.
struct Rows {
  int axis;
  int64_t rows, length;
  DType dtype;  // that statistics are computed in
  Symbol x;
};

Rows rows_of(const Call& c) {
  Rows r;
  r.axis = c.axis("axis", -1, c.rank());
  r.rows = c.shape().product(0, r.axis);
  r.length = c.shape().product(r.axis, c.rank());
  r.dtype = c.integer("stash_type", 1) == 1 && dtype_of(c.x()) != DType::float64 ? DType::float32 : c.dtype();
  r.x = reshaped(cast(c.x(), r.dtype), Shape(r.rows, r.length));
  return r;
}

// Whether the array's elements are those of the normalised axes.
bool is_row(const Call& c, int i, const Rows& r) {
  if (!c.has(i)) return false;
  const Shape& s = c.shape(i);
  if (s.ndim() != c.rank() - r.axis) return false;
  for (int k = 0; k < s.ndim(); ++k) {
    if (s[k] != c.shape()[r.axis + k]) return false;
  }
  return true;
}

void layer_norm(Call& c) {
  const Rows r = rows_of(c);
  const bool direct = is_row(c, 1, r) && (!c.has(2) || is_row(c, 2, r));
  const Shape length(r.length);
  const Symbol gamma = direct ? cast(reshaped(c.x(1), length), r.dtype) : full(length, 1, r.dtype);
  const Symbol beta = direct && c.has(2) ? cast(reshaped(c.x(2), length), r.dtype) : full(length, 0, r.dtype);
  const op::LayerNorm op{.axis = 1, .eps = c.real("epsilon", 1e-5f)};
  Symbol y;
  if (c.wants(1) || c.wants(2)) {
    const std::vector<Symbol> all = sym.LayerNorm_mean_var(r.x, gamma, beta, op);
    y = all[0];
    Shape s;
    for (int i = 0; i < c.rank(); ++i) s.push_back(i < r.axis ? c.shape()[i] : 1);
    c.set(1, reshaped(all[1], s));
    c.set(2, sym.reciprocal(reshaped(all[2], s)));
  } else {
    y = sym.LayerNorm(r.x, gamma, beta, op);
  }
  y = cast(reshaped(y, c.shape()), c.dtype());
  if (!direct) {
    y = sym.broadcast_mul(y, c.x(1));
    if (c.has(2)) y = sym.broadcast_add(y, c.x(2));
  }
  c.set(0, y);
}

void rms_norm(Call& c) {
  const Rows r = rows_of(c);
  const bool direct = is_row(c, 1, r);
  const Symbol gamma = direct ? cast(reshaped(c.x(1), Shape(r.length)), r.dtype) : full(Shape(r.length), 1, r.dtype);
  Symbol y = sym.RMSNorm(r.x, gamma, {.axis = 1, .eps = c.real("epsilon", 1e-5f)});
  y = cast(reshaped(y, c.shape()), c.dtype());
  c.set(direct ? y : sym.broadcast_mul(y, c.x(1)));
}

// X, scale, bias: of each channel from version 21 on, before of each group.
void group_norm(Call& c) {
  const int64_t groups = c.integer("num_groups", 1);
  const Shape& s = c.shape();
  const int64_t n = s[0], channels = s[1];
  if (groups < 1 || channels % groups != 0) c.fail(fmt::format("{} groups of {} channels", groups, channels));
  const int64_t length = s.size() / std::max<int64_t>(1, n * groups);
  const DType dtype = dtype_of(c.x()) == DType::float64 ? DType::float64 : DType::float32;
  const Symbol x = reshaped(cast(c.x(), dtype), Shape(n * groups, length));
  const Symbol y = sym.LayerNorm(x, full(Shape(length), 1, dtype), full(Shape(length), 0, dtype),
                                 {.axis = 1, .eps = c.real("epsilon", 1e-5f)});
  const auto by_channel = [&](int i) {
    Symbol v = c.x(i);
    if (shape_of(v).size() == groups && groups != channels) {
      v = reshaped(broadcast(reshaped(v, Shape(groups, 1)), Shape(groups, channels / groups)), Shape(channels));
    }
    return per_channel(v, c.rank());
  };
  c.set(sym.broadcast_add(sym.broadcast_mul(cast(reshaped(y, s), c.dtype()), by_channel(1)), by_channel(2)));
}

void lp_normalization(Call& c) {
  const int axis = c.axis("axis", -1, c.rank());
  const Symbol& x = c.x();
  const op::Sum over{.axis = Shape(axis), .keepdims = true};
  const Symbol norm = c.integer("p", 2) == 1 ? sym.sum(sym.abs(x), over) : sym.sqrt(sym.sum(sym.square(x), over));
  const Symbol zero = norm == 0;
  c.set(sym.broadcast_div(x, norm + zero));  // x is 0 there
}

void mean_variance(Call& c) {
  const std::vector<int64_t> axes = c.integers("axes", {0, 2, 3});
  const op::Mean over{.axis = as_shape(axes), .keepdims = true};
  const Symbol& x = c.x();
  const Symbol mean = sym.mean(x, over);
  const Symbol var = sym.mean(sym.square(x), over) - sym.square(mean);
  c.set(sym.broadcast_div(sym.broadcast_sub(x, mean), sym.sqrt(var) + 1e-9));
}

void lrn(Call& c) {
  const int64_t size = c.integer("size", 1);
  const double alpha = c.real("alpha", 1e-4f), beta = c.real("beta", 0.75), bias = c.real("bias", 1);
  if (size % 2 == 1) {
    return c.set(sym.LRN(c.x(), {.alpha = alpha, .beta = beta, .knorm = bias, .nsize = int(size)}));
  }
  // (size - 1) / 2 channels before, rounded down, and after, rounded up
  std::vector<int64_t> before(size_t(c.rank()), 0), after = before;
  before[1] = (size - 1) / 2, after[1] = size / 2;
  const Symbol squares = padded(sym.square(c.x()), before, after);
  Symbol sum = slice_along(squares, 1, 0, c.shape()[1]);
  for (int64_t i = 1; i < size; ++i) sum = sum + slice_along(squares, 1, i, i + c.shape()[1]);
  c.set(c.x() / sym.power(sum * (alpha / double(size)) + bias, beta));
}

// The mask says what is kept: everything, in prediction.
void dropout(Call& c) {
  double ratio = 0.5;
  bool trains = false;
  if (c.opset() >= 12) {
    if (c.has(1)) ratio = c.number(1);
    trains = c.has(2) && c.number(2) != 0;
  } else {
    ratio = c.real("ratio", 0.5);
    if (c.opset() < 7) trains = c.integer("is_test", 0) == 0;
  }
  const DType mask = c.opset() >= 10 ? DType::boolean : c.dtype();
  if (trains && ratio > 0 && c.wants(1)) {
    const Symbol kept = cast(sym.random_uniform_like(cast(c.x(), DType::float32)) >= ratio, DType::boolean);
    c.set(1, kept);
    return c.set(0, sym.broadcast_mul(c.x(), cast(kept, c.dtype())) * (1 / (1 - ratio)));
  }
  // drops in training alone
  c.set(0, trains && ratio > 0 ? sym.Dropout(c.x(), {.p = ratio}) : sym.identity(c.x()));
  if (c.wants(1)) c.set(1, cast(full(c.rank() == 0 ? Shape() : c.shape(), 1, DType::uint8), mask));
}

constexpr Row normalization_table[] = {
    {"BatchNormalization", batch_norm},
    {"InstanceNormalization", instance_norm},
    {"LayerNormalization", layer_norm},
    {"RMSNormalization", rms_norm},
    {"GroupNormalization", group_norm},
    {"LpNormalization", lp_normalization},
    {"MeanVarianceNormalization", mean_variance},
    {"LRN", lrn},
    {"Dropout", dropout},
};

}  // namespace

std::span<const Row> normalization_rows() { return normalization_table; }

}  // namespace kaon::onnx::convert
