#include "kaon/ops/nn/activation/activation.h"

#include <fmt/format.h>

#include <algorithm>

#include "kaon/ops/elementwise/elementwise.h"
#include "kaon/ops/functions.h"
#include "kaon/ops/math/dispatch.h"
#include "kaon/ops/nn/activation/kernels/activation_kernel.h"
#include "kaon/ops/op_def.h"
#include "kaon/ops/operator/cuda_expression.h"
#include "kaon/ops/operator/fused_forms.h"

namespace kaon {

using namespace ops;
namespace {

constexpr int64_t cheap_grain = 65536;   // elements per piece of a loop bound by memory
constexpr int64_t costly_grain = 16384;  // and of one that computes exponentials

void expect_same_shape(const InferContext& c, int a, int b) {
  if (c.shape(a) != c.shape(b)) c.fail("shapes must be equal: " + c.describe_inputs());
}

int64_t row_grain(const ChannelView& view, int64_t elements) {
  return std::max<int64_t>(1, elements / std::max<int64_t>(1, view.channels * view.inner));
}

UnaryKind unary_kind(ActivationType type) {
  switch (type) {
    case ActivationType::relu: return UnaryKind::relu;
    case ActivationType::sigmoid: return UnaryKind::sigmoid;
    case ActivationType::tanh: return UnaryKind::tanh;
    case ActivationType::softrelu: return UnaryKind::softrelu;
    case ActivationType::softsign: return UnaryKind::softsign;
  }
  return UnaryKind::identity;
}

std::string leaky_expression(const char* function, LeakyType type, double slope, const ExpressionArgs& a) {
  const bool selu = type == LeakyType::selu, linear = type == LeakyType::leaky;
  return two_number_expression(function, a, selu ? selu_alpha : slope, selu ? selu_scale : 1,
                               linear ? ", true" : ", false");
}

void expect_gamma(InferContext& c, int data, int gamma) {
  const Shape &given = c.shape(gamma), &x = c.shape(data);
  if (given.is_known() && given.size() == 1) return;
  if (x.ndim() < 2) {
    c.expect_shape(gamma, Shape(1));
  } else if (given.ndim() != 2) {
    c.expect_shape(gamma, Shape(x[1]));
  } else if ((given[0] != 1 && given[0] != x[0]) || (given[1] != 1 && given[1] != x[1])) {
    c.fail("a matrix gamma must broadcast to axes 0 and 1 of data: " + c.describe_inputs());
  }
}

}  // namespace

constinit const OpDef op::Activation::def = make_op_def<op::Activation>();
constinit const OpDef op::BackwardActivation::def = make_op_def<op::BackwardActivation>();
constinit const OpDef op::LeakyReLU::def = make_op_def<op::LeakyReLU>();
constinit const OpDef op::BackwardLeakyReLU::def = make_op_def<op::BackwardLeakyReLU>();
constinit const OpDef op::BackwardPReLUGamma::def = make_op_def<op::BackwardPReLUGamma>();

void op::Activation::infer(InferContext& c) const {
  c.expect_floating();
  c.set_output(c.shape(0), c.dtype());
}

void op::Activation::grad(GradContext& g) const {
  if (g.wants(0) && g.has_head(0)) g.set(0, nd._backward_Activation(g.head(), g.output(), {.act_type = act_type}));
}

FusedActivation op::Activation::as_epilogue() const { return unary_epilogue(unary_kind(act_type)); }

FusedForms op::Activation::fused_forms(const RegisterKernels& k) const { return fused_unary(unary_kind(act_type), k); }

std::optional<CudaExpression> op::Activation::cuda_expression(const ExpressionArgs& a) const {
  return unary_expression(unary_kind(act_type), a);
}

void run_cpu(const op::Activation& op, KernelContext& c) {
  const TensorView x = c.in(0), y = c.out();
  const int64_t grain =
      op.act_type == ActivationType::relu || op.act_type == ActivationType::softsign ? cheap_grain : costly_grain;
  c.run.parallel_for(x.size(), grain, [&](int64_t begin, int64_t end) {
    activation_forward(op.act_type, x.dtype, x.data, y.data, begin, end);
  });
}

void op::BackwardActivation::infer(InferContext& c) const {
  c.expect_floating();
  c.expect_same_dtype();
  expect_same_shape(c, 0, 1);
  c.set_output(c.shape(0), c.dtype());
}

// With respect to the output y: second * head * f'(y) differentiated by y.
void op::BackwardActivation::grad(GradContext& g) const {
  if (!g.has_head(0)) return;
  const NDArray& second = g.head();
  const NDArray &head = g.input(0), &y = g.input(1);
  if (g.wants(0)) g.set(0, nd._backward_Activation(second, y, {.act_type = act_type}));
  if (!g.wants(1)) return;
  switch (act_type) {
    case ActivationType::relu: return;
    case ActivationType::sigmoid: return g.set(1, second * head * (1 - 2 * y));
    case ActivationType::tanh: return g.set(1, second * head * (-2 * y));
    case ActivationType::softrelu: return g.set(1, second * head * nd.exp(-y));
    case ActivationType::softsign: return g.set(1, second * head * (-2 * (1 - nd.abs(y)) * nd.sign(y)));
  }
}

FusedForms op::BackwardActivation::fused_forms(const RegisterKernels&) const {
  return {{}, [](const void* attrs, const float* const* in, float* out, size_t n) {
            const auto& op = *static_cast<const op::BackwardActivation*>(attrs);
            activation_backward(op.act_type, DType::float32, in[0], in[1], out, 0, int64_t(n));
          }};
}

std::optional<CudaExpression> op::BackwardActivation::cuda_expression(const ExpressionArgs& a) const {
  switch (act_type) {
    case ActivationType::relu: return unary_backward_expression(UnaryBackwardKind::relu, a);
    case ActivationType::sigmoid: return unary_backward_expression(UnaryBackwardKind::sigmoid, a);
    case ActivationType::tanh: return unary_backward_expression(UnaryBackwardKind::tanh, a);
    case ActivationType::softrelu: return fmt::format("softrelu_backward_value({}, {})", a.in[0], a.in[1]);
    case ActivationType::softsign: return fmt::format("softsign_backward_value({}, {})", a.in[0], a.in[1]);
  }
  return {};
}

void run_cpu(const op::BackwardActivation& op, KernelContext& c) {
  const TensorView head = c.in(0), y = c.in(1), dx = c.out();
  const int64_t grain = op.act_type == ActivationType::softrelu ? costly_grain : cheap_grain;
  c.run.parallel_for(dx.size(), grain, [&](int64_t begin, int64_t end) {
    activation_backward(op.act_type, dx.dtype, head.data, y.data, dx.data, begin, end);
  });
}

const OpTraits& op::LeakyReLU::traits_of() const {
  switch (act_type) {
    case LeakyType::prelu: return prelu_traits;
    case LeakyType::rrelu: return traits;
    default: return pointwise_traits;
  }
}

void op::LeakyReLU::infer(InferContext& c) const {
  c.expect_floating();
  c.expect_same_dtype();
  if (act_type == LeakyType::prelu) expect_gamma(c, 0, 1);
  if (act_type == LeakyType::rrelu && !(lower_bound <= upper_bound)) {
    c.fail_value("lower_bound must not exceed upper_bound, got " + to_text(lower_bound) + " and " +
                 to_text(upper_bound));
  }
  for (int i = 0; i < num_outputs(); ++i) c.set_output(i, c.shape(0), c.dtype());
}

void op::LeakyReLU::grad(GradContext& g) const {
  if (!g.has_head(0)) return;
  if (act_type == LeakyType::rrelu) {
    if (g.wants(0)) g.set(0, g.head() * g.output(1));
    return;
  }
  const bool has_gamma = act_type == LeakyType::prelu;
  const op::BackwardLeakyReLU data{.act_type = act_type, .slope = slope};
  if (g.wants(0)) {
    g.set(0, has_gamma ? nd._backward_LeakyReLU(g.head(), g.input(0), g.input(1), data)
                       : nd._backward_LeakyReLU(g.head(), g.input(0), data));
  }
  if (has_gamma && g.wants(1)) g.set(1, nd._backward_PReLU_gamma(g.head(), g.input(0), g.input(1)));
}

FusedForms op::LeakyReLU::fused_forms(const RegisterKernels&) const {
  return {{}, [](const void* attrs, const float* const* in, float* out, size_t n) {
            const auto& op = *static_cast<const op::LeakyReLU*>(attrs);
            leaky_forward(op.act_type, op.slope, DType::float32, in[0], out, 0, int64_t(n));
          }};
}

std::optional<CudaExpression> op::LeakyReLU::cuda_expression(const ExpressionArgs& a) const {
  if (act_type == LeakyType::gelu) return unary_expression(UnaryKind::gelu, a);
  return leaky_expression("leaky_value", act_type, slope, a);
}

void run_cpu(const op::LeakyReLU& op, KernelContext& c) {
  const TensorView x = c.in(0), y = c.out();
  if (op.act_type == LeakyType::prelu) {
    const ChannelView view = channel_view(x, c.in(1).shape);
    c.run.parallel_for(view.rows(), row_grain(view, cheap_grain), [&](int64_t begin, int64_t end) {
      prelu(view, x.dtype, nullptr, x.data, c.in(1).data, y.data, begin, end);
    });
    return;
  }
  if (op.act_type == LeakyType::rrelu) {
    // without training every slope is the mean, and the kept slopes follow from an empty interval
    const double mean = (op.lower_bound + op.upper_bound) / 2;
    const double low = c.training ? op.lower_bound : mean, high = c.training ? op.upper_bound : mean;
    c.run.parallel_for(x.size(), costly_grain, [&](int64_t begin, int64_t end) {
      rrelu_forward(c.random, low, high, x.dtype, x.data, y.data, c.out(1).data, begin, end);
    });
    return;
  }
  const int64_t grain = op.act_type == LeakyType::leaky ? cheap_grain : costly_grain;
  c.run.parallel_for(x.size(), grain, [&](int64_t begin, int64_t end) {
    leaky_forward(op.act_type, op.slope, x.dtype, x.data, y.data, begin, end);
  });
}

void op::BackwardLeakyReLU::infer(InferContext& c) const {
  c.expect_floating();
  c.expect_same_dtype();
  expect_same_shape(c, 0, 1);
  if (act_type == LeakyType::prelu) expect_gamma(c, 1, 2);
  if (act_type == LeakyType::rrelu) c.fail_value("rrelu multiplies with its kept slopes instead");
  c.set_output(c.shape(0), c.dtype());
}

void op::BackwardLeakyReLU::grad(GradContext& g) const {
  if (!g.has_head(0)) return;
  const NDArray &head = g.input(0), &x = g.input(1);
  if (g.wants(0)) {
    g.set(0, act_type == LeakyType::prelu ? nd._backward_LeakyReLU(g.head(), x, g.input(2), *this)
                                          : nd._backward_LeakyReLU(g.head(), x, *this));
  }
  const NDArray both = g.head() * head;
  if (g.wants(1) && (act_type == LeakyType::elu || act_type == LeakyType::selu)) {
    // left of 0 the slope is its own derivative; right of it, it is constant
    g.set(1, both * (x <= 0) * nd._backward_LeakyReLU(nd.ones_like(x), x, *this));
  }
  if (g.wants(1) && act_type == LeakyType::gelu) {  // phi(x) (2 - x^2)
    const NDArray square = nd.square(x);
    g.set(1, 0.3989422804014327 * (both * nd.exp(-0.5 * square) * (2.0 - square)));
  }
  if (act_type == LeakyType::prelu && g.wants(2)) {  // the sum of both where x <= 0
    g.set(2, nd._backward_PReLU_gamma(-both, -(x <= 0), g.input(2)));
  }
}

FusedForms op::BackwardLeakyReLU::fused_forms(const RegisterKernels&) const {
  return {{}, [](const void* attrs, const float* const* in, float* out, size_t n) {
            const auto& op = *static_cast<const op::BackwardLeakyReLU*>(attrs);
            leaky_backward(op.act_type, op.slope, DType::float32, in[0], in[1], out, 0, int64_t(n));
          }};
}

std::optional<CudaExpression> op::BackwardLeakyReLU::cuda_expression(const ExpressionArgs& a) const {
  if (act_type == LeakyType::gelu) return unary_backward_expression(UnaryBackwardKind::gelu, a);
  return leaky_expression("leaky_backward_value", act_type, slope, a);
}

void run_cpu(const op::BackwardLeakyReLU& op, KernelContext& c) {
  const TensorView head = c.in(0), x = c.in(1), dx = c.out();
  if (op.act_type == LeakyType::prelu) {
    const ChannelView view = channel_view(x, c.in(2).shape);
    c.run.parallel_for(view.rows(), row_grain(view, cheap_grain), [&](int64_t begin, int64_t end) {
      prelu(view, x.dtype, head.data, x.data, c.in(2).data, dx.data, begin, end);
    });
    return;
  }
  const int64_t grain = op.act_type == LeakyType::leaky ? cheap_grain : costly_grain;
  c.run.parallel_for(x.size(), grain, [&](int64_t begin, int64_t end) {
    leaky_backward(op.act_type, op.slope, x.dtype, head.data, x.data, dx.data, begin, end);
  });
}

void op::BackwardPReLUGamma::infer(InferContext& c) const {
  c.expect_floating();
  c.expect_same_dtype();
  expect_same_shape(c, 0, 1);
  expect_gamma(c, 1, 2);
  c.set_output(c.shape(2), c.dtype());
}

// Sums per piece of rows, then over the pieces in order: the same bits for any number of threads.
void run_cpu(const op::BackwardPReLUGamma&, KernelContext& c) {
  const TensorView head = c.in(0), x = c.in(1), out = c.out();
  const ChannelView view = channel_view(x, out.shape);
  const int64_t grain = row_grain(view, cheap_grain), pieces = (view.outer + grain - 1) / grain;
  dispatch_float("LeakyReLU", x.dtype, [&]<class T>() {
    using A = accumulate_t<T>;
    A* partial = static_cast<A*>(c.run.workspace(sizeof(A) * size_t(view.samples * pieces * view.channels + 1)));
    c.run.parallel_for(view.samples * pieces, 1, [&](int64_t first, int64_t last) {
      for (int64_t piece = first; piece < last; ++piece) {
        const int64_t row = piece / pieces * view.outer, begin = piece % pieces * grain;
        A* sums = partial + piece * view.channels;
        std::fill_n(sums, view.channels, A(0));
        prelu_gamma_sums(view, x.dtype, head.data, x.data, sums, row + begin,
                         row + std::min(begin + grain, view.outer));
      }
    });
    for (int64_t k = 0; k < out.size(); ++k) {
      const A* of_sample = partial + k / view.channels * pieces * view.channels + k % view.channels;
      A sum = 0;
      for (int64_t p = 0; p < pieces; ++p) sum += of_sample[p * view.channels];
      out.as<T>()[k] = T(sum);
    }
  });
}

}  // namespace kaon
