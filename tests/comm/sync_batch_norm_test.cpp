// SyncBatchNorm over ranks: as BatchNorm of the whole batch in one process.
#include "checks.h"

namespace sync_batch_norm_test {

using namespace kaon;
using namespace kaon::gluon;
using namespace kaon::ranks_test;
using Catch::Matchers::Contains;

namespace {

void check_close(const NDArray& a, const NDArray& b, double tolerance = 2e-5) {
  const auto x = a.asvector<double>(), y = b.asvector<double>();
  REQUIRE(x.size() == y.size());
  for (size_t i = 0; i < x.size(); ++i) REQUIRE(x[i] == Approx(y[i]).epsilon(tolerance).margin(tolerance));
}

}  // namespace

TEST_CASE("comm SyncBatchNorm: outputs, gradients and running statistics are those of the whole batch") {
  for (const bool scale : {true, false}) {
    for (const int axis : {1, -1}) {
      CAPTURE(scale, axis);
      nn::SyncBatchNorm norm({.axis = axis, .scale = scale, .in_channels = 3}, comm::mpi());
      nn::BatchNorm whole({.axis = axis, .scale = scale, .in_channels = 3});
      for (const auto& p : {norm.collect_params(), whole.collect_params()}) {
        p.initialize(init::Normal(1));
        p[0].set_data(nd.array(std::vector<float>{1, 2, 0.5f}, {3}));
      }
      const Shape shape = axis == 1 ? Shape(4 * ranks(), 3, 5) : Shape(4 * ranks(), 5, 3);
      NDArray all = numbers(shape, 1) * 3 + 100, mine = part(all).copy();  // far from 0
      const NDArray weights = numbers(shape, 2);
      all.attach_grad(), mine.attach_grad();
      NDArray y, expected;
      autograd::record([&] { return ((y = norm(mine)) * part(weights)).sum(); }).backward();
      autograd::record([&] { return ((expected = whole(all)) * weights).sum(); }).backward();
      check_close(y, part(expected), 2e-4);
      check_close(mine.grad(), part(all.grad()), 2e-4);
      const auto p = norm.collect_params(), q = whole.collect_params();
      for (size_t i = 0; i < p.size(); ++i) {
        CAPTURE(p[i].name());
        check_close(p[i].data(), q[i].data(), 1e-4);
        // of gamma and beta each rank has its part's
        if (p[i].grad_req() != GradReq::null) check_close(comm::mpi().all_reduce(p[i].grad()), q[i].grad(), 1e-3);
      }
      check_close(norm(mine), whole(mine), 2e-4);  // predicts by running statistics
    }
  }
}

TEST_CASE("comm SyncBatchNorm: parts of different lengths") {
  nn::SyncBatchNorm norm({.in_channels = 2}, comm::mpi());
  nn::BatchNorm whole({.in_channels = 2});
  norm.initialize();
  whole.initialize();
  int64_t begin = 0, total = 0;
  for (int r = 0; r < ranks(); ++r) {
    if (r < rank()) begin += r + 1;
    total += r + 1;
  }
  const NDArray all = numbers({total + 1, 2}, 4);
  const int64_t end = rank() + 1 == ranks() ? total + 1 : begin + rank() + 1;
  const NDArray y = autograd::train_mode([&] { return norm(all.slice(begin, end)); });
  const NDArray expected = autograd::train_mode([&] { return whole(all); });
  check_close(y, expected.slice(begin, end), 1e-4);
}

TEST_CASE("comm SyncBatchNorm: a net with hybridized parts around it trains as one process") {
  const auto make = [](const nn::HybridSequential& before, const auto& norm, const nn::HybridSequential& after) {
    nn::Sequential net;
    net.add(before, norm, after);
    return net;
  };
  const auto first = [] {
    nn::HybridSequential s;
    s.add(nn::Dense(8, {.in_units = 10}));
    return s;
  };
  const auto last = [] {
    nn::HybridSequential s;
    s.add(nn::Dense(4, {.in_units = 8}));
    return s;
  };
  nn::HybridSequential a = first(), b = last();
  const nn::Sequential net = make(a, nn::SyncBatchNorm({.in_channels = 8}, comm::mpi()), b);
  const nn::Sequential alone = make(first(), nn::BatchNorm({.in_channels = 8}), last());
  net.collect_params().initialize();
  alone.collect_params().initialize();
  a.hybridize();
  b.hybridize();
  Trainer trainer(net.collect_params(), optimizer::SGD({.learning_rate = 0.1}), {.kvstore = "dist_sync"});
  Trainer reference(alone.collect_params(), optimizer::SGD({.learning_rate = 0.1}));
  copy_parameters(net, alone);
  const loss::SoftmaxCrossEntropyLoss loss;
  const int64_t all = 6 * ranks();
  for (int i = 0; i < 5; ++i) {
    const NDArray x = numbers({all, 10}, i + 1), y = labels(all, i);
    autograd::record([&] { return loss(net(part(x)), part(y)); }).backward();
    trainer.step(all);
    autograd::record([&] { return loss(alone(x), y); }).backward();
    reference.step(all);
  }
  check_same(net, alone, 5e-4);
}

TEST_CASE("comm SyncBatchNorm: deterministic, whose sums are the same for any number of ranks, refuses it by name") {
  if (ranks() == 1) return;
  nn::Sequential net;
  net.add(nn::Dense(2, {.in_units = 10}), nn::SyncBatchNorm({.in_channels = 2}, comm::mpi()));
  net.initialize();
  Trainer trainer(net.collect_params(), optimizer::SGD(), {.kvstore = "dist_sync", .deterministic = true});
  const NDArray x = part(numbers({16, 10}, 1));
  const auto backward = [&] {
    trainer.backward_by_shards(std::span(&x, 1), [&](std::span<const NDArray> in) { return net(in[0]); });
  };
  CHECK_THROWS_AS(backward(), StateError);
  CHECK_THROWS_WITH(backward(), Contains("[SyncBatchNorm] deterministic") && Contains("expected BatchNorm"));
  // no shards any more
  CHECK(autograd::train_mode([&] { return net(x); }).shape() == Shape(16 / ranks(), 2));
}

TEST_CASE("comm SyncBatchNorm: 16-bit data, and what is refused") {
  nn::SyncBatchNorm norm({.in_channels = 2}, comm::mpi());
  norm.initialize();
  const NDArray x = nd.cast(part(numbers({4 * ranks(), 2}, 1)), DType::float16);
  const NDArray y = autograd::train_mode([&] { return norm(x); });
  CHECK(y.dtype() == DType::float16);
  CHECK_THROWS_AS(nn::SyncBatchNorm({}, comm::Communicator()), StateError);
  nn::HybridSequential net;
  net.add(nn::SyncBatchNorm({.in_channels = 2}, comm::mpi()));
  net.initialize();
  net.hybridize();
  const NDArray z = part(numbers({4 * ranks(), 2}, 1));
  CHECK(net(z).shape() == z.shape());  // predicts
  if (ranks() == 1) return;
  CHECK_THROWS_WITH(autograd::train_mode([&] { return net(z); }), Contains("[SyncBatchNorm]") && Contains("hybridize"));
  NDArray v = z.copy();
  v.attach_grad();
  const NDArray normalized = autograd::record([&] { return norm(v); });
  CHECK_THROWS_WITH(autograd::grad(normalized, v, true), Contains("[SyncBatchNorm] over ranks gradients of gradients"));
}

}  // namespace sync_batch_norm_test
