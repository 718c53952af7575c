// Static plans on a GPU, launched as one graph each: what they give step by step, whatever other threads do (users.md
// 45).
#include <atomic>
#include <cmath>
#include <thread>

#include "kaon/engine/buffer/device_launch.h"
#include "kaon/engine/device/backend.h"
#include "kaon/engine/device/gpu.h"
#include "kaon/graph/plan/plan_capture.h"
#include "kaon/tests/engine/support.h"
#include "kaon/tests/graph/support.h"
#include "kaon/tests/support/skip.h"

namespace plan_capture_test {

using namespace kaon;
using namespace kaon::graph;
using namespace kaon::test;
using Catch::Matchers::Contains;

namespace {

NDArray there(const NDArray& a) { return a.as_in_context(gpu(0)); }

// Exact, so that it is not one kernel.
constexpr HybridizeOptions by_step{.exact = true}, as_graph{.static_alloc = true, .exact = true};

template <class A>
A program(const Functions<A>& F, const A& x, const A& w, const A& b) {
  const A y = F.tanh(x * w + b);
  return F.concat(op::Concat{.dim = 1}, y * x, F.relu(y - w), F.transpose(F.transpose(y) * 2));
}
CachedGraph net(const HybridizeOptions& options) {
  return CachedGraph(program(sym, sym.var("x"), sym.var("w"), sym.var("b")), {"x", "w", "b"}, options, "net");
}

}  // namespace

TEST_CASE("plan capture: other inputs, parameters that change in place, results that stay", "[graph][cuda]") {
  if (!test::has_gpu()) return;
  CachedGraph graph = net(as_graph);
  NDArray w = there(numbers({5, 7}, 2));
  const NDArray b = there(numbers({7}, 3));
  std::vector<NDArray> kept, want;
  NDArray y;
  for (uint32_t i = 0; i < 40; ++i) {
    const NDArray host = numbers({5, 7}, 10 + i);
    const NDArray x = there(host);
    if (i % 8 == 7) w.assign(numbers({5, 7}, 100 + i));
    y = call(graph, {x, w, b})[0];
    const std::vector<float> expected = floats(program(nd, x, w, b));
    REQUIRE(floats(y) == expected);
    if (i % 10 == 9) kept.push_back(y), want.push_back(nd.array(expected, y.shape()));
  }
  for (size_t i = 0; i < kept.size(); ++i) CHECK(same_bits(kept[i], want[i]));
  CHECK(graph.plan()->graph_launches() > 10);
  CHECK_THAT(graph.report()->dump(),
             Contains(std::to_string(graph.plan()->graph_launches()) + " runs launched as one graph each"));
  CachedGraph other = net(by_step);
  for (int i = 0; i < 10; ++i) call(other, {w, w, b});
  CHECK(other.plan()->graph_launches() == 0);
}

TEST_CASE("plan capture: what moves is copied; parameters may move now and then, and too much to copy is not",
          "[graph][cuda]") {
  if (!test::has_gpu()) return;
  CachedGraph graph = net(as_graph);
  NDArray w = there(numbers({5, 7}, 2));
  const NDArray b = there(numbers({7}, 3));
  std::vector<NDArray> all, want;
  for (uint32_t i = 0; i < 60; ++i) {
    if (i % 20 == 19) {
      all.push_back(w);
      w = there(numbers({5, 7}, i));
    }
    all.push_back(there(numbers({5, 7}, 100 + i)));
    const NDArray x = all.back();
    all.push_back(call(graph, {x, w, b})[0]);
    want.push_back(program(nd, x, w, b));
    REQUIRE(floats(all.back()) == floats(want.back()));
  }
  CHECK(graph.plan()->graph_launches() == 58);
  CachedGraph large(sym.tanh(sym.var("x")) + sym.sigmoid(sym.var("x")), {"x"}, as_graph, "large");
  for (int i = 0; i < 6; ++i) {
    all.push_back(there(nd.zeros({1 << 20}) + i));
    all.push_back(call(large, {all.back()})[0]);
  }
  CHECK(all.back()[77].asscalar<float>() == Approx(std::tanh(5.0) + 1 / (1 + std::exp(-5.0))));
  CHECK(large.plan()->graph_launches() == 0);
}

TEST_CASE("plan capture: recorded calls and their gradients", "[graph][cuda]") {
  if (!test::has_gpu()) return;
  CachedGraph graph = net(as_graph);
  NDArray w = there(numbers({5, 7}, 2)), b = there(numbers({7}, 3));
  w.attach_grad();
  b.attach_grad();
  const NDArray x = there(numbers({5, 7}, 4));
  std::vector<float> gradients[2];
  for (int planned : {0, 1}) {
    for (int i = 0; i < 12; ++i) {
      w.assign(numbers({5, 7}, 50 + uint32_t(i)));
      const NDArray y = autograd::record([&] { return planned ? call(graph, {x, w, b})[0] : program(nd, x, w, b); });
      y.backward();
      for (const NDArray& p : {w, b}) {
        for (float g : floats(p.grad())) gradients[planned].push_back(g);
      }
    }
  }
  CHECK(gradients[0] == gradients[1]);
  CHECK(graph.plan()->graph_launches() > 10);
}

TEST_CASE("plan capture: plans that draw random numbers draw anew", "[graph][cuda]") {
  if (!test::has_gpu()) return;
  CachedGraph graph(sym.Dropout(sym.var("x") * 2 + 1, {.p = 0.5}), {"x"}, as_graph, "net");
  const NDArray x = there(nd.ones({8, 64}));
  std::vector<float> last;
  for (int i = 0; i < 8; ++i) {
    const std::vector<float> now = floats(autograd::record([&] { return call(graph, {x})[0]; }));
    CHECK(now != last);
    last = now;
  }
  CHECK(graph.plan()->graph_launches() == 0);
}

TEST_CASE("plan capture: users.md 45: others copy, allocate, launch and wait while graphs are captured",
          "[graph][cuda]") {
  if (!test::has_gpu()) return;
  CachedGraph graph = net(as_graph);
  const NDArray w = there(numbers({5, 7}, 2)), b = there(numbers({7}, 3));
  std::atomic<bool> stop{false};
  std::atomic<int> wrong{0};
  std::thread other([&] {
    for (uint32_t i = 0; !stop; ++i) {
      const Shape shape{1 + i % 50, 33 + i % 7};
      const NDArray host = numbers(shape, i), a = there(host);
      const std::vector<float> back = floats(a + a), expected = floats(host + host);
      if (back != expected) ++wrong;
      if (i % 16 == 0) Gpu::of(gpu(0)).memory.trim();  // so that the driver is asked for memory again
      a.wait_to_read();
    }
  });
  std::vector<std::thread> callers;
  for (uint32_t t = 0; t < 3; ++t) {
    callers.emplace_back([&, t] {
      for (uint32_t i = 0; i < 30; ++i) {
        const NDArray x = there(numbers({5, 7}, 1000 * t + i));
        if (floats(call(graph, {x, w, b})[0]) != floats(program(nd, x, w, b))) ++wrong;
      }
    });
  }
  for (std::thread& t : callers) t.join();
  stop = true;
  other.join();
  CHECK(wrong == 0);
  CHECK(graph.plan()->graph_launches() > 30);
}

TEST_CASE("plan capture: users.md 45: launched 1000 times after what made it is gone", "[graph][cuda]") {
  if (!test::has_gpu()) return;
  IntrusivePtr<ExecutionPlan> plan;
  const NDArray w = there(numbers({5, 7}, 2)), b = there(numbers({7}, 3)), x = there(numbers({5, 7}, 4));
  std::vector<float> want;
  {
    CachedGraph graph = net(as_graph);
    std::vector<NDArray> junk;
    for (uint32_t i = 0; i < 5; ++i) {
      want = floats(call(graph, {x, w, b})[0]);
      junk.push_back(there(numbers({64, 64}, i)));
    }
    plan = graph.plan();
  }
  Gpu::of(gpu(0)).memory.trim();
  const NDArray* inputs[] = {&x, &w, &b};
  const uint64_t before = plan->graph_launches();
  NDArray y;
  for (int i = 0; i < 1000; ++i) {
    y = NDArray();
    plan->forward(inputs, std::span<NDArray>(&y, 1), {"again"}, false);
    if (i % 100 == 0) REQUIRE(floats(y) == want);
  }
  CHECK(floats(y) == want);
  CHECK(plan->graph_launches() - before > 900);
}

TEST_CASE("plan capture: what cannot be captured is left to the caller, and the GPU goes on", "[graph][cuda]") {
  if (!test::has_gpu()) return;
  const auto forbidden = [](RunContext& c, std::span<void* const>) {
    c.stream()->call([](void*) noexcept {}, nullptr);
  };
  const auto failing = [](RunContext& c, std::span<void* const>) {
    c.workspace(1000);
    throw ValueError("broken");
  };
  const auto nothing = [](RunContext&, std::span<void* const>) {};
  nd.waitall();
  const auto live = [] { return Gpu::of(gpu(0)).memory.stats().live; };
  const size_t before = live();
  {
    DeviceLaunch launch(Gpu::of(gpu(0)), Lane::compute, {"test"});
    char memory[8];
    const auto launched = [&](PlanCapture& capture, PlanCapture::Work work) {
      const CallArray array{memory, 8, true, false};
      return capture.launch(launch, nullptr, std::span(&array, 1), 8, work);
    };
    PlanCapture a, b, c;
    for (int i = 0; i < 2; ++i) {
      for (PlanCapture* p : {&a, &b, &c}) CHECK_FALSE(launched(*p, nothing));  // first it is watched
    }
    CHECK_FALSE(launched(a, forbidden));
    CHECK_FALSE(launched(b, failing));
    CHECK(launched(c, nothing));
    CHECK_FALSE(launched(a, nothing));  // once is enough
    CHECK_FALSE(launched(b, nothing));
    CHECK(launched(c, forbidden));  // what was captured
  }
  CHECK(becomes_true([&] { return live() <= before; }));  // less: what earlier cases held a moment longer
  const NDArray x = there(numbers({3, 4}));
  CHECK(floats(x + x) == floats(numbers({3, 4}) * 2));
}

}  // namespace plan_capture_test
