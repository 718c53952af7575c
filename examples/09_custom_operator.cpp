// An operator of one's own: a struct with attributes, shape inference, a gradient and a kernel.
// Prints x tanh(a softplus(x)) for some x, computed by one operator; its gradient beside the numeric one; a block that
// uses it, before and after hybridize(); the nodes of its program; and the messages of export, which refuses what MXNet
// lacks, and of the operator for a dtype that it lacks.
#include <kaon/kaon.h>

#include <cmath>

#include "kaon/ops/op_def.h"

using namespace kaon;

// y = x tanh(alpha log(1 + e^x)); with alpha = 1 Misra's Mish (2019).
struct Mish {
  double alpha = 1;
  static constexpr OpTraits traits{.name = "example_mish", .in_mxnet = false};
  static constexpr void fields(auto field) { field("alpha", &Mish::alpha); }  // what JSON, hashing and printing see
  static const OpDef def;

  void infer(InferContext& c) const {
    c.expect_floating();
    if (c.dtype() != DType::float32) c.fail_dtype("expected float32");
    c.set_output(c.shape(0), c.dtype());
  }
  void grad(GradContext& g) const {  // written in operators: so it can be traced, planned and derived again
    if (!g.wants(0)) return;
    const NDArray& x = g.input(0);
    NDArray t = nd.tanh(alpha * nd.softrelu(x));
    g.set(0, g.head() * (t + x * (1 - t * t) * alpha * nd.sigmoid(x)));
  }
};

// Runs on the engine. Pieces depend on the size alone, never on the number of threads.
void run_cpu(const Mish& op, KernelContext& c) {
  const float* x = c.in(0).as<float>();
  float* y = c.out().as<float>();
  c.run.parallel_for(c.out().size(), 4096, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const float softplus = x[i] > 20 ? x[i] : std::log1p(std::exp(x[i]));
      y[i] = x[i] * std::tanh(float(op.alpha) * softplus);
    }
  });
}

constinit const OpDef Mish::def = make_op_def<Mish>();

struct Net : gluon::HybridBlock<Net> {
  gluon::nn::Dense dense = child("dense", gluon::nn::Dense(2));
  auto hybrid_forward(auto F, auto x) { return F.call(Mish{.alpha = 0.5}, dense(x)); }
};

int main() {
  NDArray x = nd.array({-2.0, -0.5, 0.0, 0.5, 2.0});
  x.attach_grad();
  NDArray y = autograd::record([&] { return nd.call(Mish{}, x); });
  fmt::print("mish(x) =\n{}\n\n", y);
  y.backward();
  const double h = 1e-2;
  fmt::print("gradient =\n{}\n", x.grad());
  fmt::print("numeric gradient =\n{}\n\n", (nd.call(Mish{}, x + h) - nd.call(Mish{}, x - h)) / (2 * h));

  random::seed(1);
  Net net;
  net.initialize(init::Xavier());
  NDArray data = nd.random_normal({1, 3});
  fmt::print("before hybridizing: {}\n", net(data));
  net.hybridize();
  fmt::print("after hybridizing:  {}\n\n", net(data));

  const Symbol program = net(sym.var("data"));
  fmt::print("the program: {}, its nodes:", program);
  for (const std::string& name : program.get_internals().list_outputs()) fmt::print(" {}", name);
  try {
    net.export_model("mish");
  } catch (const ValueError& e) {
    fmt::print("\n\nValueError: {}\n", e.what());
  }
  try {
    nd.call(Mish{}, x.astype(DType::int32));
  } catch (const TypeError& e) {
    fmt::print("TypeError: {}\n", e.what());
  }
}
