// Regions of a plan that run side by side.
#include "kaon/graph/plan/parallel_regions.h"

#include <atomic>
#include <chrono>
#include <set>
#include <thread>

#include "kaon/engine/engine.h"
#include "kaon/engine/profiler.h"
#include "kaon/graph/memory/memory_plan.h"
#include "kaon/graph/passes/passes.h"
#include "kaon/ops/op_def.h"
#include "kaon/tests/graph/support.h"

namespace parallel_regions_test {

using namespace kaon;
using namespace kaon::graph;
using namespace kaon::test;
using Catch::Matchers::Contains;

namespace {

std::atomic<int> inside{0};  // nodes that wait for each other now
std::atomic<bool> have_met{false};

// y = x, after two of these have run at a time, or a while has passed.
struct Meets {
  static constexpr OpTraits traits{.name = "_test_meets", .in_mxnet = false};
  static constexpr void fields(auto) {}
  static const OpDef def;
  void infer(InferContext& c) const { c.set_output(c.shape(0), c.dtype()); }
};
void run_cpu(const Meets&, KernelContext& c) {
  if (++inside == 2) have_met = true;
  const auto until = std::chrono::steady_clock::now() + std::chrono::milliseconds(200);
  while (!have_met && std::chrono::steady_clock::now() < until) std::this_thread::yield();
  --inside;
  std::memcpy(c.out().data, c.in(0).data, c.in(0).bytes());
}
const OpDef Meets::def = make_op_def<Meets>();

// Four chains of layers from one value, of unlike lengths, and what they are put together to; scratch memory, views,
// values that die inside a chain, one that is used by two chains.
template <class F, class A>
std::vector<A> four_branches(const F& f, const A& x, const A& w) {
  std::vector<A> ends;
  const A trunk = f.tanh(x);
  for (int i = 0; i < 4; ++i) {
    A h = f.dot(trunk * double(i + 1), w);  // else the shorter chains are part of the longer
    for (int k = 0; k <= i; ++k) h = f.softmax(f.dot(f.reshape(f.relu(h), {-3}).reshape({32, 256}), w));
    ends.push_back(h);
  }
  return {f.concat(op::Concat{.dim = 1}, ends[0], ends[1], ends[2], ends[3]), ends[2], f.sum(ends[1] * trunk)};
}

Graph graph_of(const Symbol& s, const std::vector<std::string>& names, const std::vector<TensorMeta>& metas,
               std::vector<bool> wanted = {}) {
  Graph g = Graph::from_symbol(s, names);
  infer_graph(g, metas);
  return passes::run(std::move(g), {.training = !wanted.empty(), .wanted = std::move(wanted)});
}

// Is there a way from a node of one group to a node of another?
void check_independent(const Graph& g) {
  for (const ParallelRegion& b : g.parallel_regions) {
    REQUIRE(b.groups.size() >= 3);
    auto group = [&](uint32_t node) {
      if (node < b.groups.front() || node >= b.groups.back()) return -1;
      return int(std::upper_bound(b.groups.begin(), b.groups.end(), node) - b.groups.begin());
    };
    for (uint32_t i = b.groups.front(); i < b.groups.back(); ++i) {
      for (ValueId v : g.nodes[i].inputs) {
        if (group(v.node) >= 0) REQUIRE(group(v.node) == group(i));
      }
    }
  }
}

// What a node of one group writes, no node of another touches. Knows nothing of lifetimes.
void check_apart(const Graph& g, const MemoryPlan& plan) {
  auto overlap = [&](ValueId a, ValueId b) {
    const ValueSlot &x = plan.slot(a), &y = plan.slot(b);
    return x.place == Place::arena && y.place == Place::arena && x.offset < y.offset + y.bytes &&
           y.offset < x.offset + x.bytes;
  };
  auto writes_what_is_touched = [&](uint32_t a, uint32_t b) {
    for (uint32_t k = 0; k < g.nodes[a].outputs.size(); ++k) {
      for (uint32_t j = 0; j < g.nodes[b].outputs.size(); ++j) {
        if (overlap({a, k}, {b, j})) return true;
      }
      for (ValueId v : g.nodes[b].inputs) {
        if (overlap({a, k}, v)) return true;
      }
    }
    return false;
  };
  auto runs = [&](uint32_t i) { return g.nodes[i].op && !g.nodes[i].op->traits.view; };
  for (const ParallelRegion& b : g.parallel_regions) {
    for (size_t k = 0; k + 1 < b.groups.size(); ++k) {
      for (uint32_t i = b.groups[k]; i < b.groups[k + 1]; ++i) {
        for (uint32_t j = b.groups.front(); j < b.groups.back(); ++j) {
          const bool same = j >= b.groups[k] && j < b.groups[k + 1];
          if (same || !runs(i) || !runs(j)) continue;
          INFO(g.nodes[i].name << " and " << g.nodes[j].name);
          REQUIRE_FALSE(writes_what_is_touched(i, j));
        }
      }
    }
  }
}

}  // namespace

TEST_CASE("parallel regions: groups have no edge between them, in one order, memory apart") {
  const Symbol program = Symbol::group(four_branches(sym, sym.var("x"), sym.var("w")));
  for (bool backward : {false, true}) {
    const Graph g = graph_of(program, {"x", "w"}, {{{32, 256}, DType::float32}, {{256, 256}, DType::float32}},
                             backward ? std::vector<bool>{true, true} : std::vector<bool>{});
    const Graph b = with_parallel_regions(g, backward);
    REQUIRE(!b.parallel_regions.empty());
    b.validate();
    check_independent(b);
    CHECK(b.parallel_regions[0].groups.size() == 5);  // four groups
    CHECK(b.nodes.size() == g.nodes.size());
    const MemoryPlan plan = plan_memory(b), one_by_one = plan_memory(g);
    plan.check(b);
    check_apart(b, plan);
    CHECK(plan.arena_bytes <= one_by_one.arena_bytes + (1 << 20));
    CHECK(with_parallel_regions(g, backward).str() == b.str());
  }
}

TEST_CASE("parallel regions: the plan's check finds values of two groups that overlap") {
  const Symbol program = Symbol::group(four_branches(sym, sym.var("x"), sym.var("w")));
  const Graph b = with_parallel_regions(
      graph_of(program, {"x", "w"}, {{{32, 256}, DType::float32}, {{256, 256}, DType::float32}}), false);
  const std::vector<uint32_t>& groups = b.parallel_regions.at(0).groups;
  MemoryPlan plan = plan_memory(b);
  std::vector<ValueSlot*> of_groups;  // one that dies inside, of each of two
  for (size_t k = 0; k < 2; ++k) {
    for (uint32_t i = groups[k]; i < groups[k + 1]; ++i) {
      ValueSlot& s = plan.slots[i][0];
      if (s.place != Place::arena || !(s.root == ValueId{i, 0}) || s.last >= groups[k + 1]) continue;
      of_groups.push_back(&s);
      break;
    }
  }
  REQUIRE(of_groups.size() == 2);
  CHECK((of_groups[0]->last < of_groups[1]->first || of_groups[1]->last < of_groups[0]->first));
  of_groups[1]->offset = of_groups[0]->offset;
  CHECK_THROWS_WITH(plan.check(b), Contains("are alive together and overlap"));
}

TEST_CASE("parallel regions: chains, small nodes, updates and random numbers stay as they are") {
  auto count = [](const Symbol& s, const Shape& shape, bool training = false) {
    const std::vector<TensorMeta> metas{{shape, DType::float32}};
    return with_parallel_regions(graph_of(s, {"x"}, metas, training ? std::vector<bool>{true} : std::vector<bool>{}),
                                 training)
        .parallel_regions.size();
  };
  Symbol chain = sym.var("x");
  for (int i = 0; i < 50; ++i) chain = sym.softmax(chain);
  CHECK(count(chain, {256, 256}) == 0);
  const Symbol x = sym.var("x"), two = sym.softmax(x) + sym.log_softmax(x);
  CHECK(count(two, {8, 8}) == 0);
  CHECK(count(two, {256, 1024}) == 1);
  const Symbol drawn = sym.Dropout(x, {.mode = DropoutMode::always}) + sym.Dropout(x, {.mode = DropoutMode::always});
  CHECK(count(drawn, {256, 1024}) == 0);
}

TEST_CASE("parallel regions: two chains run at the same time with two threads") {
  const Meets op{};
  auto meets = [&](const Symbol& s) {
    const Symbol* inputs[] = {&s};
    Symbol out;
    Symbol::apply(Meets::def, &op, inputs, std::span<Symbol>(&out, 1), std::source_location::current(), "");
    return out;
  };
  const Symbol x = sym.var("x"), program = meets(sym.softmax(x)) + meets(sym.log_softmax(x));
  for (int threads : {2, 4}) {
    Engine engine({.threads = threads});
    EngineScope scope(engine);
    CachedGraph graph(program, {"x"}, {.static_alloc = true, .exact = true}, "net");
    const NDArray data = numbers({256, 256});
    const NDArray expected = nd.softmax(data) + nd.log_softmax(data);
    have_met = true;
    call(graph, {data});
    REQUIRE(graph.plan()->graph().parallel_regions.size() == 1);
    nd.waitall();
    // a thread that has not yet come to rest takes no part
    have_met = false;
    for (int time = 0; time < 20 && !have_met; ++time) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
      const uint64_t before = engine.stats().ops;
      const NDArray y = call(graph, {data})[0];
      CHECK(engine.stats().ops == before + 1);
      REQUIRE(same_bits(y, expected));
    }
    CHECK(have_met);
  }
}

TEST_CASE("parallel regions: the same bits on any number of threads, with and without, forward and backward") {
  const Symbol program = Symbol::group(four_branches(sym, sym.var("x"), sym.var("w")));
  for (bool exact : {true, false}) {
    std::vector<std::vector<float>> first;
    for (int threads : {0, 1, 2, 4}) {
      for (bool branches : {true, false}) {
        Engine engine({.threads = threads});
        EngineScope scope(engine);
        CachedGraph graph(program, {"x", "w"}, {.static_alloc = true, .exact = exact, .branches = branches}, "net");
        std::vector<NDArray> results;
        for (int time = 0; time < 5; ++time) {
          NDArray x = numbers({32, 256}), w = numbers({256, 256}, 2) * 0.1;
          x.attach_grad(), w.attach_grad();
          results = call(graph, {x, w});
          const auto recorded = autograd::record([&] { return call(graph, {x, w}); });
          autograd::backward(recorded);
          results.insert(results.end(), recorded.begin(), recorded.end());
          results.insert(results.end(), {x.grad(), w.grad()});
        }
        const bool found = !graph.plan()->graph().parallel_regions.empty();
        CHECK(found == (branches && threads > 1));
        nd.waitall();
        if (first.empty()) {
          for (const NDArray& r : results) first.push_back(r.asvector<float>());
        }
        REQUIRE(results.size() == first.size());
        for (size_t i = 0; i < results.size(); ++i) {
          INFO(threads << " threads, branches " << branches << ", result " << i);
          REQUIRE(results[i].asvector<float>() == first[i]);
        }
      }
    }
  }
}

TEST_CASE("parallel regions: 200 random programs, as if their arrays were large") {
  size_t found = 0;
  for (uint32_t seed = 1; seed <= 200; ++seed) {
    INFO("seed " << seed);
    const Symbol program = random_symbol(20, seed);
    Graph g = graph_of(program, data_names(2), {{{4, 6}, DType::float32}, {{4, 6}, DType::float32}});
    // The shapes of random programs are small: what is worth it is decided as if they were large.
    Graph large = g;
    for (Node& n : large.nodes) {
      for (TensorMeta& m : n.outputs) {
        if (n.op) m.shape = Shape(1 << 16);
      }
    }
    const Graph b = with_parallel_regions(large, false);
    check_independent(b);
    const MemoryPlan plan = plan_memory(b);
    plan.check(b);
    check_apart(b, plan);
    found += b.parallel_regions.size();
  }
  CHECK(found > 50);
}

TEST_CASE("parallel regions: a failure in one names its node, whatever runs beside it; outputs before it are whole") {
  const Symbol x = sym.var("x"), bad = sym.var("bad");
  const Symbol before = sym.softmax(x);
  const Symbol a = sym.log_softmax(x) * 2;
  const Symbol b = fails_on_nan(sym.softmax(bad));
  const Symbol program = Symbol::group({before, sym.broadcast_add(a, b), sym.relu(a)});
  for (int threads : {0, 1, 2, 4}) {
    Engine engine({.threads = threads});
    EngineScope scope(engine);
    CachedGraph graph(program, {"x", "bad"}, {.static_alloc = true, .exact = true}, "net");
    NDArray data = numbers({256, 256});
    for (int time = 0; time < 5; ++time) {
      auto y = call(graph, {data, nd.full({256, 256}, std::nan(""))});
      const std::string message = message_of([&] { y[1].wait_to_read(); });
      CHECK_THAT(message, Contains("_test_fails_on_nan") && Contains("in node check"));
      message_of([] { nd.waitall(); });
      y = call(graph, {data, data});
      CHECK(same_bits(y[0], nd.softmax(data)));
      CHECK(same_bits(y[2], nd.relu(nd.log_softmax(data) * 2)));
    }
  }
}

TEST_CASE("parallel regions: the nodes of all groups are in the trace") {
  Engine engine({.threads = 2});
  EngineScope scope(engine);
  const Symbol x = sym.var("x");
  CachedGraph graph(sym.softmax(x) + sym.log_softmax(x), {"x"}, {.static_alloc = true}, "net");
  const NDArray data = numbers({512, 512});
  call(graph, {data})[0].wait_to_read();
  REQUIRE(!graph.plan()->graph().parallel_regions.empty());
  engine.profiler().start();
  call(graph, {data})[0].wait_to_read();
  nd.waitall();
  engine.profiler().stop();
  std::set<std::string> names;
  for (const Profiler::Event& e : engine.profiler().events()) {
    if (std::string(e.category) == "plan") names.insert(e.name);
  }
  CHECK(names.count("softmax") == 1);
  CHECK(names.count("log_softmax") == 1);
}

}  // namespace parallel_regions_test
