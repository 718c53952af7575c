// Dense layers, normalisations, softmaxes and products as ONNX nodes.
#include <limits>
#include <numeric>

#include "kaon/interchange/onnx/export/emit.h"
#include "kaon/ops/all_ops.h"
#include "kaon/ops/quant/kernels/block_dense.h"

namespace kaon::onnx::exporting {

namespace {

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

// ONNX Runtime's operator, which has one dtype for all floating numbers.
void block_quantized_dense(Emit& e) {
  const auto& op = e.op<op::BlockQuantizedDense>();
  const int64_t n = e.shape(1)[0], k = e.shape().back();
  const auto floating = [&](int i) { return e.is_real(i) ? e.cast(e.in(i), e.dtype()) : e.in(i); };
  const std::string data = e.rank() > 1 ? e.in() : e.reshape(e.in(), Shape(1, k));
  std::vector<std::string> inputs{data, e.in(1), floating(2)};
  if (op.has_zeros || !op.no_bias) inputs.push_back(op.has_zeros ? floating(3) : "");
  if (!op.no_bias) inputs.insert(inputs.end(), {"", e.in(3 + int(op.has_zeros))});
  const std::string y = e.runtime_node(
      "MatMulNBits", inputs,
      {integer("K", k), integer("N", n), integer("bits", op.bits), integer("block_size", op.block_size)});
  e.set(e.rank() > 1 ? y : e.reshape(y, e.result()));
}

// The axes with `axis` in place 1, or last, of the others; the same permutation leads back.
std::vector<int64_t> exchanged(int rank, int axis, int place) {
  std::vector<int64_t> perm(static_cast<size_t>(rank));
  std::iota(perm.begin(), perm.end(), 0);
  std::swap(perm[size_t(place)], perm[size_t(axis)]);
  return perm;
}

template <class Op>
void batch_norm(Emit& e) {
  const auto& op = e.op<Op>();
  const int axis = e.axis(op.axis), rank = e.rank();
  std::vector<std::string> inputs = e.all();
  for (size_t i = 1; i < 5; ++i) {  // the standard has one dtype for all but the statistics
    if (e.dtype(int(i)) != e.dtype()) inputs[i] = e.cast(inputs[i], e.dtype());
  }
  if (op.fix_gamma) inputs[1] = e.builder().initializer(nd.ones(e.shape(1), {.dtype = e.dtype()}), "ones");
  Shape whole = e.shape();
  if (rank == 1) whole = Shape(1, whole[0]), inputs[0] = e.reshape(inputs[0], whole);
  const bool is_turned = rank > 1 && axis != 1;
  if (is_turned) inputs[0] = e.transpose(inputs[0], exchanged(rank, axis, 1));  // the channels to axis 1
  std::string y = e.node("BatchNormalization", inputs, {real("epsilon", op.eps), real("momentum", op.momentum)});
  if (is_turned) y = e.transpose(y, exchanged(rank, axis, 1));
  if (rank == 1) y = e.reshape(y, e.shape());
  e.set(std::same_as<Op, op::BatchNormWithReLU> ? e.node("Relu", {y}) : y);
  if (!op.output_mean_var) return;
  e.set(e.node("Identity", {e.in(3)}), 1);
  const std::string spread = e.add(e.in(4), e.number(op.eps, e.dtype(4)));
  e.set(e.node("Reciprocal", {e.node("Sqrt", {spread})}), 2);
}

// x normalised over its last axis, without gamma and beta: what LayerNormalization cannot say.
std::string normalised(Emit& e, const std::string& x, double eps, std::string& mean, std::string& root) {
  mean = e.reduce("ReduceMean", x, {-1}, true);
  const std::string apart = e.sub(x, mean);
  root = e.node("Sqrt", {e.add(e.reduce("ReduceMean", e.mul(apart, apart), {-1}, true), e.number(eps))});
  return e.div(apart, root);
}

void layer_norm(Emit& e) {
  const auto& op = e.op<op::LayerNorm>();
  const int rank = e.rank(), axis = e.axis(op.axis);
  const std::vector<int64_t> turned = exchanged(rank, axis, rank - 1);
  const std::string x = e.transpose(e.in(), turned);
  if (!op.output_mean_var && e.rank(1) == 1) {
    const std::string y =
        e.node("LayerNormalization", {x, e.in(1), e.in(2)}, {integer("axis", -1), real("epsilon", op.eps)});
    return e.set(e.transpose(y, turned));
  }
  std::string mean, root;
  std::string y = e.transpose(normalised(e, x, op.eps, mean, root), turned);
  Shape along = Shape::filled(rank, 1);
  along[axis] = e.shape()[axis];
  const auto scale = [&](int i) { return e.rank(i) == 1 ? e.reshape(e.in(i), along) : e.in(i); };
  e.set(e.add(e.mul(y, scale(1)), scale(2)));
  if (!op.output_mean_var) return;
  e.set(e.cast(e.reshape(mean, e.result(1)), e.result_dtype(1)), 1);
  e.set(e.cast(e.reshape(root, e.result(2)), e.result_dtype(2)), 2);
}

void instance_norm(Emit& e) {
  if (e.rank() < 3) return e.set_parts();
  e.set(e.node("InstanceNormalization", e.all(), {real("epsilon", e.op<op::InstanceNorm>().eps)}));
}

// From opset 21 on gamma and beta have a number for each channel. Before, groups are normalised as channels are, by
// reshapes that hold for images of any size.
void group_norm(Emit& e) {
  const auto& op = e.op<op::GroupNorm>();
  const bool has_parts = e.opset() < 21 && (e.dtype() != DType::float32 || e.shape().size() == 0);
  if (has_parts || op.output_mean_var || e.rank() < 3) return e.set_parts();
  if (e.opset() < 21) {
    const std::string to_groups = e.array({0, double(op.num_groups), -1}, Shape(3), DType::int64);
    const std::string y = e.node("InstanceNormalization", {e.node("Reshape", {e.in(), to_groups}), e.in(1), e.in(2)},
                                 {real("epsilon", op.eps)});
    return e.set(e.node("Reshape", {y, e.node("Shape", {e.in()})}));
  }
  const int64_t channels = e.shape()[1];
  const auto of_channels = [&](int i) {  // Kaon's have one for each group
    if (e.shape(i)[0] == channels) return e.in(i);
    const std::string many =
        e.expand(e.reshape(e.in(i), Shape(op.num_groups, 1)), Shape(op.num_groups, channels / op.num_groups));
    return e.reshape(many, Shape(channels));
  };
  e.set(e.node("GroupNormalization", {e.in(), of_channels(1), of_channels(2)},
               {integer("num_groups", op.num_groups), real("epsilon", op.eps)}));
}

void lrn(Emit& e) {
  const auto& op = e.op<op::LRN>();
  const Shape& s = e.shape();
  const bool is_images = s.ndim() == 4;  // what tools take
  const std::string x = is_images ? e.in() : e.reshape(e.in(), Shape(s[0], s[1], s.product(2, s.ndim()), 1));
  const std::string y = e.node(
      "LRN", {x}, {real("alpha", op.alpha), real("beta", op.beta), real("bias", op.knorm), integer("size", op.nsize)});
  e.set(is_images ? y : e.reshape(y, s));
}

template <class Op>
void softmax(Emit& e) {
  const auto& op = e.op<Op>();
  const DType t = e.dtype(), given = op.dtype.value_or(t), wide = size_of(given) > size_of(t) ? given : t;
  const int axis = e.axis(op.axis);
  std::string x = wide == t ? e.in() : e.cast(e.in(), wide);
  if (op.temperature) x = e.div(x, e.number(*op.temperature, wide));
  if (std::same_as<Op, op::Softmin>) x = e.node("Neg", {x});
  std::string here;  // the elements that count
  if (op.use_length && std::same_as<Op, op::Softmax>) {
    std::vector<double> steps;
    for (int64_t i = 0; i < e.shape()[axis]; ++i) steps.push_back(double(i));
    Shape along = Shape::filled(e.rank(), 1), kept = e.shape();
    along[axis] = e.shape()[axis], kept[axis] = 1;
    here = e.less(e.array(steps, along, DType::int64), e.reshape(e.index(1, IndexMode::raise, 0), kept));
    x = e.where(here, x, e.number(-std::numeric_limits<double>::infinity(), wide));
  }
  std::string y = e.node(std::same_as<Op, op::LogSoftmax> ? "LogSoftmax" : "Softmax", {x}, {integer("axis", axis)});
  if (!here.empty()) y = e.where(here, y, e.number(0, wide));
  e.set(wide == e.result_dtype() ? y : e.cast(y, e.result_dtype()));
}

void softmax_activation(Emit& e) {
  if (e.op<op::SoftmaxActivation>().mode == SoftmaxMode::channel || e.rank() == 2) {
    return e.set(e.node("Softmax", {e.in()}, {integer("axis", 1)}));
  }
  const std::string rows = e.node("Flatten", {e.in()}, {integer("axis", 1)});
  e.set(e.reshape(e.node("Softmax", {rows}, {integer("axis", 1)}), e.result()));
}

// The sum of the losses of the rows.
void softmax_cross_entropy(Emit& e) {
  const std::string logs = e.node("LogSoftmax", {e.in()}, {integer("axis", 1)});
  const std::string label = e.reshape(e.index(1, IndexMode::clip, e.shape()[1]), Shape(e.shape()[0], 1));
  const std::string chosen = e.node("GatherElements", {logs, label}, {integer("axis", 1)});
  e.set(e.node("Neg", {e.reshape(e.reduce("ReduceSum", chosen, {0, 1}, false), e.result())}));
}

void softmax_output(Emit& e) {  // in prediction
  const auto& op = e.op<op::SoftmaxOutput>();
  if (op.multi_output || op.preserve_shape || e.shape().ndim() == 2) {
    return e.set(e.node("Softmax", {e.in()}, {integer("axis", op.multi_output ? 1 : -1)}));
  }
  e.set(e.reshape(e.node("Softmax", {e.node("Flatten", {e.in()})}, {integer("axis", 1)}), e.result()));
}

// The last axis of a with the first of b: as matrices, where there are more axes.
void dot(Emit& e) {
  const auto& op = e.op<op::Dot>();
  const int left = e.rank(0), right = e.rank(1);
  const Shape &a = e.shape(0), &b = e.shape(1);
  std::vector<int64_t> first, last;  // the contracted axis of a to the end, that of b to the begin
  for (int i = 0; i < left; ++i) first.push_back(op.transpose_a ? (i + 1) % left : i);
  for (int i = 0; i < right; ++i) last.push_back(op.transpose_b ? (i + right - 1) % right : i);
  if (op.transpose_a && left == 2 && right == 1) return e.set(e.matmul(e.in(1), e.in(0)));  // as a row
  std::string x = e.transpose(e.in(0), first), y = e.transpose(e.in(1), last);
  const int64_t n = a[int(first.back())];
  const auto others = [](const Shape& s, int64_t contracted) {
    int64_t size = 1;
    for (int i = 0; i < s.ndim(); ++i) size *= i == contracted ? 1 : s[i];
    return size;
  };
  if (left > 2) x = e.reshape(x, Shape(others(a, first.back()), n));
  if (right > 2) y = e.reshape(y, Shape(n, others(b, last.front())));
  const std::string z = e.matmul(x, y);
  e.set(left > 2 || right > 2 || (left == 1 && right == 1) ? e.reshape(z, e.result()) : z);
}

void batch_dot(Emit& e) {
  const auto& op = e.op<op::BatchDot>();
  const auto turned = [&](int i, bool turns) {
    return turns ? e.transpose(e.in(i), exchanged(e.rank(i), e.rank(i) - 2, e.rank(i) - 1)) : e.in(i);
  };
  e.set(e.matmul(turned(0, op.transpose_a), turned(1, op.transpose_b)));
}

void matmul(Emit& e) {
  const DType t = e.dtype();
  const bool is_short = !is_floating(t) && size_of(t) < 4;
  std::string y = is_short ? e.cast(e.matmul(e.cast(e.in(0), DType::int32), e.cast(e.in(1), DType::int32)), t)
                           : e.matmul(e.in(0), e.in(1));
  e.set(e.rank(0) == 1 && e.rank(1) == 1 ? e.reshape(y, e.result()) : y);
}

void embedding(Emit& e) { e.set(e.node("Gather", {e.in(1), e.index(0, IndexMode::clip, e.shape(1)[0])})); }

void rms_norm(Emit& e) {
  const auto& op = e.op<op::RMSNorm>();
  const int rank = e.rank(), axis = e.axis(op.axis);
  const std::vector<int64_t> turned = exchanged(rank, axis, rank - 1);
  const std::string x = e.transpose(e.in(), turned);
  if (e.opset() >= 23) {
    const std::string y = e.node("RMSNormalization", {x, e.in(1)}, {integer("axis", -1), real("epsilon", op.eps)});
    return e.set(e.transpose(y, turned));
  }
  const std::string mean = e.reduce("ReduceMean", e.mul(x, x), {-1}, true);
  const std::string y = e.div(x, e.node("Sqrt", {e.add(mean, e.number(op.eps))}));
  e.set(e.transpose(e.mul(y, e.in(1)), turned));
}

// In prediction the identity, unless it always drops.
void dropout(Emit& e) {
  const auto& op = e.op<op::Dropout>();
  if (op.mode != DropoutMode::always || op.p == 0) return e.set(e.node("Identity", {e.in()}));
  if (!op.axes.empty()) e.fail("a Dropout that always drops, with axes,");
  e.set(e.node("Dropout", {e.in(), e.number(op.p), e.number(1, DType::boolean)}));
}

const WriterRow layer_table[] = {
    {&op::FullyConnected::def, fully_connected},
    {&op::BlockQuantizedDense::def, block_quantized_dense},
    {&op::BatchNorm::def, batch_norm<op::BatchNorm>},
    {&op::BatchNormWithReLU::def, batch_norm<op::BatchNormWithReLU>},
    {&op::LayerNorm::def, layer_norm},
    {&op::InstanceNorm::def, instance_norm},
    {&op::GroupNorm::def, group_norm},
    {&op::RMSNorm::def, rms_norm},
    {&op::LRN::def, lrn},
    {&op::Softmax::def, softmax<op::Softmax>},
    {&op::LogSoftmax::def, softmax<op::LogSoftmax>},
    {&op::SoftmaxOutput::def, softmax_output},
    {&op::Softmin::def, softmax<op::Softmin>},
    {&op::SoftmaxActivation::def, softmax_activation},
    {&op::SoftmaxCrossEntropy::def, softmax_cross_entropy},
    {&op::Dot::def, dot},
    {&op::BatchDot::def, batch_dot},
    {&op::Matmul::def, matmul},
    {&op::Embedding::def, embedding},
    {&op::Dropout::def, dropout},
};

}  // namespace

std::span<const WriterRow> layer_writers() { return layer_table; }

}  // namespace kaon::onnx::exporting
