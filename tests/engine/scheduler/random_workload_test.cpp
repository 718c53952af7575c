// Random operations against the same operations in plain order.
#include <atomic>
#include <random>
#include <thread>
#include <vector>

#include "kaon/tests/engine/support.h"

namespace random_workload_test {

using namespace kaon;
using namespace kaon::test;

namespace {

struct RandomOp {
  std::vector<int> reads, writes;
};

RandomOp random_op(std::mt19937& random, int first_var, int vars, int first_shared = 0, int shared = 0) {
  RandomOp op;
  for (size_t n = 2 + random() % 18; n > 0; --n) {
    int at = int(random() % unsigned(vars + shared));
    op.reads.push_back(at < vars ? first_var + at : first_shared + at - vars);
  }
  for (size_t n = 1 + random() % 3; n > 0; --n) op.writes.push_back(first_var + int(random() % unsigned(vars)));
  return op;
}

void evaluate(const RandomOp& op, std::vector<double>& data) {
  double sum = 0;
  for (int r : op.reads) sum += data[size_t(r)];
  for (int w : op.writes) data[size_t(w)] = sum / double(op.reads.size() + 1);
}

void push(Engine& engine, const RandomOp& op, std::vector<Var>& vars, std::vector<double>& data) {
  std::vector<Access> accesses;
  for (int r : op.reads) accesses.push_back(read(vars[size_t(r)]));
  for (int w : op.writes) accesses.push_back(write(vars[size_t(w)]));
  engine.push(std::span<const Access>(accesses), [&op, &data](RunContext&) { evaluate(op, data); });
}

std::vector<double> start_values(size_t n) {
  std::vector<double> data(n);
  for (size_t i = 0; i < n; ++i) data[i] = double(i) + 0.25;
  return data;
}

}  // namespace

TEST_CASE("engine: a random workload gives what serial evaluation gives", "[engine]") {
  std::mt19937 random(3);
  std::vector<RandomOp> ops;
  for (int i = 0; i < rounds(8000); ++i) ops.push_back(random_op(random, 0, 100));
  std::vector<double> expected = start_values(100);
  for (const RandomOp& op : ops) evaluate(op, expected);

  at_thread_counts([&](Engine& engine) {
    for (int repeat = 0; repeat < 3; ++repeat) {
      std::vector<Var> vars(100);
      std::vector<double> data = start_values(100);
      for (const RandomOp& op : ops) push(engine, op, vars, data);
      engine.wait_all();
      REQUIRE(data == expected);
    }
    CHECK(engine.stats().ops == 3 * ops.size());
    CHECK(engine.stats().completed == 3 * ops.size());
    CHECK(engine.stats().failed == 0);
  });
}

TEST_CASE("engine: several threads push on vars of their own and on vars that all read", "[engine]") {
  constexpr int pushers = 4;
  constexpr int own = 20, shared = 20;
  std::vector<std::vector<RandomOp>> ops(pushers);
  std::vector<double> expected = start_values(pushers * own + shared);
  for (int p = 0; p < pushers; ++p) {
    std::mt19937 random(unsigned(100 + p));
    for (int i = 0; i < rounds(3000); ++i) {
      ops[size_t(p)].push_back(random_op(random, p * own, own, pushers * own, shared));
    }
    for (const RandomOp& op : ops[size_t(p)]) evaluate(op, expected);
  }
  at_thread_counts([&](Engine& engine) {
    std::vector<Var> vars(pushers * own + shared);
    std::vector<double> data = start_values(vars.size());
    std::vector<std::thread> threads;
    for (int p = 0; p < pushers; ++p) {
      threads.emplace_back([&, p] {
        for (const RandomOp& op : ops[size_t(p)]) push(engine, op, vars, data);
      });
    }
    for (std::thread& t : threads) t.join();
    engine.wait_all();
    CHECK(data == expected);
  });
}

TEST_CASE("engine: threads that push on the same vars in other orders do not deadlock", "[engine]") {
  constexpr int vars_count = 4;
  at_thread_counts([](Engine& engine) {
    Var vars[vars_count];
    long counts[vars_count] = {};  // not atomic: a write runs alone
    std::atomic<long> expected[vars_count] = {};
    auto push_many = [&](unsigned seed) {
      std::mt19937 random(seed);
      for (int i = 0; i < rounds(5000); ++i) {
        size_t a = random() % vars_count;
        size_t b = random() % vars_count;
        ++expected[a];
        ++expected[b];
        engine.push({update(vars[a]), update(vars[b])}, [&counts, a, b](RunContext&) {
          ++counts[a];
          ++counts[b];
        });
      }
    };
    std::thread first(push_many, 1);
    std::thread second(push_many, 2);
    first.join();
    second.join();
    engine.wait_all();
    for (int v = 0; v < vars_count; ++v) CHECK(counts[v] == expected[v]);
  });
}

TEST_CASE("engine: operations push operations", "[engine]") {
  at_thread_counts([](Engine& engine) {
    Var total;
    long sum = 0;
    struct Tree {
      Engine& engine;
      Var& total;
      long& sum;
      int depth;
      void operator()(RunContext&) const {
        engine.push({update(total)}, [&s = sum](RunContext&) { ++s; });
        if (depth == 0) return;
        for (int child = 0; child < 2; ++child) engine.push({}, Tree{engine, total, sum, depth - 1});
      }
    };
    engine.push({}, Tree{engine, total, sum, 10});
    engine.wait_all();
    CHECK(sum == 2047);
  });
}

TEST_CASE("engine: two engines work side by side, one ends under load", "[engine]") {
  at_thread_counts([](Engine& other) {
    Var kept;
    long count = 0;
    for (int round = 0; round < 10; ++round) {
      long inner_count = 0;
      {
        Var inner_var;  // outlives the engine below, which finishes its operations
        Engine inner({.threads = 2});
        for (int i = 0; i < 200; ++i) {
          inner.push({update(inner_var)}, [&](RunContext&) { ++inner_count; });
          other.push({update(kept)}, [&](RunContext&) { ++count; });
        }
      }
      REQUIRE(inner_count == 200);
    }
    other.wait_all();
    CHECK(count == 2000);
  });
}

}  // namespace random_workload_test
