// What the engine is compared with: a serial loop, and Boost.Asio's thread pool with one post per op.
#include <algorithm>
#include <boost/asio/post.hpp>
#include <boost/asio/strand.hpp>
#include <boost/asio/thread_pool.hpp>
#include <memory>
#include <numeric>
#include <random>
#include <set>

#include "kaon/bench/engine/engine_parts.h"

namespace kaon::bench {

namespace asio = boost::asio;

std::vector<std::vector<int>> TaskGraph::successors() const {
  std::vector<std::vector<int>> result(predecessors.size());
  for (size_t i = 0; i < predecessors.size(); ++i) {
    for (int p : predecessors[i]) result[size_t(p)].push_back(int(i));
  }
  return result;
}

TaskGraph independent_graph() { return {}; }

TaskGraph chain_graph() {
  TaskGraph g;
  for (int i = 1; i < graph_size; ++i) g.predecessors[size_t(i)] = {i - 1};
  return g;
}

TaskGraph random_graph() {
  constexpr int window = 50;
  std::mt19937 random(42);
  std::set<std::vector<int>> seen;
  TaskGraph g;
  for (int i = 1; i < graph_size; ++i) {
    std::vector<int> before;
    do {
      before.resize(size_t(std::min(window, i)));
      std::iota(before.begin(), before.end(), i - int(before.size()));
      std::shuffle(before.begin(), before.end(), random);
      before.resize(std::min<size_t>(before.size(), 1 + random() % 3));
      std::sort(before.begin(), before.end());
    } while (!seen.insert(before).second);
    g.predecessors[size_t(i)] = before;
  }
  return g;
}

std::vector<Accesses> random_accesses() {
  std::mt19937 random(7);
  auto var = [&] { return int(random() % unsigned(access_vars)); };
  std::vector<Accesses> accesses(ops);
  for (Accesses& a : accesses) {
    a.write = var();
    a.reads[0] = var();
    a.reads[1] = var();
  }
  return accesses;
}

TaskGraph graph_of(const std::vector<Accesses>& accesses) {
  struct State {
    int writer = -1;
    std::vector<int> readers;  // since that write
  };
  std::vector<State> vars(access_vars);
  TaskGraph g;
  for (int i = 0; i < graph_size; ++i) {
    const Accesses& a = accesses[size_t(i)];
    std::vector<int>& before = g.predecessors[size_t(i)];
    State& written = vars[size_t(a.write)];
    before = written.readers;
    for (int v : {a.write, a.reads[0], a.reads[1]}) {
      if (vars[size_t(v)].writer >= 0) before.push_back(vars[size_t(v)].writer);
    }
    std::sort(before.begin(), before.end());
    before.erase(std::unique(before.begin(), before.end()), before.end());
    for (int v : a.reads) vars[size_t(v)].readers.push_back(i);
    written = {i, {}};
  }
  return g;
}

double serial_loop() {
  return ns_per_op(seconds([] {
    for (int i = 0; i < ops; ++i) {
      ++cells[i % graph_size].value;
      asm volatile("" ::: "memory");
    }
  }));
}

double serial_calls() {
  std::vector<void (*)(Cell&)> bodies(graph_size, [](Cell& c) { ++c.value; });
  asm volatile("" : : "r"(bodies.data()) : "memory");  // the calls stay indirect
  return ns_per_op(seconds([&] {
    for (int r = 0; r < ops / graph_size; ++r) {
      for (size_t i = 0; i < bodies.size(); ++i) bodies[i](cells[i]);
    }
  }));
}

namespace {

// The pool of so many threads; made once, so that its threads are there when they are measured.
asio::thread_pool& pool_of(int threads) {
  static std::vector<std::unique_ptr<asio::thread_pool>> pools;
  while (int(pools.size()) <= threads) pools.push_back(nullptr);
  if (!pools[size_t(threads)]) pools[size_t(threads)] = std::make_unique<asio::thread_pool>(size_t(threads));
  return *pools[size_t(threads)];
}

void wait_for(const std::atomic<int>& left) {
  while (left.load(std::memory_order_acquire)) std::this_thread::yield();
}

template <class Where>
double post_all(Where& where) {
  return ns_per_op(seconds([&] {
    std::atomic<int> left{ops};
    for (int i = 0; i < ops; ++i) asio::post(where, [&] { left.fetch_sub(1, std::memory_order_release); });
    wait_for(left);
  }));
}

// Each task counts its successors down and posts those that become ready. The last one of a run starts the next run.
class CountedGraph {
 public:
  CountedGraph(const TaskGraph& graph, asio::thread_pool& pool)
      : pool_(pool), predecessors_(graph.predecessors), successors_(graph.successors()), missing_(successors_.size()) {}

  void run(int times) {
    runs_.store(times);
    start();
    wait_for(runs_);
  }

 private:
  void start() {
    left_.store(int(missing_.size()), std::memory_order_relaxed);
    for (size_t i = 0; i < missing_.size(); ++i)
      missing_[i].store(int(predecessors_[i].size()), std::memory_order_relaxed);
    for (size_t i = 0; i < missing_.size(); ++i) {
      if (predecessors_[i].empty()) post(int(i));
    }
  }
  void post(int i) {
    asio::post(pool_, [this, i] {
      ++cells[i].value;
      for (int s : successors_[size_t(i)]) {
        if (missing_[size_t(s)].fetch_sub(1, std::memory_order_acq_rel) == 1)
          post(s);  // pairs with the others' decrements
      }
      if (left_.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
      if (runs_.fetch_sub(1, std::memory_order_acq_rel) != 1) start();  // pairs with wait_for
    });
  }

  asio::thread_pool& pool_;
  std::vector<std::vector<int>> predecessors_, successors_;
  std::vector<std::atomic<int>> missing_;
  std::atomic<int> left_{0}, runs_{0};
};

}  // namespace

Candidate asio_post(const Settings& settings) {
  return {"asio_post", [&pool = pool_of(settings.threads)] { return post_all(pool); }};
}

Candidate asio_strand(const Settings& settings) {
  auto measure = [&pool = pool_of(settings.threads)] {
    auto strand = asio::make_strand(pool);
    return post_all(strand);
  };
  return {"asio_strand", measure};
}

Candidate asio_counted(const TaskGraph& graph, const Settings& settings) {
  auto counted = std::make_shared<CountedGraph>(graph, pool_of(settings.threads));
  return {"asio_counted", [counted] { return ns_per_op(seconds([&] { counted->run(ops / graph_size); })); }};
}

double asio_one_and_wait(const Settings& settings) {
  constexpr int times = ops / 100;
  static std::atomic<int> done;  // outlives the last handler, which notifies after its store
  asio::thread_pool& pool = pool_of(settings.threads);
  auto post_and_wait = [&] {
    for (int i = 0; i < times; ++i) {
      const int before = done.load(std::memory_order_relaxed);
      asio::post(pool, [] {
        done.fetch_add(1, std::memory_order_release);
        done.notify_one();
      });
      done.wait(before, std::memory_order_acquire);
    }
  };
  return ns_per_op(seconds(post_and_wait), times);
}

double asio_pushers(const Settings& settings, int pushers) {
  asio::thread_pool& pool = pool_of(settings.threads);
  std::atomic<int> left{ops};
  return seconds_of_threads(
      pushers,
      [&](int) {
        for (int i = 0; i < ops / pushers; ++i) asio::post(pool, [&] { left.fetch_sub(1, std::memory_order_release); });
      },
      [&] { wait_for(left); });
}

}  // namespace kaon::bench
