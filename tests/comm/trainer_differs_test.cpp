// Trainers that ranks make unlike each other: each rank throws the same, before the first step.
#include <functional>

#include "checks.h"

namespace trainer_differs_test {

using namespace kaon;
using namespace kaon::gluon;
using namespace kaon::ranks_test;
using Catch::Matchers::Contains;

namespace {

using optimizer::Optimizer;

bool is_last() { return rank() == ranks() - 1; }

// Between rank 0 and the last one, on each rank.
void check_names(const std::function<void()>& make, const std::string& of_first, const std::string& of_last) {
  const std::string expected = fmt::format("rank 0 has {}, rank {} {}", of_first, ranks() - 1, of_last);
  CAPTURE(expected);
  CHECK_THROWS_AS(make(), ValueError);
  CHECK_THROWS_WITH(make(), Contains(expected));
  CHECK(comm::mpi().failure().empty());
}

nn::HybridSequential initialized() {
  nn::HybridSequential net = mlp();
  net.initialize();
  return net;
}

void check_rules(const Optimizer& first, const Optimizer& last, const std::string& of_first,
                 const std::string& of_last) {
  const nn::HybridSequential net = initialized();
  check_names([&] { Trainer(net.collect_params(), is_last() ? last : first, {.kvstore = "dist_sync"}); }, of_first,
              of_last);
}

void check_options(TrainerOptions last, const std::string& of_first, const std::string& of_last) {
  const nn::HybridSequential net = initialized();
  TrainerOptions options;
  if (is_last()) options = last;
  options.kvstore = "dist_sync";
  check_names([&] { Trainer(net.collect_params(), optimizer::SGD(), options); }, of_first, of_last);
}

}  // namespace

TEST_CASE("comm trainers that differ: the optimizer and what it computes with") {
  if (ranks() == 1) return;
  using namespace optimizer;
  check_rules(SGD({.learning_rate = 0.2}), SGD({.learning_rate = 0.1}), "learning_rate 0.2", "learning_rate 0.1");
  check_rules(Adam(), SGD(), "optimizer Adam", "optimizer SGD");
  check_rules(SGD({.wd = 0.5}), SGD(), "wd 0.5", "wd 0");
  check_rules(SGD({.momentum = 0.5}), SGD(), "momentum 0.5", "momentum 0");
  check_rules(SGD({.clip_gradient = 2}), SGD(), "clip_gradient 2", "clip_gradient -1");
  check_rules(Adam({.epsilon = 0.25}), Adam({.epsilon = 0.5}), "epsilon 0.25", "epsilon 0.5");
  check_rules(SGD({.multi_precision = true}), SGD(), "multi_precision true", "multi_precision false");
  check_rules(GroupAdaGrad({.eps = 0.25}), GroupAdaGrad({.eps = 0.5}), "eps 0.25", "eps 0.5");
  check_rules(LARS({.momentum_correction = false}), LARS(), "the factors 1, 1, 1 and 1 in update 1",
              "the factors 1, 1, 1 and 2 in update 1");
  const auto first = lr_scheduler::PolyScheduler({.max_update = 15, .base_lr = 0.5, .warmup_steps = 2});
  check_rules(SGD({.learning_rate = 0.25}), SGD({.lr_scheduler = first}), "learning_rate 0.25",
              "first rate of the lr_scheduler 0.25");
}

TEST_CASE("comm trainers that differ: the trainer's options") {
  if (ranks() == 1) return;
  check_options({.clip_global_norm = 1}, "clip_global_norm 0", "clip_global_norm 1");
  check_options({.compression_params = {.type = "2bit"}}, "compression_params of type none and threshold 0.5",
                "compression_params of type 2bit and threshold 0.5");
  check_options({.deterministic = true}, "deterministic false, shards 8", "deterministic true, shards 8");
  check_options({.shard_states = true}, "shard_states false", "shard_states true");
  check_options({.overlap_update = true}, "overlap_update false", "overlap_update true");
}

TEST_CASE("comm trainers that differ: whether and how a parameter is trained, and whether it has values") {
  if (ranks() == 1) return;
  const auto check = [](const std::function<void(const Parameter&)>& change, const std::string& of_first,
                        const std::string& of_last) {
    const Parameter p("w", {3});
    if (is_last()) change(p);
    if (!p.is_initialized() && !is_last()) p.initialize();
    ParameterDict all;
    all.add(p);
    const auto text = [](const std::string& of) { return "parameter w (3,) float32 with " + of; };
    check_names([&] { Trainer(all, optimizer::SGD(), {.kvstore = "dist_sync"}); }, text(of_first), text(of_last));
  };
  const std::string usual = "grad_req write, lr_mult 1 and wd_mult 1";
  const auto frozen = [](const Parameter& p) {
    p.set_grad_req(GradReq::null);
    p.initialize();
  };
  check(frozen, usual, "grad_req null, lr_mult 1 and wd_mult 1");
  const auto slow = [](const Parameter& p) {
    p.set_lr_mult(0.5);
    p.initialize();
  };
  check(slow, usual, "grad_req write, lr_mult 0.5 and wd_mult 1");
  check([](const Parameter&) {}, usual, usual + ", without values");
}

}  // namespace trainer_differs_test
