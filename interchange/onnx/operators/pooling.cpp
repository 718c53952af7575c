// Pooling. Kaon's operator pads both ends alike; other windows are made by padding the images first.
#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "kaon/interchange/onnx/convert/families.h"
#include "kaon/interchange/onnx/operators/helpers.h"
#include "kaon/interchange/onnx/operators/integer_layers.h"
#include "kaon/interchange/onnx/operators/windows.h"

namespace kaon::onnx::convert {

namespace {

// Padding of a whole window would leave it without an element, whose largest and mean do not exist.
Windows pool_windows(const Call& c) {
  Windows w = windows_of(c, c.shape(), c.integers("kernel_shape"));
  for (int i = 0; i < w.axes(); ++i) {
    const int64_t before = w.before[size_t(i)], after = w.after[size_t(i)];
    if (std::max(before, after) < w.extent(i)) continue;
    c.fail(fmt::format("padding must be smaller than the kernel's {} elements, got {} before and {} after on axis {}",
                       w.extent(i), before, after, i + 2));
  }
  return w;
}

// Whether Kaon's own padding and number of windows are these.
bool is_direct(const Windows& w) {
  for (int i = 0; i < w.axes(); ++i) {
    const size_t k = size_t(i);
    if (w.before[k] != w.after[k] || w.before[k] < 0 || w.before[k] >= w.kernel[k]) return false;
    if ((w.input[k] + 2 * w.before[k] - w.extent(i)) / w.stride[k] + 1 != w.output[k]) return false;
  }
  return true;
}

bool is_dilated(const Windows& w) {
  return std::ranges::any_of(w.dilation, [](int64_t d) { return d != 1; });
}

// The images with `value` around, so that exactly these windows fit.
Symbol padded_for(const Symbol& x, const Windows& w, double value) {
  std::vector<int64_t> before{0, 0}, after{0, 0};
  Symbol y = x;
  for (int i = 0; i < w.axes(); ++i) {
    const size_t k = size_t(i);
    const int64_t needed = (w.output[k] - 1) * w.stride[k] + w.extent(i) - w.before[k];
    if (needed < w.input[k]) y = slice_along(y, i + 2, 0, needed);
    before.push_back(w.before[k]);
    after.push_back(std::max<int64_t>(0, needed - w.input[k]));
  }
  return padded(y, before, after, value);
}

op::Pooling pooling_of(const Windows& w, PoolType type) {
  op::Pooling op{.kernel = w.kernel_shape(), .pool_type = type, .stride = w.stride_shape()};
  if (is_dilated(w)) op.dilation = w.dilation_shape();
  return op;
}

Symbol pool(const Symbol& x, const Windows& w, PoolType type, double around) {
  op::Pooling op = pooling_of(w, type);
  if (is_direct(w)) {
    op.pad = w.before_shape();
    return sym.Pooling(x, op);
  }
  return sym.Pooling(padded_for(x, w, around), op);
}

constexpr double kLowest = -std::numeric_limits<double>::infinity();

// Places of maxima as numbers in all of x, of row-major or column-major images.
Symbol places(const Symbol& in_padded, const Windows& w, const Shape& x, const std::vector<int64_t>& size,
              bool by_column) {
  Symbol rest = in_padded, place;
  std::vector<Symbol> at(static_cast<size_t>(w.axes()));
  for (int i = w.axes() - 1; i >= 0; --i) {
    const double n = double(size[size_t(i)]);
    at[size_t(i)] = rest % n - double(w.before[size_t(i)]);
    if (i > 0) rest = sym.floor_divide(rest, scalar(n, DType::int64));
  }
  int64_t step = 1;
  for (int j = 0; j < w.axes(); ++j) {
    const int i = by_column ? j : w.axes() - 1 - j;
    const Symbol part = at[size_t(i)] * double(step);
    place = place.defined() ? place + part : part;
    step *= w.input[size_t(i)];
  }
  std::vector<int64_t> images;
  for (int64_t i = 0; i < x[0] * x[1]; ++i) images.push_back(i * step);
  Shape s = Shape::filled(x.ndim(), 1);
  s[0] = x[0], s[1] = x[1];
  return sym.broadcast_add(place, reshaped(constant(images), s));
}

void max_pool(Call& c) {
  const Windows w = pool_windows(c);
  const DType dtype = c.dtype();
  const Symbol x = cast(c.x(), is_floating(dtype) ? dtype : DType::float32);
  if (!c.wants(1)) {
    Value y = Value::of(cast(pool(x, w, PoolType::max, kLowest), dtype), c.type());
    if (is_direct(w) && !is_dilated(w)) {
      y.layer = integer_max_pool(c, w.kernel_shape(), w.stride_shape(), w.before_shape(), y.symbol);
    }
    return c.set(y);
  }
  const Symbol padded_x = padded_for(x, w, kLowest);
  op::MaxPoolIndices op{.kernel = w.kernel_shape(), .stride = w.stride_shape()};
  if (is_dilated(w)) op.dilation = w.dilation_shape();
  const std::vector<Symbol> both = sym.max_pool_indices(padded_x, op);
  std::vector<int64_t> size;
  for (int i = 2; i < c.rank(); ++i) size.push_back(shape_of(padded_x)[i]);
  c.set(0, cast(both[0], dtype));
  c.set(1, places(both[1], w, c.shape(), size, c.integer("storage_order", 0) != 0));
}

void average_pool(Call& c) {
  const Windows w = pool_windows(c);
  const bool counts_padding = c.integer("count_include_pad", 0) != 0;
  if (is_direct(w)) {
    op::Pooling op = pooling_of(w, PoolType::avg);
    op.pad = w.before_shape();
    op.count_include_pad = counts_padding;
    return c.set(sym.Pooling(c.x(), op));
  }
  // sums, each divided by the number of elements of its window
  Symbol y = pool(c.x(), w, PoolType::sum, 0);
  for (int i = 0; i < w.axes(); ++i) {
    const size_t k = size_t(i);
    const int64_t low = counts_padding ? -w.before[k] : 0, high = w.input[k] + (counts_padding ? w.after[k] : 0);
    std::vector<double> shares;
    for (int64_t o = 0; o < w.output[k]; ++o) {
      int64_t n = 0;
      for (int64_t t = 0; t < w.kernel[k]; ++t) {
        const int64_t at = o * w.stride[k] - w.before[k] + t * w.dilation[k];
        n += at >= low && at < high;
      }
      shares.push_back(n == 0 ? 0 : 1.0 / double(n));
    }
    Shape s = Shape::filled(c.rank(), 1);
    s[i + 2] = w.output[k];
    y = sym.broadcast_mul(y, constant(shares, s, c.dtype()));
  }
  c.set(y);
}

Symbol power(const Symbol& x, double p) { return p == 1 ? x : p == 2 ? sym.square(x) : sym.power(x, p); }
Symbol root(const Symbol& x, double p) { return p == 1 ? x : p == 2 ? sym.sqrt(x) : sym.power(x, 1 / p); }

void lp_pool(Call& c) {
  const Windows w = pool_windows(c);
  const double p = double(c.integer("p", 2));
  c.set(root(pool(power(sym.abs(c.x()), p), w, PoolType::sum, 0), p));
}

Shape spatial_axes(const Call& c) { return consecutive(2, c.rank()); }

void global_pool(Call& c, PoolType type) {
  if (c.rank() >= 3 && c.rank() <= 5 && c.shape().size() > 0)
    return c.set(sym.Pooling(c.x(), {.pool_type = type, .global_pool = true}));
  const Shape axes = spatial_axes(c);
  c.set(type == PoolType::max ? sym.max(c.x(), {.axis = axes, .keepdims = true})
                              : sym.mean(c.x(), {.axis = axes, .keepdims = true}));
}

void global_lp_pool(Call& c) {
  const double p = double(c.integer("p", 2));
  c.set(root(sym.sum(power(sym.abs(c.x()), p), {.axis = spatial_axes(c), .keepdims = true}), p));
}

void max_unpool(Call& c) {
  std::vector<int64_t> kernel = c.integers("kernel_shape");
  const size_t n = kernel.size();
  const std::vector<int64_t> stride = c.integers("strides", std::vector<int64_t>(n, 1));
  const std::vector<int64_t> pads = c.integers("pads", std::vector<int64_t>(2 * n, 0));
  const Shape& x = c.shape();
  if (int(n) != x.ndim() - 2) c.fail(fmt::format("a kernel of {} axes for shape {}", n, x.str()));
  // the places count in images of the size that follows from the attributes; output_shape is larger
  Shape own(x[0], x[1]);
  for (size_t i = 0; i < n; ++i) own.push_back((x[int(i) + 2] - 1) * stride[i] - pads[i] - pads[i + n] + kernel[i]);
  const Shape whole = c.has(2) ? as_shape(c.integers(2)) : own;
  const int64_t size = own.product(2, own.ndim());
  const Symbol index = cast(c.x(1), DType::int64) % double(size);
  Symbol y = sym.max_unpool(c.x(), index, {.output_size = from(own, 2)});
  std::vector<int64_t> before(as_vector(x).size(), 0), after = before;
  for (int i = 0; i < whole.ndim(); ++i) after[size_t(i)] = whole[i] - own[i];
  c.set(padded(y, before, after));
}

constexpr Row pooling_table[] = {
    {"MaxPool", max_pool},
    {"AveragePool", average_pool},
    {"LpPool", lp_pool},
    {"GlobalMaxPool", [](Call& c) { global_pool(c, PoolType::max); }},
    {"GlobalAveragePool", [](Call& c) { global_pool(c, PoolType::avg); }},
    {"GlobalLpPool", global_lp_pool},
    {"MaxUnpool", max_unpool},
};

}  // namespace

std::span<const Row> pooling_rows() { return pooling_table; }

}  // namespace kaon::onnx::convert
