// Layers, reductions and products as ONNX nodes.
#include <fmt/format.h>

#include <cmath>

#include "kaon/interchange/onnx/export/emit.h"
#include "kaon/ops/all_ops.h"

namespace kaon::onnx::exporting {

namespace {

std::vector<int64_t> list(const Shape& s, int n, int64_t otherwise) {
  std::vector<int64_t> v(s.begin(), s.end());
  v.resize(size_t(n), otherwise);
  return v;
}

std::vector<int64_t> both_ends(const Shape& pad, int n) {
  std::vector<int64_t> v = list(pad, n, 0);
  v.insert(v.end(), v.begin(), v.begin() + n);
  return v;
}

void convolution(Emit& e) {
  const auto& op = e.op<op::Convolution>();
  if (ops::is_channels_last(op.layout)) e.fail("a layout with channels last");
  const int n = op.kernel.ndim();
  e.set(e.node("Conv", e.all(),
               {integers("kernel_shape", list(op.kernel, n, 1)), integers("strides", list(op.stride, n, 1)),
                integers("dilations", list(op.dilate, n, 1)), integers("pads", both_ends(op.pad, n)),
                integer("group", op.num_group)}));
}

void deconvolution(Emit& e) {
  const auto& op = e.op<op::Deconvolution>();
  if (ops::is_channels_last(op.layout)) e.fail("a layout with channels last");
  if (!op.target_shape.empty()) e.fail("target_shape");
  const int n = op.kernel.ndim();
  e.set(e.node("ConvTranspose", e.all(),
               {integers("kernel_shape", list(op.kernel, n, 1)), integers("strides", list(op.stride, n, 1)),
                integers("dilations", list(op.dilate, n, 1)), integers("pads", both_ends(op.pad, n)),
                integers("output_padding", list(op.adj, n, 0)), integer("group", op.num_group)}));
}

void fully_connected(Emit& e) {
  const auto& op = e.op<op::FullyConnected>();
  const Shape& x = e.shape();
  const bool rows = op.flatten || x.ndim() <= 2;
  std::string data = e.in(0);
  if (rows && x.ndim() != 2) data = e.node("Flatten", {data}, {integer("axis", 1)});
  if (rows) {
    std::vector<std::string> inputs{data, e.in(1)};
    if (!op.no_bias) inputs.push_back(e.in(2));
    return e.set(e.node("Gemm", inputs, {integer("transB", 1)}));
  }
  const std::string w = e.node("Transpose", {e.in(1)}, {integers("perm", {1, 0})});
  const std::string y = e.node("MatMul", {data, w});
  e.set(op.no_bias ? y : e.node("Add", {y, e.in(2)}));
}

void pooling(Emit& e) {
  const auto& op = e.op<op::Pooling>();
  if (ops::is_channels_last(op.layout)) e.fail("a layout with channels last");
  if (op.pool_type != PoolType::max && op.pool_type != PoolType::avg) e.fail("pool_type other than max and avg");
  const bool is_max = op.pool_type == PoolType::max;
  if (op.global_pool) return e.set(e.node(is_max ? "GlobalMaxPool" : "GlobalAveragePool", {e.in()}));
  if (op.pooling_convention == PoolingConvention::same) e.fail("the pooling convention same");
  const int n = op.kernel.ndim();
  std::vector<int64_t> pads = both_ends(op.pad, n);
  const std::vector<int64_t> stride = list(op.stride, n, 1), dilation = list(op.dilation, n, 1);
  std::vector<Attribute> attributes{integers("kernel_shape", list(op.kernel, n, 1)), integers("strides", stride)};
  if (!op.dilation.empty()) attributes.push_back(integers("dilations", dilation));
  std::string x = e.in();
  if (op.pooling_convention == PoolingConvention::full) {
    // the padding that makes a last window whole: ONNX would leave one out that begins in it
    for (int i = 0; i < n; ++i) {
      const int64_t extent = dilation[size_t(i)] * (op.kernel[i] - 1) + 1;
      const int64_t needed = (e.result()[i + 2] - 1) * stride[size_t(i)] + extent - e.shape()[i + 2] - pads[size_t(i)];
      pads[size_t(i + n)] = std::max<int64_t>(pads[size_t(i + n)], needed);
    }
    if (!is_max && op.count_include_pad.value_or(true)) e.fail("the mean of windows beyond the padding");
  }
  attributes.push_back(integers("pads", pads));
  if (!is_max) attributes.push_back(integer("count_include_pad", op.count_include_pad.value_or(true)));
  e.set(e.node(is_max ? "MaxPool" : "AveragePool", {x}, attributes));
}

template <class Op>
void batch_norm(Emit& e) {
  const auto& op = e.op<Op>();
  const auto set = [&](const std::string& y) {
    e.set(std::same_as<Op, op::BatchNormWithReLU> ? e.node("Relu", {y}) : y);
  };
  const int axis = op.axis < 0 ? op.axis + e.shape().ndim() : op.axis;
  if (op.output_mean_var) e.fail("output_mean_var");
  std::vector<std::string> inputs = e.all();
  if (op.fix_gamma) inputs[1] = e.builder().initializer(nd.ones(e.shape(1), {.dtype = e.dtype(1)}), "ones");
  if (axis == 1) {
    return set(e.node("BatchNormalization", inputs, {real("epsilon", op.eps), real("momentum", op.momentum)}));
  }
  std::vector<int64_t> to;  // the channels to axis 1 and back
  for (int i = 0; i < e.shape().ndim(); ++i) to.push_back(i);
  std::swap(to[1], to[size_t(axis)]);
  inputs[0] = e.node("Transpose", {inputs[0]}, {integers("perm", to)});
  const std::string y = e.node("BatchNormalization", inputs, {real("epsilon", op.eps), real("momentum", op.momentum)});
  set(e.node("Transpose", {y}, {integers("perm", to)}));
}

void layer_norm(Emit& e) {
  const auto& op = e.op<op::LayerNorm>();
  const int rank = e.shape().ndim(), axis = op.axis < 0 ? op.axis + rank : op.axis;
  if (op.output_mean_var) e.fail("output_mean_var");
  if (e.shape(1).ndim() != 1) e.fail("a gamma for each row");
  if (axis == rank - 1)
    return e.set(e.node("LayerNormalization", e.all(), {integer("axis", -1), real("epsilon", op.eps)}));
  std::vector<int64_t> to;
  for (int i = 0; i < rank; ++i) to.push_back(i);
  std::swap(to[size_t(axis)], to.back());
  const std::string x = e.node("Transpose", {e.in()}, {integers("perm", to)});
  const std::string y =
      e.node("LayerNormalization", {x, e.in(1), e.in(2)}, {integer("axis", -1), real("epsilon", op.eps)});
  e.set(e.node("Transpose", {y}, {integers("perm", to)}));
}

void instance_norm(Emit& e) {
  e.set(e.node("InstanceNormalization", e.all(), {real("epsilon", e.op<op::InstanceNorm>().eps)}));
}

void lrn(Emit& e) {
  const auto& op = e.op<op::LRN>();
  e.set(e.node("LRN", {e.in()},
               {real("alpha", op.alpha), real("beta", op.beta), real("bias", op.knorm), integer("size", op.nsize)}));
}

template <class Op>
void softmax(Emit& e) {
  const auto& op = e.op<Op>();
  if (op.use_length || op.dtype) e.fail("use_length and dtype");
  std::string x = e.in();
  if (op.temperature) x = e.node("Div", {x, e.number(*op.temperature)});
  e.set(e.node(std::same_as<Op, op::Softmax> ? "Softmax" : "LogSoftmax", {x}, {integer("axis", op.axis)}));
}

void softmax_output(Emit& e) {  // in prediction
  const auto& op = e.op<op::SoftmaxOutput>();
  if (op.multi_output || op.preserve_shape || e.shape().ndim() == 2) {
    return e.set(e.node("Softmax", {e.in()}, {integer("axis", op.multi_output ? 1 : -1)}));
  }
  e.set(e.reshape(e.node("Softmax", {e.node("Flatten", {e.in()})}, {integer("axis", 1)}), e.result()));
}

template <class Op>
void reduction(Emit& e, const char* name) {
  const auto& op = e.op<Op>();
  std::vector<int64_t> axes;
  const int rank = e.shape().ndim();
  std::vector<bool> named(size_t(rank), op.axis.empty());
  for (int64_t a : op.axis) named[size_t(a < 0 ? a + rank : a)] = true;
  if constexpr (requires { op.exclude; }) {
    if (op.exclude) named.flip();
  }
  for (int i = 0; i < rank; ++i) {
    if (named[size_t(i)]) axes.push_back(i);
  }
  const bool as_input = e.builder().opset() >= 18 || std::string_view(name) == "ReduceSum";
  std::vector<std::string> inputs{e.in()};
  std::vector<Attribute> attributes{integer("keepdims", op.keepdims)};
  if (as_input) inputs.push_back(e.builder().constant(axes));
  else attributes.push_back(integers("axes", axes));
  std::string y = e.node(name, inputs, attributes);
  if (int(axes.size()) == rank && !op.keepdims) y = e.reshape(y, e.result());  // (1,) where nothing is left
  e.set(y);
}

// a b, one of them or both transposed, of matrices along the last two axes.
template <class Op>
void product(Emit& e) {
  const auto& op = e.op<Op>();
  const auto turned = [&](int i, bool turns) {
    if (!turns) return e.in(i);
    std::vector<int64_t> to;
    for (int k = 0; k < e.shape(i).ndim(); ++k) to.push_back(k);
    if (std::same_as<Op, op::Dot>) std::reverse(to.begin(), to.end());
    else std::swap(to[to.size() - 1], to[to.size() - 2]);
    return e.node("Transpose", {e.in(i)}, {integers("perm", to)});
  };
  if (std::same_as<Op, op::Dot> && (e.shape(1).ndim() > 2 || e.shape(0).ndim() < 1))
    e.fail("dot of more than two dimensions");
  std::string y = e.node("MatMul", {turned(0, op.transpose_a), turned(1, op.transpose_b)});
  if (e.shape(0).ndim() == 1 && e.shape(1).ndim() == 1) y = e.reshape(y, e.result());
  e.set(y);
}

void matmul(Emit& e) { e.set(e.node("MatMul", e.all())); }

void embedding(Emit& e) { e.set(e.node("Gather", {e.in(1), e.cast(e.in(0), DType::int64)})); }

// softmax(scale q k^T + mask) v
void attention(Emit& e) {
  const auto& op = e.op<op::ScaledDotProductAttention>();
  if (op.use_valid_length) e.fail("valid_length");
  const Shape &q = e.shape(0), &k = e.shape(1);
  std::string key = e.in(1), value = e.in(2);
  if (q[1] != k[1]) {  // shared heads, repeated
    const auto repeated = [&](const std::string& x, const Shape& s) {
      const std::string one = e.reshape(x, Shape(s[0], s[1], 1, s[2], s[3]));
      const std::string many = e.node("Expand", {one, e.builder().constant({s[0], s[1], q[1] / s[1], s[2], s[3]})});
      return e.reshape(many, Shape(s[0], q[1], s[2], s[3]));
    };
    key = repeated(key, k);
    value = repeated(value, e.shape(2));
  }
  const double scale = op.scale.value_or(1 / std::sqrt(double(q[3])));
  std::string s = e.node("MatMul", {e.in(0), e.node("Transpose", {key}, {integers("perm", {0, 1, 3, 2})})});
  s = e.node("Mul", {s, e.number(scale)});
  const double lowest = -std::numeric_limits<double>::infinity();
  if (op.use_mask) {
    if (e.dtype(3) == DType::boolean) s = e.node("Where", {e.in(3), s, e.number(lowest)});
    else s = e.node("Add", {s, e.in(3)});
  }
  if (op.causal != CausalMask::none) {
    const int64_t n = q[2], m = k[2], offset = op.causal == CausalMask::lower_right ? m - n : 0;
    std::vector<float> bias(size_t(n * m), 0);
    for (int64_t i = 0; i < n; ++i) {
      for (int64_t j = i + offset + 1; j < m; ++j) bias[size_t(i * m + std::max<int64_t>(j, 0))] = float(lowest);
    }
    s = e.node("Add",
               {s, e.builder().initializer(NDArray::from(bias.data(), bias.size(), Shape(n, m), e.dtype()), "causal")});
  }
  e.set(e.node("MatMul", {e.node("Softmax", {s}, {integer("axis", -1)}), value}));
}

void rms_norm(Emit& e) {
  const auto& op = e.op<op::RMSNorm>();
  const int rank = e.shape().ndim(), axis = op.axis < 0 ? op.axis + rank : op.axis;
  if (axis != rank - 1) e.fail("an axis other than the last");
  std::vector<std::string> inputs{e.node("Mul", {e.in(), e.in()})};
  std::vector<Attribute> attributes;
  if (e.builder().opset() >= 18) inputs.push_back(e.builder().constant({-1}));
  else attributes.push_back(integers("axes", {-1}));
  const std::string mean = e.node("ReduceMean", inputs, attributes);
  const std::string root = e.node("Sqrt", {e.node("Add", {mean, e.number(op.eps)})});
  e.set(e.node("Mul", {e.node("Div", {e.in(), root}), e.in(1)}));
}

void dropout(Emit& e) { e.set(e.node("Identity", {e.in()})); }  // in prediction

void resized(Emit& e, const char* mode, const char* coordinates) {
  const Shape& s = e.result();
  std::vector<Attribute> attributes{text("mode", mode), text("coordinate_transformation_mode", coordinates)};
  if (std::string_view(mode) == "nearest") attributes.push_back(text("nearest_mode", "floor"));
  e.set(e.node("Resize", {e.in(), "", "", e.builder().constant({s[0], s[1], s[2], s[3]})}, attributes));
}

void up_sampling(Emit& e) {
  const auto& op = e.op<op::UpSampling>();
  if (op.sample_type != UpSamplingType::nearest || e.count() != 1) e.fail("UpSampling other than nearest of one input");
  resized(e, "nearest", "asymmetric");
}

void bilinear(Emit& e) {
  resized(e, "linear", e.op<op::BilinearResize2D>().align_corners ? "align_corners" : "half_pixel");
}

void adaptive_average(Emit& e) {
  if (e.result()[2] != 1 || e.result()[3] != 1) {
    const Shape& x = e.shape();
    const int64_t h = e.result()[2], w = e.result()[3];
    if (x[2] % h != 0 || x[3] % w != 0) e.fail("an output size that does not divide the image");
    const std::vector<int64_t> window{x[2] / h, x[3] / w};
    return e.set(e.node("AveragePool", {e.in()}, {integers("kernel_shape", window), integers("strides", window)}));
  }
  e.set(e.node("GlobalAveragePool", {e.in()}));
}

const WriterRow layer_table[] = {
    {&op::Convolution::def, convolution},
    {&op::Deconvolution::def, deconvolution},
    {&op::FullyConnected::def, fully_connected},
    {&op::Pooling::def, pooling},
    {&op::BatchNorm::def, batch_norm<op::BatchNorm>},
    {&op::BatchNormWithReLU::def, batch_norm<op::BatchNormWithReLU>},
    {&op::LayerNorm::def, layer_norm},
    {&op::InstanceNorm::def, instance_norm},
    {&op::RMSNorm::def, rms_norm},
    {&op::LRN::def, lrn},
    {&op::Softmax::def, softmax<op::Softmax>},
    {&op::LogSoftmax::def, softmax<op::LogSoftmax>},
    {&op::SoftmaxOutput::def, softmax_output},
    {&op::Sum::def, [](Emit& e) { reduction<op::Sum>(e, "ReduceSum"); }},
    {&op::Mean::def, [](Emit& e) { reduction<op::Mean>(e, "ReduceMean"); }},
    {&op::Max::def, [](Emit& e) { reduction<op::Max>(e, "ReduceMax"); }},
    {&op::Min::def, [](Emit& e) { reduction<op::Min>(e, "ReduceMin"); }},
    {&op::Prod::def, [](Emit& e) { reduction<op::Prod>(e, "ReduceProd"); }},
    {&op::Dot::def, product<op::Dot>},
    {&op::BatchDot::def, product<op::BatchDot>},
    {&op::Matmul::def, matmul},
    {&op::Embedding::def, embedding},
    {&op::ScaledDotProductAttention::def, attention},
    {&op::Dropout::def, dropout},
    {&op::UpSampling::def, up_sampling},
    {&op::BilinearResize2D::def, bilinear},
    {&op::AdaptiveAvgPooling2D::def, adaptive_average},
};

}  // namespace

std::span<const WriterRow> layer_writers() { return layer_table; }

}  // namespace kaon::onnx::exporting
