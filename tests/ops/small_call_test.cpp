// Elementwise operators on a few elements run at their call when nothing is in their way, and are queued otherwise.
#include <atomic>
#include <catch2/catch.hpp>
#include <memory>
#include <thread>

#include "kaon/engine/profiler.h"
#include "kaon/ops/functions.h"
#include "kaon/ops/op_def.h"

namespace small_call_test {

using namespace kaon;

namespace {

// Halves even numbers; throws for odd ones. Says on which thread it ran.
struct Halve {
  static constexpr OpTraits traits{.name = "test_halve", .pointwise = true, .in_mxnet = false};
  static constexpr void fields(auto) {}
  static const OpDef def;
  void infer(InferContext& c) const { c.set_output(c.shape(0), c.dtype()); }
};
thread_local int t_runs = 0;
void run_cpu(const Halve&, KernelContext& c) {
  ++t_runs;
  for (int64_t i = 0; i < c.in(0).size(); ++i) {
    const float x = c.in(0).as<float>()[i];
    if (int(x) % 2 != 0) throw ValueError("[test_halve] expected an even number");
    c.out().as<float>()[i] = x / 2;
  }
}
const OpDef Halve::def = make_op_def<Halve>();

NDArray halve(const NDArray& x, std::source_location site = std::source_location::current()) {
  const Halve op;
  const NDArray* inputs[] = {&x};
  NDArray out;
  NDArray::apply(Halve::def, &op, inputs, std::span(&out, 1), site, "");
  return out;
}

// Operations wait until it is opened. They share its state: the last may still run when a test ends.
class Gate {
 public:
  void hold(const NDArray& x, AccessMode mode) {
    x.engine().push({{x.var(), mode}}, [open = open_, kept = x](RunContext&) {
      while (!*open) std::this_thread::yield();
    });
  }
  void open() { *open_ = true; }

 private:
  std::shared_ptr<std::atomic<bool>> open_ = std::make_shared<std::atomic<bool>>(false);
};

}  // namespace

TEST_CASE("small calls: run on the calling thread, without an operation") {
  for (int threads : {1, 2, 4}) {
    Engine engine({.threads = threads});
    EngineScope scope(engine);
    NDArray x = nd.array({2, 4, 6});
    engine.wait_all();
    const uint64_t ops = engine.stats().ops;
    const int runs = t_runs;
    NDArray y = halve(x);
    NDArray z = (y + x) * 2;
    CHECK(t_runs == runs + 1);
    CHECK(engine.stats().ops == ops);
    CHECK(z.asvector<float>() == std::vector<float>{6, 12, 18});
    x += 1;  // what has been computed stays
    CHECK(z.asvector<float>() == std::vector<float>{6, 12, 18});
    CHECK(nd.ones({300}).size() + (nd.ones({300}) + 1).size() == 600);
    engine.wait_all();
    CHECK(engine.stats().ops > ops);  // in place, and large ones
  }
}

TEST_CASE("small calls: an input that is being written is waited for", "[async]") {
  Engine engine({.threads = 2});
  EngineScope scope(engine);
  NDArray x = nd.array({2, 4});
  engine.wait_all();
  Gate gate;
  gate.hold(x, AccessMode::update);
  int runs = t_runs;
  NDArray y = halve(x), z = y + y;
  CHECK(t_runs == runs);
  gate.open();
  CHECK(z.asvector<float>() == std::vector<float>{2, 4});

  Gate reads;  // readers run side by side
  reads.hold(x, AccessMode::read);
  runs = t_runs;
  NDArray w = halve(x);
  CHECK(t_runs == runs + 1);
  CHECK(w.asvector<float>() == std::vector<float>{1, 2});
  x += 2;  // behind the reader
  runs = t_runs;
  NDArray v = halve(x);
  CHECK(t_runs == runs);
  reads.open();
  CHECK(v.asvector<float>() == std::vector<float>{2, 3});
}

TEST_CASE("small calls: a failure belongs to the result and to what reads it, not to the call") {
  for (int threads : {0, 1, 2}) {
    Engine engine({.threads = threads});
    EngineScope scope(engine);
    NDArray x = nd.array({2, 3});
    engine.wait_all();
    NDArray y = halve(x);
    NDArray z = y + 1;
    CHECK_THROWS_WITH(y.wait_to_read(), Catch::Contains("expected an even number") && Catch::Contains("[test_halve]") &&
                                            Catch::Contains("small_call_test.cpp"));
    CHECK_THROWS_WITH(z.wait_to_read(), Catch::Contains("expected an even number"));
    engine.wait_all();  // both have been reported
    y.assign(4);
    CHECK(halve(y).asvector<float>() == std::vector<float>{2, 2});
  }
}

TEST_CASE("small calls: the profiler sees them") {
  Engine engine({.threads = 1});
  EngineScope scope(engine);
  NDArray x = nd.array({2, 4});
  engine.wait_all();
  engine.profiler().start();
  const uint64_t ops = engine.stats().ops;
  NDArray y = halve(x);
  y.wait_to_read();
  engine.profiler().stop();
  CHECK(engine.stats().ops == ops + 1);
}

TEST_CASE("small calls: threads share an input that one of them updates") {
  Engine engine({.threads = 2});
  EngineScope scope(engine);
  NDArray x = nd.zeros({8});
  engine.wait_all();
  std::atomic<int> wrong{0};
  std::vector<std::thread> readers;
  for (int t = 0; t < 3; ++t) {
    readers.emplace_back([&] {
      EngineScope inner(engine);
      for (int i = 0; i < 2000; ++i) {
        const std::vector<float> values = (x * 2).asvector<float>();
        for (float v : values) wrong += v != values[0];  // never half of an update
      }
    });
  }
  for (int i = 0; i < 2000; ++i) x += 1;
  for (std::thread& t : readers) t.join();
  CHECK(wrong == 0);
  CHECK(x.asvector<float>() == std::vector<float>(8, 2000));
}

}  // namespace small_call_test
