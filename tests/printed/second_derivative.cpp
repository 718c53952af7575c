// Random program 7: an example.
#include <kaon/kaon.h>
#include <kaon/ops/op_def.h>

#include <cmath>
using namespace kaon;

// Uniform in [low, high), rounded down to multiples of `step` unless that is 0; the same for the same seed and call.
NDArray values(uint64_t seed, uint64_t call, const Shape& shape, DType dtype, double low, double high, double step = 0) {
  auto mixed = [](uint64_t x) {
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
    x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
    return x ^ (x >> 31);
  };
  std::vector<double> all(size_t(shape.size()));
  const uint64_t first = mixed(seed * 1000003 + call);
  for (size_t i = 0; i < all.size(); ++i) {
    const double x = low + (high - low) * (double(mixed(first + i * 0x9e3779b97f4a7c15) >> 11) * 0x1p-53);
    all[i] = step == 0 ? double(float(x)) : std::floor(x / step) * step;
  }
  return NDArray::from(all.data(), all.size(), shape, dtype);
}

// These over and over.
NDArray listed(const std::vector<double>& list, const Shape& shape, DType dtype) {
  std::vector<double> all(size_t(shape.size()));
  for (size_t i = 0; i < all.size(); ++i) all[i] = list[i % list.size()];
  return NDArray::from(all.data(), all.size(), shape, dtype);
}

// All visible outputs of an operator.
template <class A, class Op>
std::vector<A> call(const Op& op, const std::vector<A>& inputs) {
  std::vector<const A*> in;
  for (const A& a : inputs) in.push_back(&a);
  std::vector<A> out(size_t(Op::def.visible_outputs(&op)));
  A::apply(Op::def, &op, in, out, std::source_location::current(), "");
  return out;
}

NDArray weights_like(const NDArray& y) { return values(0, 0, y.shape(), y.dtype(), -0.4, 0.6); }

// The results that gradients flow from, and the weights of their elements.
struct Weighed {
  std::vector<NDArray> results, weights;
  // `unused`: those left out, by bit.
  explicit Weighed(const std::vector<NDArray>& all, uint32_t unused = 0) {
    for (size_t i = 0; i < all.size(); ++i) {
      const NDArray& y = all[i];
      if (!is_floating(y.dtype()) || !autograd::wants_gradient(y) || (unused >> i & 1) != 0) continue;
      results.push_back(y);
      weights.push_back(weights_like(y));
    }
  }
};

using Results = std::vector<std::vector<double>>;

// 0 when they agree.
int compare(const Results& expected, const Results& got, double rtol, double atol) {
  int wrong = expected.size() != got.size();
  for (size_t k = 0; k < expected.size() && k < got.size(); ++k) {
    double largest = 1;
    for (double x : expected[k]) largest = std::isfinite(x) ? std::max(largest, std::abs(x)) : largest;
    for (size_t i = 0; i < expected[k].size(); ++i) {
      const double a = expected[k][i], b = got[k][i];
      const bool same = (a == b && (rtol > 0 || std::signbit(a) == std::signbit(b))) || (std::isnan(a) && std::isnan(b)) ||
                        std::abs(a - b) <= rtol * std::abs(a) + atol * largest;
      if (same) continue;
      fmt::print("result {} at element {}: expected {}, got {}\n", k, i, a, b);
      ++wrong;
      break;
    }
  }
  fmt::print("{}\n", wrong ? "wrong" : "right");
  return wrong != 0;
}

struct Net : gluon::HybridBlock<Net> {
  gluon::Parameter p2 = param("p2", Shape(6), {.dtype = DType::float64});
  gluon::Parameter p3 = param("p3", Shape(6), {.dtype = DType::float64, .grad_req = GradReq::null, .differentiable = false});
  gluon::Parameter p4 = param("p4", Shape(6), {.dtype = DType::float64, .grad_req = GradReq::null, .differentiable = false});
  Net() {
    p2.set_data(values(9216971, 0, Shape(6), DType::float64, 0.5, 1.5));
    p3.set_data(values(10137377, 0, Shape(6), DType::float64, -1.5, 1.5));
    p4.set_data(values(5839452, 0, Shape(6), DType::float64, 0.5, 1.5));
  }
  auto hybrid_forward([[maybe_unused]] auto F, auto x0, auto x1) {
    using A = decltype(x0);
    const A v5 = A::from_values(listed({1, -0.0, 2.5}, Shape(2, 2), DType::float64), "");
    kaon::op::BatchNorm v6_op; v6_op.momentum = 0.5; v6_op.fix_gamma = false;
    const A v6 = call<A>(v6_op, {x0, F(p2), F(p2), F(p3), F(p4)})[0];
    kaon::op::Activation v7_op; v7_op.act_type = kaon::ActivationType(3 /* softrelu */);
    const A v7 = call<A>(v7_op, {v6})[0];
    kaon::op::Take v8_op; v8_op.axis = 1; v8_op.mode = kaon::IndexMode(1 /* wrap */);
    const A v8 = call<A>(v8_op, {v7, x1})[0];
    kaon::op::Slice v9_op; v9_op.begin = OptionalShape(std::nullopt, 1); v9_op.end = OptionalShape(std::nullopt, std::nullopt);
    const A v9 = call<A>(v9_op, {v8})[0];
    kaon::op::Reduce<kaon::ops::ReduceKind::sum> v10_op; v10_op.axis = Shape(-1, 1); v10_op.keepdims = true;
    const A v10 = call<A>(v10_op, {v9})[0];
    kaon::op::Scalar<kaon::ops::ScalarKind::maximum> v11_op; v11_op.scalar = -0.0;
    const A v11 = call<A>(v11_op, {v10})[0];
    kaon::op::Cast v12_op; v12_op.dtype = DType::float64;
    const A v12 = call<A>(v12_op, {v11})[0];
    kaon::op::Ones v13_op; v13_op.shape = Shape(2, 1); v13_op.dtype = DType::float64;
    const A v13 = call<A>(v13_op, {})[0];
    kaon::op::Binary<kaon::ops::BinaryKind::mul> v14_op;
    const A v14 = call<A>(v14_op, {v5, v13})[0];
    return std::vector<A>{v12, v14};
  }
};

int main() {
  Net net;
  NDArray x0 = values(12104898, 1, Shape(2, 6, 4), DType::float64, -1.5, 1.5);
  NDArray x1 = values(10900229, 1, Shape(3), DType::int32, 0, 6, 1);
  NDArray p2 = net.p2.data();
  const std::vector<NDArray*> leaves{&x0, &p2, };
  for (NDArray* x : leaves) x->attach_grad();
  auto value = [&] {
    random::seed(1);
    NDArray sum = nd.zeros({1}, {.dtype = DType::float64});
    const Weighed w(net(x0, x1));
    if (w.results.empty()) return sum;
    std::vector<NDArray> at;
    for (NDArray* x : leaves) at.push_back(*x);
    for (const NDArray& g : autograd::grad(w.results, at, w.weights, true, true)) {
      if (autograd::wants_gradient(g)) sum = sum + nd.sum(g * weights_like(g));
    }
    return sum;
    for (size_t k = 0; k < w.results.size(); ++k) sum = sum + nd.sum(w.results[k] * w.weights[k]);
    return sum;
  };
  autograd::record(value, false).backward();
  Results got, expected;
  for (NDArray* x : leaves) got.push_back(x->grad().asvector<double>());
  for (NDArray* x : leaves) {
    const std::vector<double> kept = x->asvector<double>();
    expected.emplace_back();
    for (size_t i = 0; i < kept.size(); ++i) {
      double f[2];
      for (int side : {0, 1}) {
        std::vector<double> moved = kept;
        moved[i] += side == 0 ? -1e-6 : 1e-6;
        x->assign(NDArray::from(moved.data(), moved.size(), x->shape(), x->dtype()));
        f[side] = autograd::record(value, false).asscalar<double>();
      }
      expected.back().push_back((f[1] - f[0]) / 2e-6);
    }
    x->assign(NDArray::from(kept.data(), kept.size(), x->shape(), x->dtype()));
  }
  return compare(expected, got, 1e-3, 1e-4);
}
