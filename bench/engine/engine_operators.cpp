// What arrays add to the engine: an operator on one element, imperative, recorded and backwards; a plan of 1,000 nodes.
#include <cstdint>

#include "kaon/bench/engine/engine_parts.h"
#include "kaon/graph/autograd.h"
#include "kaon/graph/hybrid/cached_graph.h"
#include "kaon/ops/functions.h"

namespace kaon::bench {

using namespace graph;
namespace {

constexpr int chain = 100;  // recorded operators between two backwards
constexpr int chains = ops / 10 / chain;

struct Operators {
  Engine& engine;
  NDArray a = nd.ones({1}), b = nd.ones({1});
  NDArray row = nd.ones({1000});  // enough to be handed over: operators on a few elements run at their call

  explicit Operators(Engine& e) : engine(e) {
    a.attach_grad();
    engine.wait_all();
  }

  void run(int n) const {
    for (int i = 0; i < n; ++i) NDArray sum = a + b;
    engine.wait_all();
  }
  void run_rows(int n) const {
    for (int i = 0; i < n; ++i) NDArray sum = row + row;
    engine.wait_all();
  }
  // So few at a time that no push has to help: the rest of the work is not timed.
  double seconds_of_pushes(int n) const {
    constexpr int batch = 1000;
    double total = 0;
    for (int done = 0; done < n; done += batch) {
      total += seconds([&] {
        for (int i = 0; i < batch; ++i) NDArray sum = a + b;
      });
      engine.wait_all();
    }
    return total;
  }
  NDArray recorded_chain() const {
    return autograd::record([&] {
      NDArray y = a;
      for (int i = 0; i < chain; ++i) y = y * b;
      return y;
    });
  }
  void record() const {
    for (int i = 0; i < chains; ++i) recorded_chain();
    engine.wait_all();
  }
  void record_and_backward() const {
    for (int i = 0; i < chains; ++i) recorded_chain().backward();
    engine.wait_all();
  }
};

// random_graph() as a hybridized program: each node adds up its predecessors, a last one what nobody reads. On arrays
// without elements the kernels return at once, so that a call costs what the plan itself takes. `exact`: no pass joins
// nodes.
class Plan {
 public:
  explicit Plan(int64_t elements) : input_(nd.ones({elements})), graph_(program(), {"data"}, options, "plan") {
    replay(1);
    Engine::current().wait_all();
    for (const Node& n : graph_.plan()->graph().nodes) nodes_ += n.op != nullptr;
  }

  void replay(int times) {
    const NDArray* inputs[] = {&input_};
    NDArray output;
    for (int i = 0; i < times; ++i) graph_.call(inputs, std::span(&output, 1), std::source_location::current());
    Engine::current().wait_all();
  }
  double ns_per_node() {
    constexpr int times = ops / graph_size;
    return ns_per_op(seconds([&] { replay(times); }), times * nodes_);
  }
  int nodes() const { return nodes_; }

 private:
  static constexpr HybridizeOptions options{.static_alloc = true, .static_shape = true, .exact = true};
  static Symbol program() {
    const TaskGraph graph = random_graph();
    const auto successors = graph.successors();
    std::vector<Symbol> made, unread;
    for (size_t i = 0; i < graph.predecessors.size(); ++i) {
      std::vector<Symbol> inputs;
      for (int p : graph.predecessors[i]) inputs.push_back(made[size_t(p)]);
      if (inputs.empty()) inputs.push_back(sym.var("data"));
      made.push_back(sym.add_n(inputs));
      if (successors[i].empty()) unread.push_back(made.back());
    }
    return sym.add_n(unread);
  }

  NDArray input_;
  CachedGraph graph_;
  int nodes_ = 0;
};

}  // namespace

void measure_operators(Engine& engine, const Settings& settings) {
  EngineScope scope(engine);
  const Operators operators(engine);
  constexpr int few = ops / 10;
  compare(
      "operator", settings,
      {asio_post(settings),
       {"serial_loop", serial_loop},
       {"imperative_one_element", [&] { return ns_per_op(seconds([&] { operators.run(few); }), few); }, true, 160},
       {"imperative_one_element_pushing_thread", [&] { return ns_per_op(operators.seconds_of_pushes(few), few); }, true,
        100},
       {"imperative_1000_elements", [&] { return ns_per_op(seconds([&] { operators.run_rows(few); }), few); }, true},
       {"recorded_one_element", [&] { return ns_per_op(seconds([&] { operators.record(); }), chains * chain); }, true,
        250},
       {"forward_backward_one_element",
        [&] { return ns_per_op(seconds([&] { operators.record_and_backward(); }), chains * chain); }, true, 600}});

  Plan plan(0), one_element(1);
  const TaskGraph graph = random_graph();
  std::vector<Candidate> candidates{asio_post(settings), {"serial_calls", serial_calls}, asio_counted(graph, settings)};
  for (Candidate& c : tbb_candidates(graph, settings)) candidates.push_back(std::move(c));
  candidates.push_back(
      {"plan_replay_per_node", [&] { return plan.ns_per_node(); }, true, settings.threads == 1 ? 10 : 25});
  candidates.push_back({"plan_replay_one_element_per_node", [&] { return one_element.ns_per_node(); }, true});
  compare("plan_replay", settings, candidates);

  const std::string t = "_threads" + std::to_string(settings.threads);
  fmt::print(
      "{{\"name\": \"plan_replay_nodes{}\", \"nodes\": {}, \"note\": \"a hybridized graph of add_n over arrays without "
      "elements, called {} times; the whole call over its nodes\"}}\n",
      t, plan.nodes(), ops / graph_size);
  print_allocations("imperative_one_element" + t, few, [&] { operators.run(few); });
  print_allocations("recorded_one_element" + t, chains * chain, [&] { operators.record(); });
  print_allocations("forward_backward_one_element" + t, chains * chain, [&] { operators.record_and_backward(); });
  print_allocations("plan_replay_per_call" + t, graph_size, [&] { plan.replay(graph_size); });
}

}  // namespace kaon::bench
