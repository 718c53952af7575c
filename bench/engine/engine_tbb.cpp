// oneTBB beside the engine. CMake defines KAON_BENCH_TBB where the package is found.
#include "kaon/bench/engine/engine_parts.h"

#ifdef KAON_BENCH_TBB
#include <oneapi/tbb/flow_graph.h>
#include <oneapi/tbb/global_control.h>
#include <oneapi/tbb/task_group.h>

#include <memory>

namespace kaon::bench {
namespace {

using oneapi::tbb::global_control;
using oneapi::tbb::task_group;
namespace flow = oneapi::tbb::flow;

// `measure` with at most so many threads.
std::function<double()> limited(const Settings& settings, std::function<double()> measure) {
  return [measure, threads = size_t(settings.threads)] {
    global_control limit(global_control::max_allowed_parallelism, threads);
    return measure();
  };
}

// Each task counts its successors down and hands over those that become ready.
class TaskGroupGraph {
 public:
  explicit TaskGroupGraph(const TaskGraph& graph)
      : predecessors_(graph.predecessors), successors_(graph.successors()), missing_(successors_.size()) {}

  void run() {
    for (size_t i = 0; i < missing_.size(); ++i)
      missing_[i].store(int(predecessors_[i].size()), std::memory_order_relaxed);
    for (size_t i = 0; i < missing_.size(); ++i) {
      if (predecessors_[i].empty()) start(int(i));
    }
    group_.wait();
  }

 private:
  void start(int i) {
    group_.run([this, i] {
      ++cells[i].value;
      for (int s : successors_[size_t(i)]) {
        if (missing_[size_t(s)].fetch_sub(1, std::memory_order_acq_rel) == 1)
          start(s);  // pairs with the others' decrements
      }
    });
  }

  std::vector<std::vector<int>> predecessors_, successors_;
  std::vector<std::atomic<int>> missing_;
  task_group group_;
};

// Built once. A broadcast node starts the tasks without predecessors.
class FlowGraph {
 public:
  explicit FlowGraph(const TaskGraph& graph) {
    for (size_t i = 0; i < graph.predecessors.size(); ++i) {
      nodes_.push_back(std::make_unique<Node>(graph_, [i](const flow::continue_msg& m) {
        ++cells[i].value;
        return m;
      }));
      for (int p : graph.predecessors[i]) flow::make_edge(*nodes_[size_t(p)], *nodes_[i]);
      if (graph.predecessors[i].empty()) flow::make_edge(start_, *nodes_[i]);
    }
  }
  void run() {
    start_.try_put(flow::continue_msg());
    graph_.wait_for_all();
  }

 private:
  using Node = flow::continue_node<flow::continue_msg>;
  flow::graph graph_;
  flow::broadcast_node<flow::continue_msg> start_{graph_};
  std::vector<std::unique_ptr<Node>> nodes_;
};

template <class G>
std::function<double()> rerun(std::shared_ptr<G> graph, int nodes, int times) {
  return [=] {
    auto run = [&] {
      for (int r = 0; r < times; ++r) graph->run();
    };
    return ns_per_op(seconds(run), nodes * times);
  };
}

}  // namespace

bool has_tbb() { return true; }

std::vector<Candidate> tbb_candidates(const TaskGraph& graph, const Settings& settings) {
  constexpr int times = ops / graph_size;
  return {{"tbb_task_group", limited(settings, rerun(std::make_shared<TaskGroupGraph>(graph), graph_size, times))},
          {"tbb_flow", limited(settings, rerun(std::make_shared<FlowGraph>(graph), graph_size, times))}};
}

std::vector<Candidate> tbb_one_and_wait(const Settings& settings) {
  TaskGraph one;
  one.predecessors.resize(1);
  return {{"tbb_task_group", limited(settings, rerun(std::make_shared<TaskGroupGraph>(one), 1, ops / 10))},
          {"tbb_flow", limited(settings, rerun(std::make_shared<FlowGraph>(one), 1, ops / 10))}};
}

std::vector<Candidate> tbb_pushers(const Settings& settings, int pushers) {
  auto push = [pushers](int p) {  // a group of its own for each thread, as oneTBB would have it
    task_group group;
    for (int i = 0; i < ops / pushers; ++i) group.run([cell = &cells[p]] { ++cell->value; });
    group.wait();
  };
  return {{"tbb_task_group", limited(settings, [=] { return mops(seconds_of_threads(pushers, push, [] {})); })}};
}

}  // namespace kaon::bench

#else

namespace kaon::bench {
bool has_tbb() { return false; }
std::vector<Candidate> tbb_candidates(const TaskGraph&, const Settings&) { return {}; }
std::vector<Candidate> tbb_one_and_wait(const Settings&) { return {}; }
std::vector<Candidate> tbb_pushers(const Settings&, int) { return {}; }
}  // namespace kaon::bench

#endif
