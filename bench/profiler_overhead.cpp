// What does the profiler cost? First when it is off: the checks of one push and one run alone, in a loop against the
// same loop without them. Then operations of 10 us each, in a chain and independent, on against off in turn; and off
// against a plain loop of the same work, which shows all that the engine costs and so more than these checks. At last
// operations that do nothing, where the cost of the two events of each shows bare.
#include "kaon/bench/common.h"
#include "kaon/engine/engine.h"
#include "kaon/engine/operation/var.h"
#include "kaon/engine/profiler.h"

using namespace kaon;
using namespace kaon::engine;

namespace {

constexpr int num_ops = 1000;  // of 10 us, in a timed run
constexpr double op_us = 10;
constexpr int empty_ops = 20000;  // fewer than the profiler's rings hold

// A fixed amount of arithmetic.
void work(int64_t rounds) {
  uint64_t x = uint64_t(rounds);
  for (int64_t i = 0; i < rounds; ++i) x = x * 6364136223846793005u + 1442695040888963407u;
  asm volatile("" : : "r"(x));
}

int64_t rounds_for(double us) {
  constexpr int64_t probe = 20'000'000;
  double best = 1e9;
  for (int i = 0; i < 5; ++i) best = std::min(best, bench::seconds([] { work(probe); }));
  return int64_t(double(probe) * us * 1e-6 / best);
}

struct Ops {
  Engine& engine;
  int count;
  int64_t rounds;  // of work; 0: none
  bool is_chain;

  double us_per_op(bool on) const {
    std::vector<Var> vars(is_chain ? 1 : size_t(count));
    if (on) engine.profiler().start();
    const double s = bench::seconds([&] {
      for (int i = 0; i < count; ++i) {
        engine.push({write(vars[is_chain ? 0 : size_t(i)])}, [rounds = rounds](RunContext&) {
          if (rounds) work(rounds);
        });
      }
      engine.wait_all();
    });
    engine.profiler().stop();
    return s * 1e6 / count;
  }
};

void compare(const std::string& what, const Ops& o, const std::function<double()>& plain_loop) {
  std::vector<std::function<double()>> candidates{[&] { return o.us_per_op(false); },
                                                  [&] { return o.us_per_op(true); }};
  if (plain_loop) candidates.push_back(plain_loop);
  const auto results = bench::interleave(31, candidates);
  const bench::Result &off = results[0], &on = results[1];
  std::vector<bench::Baseline> loop;
  if (plain_loop) {
    loop.push_back({"plain_loop", results[2]});
    bench::print("plain_loop_" + what, results[2], "us/op");
  }
  bench::print("profiler_off_" + what, off, "us/op", loop);
  std::optional<double> goal;
  if (o.rounds) goal = 1.05 * off.median;
  bench::print("profiler_on_" + what, on, "us/op", "profiler_off", off, goal);
}

double ns_per_iteration(auto body) {
  constexpr int iterations = 10'000'000;
  return bench::seconds([&] {
           for (int i = 0; i < iterations; ++i) body();
         }) *
         1e9 / iterations;
}

// submit looks once, OpRunner::execute once before the run and once behind it, at what it has seen.
void measure_checks() {
  Profiler profiler;
  uint64_t events = 0;
  auto barrier = [] { asm volatile("" ::: "memory"); };
  auto without = [&] {
    barrier();
    barrier();
    barrier();
  };
  auto with = [&] {
    barrier();
    if (profiler.is_on()) [[unlikely]]
      ++events;
    barrier();
    const uint64_t begin = profiler.is_on() ? Profiler::now() : 0;
    barrier();
    if (begin) ++events;
  };
  const auto results =
      bench::interleave(9, {[&] { return ns_per_iteration(without); }, [&] { return ns_per_iteration(with); }});
  bench::print("loop_without_checks", results[0], "ns");
  bench::print("loop_with_checks_of_one_operation", results[1], "ns", "", {}, results[0].median + 0.01 * op_us * 1000);
  fmt::print("{{\"name\": \"profiler_off_share_of_10us\", \"percent\": {:.4f}, \"goal\": 1}}\n",
             (results[1].median - results[0].median) / (op_us * 1000) * 100);
}

}  // namespace

int main() {
  bench::print_machine();
  measure_checks();
  const int64_t rounds = rounds_for(op_us);
  const std::function<double()> plain_loop = [rounds] {
    return bench::seconds([rounds] {
             for (int i = 0; i < num_ops; ++i) work(rounds);
           }) *
           1e6 / num_ops;
  };
  for (int threads : {1, 2}) {
    bench::print_ping_pong();
    Engine engine({.threads = threads});
    const std::string t = "_threads" + std::to_string(threads);
    compare("10us_chain" + t, {engine, num_ops, rounds, true}, plain_loop);
    compare("10us_independent" + t, {engine, num_ops, rounds, false}, threads == 1 ? plain_loop : nullptr);
    compare("empty_independent" + t, {engine, empty_ops, 0, false}, nullptr);
  }
}
