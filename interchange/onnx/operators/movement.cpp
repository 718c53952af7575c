// Elements in another order, parts of arrays, arrays side by side, repeated and padded.
#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "kaon/interchange/onnx/convert/families.h"
#include "kaon/interchange/onnx/operators/helpers.h"

namespace kaon::onnx::convert {

namespace {

void transpose(Call& c) {
  std::vector<int64_t> axes = c.integers("perm");
  if (axes.empty()) {
    axes.resize(size_t(c.rank()));
    std::iota(axes.rbegin(), axes.rend(), 0);
  }
  if (int(axes.size()) != c.rank()) c.fail(fmt::format("perm has {} axes of {}", axes.size(), c.rank()));
  for (int64_t& a : axes) a = c.axis(a, c.rank());
  c.set_like(c.input(0), transposed(c.x(), axes));
}

void concat(Call& c) {
  const int axis = c.opset() < 4 ? c.axis("axis", 1, c.rank()) : c.axis("axis", 0, c.rank());
  std::vector<Symbol> parts;
  for (int i = 0; i < c.count(); ++i) parts.push_back(c.x(i));
  c.set_like(c.input(0), concatenated(parts, axis));
}

void split(Call& c) {
  const int axis = c.axis("axis", 0, c.rank());
  const int64_t length = c.shape()[axis];
  std::vector<int64_t> sizes = c.opset() < 13 ? c.integers("split") : c.has(1) ? c.integers(1) : std::vector<int64_t>();
  if (sizes.empty()) {
    const int64_t parts = c.integer("num_outputs", c.num_outputs());
    if (parts < 1) c.fail(fmt::format("num_outputs is {}", parts));
    const int64_t part = (length + parts - 1) / parts;  // the last one may be smaller
    for (int64_t i = 0; i < parts; ++i) sizes.push_back(std::max<int64_t>(0, std::min(part, length - i * part)));
  }
  if (std::any_of(sizes.begin(), sizes.end(), [&](int64_t n) { return n < 0 || n > length; }) ||
      std::accumulate(sizes.begin(), sizes.end(), int64_t(0)) != length)
    c.fail("the parts do not make up the axis");
  int64_t at = 0;
  for (size_t i = 0; i < sizes.size(); ++i) {
    c.set(int(i), Value::of(slice_along(c.x(), axis, at, at + sizes[i]), c.type()));
    at += sizes[i];
  }
}

void slice(Call& c) {
  std::vector<int64_t> starts, ends, axes, steps;
  if (c.opset() < 10) {
    starts = c.integers("starts"), ends = c.integers("ends"), axes = c.integers("axes");
  } else {
    starts = c.integers(1), ends = c.integers(2);
    if (c.has(3)) axes = c.integers(3);
    if (c.has(4)) steps = c.integers(4);
  }
  if (axes.empty()) {
    axes.resize(starts.size());
    std::iota(axes.begin(), axes.end(), 0);
  }
  if (steps.empty()) steps.assign(starts.size(), 1);
  if (ends.size() != starts.size() || axes.size() != starts.size() || steps.size() != starts.size()) {
    c.fail("starts, ends, axes and steps differ in length");
  }
  std::vector<int64_t> first(size_t(c.rank()), 0), last = as_vector(c.shape()), by(size_t(c.rank()), 1);
  for (size_t i = 0; i < axes.size(); ++i) {
    const size_t axis = size_t(c.axis(axes[i], c.rank()));
    const int64_t n = c.shape()[int(axis)], step = steps[i];
    if (step == 0) c.fail("a step is 0");
    // positions are clamped to the elements, and for a negative step to the place before the first one
    const int64_t low = step > 0 ? 0 : -1, high = step > 0 ? n : n - 1;
    const auto bound = [&](int64_t at) { return std::clamp<int64_t>(at < 0 ? at + n : at, low, high); };
    first[axis] = bound(starts[i]);
    last[axis] = ends[i] < -n ? low : bound(ends[i]);
    by[axis] = step;
  }
  OptionalShape begin, end, step;
  bool cuts = false;
  for (size_t i = 0; i < first.size(); ++i) {
    cuts |= first[i] != 0 || last[i] != c.shape()[int(i)] || by[i] != 1;
    begin.push_back(first[i]);
    if (last[i] < 0) end.push_back(std::nullopt);
    else end.push_back(last[i]);
    step.push_back(by[i]);
  }
  c.set_like(c.input(0), cuts ? sym.slice(c.x(), begin, end, step) : c.x());
}

void tile(Call& c) {
  if (c.opset() < 6) {
    Shape reps = Shape::filled(c.rank(), 1);
    reps[c.axis(int64_t(c.number(2)), c.rank())] = int64_t(c.number(1));
    return c.set_like(c.input(0), sym.tile(c.x(), reps));
  }
  c.set_like(c.input(0), c.rank() == 0 ? c.x() : sym.tile(c.x(), as_shape(c.integers(1))));
}

void pad(Call& c) {
  std::vector<int64_t> pads = c.opset() < 2    ? c.integers("paddings")
                              : c.opset() < 11 ? c.integers("pads")
                                               : c.integers(1);
  double value = c.real("value", 0);
  if (c.opset() >= 11 && c.has(2)) value = c.number(2);
  std::vector<int64_t> axes;
  if (c.opset() >= 18 && c.has(3)) axes = c.integers(3);
  else
    for (int i = 0; i < c.rank(); ++i) axes.push_back(i);
  if (pads.size() != 2 * axes.size()) c.fail(fmt::format("{} pads for {} axes", pads.size(), axes.size()));
  std::vector<int64_t> before(size_t(c.rank())), after(size_t(c.rank()));
  for (size_t i = 0; i < axes.size(); ++i) {
    const size_t axis = size_t(c.axis(axes[i], c.rank()));
    before[axis] = pads[i];
    after[axis] = pads[i + axes.size()];
  }
  const std::string mode = c.text("mode", "constant");
  Symbol x = c.x();
  if (mode == "wrap") {  // positions modulo the length
    for (int i = 0; i < c.rank(); ++i) {
      const int64_t n = c.shape()[i], total = n + before[size_t(i)] + after[size_t(i)];
      if (total == n && before[size_t(i)] == 0) continue;
      std::vector<int64_t> at;
      for (int64_t j = 0; j < total; ++j) at.push_back(((j - before[size_t(i)]) % n + n) % n);
      x = sym.take(x, constant(at), {.axis = i});
    }
    return c.set_like(c.input(0), x);
  }
  // negative pads cut
  for (int i = 0; i < c.rank(); ++i) {
    int64_t &b = before[size_t(i)], &a = after[size_t(i)];
    if (b >= 0 && a >= 0) continue;
    const int64_t n = shape_of(x)[i];
    if (std::min<int64_t>(b, 0) + std::min<int64_t>(a, 0) < -n)
      c.fail(fmt::format("pads of {} and {} cut more than the {} elements of axis {}", b, a, n, i));
    x = slice_along(x, i, std::max<int64_t>(0, -b), n + std::min<int64_t>(0, a));
    b = std::max<int64_t>(0, b), a = std::max<int64_t>(0, a);
  }
  ops::IntTuple widths;
  bool pads_any = false;
  for (size_t i = 0; i < before.size(); ++i) {
    widths.push_back(before[i]);
    widths.push_back(after[i]);
    pads_any |= before[i] != 0 || after[i] != 0;
  }
  NumpyPadMode kind = NumpyPadMode::constant;
  if (mode == "reflect") kind = NumpyPadMode::reflect;
  else if (mode == "edge") kind = NumpyPadMode::edge;
  else if (mode != "constant") c.fail("mode must be constant, reflect, edge or wrap, got '" + mode + "'");
  c.set_like(c.input(0),
             pads_any ? sym._npi_pad(x, {.pad_width = {widths}, .mode = kind, .constant_value = value}) : x);
}

void depth_to_space(Call& c) {
  const int64_t b = c.integer("blocksize", 1);
  const Shape& s = c.shape();
  if (s.ndim() != 4 || b < 1 || s[1] % (b * b) != 0) c.fail(fmt::format("blocksize {} for shape {}", b, s.str()));
  const bool by_column = c.text("mode", "DCR") == "CRD";
  const int64_t channels = s[1] / (b * b);
  Symbol y;
  if (by_column) {
    y = transposed(reshaped(c.x(), Shape(s[0], channels, b, b, s[2], s[3])), {0, 1, 4, 2, 5, 3});
  } else {
    y = transposed(reshaped(c.x(), Shape(s[0], b, b, channels, s[2], s[3])), {0, 3, 4, 1, 5, 2});
  }
  c.set_like(c.input(0), reshaped(y, Shape(s[0], channels, s[2] * b, s[3] * b)));
}

void space_to_depth(Call& c) {
  const int64_t b = c.integer("blocksize", 1);
  const Shape& s = c.shape();
  if (s.ndim() != 4 || b < 1 || s[2] % b != 0 || s[3] % b != 0)
    c.fail(fmt::format("blocksize {} for shape {}", b, s.str()));
  const bool by_column = c.text("mode", "DCR") == "CRD";
  const Symbol y = reshaped(c.x(), Shape(s[0], s[1], s[2] / b, b, s[3] / b, b));
  const Symbol z = by_column ? transposed(y, {0, 1, 3, 5, 2, 4}) : transposed(y, {0, 3, 5, 1, 2, 4});
  c.set_like(c.input(0), reshaped(z, Shape(s[0], s[1] * b * b, s[2] / b, s[3] / b)));
}

void center_crop_pad(Call& c) {
  const std::vector<int64_t> sizes = c.integers(1);
  std::vector<int64_t> axes = c.integers("axes");
  if (axes.empty())
    for (int i = 0; i < c.rank(); ++i) axes.push_back(i);
  if (axes.size() != sizes.size()) c.fail("as many sizes as axes are needed");
  Symbol x = c.x();
  std::vector<int64_t> before(size_t(c.rank())), after(size_t(c.rank()));
  for (size_t i = 0; i < axes.size(); ++i) {
    const int axis = c.axis(axes[i], c.rank());
    const int64_t n = c.shape()[axis], size = sizes[i];
    if (size < n) {
      const int64_t begin = (n - size) / 2;
      x = slice_along(x, axis, begin, begin + size);
    } else {
      before[size_t(axis)] = (size - n) / 2;
      after[size_t(axis)] = size - n - before[size_t(axis)];
    }
  }
  c.set_like(c.input(0), padded(x, before, after));
}

void trilu(Call& c) {
  const double most = double(c.shape()[c.rank() - 1] + c.shape()[c.rank() - 2]);  // beyond, it is all the same
  const int diagonal = c.has(1) ? int(std::clamp(c.number(1), -most, most)) : 0;
  if (c.shape().size() == 0) return c.set_like(c.input(0), c.x());
  c.set_like(c.input(0), c.integer("upper", 1) != 0 ? sym.triu(c.x(), diagonal) : sym.tril(c.x(), diagonal));
}

void reverse_sequence(Call& c) {
  const int time = c.axis("time_axis", 0, c.rank()), batch = c.axis("batch_axis", 1, c.rank());
  const std::vector<int64_t> lengths = c.integers(1);
  const int64_t steps = c.shape()[time], n = c.shape()[batch];
  // where each element of (batch, time) comes from
  std::vector<int64_t> from;
  for (int64_t b = 0; b < n; ++b) {
    for (int64_t t = 0; t < steps; ++t) from.push_back(t < lengths[size_t(b)] ? lengths[size_t(b)] - 1 - t : t);
  }
  Shape s = Shape::filled(c.rank(), 1);
  s[batch] = n, s[time] = steps;
  Symbol index = reshaped(constant(from), Shape(n, steps));
  if (time < batch) index = sym.transpose(index, Shape(1, 0));
  index = broadcast(reshaped(index, s), c.shape());
  c.set_like(c.input(0), sym.take_along_axis(c.x(), index, {.axis = time}));
}

constexpr Row movement_table[] = {
    {"Identity", [](Call& c) { c.set(c.input(0)); }},
    {"Transpose", transpose},
    {"Concat", concat},
    {"Split", split},
    {"Slice", slice},
    {"Tile", tile},
    {"Pad", pad},
    {"DepthToSpace", depth_to_space},
    {"SpaceToDepth", space_to_depth},
    {"CenterCropPad", center_crop_pad},
    {"Trilu", trilu},
    {"ReverseSequence", reverse_sequence},
};

}  // namespace

std::span<const Row> movement_rows() { return movement_table; }

}  // namespace kaon::onnx::convert
