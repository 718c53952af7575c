// A custom operator with two inputs, called by F.call: imperative, recorded, hybridized, as a Symbol.
#include <catch2/catch.hpp>

#include "kaon/gluon/nn/nn.h"
#include "kaon/ops/op_def.h"

namespace operator_call_test {

using namespace kaon;
namespace nn = kaon::gluon::nn;

namespace {

// x + alpha y^2 for float32 arrays of one shape.
struct AddSquare {
  double alpha = 1;
  static constexpr OpTraits traits{.name = "test_add_square", .inputs = {"lhs", "rhs"}, .in_mxnet = false};
  static constexpr void fields(auto field) { field("alpha", &AddSquare::alpha); }
  static const OpDef def;
  void infer(InferContext& c) const {
    c.expect_same_dtype();
    c.expect_shape(1, c.shape(0));
    c.set_output(c.shape(0), c.dtype());
  }
  void grad(GradContext& g) const {
    if (g.wants(0)) g.set(0, g.head());
    if (g.wants(1)) g.set(1, g.head() * g.input(1) * (2 * alpha));
  }
};
void run_cpu(const AddSquare& op, KernelContext& c) {
  const float *x = c.in(0).as<float>(), *y = c.in(1).as<float>();
  float* out = c.out().as<float>();
  for (int64_t i = 0; i < c.out().size(); ++i) out[i] = x[i] + float(op.alpha) * y[i] * y[i];
}
constinit const OpDef AddSquare::def = make_op_def<AddSquare>();

struct Net : gluon::HybridBlock<Net> {
  auto hybrid_forward(auto F, auto x, auto y) { return F.call(AddSquare{.alpha = 3}, x, F.call(AddSquare{}, y, x)); }
};

}  // namespace

TEST_CASE("call: a custom operator with two inputs, imperative and hybridized", "[gluon]") {
  NDArray x = nd.array({1, 2, 3}), y = nd.array({4, 5, 6});
  x.attach_grad();
  y.attach_grad();
  CHECK(nd.call(AddSquare{.alpha = 2}, x, y).asvector<float>() == std::vector<float>{33, 52, 75});
  CHECK_THROWS_AS(nd.call(AddSquare{}, x, nd.array({1, 2})), ShapeError);
  // x + 3 (y + x^2)^2, whose gradients are 1 + 12 x (y + x^2) and 6 (y + x^2)
  Net net;
  for (bool hybridized : {false, true}) {
    if (hybridized) net.hybridize({.static_alloc = true});
    for (int round = 0; round < 2; ++round) {
      NDArray z = autograd::record([&] { return net(x, y); });
      CHECK(z.asvector<float>() == std::vector<float>{76, 245, 678});
      z.backward();
      CHECK(x.grad().asvector<float>() == std::vector<float>{61, 217, 541});
      CHECK(y.grad().asvector<float>() == std::vector<float>{30, 54, 90});
    }
  }
  const Symbol program = net(sym.var("a"), sym.var("b"));
  CHECK(program.list_arguments() == std::vector<std::string>{"a", "b"});
}

}  // namespace operator_call_test
