// Pooling of levels.
#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "kaon/ops/kernels/scratch.h"
#include "kaon/ops/nn/pooling/kernels/pooling_window.h"
#include "kaon/ops/op_def.h"
#include "kaon/ops/quant/kernels/quant_infer.h"
#include "kaon/ops/quant/kernels/quant_values.h"
#include "kaon/ops/quant/kernels/ranges.h"

namespace kaon {

using namespace ops;
namespace {

// The elements of an axis under a window.
struct Span {
  int64_t begin, end;
  Span(int64_t window, int64_t kernel, int64_t stride, int64_t pad, int64_t size)
      : begin(std::clamp<int64_t>(window * stride - pad, 0, size)),
        end(std::clamp<int64_t>(window * stride - pad + kernel, 0, size)) {}
  int64_t size() const { return end - begin; }
};

struct PoolPlane {
  PoolWindows w;
  int64_t height, width;
  bool count_pad;

  Span rows(int64_t y) const { return {y, w.kernel[0], w.stride[0], w.pad[0], height}; }
  Span columns(int64_t x) const { return {x, w.kernel[1], w.stride[1], w.pad[1], width}; }
};

// One image of one channel. First the rows under a window become one, then what is side by side in it.
template <class T, bool is_max>
void pool(const PoolPlane& p, const T* from, T* to) {
  using Sum = std::conditional_t<is_max, T, int32_t>;
  Scratch memory(size_t(p.width) * sizeof(Sum));
  Sum* const line = memory.as<Sum>();
  const auto take = [](Sum a, Sum b) { return is_max ? std::max(a, b) : Sum(a + b); };
  for (int64_t y = 0; y < p.w.out[2]; ++y) {
    const Span rows = p.rows(y);
    std::fill_n(line, p.width, is_max ? std::numeric_limits<T>::min() : Sum(0));
    for (int64_t r = rows.begin; r < rows.end; ++r) {
      const T* const row = from + r * p.width;
      for (int64_t x = 0; x < p.width; ++x) line[x] = take(line[x], Sum(row[x]));
    }
    for (int64_t x = 0; x < p.w.out[3]; ++x) {
      const Span columns = p.columns(x);
      const int64_t real = rows.size() * columns.size();
      Sum result = is_max ? std::numeric_limits<T>::min() : Sum(0);
      for (int64_t k = columns.begin; k < columns.end; ++k) result = take(result, line[k]);
      if (!is_max) {
        const int64_t all = p.count_pad ? p.w.kernel[0] * p.w.kernel[1] : std::max<int64_t>(real, 1);
        *to++ = nearest_level<T>(float(result) / float(all));
      } else {
        *to++ = real ? T(result) : T(0);
      }
    }
  }
}

}  // namespace

constinit const OpDef op::QuantizedPooling::def = make_op_def<op::QuantizedPooling>();

void op::QuantizedPooling::infer(InferContext& c) const {
  if (pool_type != PoolType::max && pool_type != PoolType::avg) {
    c.fail_value(fmt::format("pool_type must be max or avg, got {}", to_text(pool_type)));
  }
  c.expect_ndim(0, 4);
  expect_dtype(c, 0, {DType::int8, DType::uint8});
  const DType dtype = c.dtype();
  const op::Pooling floats{.kernel = kernel,
                           .pool_type = pool_type,
                           .global_pool = global_pool,
                           .pooling_convention = pooling_convention,
                           .stride = stride,
                           .pad = pad,
                           .count_include_pad = count_include_pad,
                           .layout = layout};
  c.set_output(0, layer_shape(c, floats, 1, dtype), dtype);
  expect_range(c, 1);
  set_range(c);
}

void run_cpu(const op::QuantizedPooling& op, KernelContext& c) {
  const TensorView &in = c.in(0), &out = c.out();
  for (int i : {1, 2}) put_number(c, i, *c.in(i).as<const float>());
  const PoolPlane plane{pool_windows(op, in.shape), in.shape[2], in.shape[3], op.count_include_pad.value_or(true)};
  const int64_t size = in.shape[2] * in.shape[3], results = plane.w.out[2] * plane.w.out[3];
  const auto run = [&]<class T, bool is_max>() {
    c.run.parallel_for(in.shape[0] * in.shape[1], std::max<int64_t>(1, 16384 / size), [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        pool<T, is_max>(plane, in.as<const T>() + i * size, out.as<T>() + i * results);
      }
    });
  };
  const bool is_max = op.pool_type == PoolType::max;
  if (in.dtype == DType::int8) return is_max ? run.operator()<int8_t, true>() : run.operator()<int8_t, false>();
  return is_max ? run.operator()<uint8_t, true>() : run.operator()<uint8_t, false>();
}

}  // namespace kaon
