// What hybridized nets do with shapes that nothing is planned for: the policies of the plan cache.
#include "kaon/gluon/loss.h"
#include "kaon/gluon/training_step.h"
#include "kaon/graph/plan_report.h"
#include "kaon/tests/gluon/hybrid/hybrid_support.h"

namespace plan_policy_test {

using namespace kaon;
using namespace kaon::test;
using Catch::Matchers::Contains;

namespace {

nn::HybridSequential mlp() {
  return ready(nn::HybridSequential(nn::Dense(16, {.activation = "relu"}), nn::LayerNorm(), nn::Dense(4)));
}

std::vector<std::string> lines;
void keep_line(std::string_view line) { lines.emplace_back(line); }

// Scales by the number of rows: traced for each.
struct ReadsShape : gluon::HybridBlock<ReadsShape> {
  auto hybrid_forward(auto, auto x) { return x * double(x.shape()[0]); }
};

}  // namespace

TEST_CASE("plan policy: a net in buckets equals the imperative one for any number of rows", "[gluon]") {
  auto net = mlp();
  std::vector<std::vector<double>> expected;
  for (int n = 0; n <= 20; ++n) expected.push_back(values(net(numbers({n, 6}, uint32_t(n)))));
  CHECK_THROWS_WITH(net.plan(), Contains("has not been called yet"));
  net.hybridize({.static_alloc = true, .policy = PlanPolicy::bucket});
  for (int n = 20; n >= 0; --n) {
    INFO("n = " << n);
    const NDArray y = net(numbers({n, 6}, uint32_t(n)));
    REQUIRE(y.shape() == Shape(n, 4));
    require_close(y, expected[size_t(n)], 1e-5);
  }
  CHECK(net.plan_stats().misses == 7);
  CHECK(net.plan_stats().hits == 14);
  CHECK_THAT(net.plan()->dump(), Contains("_pad_rows") && Contains("_take_rows"));
}

TEST_CASE("plan policy: a trace that reads the number of rows is refused in buckets", "[gluon]") {
  ReadsShape net;
  net.hybridize({.policy = PlanPolicy::bucket});
  CHECK_THROWS_WITH(net(numbers({3, 2})), Contains("hybrid_forward reads a shape"));
}

TEST_CASE("plan policy: error refuses other shapes, traced or not", "[gluon]") {
  auto net = mlp();
  net.hybridize({.policy = PlanPolicy::error});
  net(numbers({4, 6}));
  CHECK_THROWS_AS(net(numbers({3, 6})), StateError);
  CHECK_THROWS_WITH(net(numbers({3, 6})), Contains("nothing is planned for data dim 0: 4 -> 3; plans: 1"));
  autograd::record([&] { return net(numbers({3, 6})); });  // another mode
  net(numbers({4, 6}));

  ReadsShape reads;
  reads.hybridize({.policy = PlanPolicy::error});
  reads(numbers({4, 6}));
  CHECK_THROWS_WITH(reads(numbers({4, 5})), Contains("nothing is planned for data dim 1: 6 -> 5; plans: 1"));
  CHECK(same_bits(reads(numbers({4, 6})), numbers({4, 6}) * 4));

  gluon::Trainer trainer(net.collect_params(), optimizer::SGD({.learning_rate = 0.1}));
  gluon::TrainingStep step(net, gluon::loss::SoftmaxCrossEntropyLoss(), trainer, {.policy = PlanPolicy::error});
  step(numbers({4, 6}), nd.arange(4));
  CHECK_THROWS_WITH(step(numbers({3, 6}), nd.arange(3)),
                    Contains("nothing is planned for data dim 0: 4 -> 3; plans: 1"));
  CHECK_THROWS_WITH(step(numbers({4, 6}), nd.arange(4).astype(DType::int32)), Contains("dtype: float32 -> int32"));
  step(numbers({4, 6}), nd.arange(4));
}

TEST_CASE("plan policy: one line for each plan and for each trace that is made again", "[gluon]") {
  lines.clear();
  auto net = mlp();
  net.hybridize({.on_miss = keep_line});
  for (int n : {4, 3, 4, 3}) net(numbers({n, 6}));
  REQUIRE(lines.size() == 2);
  CHECK_THAT(lines[1], Contains("new plan: data dim 0: 4 -> 3"));
  lines.clear();
  ReadsShape reads;
  reads.hybridize({.on_miss = keep_line});
  for (int n : {4, 3, 4, 3}) reads(numbers({n, 6}));
  REQUIRE(lines.size() == 3);
  CHECK_THAT(lines[0], Contains("new plan: first call"));
  CHECK_THAT(lines[1], Contains("traced again: data dim 0: 4 -> 3"));
}

}  // namespace plan_policy_test
