// Images at another size, sampled, and in regions; boxes; transforms of signals.
#include <algorithm>
#include <array>

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

void sample_images(Emit& e) {
  const auto& op = e.op<op::SampleImages>();
  if (op.kind != ops::SampleKind::grid) {
    e.fail("the samples of a deformable convolution, which ONNX's DeformConv takes at another border,");
  }
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

// --- boxes

using Box = std::array<std::string, 4>;

Box sides(Emit& e, const std::string& boxes, int axis) {
  Box b;
  for (int64_t i = 0; i < 4; ++i) b[size_t(i)] = e.slice(boxes, axis, i, i + 1);
  return b;
}

Box corners(Emit& e, const Box& b, BoxFormat format) {
  if (format == BoxFormat::corner) return b;
  const std::string half = e.number(0.5), w = e.mul(b[2], half), h = e.mul(b[3], half);
  return {e.sub(b[0], w), e.sub(b[1], h), e.add(b[0], w), e.add(b[1], h)};
}

// The middle, width and height.
Box middle(Emit& e, const Box& b, BoxFormat format) {
  if (format == BoxFormat::center) return b;
  const std::string half = e.number(0.5), w = e.sub(b[2], b[0]), h = e.sub(b[3], b[1]);
  return {e.add(b[0], e.mul(w, half)), e.add(b[1], e.mul(h, half)), w, h};
}

void box_iou(Emit& e) {
  const auto& op = e.op<op::BoxIou>();
  const std::string zero = e.number(0);
  const Box a = corners(e, sides(e, e.reshape(e.in(0), Shape(e.shape(0).size() / 4, 1, 4)), 2), op.format);
  const Box b = corners(e, sides(e, e.reshape(e.in(1), Shape(1, e.shape(1).size() / 4, 4)), 2), op.format);
  const auto length = [&](const std::string& from, const std::string& to) {
    return e.node("Max", {e.sub(to, from), zero});
  };
  const auto area = [&](const Box& x) { return e.mul(length(x[0], x[2]), length(x[1], x[3])); };
  const std::string common = e.mul(length(e.node("Max", {a[0], b[0]}), e.node("Min", {a[2], b[2]})),
                                   length(e.node("Max", {a[1], b[1]}), e.node("Min", {a[3], b[3]})));
  const std::string whole = e.sub(e.add(area(a), area(b)), common), meets = e.less(zero, common);
  e.set(e.reshape(e.where(meets, e.div(common, e.where(meets, whole, e.number(1))), zero), e.result()));
}

void box_decode(Emit& e) {
  const auto& op = e.op<op::BoxDecode>();
  const Box d = sides(e, e.in(0), 2), a = middle(e, sides(e, e.in(1), 2), op.format);
  const auto size = [&](int i, float std) {
    std::string x = e.mul(d[size_t(i)], e.number(std));
    if (op.clip > 0) x = e.node("Min", {x, e.number(op.clip)});
    return e.mul(e.node("Exp", {x}), e.mul(a[size_t(i)], e.number(0.5)));
  };
  const std::string x = e.add(e.mul(e.mul(d[0], e.number(op.std0)), a[2]), a[0]), w = size(2, op.std2);
  const std::string y = e.add(e.mul(e.mul(d[1], e.number(op.std1)), a[3]), a[1]), h = size(3, op.std3);
  e.set(e.concat({e.sub(x, w), e.sub(y, h), e.add(x, w), e.add(y, h)}, 2));
}

void box_take(Emit& e) {
  const auto& op = e.op<op::BoxTake>();
  const Shape& s = e.result();
  const std::string rows = e.reshape(e.in(1), Shape(s[0], s[1], 1)), zero = e.number(0, DType::int64);
  const std::string known = e.node("Clip", {rows, zero, e.number(double(e.shape()[1] - 1), DType::int64)});
  std::string y = e.node("GatherElements", {e.in(0), e.expand(known, s)}, {integer("axis", 1)});
  if (op.in_format != op.out_format) {
    const std::string boxes = e.slice(y, 2, op.coord_start, op.coord_start + 4);
    const Box box = op.out_format == BoxFormat::corner ? corners(e, sides(e, boxes, 2), op.in_format)
                                                       : middle(e, sides(e, boxes, 2), op.in_format);
    std::vector<std::string> parts;
    if (op.coord_start > 0) parts.push_back(e.slice(y, 2, 0, op.coord_start));
    parts.insert(parts.end(), box.begin(), box.end());
    if (op.coord_start + 4 < s[2]) parts.push_back(e.slice(y, 2, op.coord_start + 4, s[2]));
    y = e.concat(parts, 2);
  }
  e.set(e.where(e.less(rows, zero), e.number(-1), y));
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
    {&op::BoxIou::def, box_iou},
    {&op::BoxDecode::def, box_decode},
    {&op::BoxTake::def, box_take},
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
