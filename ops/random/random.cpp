#include "kaon/ops/random/random.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>
#include <utility>

#include "kaon/ops/functions.h"
#include "kaon/ops/math/dispatch.h"
#include "kaon/ops/op_def.h"
#include "kaon/ops/random/kernels/draws.h"
#include "kaon/ops/random/kernels/random_kernel.h"
#include "kaon/ops/random/kernels/random_math.h"
#include "kaon/ops/random/kernels/random_words.h"

namespace kaon {

using namespace ops;
namespace {

void set_drawn(InferContext& c, const Shape& shape, DType dtype, bool allowed) {
  if (!shape.is_known()) c.fail("shape must have no unknown dimension, got " + shape.str());
  if (!allowed) c.fail_dtype("is not implemented for dtype " + to_text(dtype));
  c.set_output(shape, dtype);
}

double largest(DType floating) {
  switch (floating) {
    case DType::float64: return std::numeric_limits<double>::max();
    case DType::float16: return 65504;
    case DType::bfloat16: return 0x1.fep127;
    default: return std::numeric_limits<float>::max();
  }
}

// The integers from 0 up to this one are all values of the dtype.
int64_t consecutive_integers(DType t) {
  switch (t) {
    case DType::boolean: return 1;
    case DType::int8: return INT8_MAX;
    case DType::uint8: return UINT8_MAX;
    case DType::int16: return INT16_MAX;
    case DType::uint16: return UINT16_MAX;
    case DType::int32: return INT32_MAX;
    case DType::uint32: return UINT32_MAX;
    case DType::int64:
    case DType::uint64: return INT64_MAX;
    case DType::float16: return 1 << 11;
    case DType::bfloat16: return 1 << 8;
    case DType::float32: return 1 << 24;
    case DType::float64: return int64_t(1) << 53;
  }
  return 0;
}

}  // namespace

constinit const OpDef op::RandomUniform::def = make_op_def<op::RandomUniform>();
constinit const OpDef op::RandomNormal::def = make_op_def<op::RandomNormal>();
constinit const OpDef op::RandomRandint::def = make_op_def<op::RandomRandint>();
constinit const OpDef op::SampleMultinomial::def = make_op_def<op::SampleMultinomial>();
constinit const OpDef op::Shuffle::def = make_op_def<op::Shuffle>();

void op::RandomUniform::infer(InferContext& c) const {
  if (!(low <= high) || !std::isfinite(high - low)) {
    c.fail_value("low must not exceed high, got " + to_text(low) + " and " + to_text(high));
  }
  const DType type = dtype.value_or(DType::float32);
  set_drawn(c, shape, type, is_floating(type));
  const double most = largest(type);
  if (low < -most || high > most) {
    c.fail_value("low and high must be values of dtype " + to_text(type) + ", got " + to_text(low) + " and " +
                 to_text(high));
  }
}

void run_cpu(const op::RandomUniform& op, KernelContext& c) {
  const TensorView out = c.out();
  c.run.parallel_for(random_chunks(out.size()), 16, [&](int64_t begin, int64_t end) {
    uniform_chunks(c.random, op.low, op.high, out.dtype, out.data, out.size(), begin, end);
  });
}

void op::RandomNormal::infer(InferContext& c) const {
  const DType type = dtype.value_or(DType::float32);
  set_drawn(c, shape, type, is_floating(type));
}

void run_cpu(const op::RandomNormal& op, KernelContext& c) {
  expect_scale(op.scale);
  const TensorView out = c.out();
  c.run.parallel_for(random_chunks(out.size()), 8, [&](int64_t begin, int64_t end) {
    normal_chunks(c.random, op.loc, op.scale, out.dtype, out.data, out.size(), begin, end);
  });
}

void op::RandomRandint::infer(InferContext& c) const {
  if (low >= high) c.fail_value("low must be below high, got " + to_text(low) + " and " + to_text(high));
  const DType type = dtype.value_or(DType::int32);
  set_drawn(c, shape, type, !is_floating(type) && type != DType::boolean);
  const int64_t largest = consecutive_integers(type), smallest = is_unsigned(type) ? 0 : -largest - 1;
  if (low < smallest || high - 1 > largest) {
    c.fail_value("low and high must fit " + to_text(type) + "; give .dtype = int64");
  }
}

void run_cpu(const op::RandomRandint& op, KernelContext& c) {
  const TensorView out = c.out();
  const int64_t n = out.size();
  const uint64_t range = uint64_t(op.high) - uint64_t(op.low);
  // two words for each element, so that every range is served
  constexpr int64_t chunk = 512;
  c.run.parallel_for((n + chunk - 1) / chunk, 16, [&](int64_t begin, int64_t end) {
    alignas(64) uint32_t words[2 * chunk], below[chunk];
    for (int64_t piece = begin; piece < end; ++piece) {
      const int64_t first = piece * chunk, count = std::min(chunk, n - first);
      random_words(c.random, uint64_t(first / 2), (count + 1) / 2, words);
      const bool is_narrow = range <= UINT32_MAX;
      if (is_narrow) words_below(words, count, uint32_t(range), below);
      const auto fill = [&]<class T>(T* to) {
        if (is_narrow) {
          for (int64_t i = 0; i < count; ++i) to[i] = T(uint64_t(op.low) + below[i]);
          return;
        }
        for (int64_t i = 0; i < count; ++i) {
          to[i] = T(uint64_t(op.low) + uniform_below(words[2 * i], words[2 * i + 1], range));
        }
      };
      switch (size_of(out.dtype)) {
        case 1: fill(out.as<int8_t>() + first); break;
        case 2: fill(out.as<int16_t>() + first); break;
        case 4: fill(out.as<int32_t>() + first); break;
        default: fill(out.as<int64_t>() + first);
      }
    }
  });
}

void op::SampleMultinomial::infer(InferContext& c) const {
  c.expect_floating();
  const Shape& data = c.shape(0);
  if (data.ndim() == 0) c.fail("data must be (..., k), got " + data.str());
  if (data.back() == 0) c.fail("needs at least one class, got " + data.str());
  if (data.back() - 1 > consecutive_integers(dtype)) {
    c.fail_dtype("classes up to " + to_text(data.back() - 1) + " are no values of dtype " + to_text(dtype));
  }
  if (!shape.is_known()) c.fail("shape must have no unknown dimension, got " + shape.str());
  Shape out;
  for (int i = 0; i + 1 < data.ndim(); ++i) out.push_back(data[i]);
  for (int64_t d : shape) out.push_back(d);
  if (out.empty()) out = Shape(1);
  c.set_output(0, out, dtype);
  if (get_prob) c.set_output(1, out, c.dtype());
}

// The derivative of log p is 1 / p, added up for each class over the draws that gave it.
void op::SampleMultinomial::grad(GradContext& g) const {
  if (!g.wants(0)) return;
  const NDArray& data = g.input(0);
  const int64_t k = data.shape().back(), rows = data.size() / k, draws = shape.size(), n = rows * draws;
  if (!get_prob || !g.has_head(1) || n == 0) return g.set(0, nd.zeros_like(data));
  const auto flat = [](const NDArray& x, int64_t size) { return nd._reshape_to(x, {.shape = Shape(size)}); };
  const NDArray classes = nd.cast(flat(g.output(0), n), DType::int64);
  const NDArray places = nd.arange_like(classes, {.step = double(k), .repeat = int(draws)}) + classes;
  const NDArray drawn = nd.take(flat(data, rows * k), places);
  const NDArray gradient = nd._backward_take(flat(g.head(1), n) / drawn, places, {.shape = Shape(rows * k)});
  g.set(0, nd._reshape_to(gradient, {.shape = data.shape()}));
}

void run_cpu(const op::SampleMultinomial& op, KernelContext& c) {
  const TensorView data = c.in(0), out = c.out();
  const int64_t k = data.shape.back(), rows = data.size() / k, draws = op.shape.size();
  double* sums = static_cast<double*>(c.run.workspace(sizeof(double) * size_t(std::max<int64_t>(1, data.size()))));
  const int64_t row_grain = std::max<int64_t>(1, 8192 / (k + draws));
  const DrawParameter probabilities{data.data, data.dtype};
  const DrawnNumbers log_probabilities(op.get_prob ? c.out(1) : TensorView());
  dispatch_float("_sample_multinomial", data.dtype, [&]<class T>() {
    c.run.parallel_for(rows, row_grain, [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) {
        double sum = 0;
        for (int64_t i = row * k; i < (row + 1) * k; ++i) {
          const double p = double(accumulate_t<T>(data.as<T>()[i]));
          if (!(p >= 0))
            throw ValueError("[_sample_multinomial] probabilities must not be negative, got " + to_text(p));
          sums[i] = sum += p;
        }
        if (!(sum > 0) || !std::isfinite(sum)) {
          throw ValueError("[_sample_multinomial] probabilities must have a positive finite sum, got " + to_text(sum));
        }
      }
    });
  });
  dispatch_all("_sample_multinomial", as_signed(out.dtype), [&]<class T>() {
    c.run.parallel_for(rows * draws, 4096, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const double* row = sums + i / draws * k;
        const Philox4 w = random_block(c.random.seed, c.random.offset, uint64_t(i));
        const double u = uniform_double(w.v[0], w.v[1]) * row[k - 1];
        const int64_t drawn = std::min<int64_t>(k - 1, std::upper_bound(row, row + k, u) - row);
        out.as<T>()[i] = T(accumulate_t<T>(drawn));
        if (op.get_prob) log_probabilities.set(i, ::log(probabilities[i / draws * k + drawn]));
      }
    });
  });
}

void op::Shuffle::infer(InferContext& c) const {
  c.expect_ndim_at_least(0, 1);
  c.set_output(c.shape(0), c.dtype());
}

void run_cpu(const op::Shuffle&, KernelContext& c) {
  const TensorView in = c.in(0), out = c.out();
  const int64_t rows = in.shape[0];
  if (in.size() == 0) return;
  const size_t row_bytes = in.bytes() / size_t(rows);
  int64_t* order = static_cast<int64_t*>(c.run.workspace(sizeof(int64_t) * size_t(rows)));
  std::iota(order, order + rows, int64_t(0));
  constexpr int64_t chunk = 256;  // rows whose words are drawn together, a block of four for each
  alignas(64) uint32_t words[4 * chunk];
  for (int64_t first = 0; first + 1 < rows; first += chunk) {
    const int64_t last = std::min(rows - 1, first + chunk);
    random_words(c.random, uint64_t(first), last - first, words);
    for (int64_t i = first; i < last; ++i) {
      const uint32_t* const w = words + 4 * (i - first);
      std::swap(order[i], order[i + int64_t(uniform_below(w[0], w[1], uint64_t(rows - i)))]);
    }
  }
  const int64_t grain = std::max<int64_t>(1, int64_t(131072 / row_bytes));
  c.run.parallel_for(rows, grain, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      memcpy(out.as<char>() + size_t(i) * row_bytes, in.as<char>() + size_t(order[i]) * row_bytes, row_bytes);
    }
  });
}

}  // namespace kaon
