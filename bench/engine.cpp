// Cost of operations that do nothing: what the engine itself takes, and what an operator and a plan add. One JSON line
// per result; beside each, in the same run and in turn: a serial loop of the same bodies, asio::post per op, oneTBB's
// task_group and flow graph. Figures compare with those of other machines where ping_pong_one_way is under 100 ns.
// --quick: fewer rounds.
#include <array>
#include <latch>
#include <string_view>

#include "kaon/bench/engine/engine_parts.h"

namespace kaon::bench {

using namespace engine;

std::vector<Result> compare(const std::string& what, const Settings& settings, const std::vector<Candidate>& candidates,
                            const std::string& unit) {
  std::vector<std::function<double()>> measures;
  for (const Candidate& c : candidates) measures.push_back(c.measure);
  std::vector<Result> results = interleave(settings.rounds, measures);
  const std::string threads = "_threads" + std::to_string(settings.threads);
  std::vector<Baseline> baselines;
  for (size_t i = 0; i < candidates.size(); ++i) {
    const Candidate& c = candidates[i];
    if (c.is_ours) {
      print(c.name + threads, results[i], unit, baselines, c.goal);
    } else {
      print(c.name + "_" + what + threads, results[i], unit);
      baselines.push_back({c.name, results[i]});
    }
  }
  return results;
}

double seconds_of_threads(int pushers, const std::function<void(int)>& push, const std::function<void()>& finish) {
  std::latch here(pushers);
  std::atomic<bool> go{false};
  std::vector<std::thread> threads;
  for (int p = 0; p < pushers; ++p) {
    threads.emplace_back([&, p] {
      here.count_down();
      go.wait(false);
      push(p);
    });
  }
  here.wait();
  return seconds([&] {
    go.store(true);
    go.notify_all();
    for (std::thread& t : threads) t.join();
    finish();
  });
}

namespace {

constexpr int many_vars = 512;

// A var for one operation, which drops it when nobody needs it any more: what every operator call does.
struct FreshVar : RefCounted<FreshVar>, Pooled {
  Var var;
};

// The same operations at every thread count.
struct Workloads {
  Engine& engine;
  std::vector<Var> vars = std::vector<Var>(many_vars);
  std::vector<Accesses> accesses = random_accesses();
  TaskGraph graph = random_graph();
  std::vector<IntrusivePtr<FreshVar>> made = std::vector<IntrusivePtr<FreshVar>>(graph_size);
  long counters[access_vars] = {};

  void independent(int first = 0, int n = ops, int range = many_vars) {
    for (int i = 0; i < n; ++i) {
      Cell* cell = &cells[first + i % range];
      engine.push({write(vars[size_t(first + i % range)])}, [cell](RunContext&) { ++cell->value; });
    }
  }
  void chain() {
    for (int i = 0; i < ops; ++i) engine.push({write(vars[0])}, [](RunContext&) { ++cells[0].value; });
  }
  void two_reads_one_write() {
    for (const Accesses& a : accesses) {
      long* counter = &counters[a.write];
      engine.push({read(vars[size_t(a.reads[0])]), read(vars[size_t(a.reads[1])]), write(vars[size_t(a.write)])},
                  [counter](RunContext&) { ++*counter; });
    }
  }
  void push_one_and_wait(int times) {
    for (int i = 0; i < times; ++i) {
      engine.push({write(vars[0])}, [](RunContext&) { ++cells[0].value; });
      engine.wait(vars[0]);
    }
  }
  void dag() {
    for (int r = 0; r < ops / graph_size; ++r) {
      for (size_t i = 0; i < made.size(); ++i) push_node(i);
    }
    for (auto& var : made) var = nullptr;
  }
  double push_from(int pushers) {
    const int each = many_vars / pushers;
    return mops(seconds_of_threads(
        pushers, [&](int p) { independent(p * each, ops / pushers, each); }, [&] { engine.wait_all(); }));
  }

 private:
  void push_node(size_t i) {
    std::array<IntrusivePtr<FreshVar>, 4> kept{IntrusivePtr<FreshVar>(new FreshVar)};
    const std::vector<int>& before = graph.predecessors[i];
    for (size_t k = 0; k < before.size(); ++k) kept[k + 1] = made[size_t(before[k])];
    made[i] = kept[0];
    Var* v[4] = {&kept[0]->var};
    for (size_t k = 0; k < before.size(); ++k) v[k + 1] = &kept[k + 1]->var;
    auto body = [kept = std::move(kept), cell = &cells[i]](RunContext&) { ++cell->value; };
    switch (before.size()) {
      case 0: return engine.push({write(*v[0])}, std::move(body));
      case 1: return engine.push({read(*v[1]), write(*v[0])}, std::move(body));
      case 2: return engine.push({read(*v[1]), read(*v[2]), write(*v[0])}, std::move(body));
      default: return engine.push({read(*v[1]), read(*v[2]), read(*v[3]), write(*v[0])}, std::move(body));
    }
  }
};

std::vector<Candidate> joined(std::vector<Candidate> a, const std::vector<Candidate>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

void measure_engine(Engine& engine, const Settings& settings) {
  Workloads w{engine};
  auto timed = [&](auto push) {
    auto all = [&w, push] {
      push();
      w.engine.wait_all();
    };
    return [all] { return ns_per_op(seconds(all)); };
  };
  auto independent = timed([&] { w.independent(); });
  auto chain = timed([&] { w.chain(); });
  auto accesses = timed([&] { w.two_reads_one_write(); });
  auto dag = timed([&] { w.dag(); });
  const Candidate serial{"serial_loop", serial_loop}, calls{"serial_calls", serial_calls}, post = asio_post(settings);

  auto run = [&](const std::string& what, const std::vector<Candidate>& own, const TaskGraph& graph,
                 std::function<double()> measure, std::optional<double> goal) {
    std::vector<Candidate> all = joined(joined({post, serial}, own), tbb_candidates(graph, settings));
    compare(what, settings, joined(all, {{"engine_" + what, std::move(measure), true, goal}}));
  };
  run("independent", {}, independent_graph(), independent, 60);
  run("chain", {asio_strand(settings)}, chain_graph(), chain, 60);
  run("2r1w_256vars", {calls, asio_counted(graph_of(w.accesses), settings)}, graph_of(w.accesses), accesses, {});
  run("dag1000", {calls, asio_counted(w.graph, settings)}, w.graph, dag, 90);

  constexpr int waits = ops / 10;
  auto one_and_wait = [&] { return ns_per_op(seconds([&] { w.push_one_and_wait(waits); }), waits); };
  std::vector<Candidate> round_trips{{"asio_post", [&] { return asio_one_and_wait(settings); }}, serial};
  compare(
      "one_and_wait", settings,
      joined(joined(round_trips, tbb_one_and_wait(settings)), {{"engine_push_one_and_wait", one_and_wait, true, 300}}));

  std::optional<Result> one;
  for (int pushers : {1, 2, 4}) {
    const std::string what = "pushers" + std::to_string(pushers);
    std::vector<Candidate> others{{"asio_post", [&] { return mops(asio_pushers(settings, pushers)); }},
                                  {"serial_loop", [] { return 1e3 / serial_loop(); }}};
    others = joined(others, tbb_pushers(settings, pushers));
    Candidate ours{"engine_" + what, [&] { return w.push_from(pushers); }, true};
    if (pushers == 4) ours.goal = 0.8 * one->median;
    Result result = compare(what, settings, joined(others, {ours}), "Mops/s").back();
    if (pushers == 1) one = result;
  }

  const std::string t = "_threads" + std::to_string(settings.threads);
  print_allocations("engine_independent" + t, ops, independent);
  print_allocations("engine_chain" + t, ops, chain);
  print_allocations("engine_2r1w_256vars" + t, ops, accesses);
  print_allocations("engine_dag1000" + t, ops, dag);
  print_allocations("engine_push_one_and_wait" + t, waits, one_and_wait);
}

}  // namespace
}  // namespace kaon::bench

int main(int argc, char** argv) {
  using namespace kaon::bench;
  const bool quick = argc == 2 && std::string_view(argv[1]) == "--quick";
  if (argc > 1 && !quick) {
    fmt::print(stderr, "usage: {} [--quick]\n", argv[0]);
    return 2;
  }
  print_machine();
  if (!has_tbb()) fmt::print("{{\"note\": \"built without oneTBB (Debian: libtbb-dev): its lines are left out\"}}\n");
  for (int threads : {1, 2}) {
    print_ping_pong();
    const Settings settings{.rounds = quick ? 3 : 7, .threads = threads};
    kaon::Engine engine({.threads = threads});
    measure_engine(engine, settings);
    measure_operators(engine, settings);
  }
}
