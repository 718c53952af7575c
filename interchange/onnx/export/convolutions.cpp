// Convolutions and poolings as ONNX nodes. Channels are along axis 1 there: other layouts are transposed.
#include <algorithm>
#include <numeric>

#include "kaon/interchange/onnx/export/emit.h"
#include "kaon/ops/all_ops.h"

namespace kaon::onnx::exporting {

namespace {

std::vector<int64_t> list(const Shape& s, int n, int64_t otherwise) {
  std::vector<int64_t> v(s.begin(), s.end());
  v.resize(size_t(n), otherwise);
  return v;
}

std::vector<int64_t> both_ends(const std::vector<int64_t>& pad) {
  std::vector<int64_t> v = pad;
  v.insert(v.end(), pad.begin(), pad.end());
  return v;
}

// The last axis to place 1, and back.
std::vector<int64_t> to_first(int rank) {
  std::vector<int64_t> perm{0, rank - 1};
  for (int i = 1; i < rank - 1; ++i) perm.push_back(i);
  return perm;
}
std::vector<int64_t> to_last(int rank) {
  std::vector<int64_t> perm{0};
  for (int i = 2; i < rank; ++i) perm.push_back(i);
  perm.push_back(1);
  return perm;
}

Shape channels_first(const Shape& s, bool is_last) {
  Shape t = s;
  if (!is_last) return t;
  t[1] = s[s.ndim() - 1];
  for (int i = 2; i < s.ndim(); ++i) t[i] = s[i - 1];
  return t;
}

// One node of images and weights, transposed where the channels are last.
void set_convolution(Emit& e, const char* name, bool is_last, const std::vector<Attribute>& attributes) {
  std::vector<std::string> inputs = e.all();
  if (is_last) {
    for (size_t i : {0, 1}) inputs[i] = e.transpose(inputs[i], to_first(e.rank(int(i))));
  }
  const std::string y = e.node(name, inputs, attributes);
  e.set(is_last ? e.transpose(y, to_last(e.rank())) : y);
}

void convolution(Emit& e) {
  const auto& op = e.op<op::Convolution>();
  const int n = op.kernel.ndim();
  set_convolution(e, "Conv", ops::is_channels_last(op.layout),
                  {integers("kernel_shape", list(op.kernel, n, 1)), integers("strides", list(op.stride, n, 1)),
                   integers("dilations", list(op.dilate, n, 1)), integers("pads", both_ends(list(op.pad, n, 0))),
                   integer("group", op.num_group)});
}

void deconvolution(Emit& e) {
  const auto& op = e.op<op::Deconvolution>();
  const int n = op.kernel.ndim();
  const bool is_last = ops::is_channels_last(op.layout);
  std::vector<int64_t> pad = list(op.pad, n, 0), adj = list(op.adj, n, 0);
  const std::vector<int64_t> stride = list(op.stride, n, 1), dilate = list(op.dilate, n, 1);
  if (std::ranges::any_of(op.target_shape, [](int64_t t) { return t != 0; })) {  // then pad and adj follow from it
    const Shape x = channels_first(e.shape(), is_last), y = channels_first(e.result(), is_last);
    for (int i = 0; i < n; ++i) {
      const size_t k = size_t(i);
      const int64_t whole = stride[k] * (x[i + 2] - 1) + dilate[k] * (op.kernel[i] - 1) + 1, cut = whole - y[i + 2];
      pad[k] = (cut + 1) / 2;
      adj[k] = cut % 2;
    }
  }
  set_convolution(
      e, "ConvTranspose", is_last,
      {integers("kernel_shape", list(op.kernel, n, 1)), integers("strides", stride), integers("dilations", dilate),
       integers("pads", both_ends(pad)), integers("output_padding", adj), integer("group", op.num_group)});
}

// --- pooling

// The windows of an axis.
struct Axis {
  int64_t in, out, kernel, stride, dilation, pad;
  int64_t behind = least_behind();  // padding there
  int64_t extent() const { return dilation * (kernel - 1) + 1; }
  // What a last window needs behind the image: ONNX would leave one out that begins in it.
  int64_t least_behind() const { return std::max(pad, (out - 1) * stride + extent() - in - pad); }
  // How many elements of window o the mean counts.
  int64_t count(int64_t o, bool with_padding) const {
    int64_t n = 0;
    for (int64_t k = 0; k < kernel; ++k) {
      const int64_t at = o * stride - pad + k * dilation;
      n += with_padding ? at < in + pad : at >= 0 && at < in;
    }
    return n;
  }
};

std::string padded(Emit& e, const std::string& x, const std::vector<Axis>& axes, double value) {
  std::vector<int64_t> pads{0, 0};
  for (const Axis& a : axes) pads.push_back(a.pad);
  pads.insert(pads.end(), {0, 0});
  for (const Axis& a : axes) pads.push_back(a.behind);
  return e.node("Pad", {x, e.builder().constant(pads), e.number(value)}, {text("mode", "constant")});
}

// The means over windows of `with_padding` elements or of those in the image, or with `is_sum` the sums.
std::string averaged(Emit& e, const std::string& x, const std::vector<Axis>& axes, bool with_padding, bool is_sum,
                     std::vector<Attribute> attributes, bool needs_pad) {
  const auto is_whole = [&](const Axis& a) {
    for (int64_t o = 0; o < a.out; ++o) {
      if (a.count(o, true) != a.kernel) return false;
    }
    return true;
  };
  const bool plain = !is_sum && !needs_pad && (!with_padding || std::ranges::all_of(axes, is_whole));
  attributes.push_back(integer("count_include_pad", !plain || with_padding));
  std::string y = e.node("AveragePool", {x}, attributes);
  if (plain) return y;
  if (is_sum) {
    double elements = 1;
    for (const Axis& a : axes) elements *= double(a.kernel);
    return e.mul(y, e.number(elements));
  }
  for (size_t i = 0; i < axes.size(); ++i) {  // by how much the mean of whole windows is too small
    std::vector<double> factors;
    for (int64_t o = 0; o < axes[i].out; ++o) {
      factors.push_back(double(axes[i].kernel) / double(std::max<int64_t>(1, axes[i].count(o, with_padding))));
    }
    Shape along = Shape::filled(int(axes.size()) + 2, 1);
    along[int(i) + 2] = axes[i].out;
    y = e.mul(y, e.array(factors, along, e.dtype()));
  }
  return y;
}

std::string of_whole_image(Emit& e, const std::string& x, PoolType type, int64_t p) {
  if (type == PoolType::max) return e.node("GlobalMaxPool", {x});
  if (type == PoolType::avg) return e.node("GlobalAveragePool", {x});
  if (type == PoolType::lp) return e.node("GlobalLpPool", {x}, {integer("p", p)});
  std::vector<int64_t> axes(size_t(e.rank()) - 2);
  std::iota(axes.begin(), axes.end(), 2);
  return e.reduce("ReduceSum", x, axes, true);
}

template <class Op>
std::vector<Axis> axes_of(const Op& op, const Shape& x, const Shape& y) {
  const int n = op.kernel.ndim();
  const std::vector<int64_t> stride = list(op.stride, n, 1), dilation = list(op.dilation, n, 1),
                             pad = list(op.pad, n, 0);
  std::vector<Axis> axes;
  for (int i = 0; i < n; ++i) {
    const size_t k = size_t(i);
    axes.push_back({x[i + 2], y[i + 2], op.kernel[i], stride[k], dilation[k], pad[k]});
  }
  return axes;
}

void pooling(Emit& e) {
  const auto& op = e.op<op::Pooling>();
  const bool is_last = ops::is_channels_last(op.layout), is_max = op.pool_type == PoolType::max;
  std::string x = is_last ? e.transpose(e.in(), to_first(e.rank())) : e.in();
  const auto set = [&](const std::string& y) { e.set(is_last ? e.transpose(y, to_last(e.rank())) : y); };
  const int64_t p = op.p_value.value_or(2);
  if (op.global_pool) return set(of_whole_image(e, x, op.pool_type, p));
  std::vector<Axis> axes = axes_of(op, channels_first(e.shape(), is_last), channels_first(e.result(), is_last));
  const bool counts_padding = op.count_include_pad.value_or(true);
  // Sums take any number of zeros: with these behind images of any size no window is left out and none is added.
  const bool is_sum = op.pool_type == PoolType::sum || op.pool_type == PoolType::lp;
  if (e.builder().has_constants_apart() && op.pooling_convention == PoolingConvention::full && is_sum) {
    for (Axis& a : axes) a.behind = a.pad + a.stride - 1;
  }
  // For images of any size ceil_mode says it: where each window begins in the image, and what the mean counts is there.
  const bool is_ceiled =
      e.builder().has_constants_apart() && op.pooling_convention == PoolingConvention::full &&
      (is_max || op.pool_type == PoolType::avg) && std::ranges::all_of(axes, [&](const Axis& a) {
        return a.extent() >= a.stride + a.pad && (is_max || (a.dilation == 1 && (a.pad == 0 || !counts_padding)));
      });
  const bool needs_pad = std::ranges::any_of(axes, [](const Axis& a) { return a.behind >= a.kernel; });
  const bool is_dilated = std::ranges::any_of(axes, [](const Axis& a) { return a.dilation != 1; });
  std::vector<int64_t> kernel, stride, dilation, pads(axes.size() * 2);
  for (size_t i = 0; i < axes.size(); ++i) {
    kernel.push_back(axes[i].kernel), stride.push_back(axes[i].stride), dilation.push_back(axes[i].dilation);
    pads[i] = axes[i].pad, pads[axes.size() + i] = is_ceiled ? axes[i].pad : axes[i].behind;
  }
  std::vector<Attribute> attributes{integers("kernel_shape", kernel), integers("strides", stride)};
  if (is_ceiled) attributes.push_back(integer("ceil_mode", 1));
  if (is_dilated) attributes.push_back(integers("dilations", dilation));
  if (needs_pad) x = padded(e, x, axes, is_max ? -std::numeric_limits<double>::infinity() : 0);
  else attributes.push_back(integers("pads", pads));
  if (is_max) return set(e.node("MaxPool", {x}, attributes));
  if (is_ceiled) {
    attributes.push_back(integer("count_include_pad", 0));
    return set(e.node("AveragePool", {x}, attributes));
  }
  if (op.pool_type == PoolType::lp) {
    if (is_dilated) e.builder().require(18, "LpPool with dilations");
    attributes.push_back(integer("p", p));
    return set(e.node("LpPool", {x}, attributes));
  }
  if (is_dilated) e.builder().require(19, "AveragePool with dilations");
  set(averaged(e, x, axes, counts_padding, op.pool_type == PoolType::sum, attributes, needs_pad));
}

// --- maxima with their places, which ONNX counts over the whole array

int64_t pixels_of(const Shape& s) { return s.product(2, s.ndim()); }

Shape flat_images(const Shape& s) { return Shape(s[0], s[1], pixels_of(s)); }

void max_pool_indices(Emit& e) {
  const auto& op = e.op<op::MaxPoolIndices>();
  const Shape& s = e.shape();
  Shape kernel = op.kernel;
  std::vector<Attribute> attributes;
  if (op.global_pool) {
    kernel = Shape();
    for (int i = 2; i < s.ndim(); ++i) kernel.push_back(s[i]);
    attributes = {integers("kernel_shape", {kernel.begin(), kernel.end()})};
  } else {
    const std::vector<Axis> axes = axes_of(op, s, e.result());
    std::vector<int64_t> stride, dilation, pads(axes.size() * 2);
    for (size_t i = 0; i < axes.size(); ++i) {
      stride.push_back(axes[i].stride), dilation.push_back(axes[i].dilation);
      pads[i] = axes[i].pad, pads[axes.size() + i] = axes[i].behind;
    }
    attributes = {integers("kernel_shape", {kernel.begin(), kernel.end()}), integers("strides", stride),
                  integers("dilations", dilation), integers("pads", pads)};
  }
  const std::vector<std::string> both = e.nodes("MaxPool", {e.in()}, attributes, 2);
  e.set(both[0], 0);
  e.set(e.node("Mod", {both[1], e.number(double(pixels_of(s)), DType::int64)}), 1);
}

// Places are along an axis with one pixel more, which -1 names.
std::string places(Emit& e, int64_t pixels) {
  const std::string at = e.reshape(e.index(1, IndexMode::raise, 0), flat_images(e.shape(1)));
  return e.where(e.less(at, e.number(0, DType::int64)), e.number(double(pixels), DType::int64), at);
}

std::string zeros(Emit& e, const Shape& s) { return e.expand(e.number(0), s); }

void max_unpool(Emit& e) {
  const int64_t pixels = pixels_of(e.result());
  const std::string image = zeros(e, Shape(e.shape()[0], e.shape()[1], pixels + 1));
  const std::string y = e.node("ScatterElements", {image, places(e, pixels), e.reshape(e.in(), flat_images(e.shape()))},
                               {integer("axis", 2)});
  e.set(e.reshape(e.slice(y, 2, 0, pixels), e.result()));
}

void plane_take(Emit& e) {
  const int64_t pixels = pixels_of(e.shape());
  const std::string image =
      e.concat({e.reshape(e.in(), flat_images(e.shape())), zeros(e, Shape(e.shape()[0], e.shape()[1], 1))}, 2);
  e.set(e.reshape(e.node("GatherElements", {image, places(e, pixels)}, {integer("axis", 2)}), e.result()));
}

// --- windows as columns: a convolution whose kernels have one 1

void im2col(Emit& e) {
  const auto& op = e.op<op::Im2col>();
  const int n = op.kernel.ndim();
  const int64_t channels = e.shape()[1], size = op.kernel.size();
  Shape shape(channels * size, 1);
  for (int64_t k : op.kernel) shape.push_back(k);
  std::vector<double> weight(size_t(channels * size * size), 0);
  for (int64_t i = 0; i < channels * size; ++i) weight[size_t(i * size + i % size)] = 1;
  const std::string y =
      e.node("Conv", {e.in(), e.array(weight, shape, e.dtype())},
             {integers("kernel_shape", list(op.kernel, n, 1)), integers("strides", list(op.stride, n, 1)),
              integers("dilations", list(op.dilate, n, 1)), integers("pads", both_ends(list(op.pad, n, 0))),
              integer("group", channels)});
  e.set(e.reshape(y, e.result()));
}

void col2im(Emit& e) {
  const auto& op = e.op<op::Col2im>();
  const int n = op.kernel.ndim();
  e.set(e.node("Col2Im",
               {e.in(), e.builder().constant({op.output_size.begin(), op.output_size.end()}),
                e.builder().constant({op.kernel.begin(), op.kernel.end()})},
               {integers("strides", list(op.stride, n, 1)), integers("dilations", list(op.dilate, n, 1)),
                integers("pads", both_ends(list(op.pad, n, 0)))}));
}

const WriterRow convolution_table[] = {
    {&op::Convolution::def, convolution}, {&op::Deconvolution::def, deconvolution},
    {&op::Pooling::def, pooling},         {&op::MaxPoolIndices::def, max_pool_indices},
    {&op::MaxUnpool::def, max_unpool},    {&op::PlaneTake::def, plane_take},
    {&op::Im2col::def, im2col},           {&op::Col2im::def, col2im},
};

}  // namespace

std::span<const WriterRow> convolution_writers() { return convolution_table; }

}  // namespace kaon::onnx::exporting
