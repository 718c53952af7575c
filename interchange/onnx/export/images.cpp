// Images at another size, sampled, and in regions; transforms of signals.
#include <algorithm>

#include "kaon/interchange/onnx/export/emit.h"
#include "kaon/ops/all_ops.h"
#include "kaon/ops/nn/resize/kernels/resample_axis.h"

namespace kaon::onnx::exporting {

namespace {

// The linear map of an axis as a matrix, results by pixels or transposed.
std::string resample_matrix(Emit& e, const ops::ResampleAxis& axis, bool of_columns) {
  std::vector<double> m(size_t(axis.in * axis.out), 0);
  const Shape shape = of_columns ? Shape(axis.in, axis.out) : Shape(axis.out, axis.in);
  for (int64_t o = 0; o < axis.out; ++o) {
    const auto [begin, end] = axis.pixels_of(o);
    for (int64_t i = begin; i < end; ++i) {
      m[size_t(of_columns ? i * axis.out + o : o * axis.in + i)] += axis.weight<double>(o, i) / double(axis.divisor(o));
    }
  }
  return e.array(m, shape, e.dtype());
}

// x of images on both sides of which the map of rows and of columns stands.
void resample(Emit& e) {
  const auto& op = e.op<op::Resample>();
  const Shape &x = e.shape(), &y = e.result();
  const bool at_one = (y[2] == 1 && x[2] != 1) || (y[3] == 1 && x[3] != 1);  // ONNX takes the middle there
  const bool is_resize =
      !op.transposed && (op.kind == ops::ResampleKind::nearest || (op.kind == ops::ResampleKind::bilinear && !at_one));
  if (is_resize) {
    const bool nearest = op.kind == ops::ResampleKind::nearest;
    std::vector<Attribute> attributes{text("mode", nearest ? "nearest" : "linear"),
                                      text("coordinate_transformation_mode", nearest            ? "asymmetric"
                                                                             : op.align_corners ? "align_corners"
                                                                                                : "half_pixel")};
    if (nearest) attributes.push_back(text("nearest_mode", "floor"));
    return e.set(e.node("Resize", {e.in(), "", "", e.builder().constant({y[0], y[1], y[2], y[3]})}, attributes));
  }
  if (op.kind == ops::ResampleKind::average && !op.transposed) {
    if (y[2] == 1 && y[3] == 1) return e.set(e.node("GlobalAveragePool", {e.in()}));
    if (x[2] % y[2] == 0 && x[3] % y[3] == 0) {
      const std::vector<int64_t> window{x[2] / y[2], x[3] / y[3]};
      return e.set(e.node("AveragePool", {e.in()}, {integers("kernel_shape", window), integers("strides", window)}));
    }
  }
  const auto axis = [&](int i) {
    return ops::ResampleAxis{op.kind, op.align_corners, op.transposed ? y[i] : x[i], op.transposed ? x[i] : y[i]};
  };
  const std::string rows = resample_matrix(e, axis(2), op.transposed);
  const std::string columns = resample_matrix(e, axis(3), !op.transposed);
  e.set(e.matmul(e.matmul(rows, e.in()), columns));
}

// --- samples at positions

// Along an axis: the two pixels that each position is between, with their shares.
struct PixelPair {
  std::string low, high, low_share, high_share, is_inside;
};

// stops: nothing outside of [0, size), the last pixel past its middle. Else pixels outside are 0.
PixelPair pixels_around(Emit& e, const std::string& at, int64_t size, bool stops, DType t) {
  const std::string zero = e.number(0, t), one = e.number(1, t),
                    last = e.cast(e.number(double(size - 1), DType::int64), t);
  PixelPair pair;
  pair.is_inside =
      e.node("And", {e.node("LessOrEqual", {stops ? zero : e.number(-1, t), at}), e.less(at, e.add(last, one))});
  const std::string known = e.where(pair.is_inside, at, zero), whole = e.node("Floor", {known});
  const std::string part = e.sub(known, whole), rest = e.sub(one, part);
  const std::string has_next = e.less(whole, last);
  pair.high_share = e.where(has_next, part, zero);
  pair.low_share = stops ? e.where(has_next, rest, one) : e.where(e.less(whole, zero), zero, rest);
  pair.low = e.cast(e.node("Max", {whole, zero}), DType::int64);
  pair.high = e.cast(e.node("Min", {e.add(whole, one), last}), DType::int64);
  return pair;
}

// Samples of deformable convolutions: pixels as rows of the channels of a group, taken by their numbers.
void deformed_samples(Emit& e) {
  const auto& op = e.op<op::SampleImages>();
  const Shape &data = e.shape(), &where = e.shape(1);
  const int64_t images = data[0], h = data[2], w = data[3], groups = op.num_deformable_group;
  const int64_t channels = data[1] / groups, rows = where[2], columns = where[3];
  const int64_t taps = op.kernel[0] * op.kernel[1], points = rows * columns;
  const bool stops = op.kind == ops::SampleKind::deformed;
  const DType t = size_of(e.dtype()) == 2 ? DType::float32 : e.dtype();
  const auto input = [&](int i) { return e.dtype(i) == t ? e.in(i) : e.cast(e.in(i), t); };
  const std::string given = e.reshape(input(1), Shape{images, groups, taps, 2, rows, columns});
  const auto axis = [&](int a) {
    const auto of = [&](const Shape& s, int64_t otherwise) { return s.empty() ? otherwise : s[a]; };
    const int64_t n = a == 0 ? rows : columns;
    std::vector<double> first, steps;
    for (int64_t tap = 0; tap < taps; ++tap) {
      first.push_back(double((a == 0 ? tap / op.kernel[1] : tap % op.kernel[1]) * of(op.dilate, 1) - of(op.pad, 0)));
    }
    for (int64_t i = 0; i < n; ++i) steps.push_back(double(i * of(op.stride, 1)));
    const std::string at = e.reshape(e.slice(given, 3, a, a + 1), Shape{images, groups, taps, rows, columns});
    const std::string from =
        e.add(e.array(first, Shape(taps, 1, 1), t), e.array(steps, a == 0 ? Shape(n, 1) : Shape(n), t));
    return pixels_around(e, e.add(at, from), a == 0 ? h : w, stops, t);
  };
  const PixelPair down = axis(0), right = axis(1);
  const Shape column{images, groups, taps * points, 1};
  const std::string pixels = e.transpose(e.reshape(input(0), Shape{images, groups, channels, h * w}), {0, 1, 3, 2});
  const auto share = [&](const std::string& y, const std::string& y_share, const std::string& x,
                         const std::string& x_share) {
    const std::string at = e.reshape(e.add(e.mul(y, e.number(double(w), DType::int64)), x), column);
    return e.mul(e.node("GatherND", {pixels, at}, {integer("batch_dims", 2)}),
                 e.reshape(e.mul(y_share, x_share), column));
  };
  std::string sum = e.add(e.add(share(down.low, down.low_share, right.low, right.low_share),
                                share(down.low, down.low_share, right.high, right.high_share)),
                          e.add(share(down.high, down.high_share, right.low, right.low_share),
                                share(down.high, down.high_share, right.high, right.high_share)));
  const std::string is_inside = e.reshape(e.node("And", {down.is_inside, right.is_inside}), column);
  sum = e.where(is_inside, sum, e.number(0, t));
  if (op.kind == ops::SampleKind::modulated) sum = e.mul(sum, e.reshape(input(2), column));
  const std::string parts = e.reshape(sum, Shape{images, groups, taps, points, channels});
  const std::string y = e.reshape(e.transpose(parts, {1, 4, 2, 0, 3}), e.result());
  e.set(e.dtype() == t ? y : e.cast(y, e.dtype()));
}

void sample_images(Emit& e) {
  const auto& op = e.op<op::SampleImages>();
  if (op.kind != ops::SampleKind::grid) return deformed_samples(e);
  const std::string grid = e.transpose(e.in(1), {0, 2, 3, 1});
  e.set(e.node("GridSample", {e.in(0), grid},
               {integer("align_corners", 1), text("mode", e.opset() >= 20 ? "linear" : "bilinear"),
                text("padding_mode", "zeros")}));
}

// Of both kernels: 1 at the position, and how far pixels are from the edge.
void modulated_deformable(Emit& e) {
  const auto& op = e.op<op::ModulatedDeformableConvolution>();
  const int n = op.kernel.ndim();
  const auto list = [&](const Shape& s, int64_t otherwise) {
    std::vector<int64_t> v(s.begin(), s.end());
    v.resize(size_t(n), otherwise);
    return v;
  };
  std::vector<int64_t> pads = list(op.pad, 0);
  pads.insert(pads.end(), pads.begin(), pads.begin() + n);
  // data, offset, mask, weight, bias to X, W, offset, B, mask
  e.set(e.node("DeformConv", {e.in(0), e.in(3), e.in(1), op.no_bias ? "" : e.in(4), e.in(2)},
               {integers("kernel_shape", list(op.kernel, 1)), integers("strides", list(op.stride, 1)),
                integers("dilations", list(op.dilate, 1)), integers("pads", pads), integer("group", op.num_group),
                integer("offset_group", op.num_deformable_group)}));
}

std::vector<double> line(int64_t n) {
  std::vector<double> v;
  for (int64_t i = 0; i < n; ++i) v.push_back(n == 1 ? 0 : 2.0 * double(i) / double(n - 1) - 1);
  return v;
}

void grid_generator(Emit& e) {
  const auto& op = e.op<op::GridGenerator>();
  const int64_t n = e.result()[0], h = e.result()[2], w = e.result()[3];
  const std::vector<double> x = line(w), y = line(h);
  std::vector<double> points;  // x of all pixels, then y; then 1
  for (int64_t i = 0; i < h * w; ++i) points.push_back(x[size_t(i % w)]);
  for (int64_t i = 0; i < h * w; ++i) points.push_back(y[size_t(i / w)]);
  if (op.transform_type == GridTransform::warp) {
    const std::string by = e.array({2.0 / double(w - 1), 2.0 / double(h - 1)}, Shape(1, 2, 1, 1), e.dtype());
    return e.set(e.add(e.mul(e.in(), by), e.array(points, Shape(1, 2, h, w), e.dtype())));
  }
  points.insert(points.end(), size_t(h * w), 1);
  const std::string grid = e.array(points, Shape(3, h * w), e.dtype());
  e.set(e.reshape(e.matmul(e.reshape(e.in(), Shape(n * 2, 3)), grid), e.result()));
}

// --- regions of interest

// The image of each region, and whether there is such a one: a region of another has 0.
struct RegionImages {
  std::string image, is_there;
};

RegionImages images_of(Emit& e) {
  const int64_t regions = e.shape(1)[0], images = e.shape()[0];
  const std::string given = e.reshape(e.cast(e.slice(e.in(1), 1, 0, 1), DType::int64), Shape(regions));
  const std::string image =
      e.node("Clip", {given, e.number(0, DType::int64), e.number(double(images - 1), DType::int64)});
  return {image, e.reshape(e.equal(given, image), Shape(regions, 1, 1, 1))};
}

void roi_align(Emit& e) {
  const auto& op = e.op<op::ROIAlign>();
  if (op.position_sensitive) e.fail("position_sensitive");
  const RegionImages from = images_of(e);
  const std::string y = e.node(
      "RoiAlign", {e.in(0), e.slice(e.in(1), 1, 1, 5), from.image},
      {text("mode", "avg"), integer("output_height", op.pooled_size[0]), integer("output_width", op.pooled_size[1]),
       integer("sampling_ratio", std::max(op.sample_ratio, 0)), real("spatial_scale", op.spatial_scale),
       text("coordinate_transformation_mode", op.aligned ? "half_pixel" : "output_half_pixel")});
  e.set(e.where(from.is_there, y, e.number(0)));
}

void roi_pooling(Emit& e) {
  const auto& op = e.op<op::ROIPooling>();
  const RegionImages from = images_of(e);
  const std::string image = e.reshape(e.cast(from.image, e.dtype()), Shape(e.shape(1)[0], 1));
  const std::string y = e.node(
      "MaxRoiPool", {e.in(0), e.concat({image, e.slice(e.in(1), 1, 1, 5)}, 1)},
      {integers("pooled_shape", {op.pooled_size[0], op.pooled_size[1]}), real("spatial_scale", op.spatial_scale)});
  e.set(e.where(from.is_there, y, e.number(0)));
}

// What follows from shapes alone.
void of_shapes(Emit& e) {
  std::vector<NDArray> zeros, made(size_t(e.num_outputs()));
  std::vector<const NDArray*> inputs;
  for (int i = 0; i < e.count(); ++i) zeros.push_back(nd.zeros(e.shape(i), {.dtype = e.dtype(i)}));
  for (const NDArray& z : zeros) inputs.push_back(&z);
  NDArray::apply(*e.symbol().op, e.symbol().attrs.get(), inputs, made, std::source_location::current(), {});
  for (size_t i = 0; i < made.size(); ++i) e.set(e.builder().initializer(made[i], "known"), int(i));
}

// --- signals: rows of n numbers to n pairs, and back to the real parts, n times as large

std::string transformed(Emit& e, const std::string& x, bool inverse) {  // of (rows, n, 1 or 2) along axis 1
  std::vector<Attribute> attributes{integer("inverse", inverse)};
  if (e.opset() < 20) attributes.push_back(integer("axis", 1));
  return e.node("DFT", {x}, attributes);  // from opset 20 on the last axis but one
}

void fft(Emit& e) {
  const int64_t n = e.shape()[e.rank() - 1], rows = e.shape().size() / n;
  e.set(e.reshape(transformed(e, e.reshape(e.in(), Shape(rows, n, 1)), false), e.result()));
}

void ifft(Emit& e) {
  const int64_t n = e.shape()[e.rank() - 1] / 2, rows = e.shape().size() / n / 2;
  const std::string y = transformed(e, e.reshape(e.in(), Shape(rows, n, 2)), true);
  e.set(e.reshape(e.mul(e.slice(y, 2, 0, 1), e.number(double(n))), e.result()));
}

void determinant(Emit& e) {
  const std::string y = e.node("Det", {e.in()});
  e.set(e.rank() == 2 ? e.reshape(y, e.result()) : y);
}

// --- random numbers: others than Kaon's

void set_random(Emit& e, const char* name, Attribute first, Attribute second) {
  const DType t = e.result_dtype(), made = t == DType::bfloat16 ? DType::float32 : t;
  const std::string y = e.node(name, {},
                               {first, second, integers("shape", {e.result().begin(), e.result().end()}),
                                integer("dtype", int64_t(format::element_type_of(made)))});
  e.set(made == t ? y : e.cast(y, t));
}

void random_uniform(Emit& e) {
  const auto& op = e.op<op::RandomUniform>();
  set_random(e, "RandomUniform", real("low", op.low), real("high", op.high));
}

void random_normal(Emit& e) {
  const auto& op = e.op<op::RandomNormal>();
  set_random(e, "RandomNormal", real("mean", op.loc), real("scale", op.scale));
}

const WriterRow image_table[] = {
    {&op::Resample::def, resample},
    {&op::SampleImages::def, sample_images},
    {&op::ModulatedDeformableConvolution::def, modulated_deformable},
    {&op::GridGenerator::def, grid_generator},
    {&op::ROIAlign::def, roi_align},
    {&op::ROIPooling::def, roi_pooling},
    {&op::MultiBoxPrior::def, of_shapes},
    {&op::Fft::def, fft},
    {&op::Ifft::def, ifft},
    {&op::LinalgDet::def, determinant},
    {&op::RandomUniform::def, random_uniform},
    {&op::RandomNormal::def, random_normal},
};

}  // namespace

std::span<const WriterRow> image_writers() { return image_table; }

}  // namespace kaon::onnx::exporting
