#include "kaon/engine/operation/shared_read_lease.h"

#include <array>
#include <atomic>
#include <random>

#include "kaon/tests/engine/support.h"

namespace shared_read_lease_test {

using namespace kaon;
using namespace kaon::engine;
using namespace kaon::test;

namespace {

IntrusivePtr<SharedReadLease> begin(Engine& engine, std::vector<Var*> vars) {
  IntrusivePtr<SharedReadLease> lease(new SharedReadLease(engine.ref()));
  return lease->begin(std::move(vars)) ? lease : nullptr;
}
bool stands_at(Var& var) {
  std::lock_guard lock(var);
  return var.has_read_leases();
}

// As Engine::push, for an operation that reads under `read_lease` as well.
template <class F>
void push_inside(Engine& engine, const IntrusivePtr<SharedReadLease>& lease, std::initializer_list<Access> accesses,
                 F body) {
  auto whole = [lease, body](RunContext& context) { body(context); };
  auto* op = new OpNode;
  op->reserve_deps(accesses.size());
  OpBody<decltype(whole)>::store(*op, whole);
  op->type = &OpBody<decltype(whole)>::type;
  size_t d = 0;
  for (const Access& a : accesses) op->deps[d++].set(a.var, a.mode);
  op->read_lease = lease.get();
  engine.submit(*op);
}

}  // namespace

TEST_CASE("shared read lease: a write waits for those inside, and whoever comes later waits for the write") {
  at_thread_counts(1, [](Engine& engine) {
    Watchdog watchdog;
    Var a, b, other;
    const auto lease = begin(engine, {&b, &a, &b});
    REQUIRE(lease);
    CHECK(lease->vars().size() == 2);
    CHECK(stands_at(a));
    Gate gate;
    std::atomic<int> inside{0};
    int value = 0, seen_before = -1, seen_after = -1;
    push_inside(engine, lease, {write(other)}, [&](RunContext&) { gate.wait(), seen_before = value, ++inside; });
    engine.push({write(a)}, [&](RunContext&) {
      CHECK(inside == 1);
      value = 1;
    });
    CHECK(lease->has_ended());
    CHECK(stands_at(a));  // as long as somebody is inside
    push_inside(engine, lease, {read(other)}, [&](RunContext&) { seen_after = value; });
    gate.open();
    engine.wait_all();
    CHECK(seen_before == 0);
    CHECK(seen_after == 1);
    CHECK_FALSE(stands_at(a));
    CHECK_FALSE(stands_at(b));
  });
}

TEST_CASE("shared read lease: a write goes on at once where nobody is inside, and so does a wait for writing") {
  at_thread_counts(0, [](Engine& engine) {
    Watchdog watchdog;
    Var a, b;
    auto first = begin(engine, {&a, &b}), second = begin(engine, {&a});
    REQUIRE(first);
    REQUIRE(second);
    bool ran = false;
    engine.push({update(a)}, [&](RunContext&) { ran = true; });
    engine.wait(a);
    CHECK(ran);
    CHECK(first->has_ended());
    CHECK(second->has_ended());
    CHECK_FALSE(stands_at(b));

    first = begin(engine, {&a, &b});
    REQUIRE(first);
    engine.wait(b, AccessMode::write);
    CHECK(first->has_ended());
    CHECK_FALSE(stands_at(a));

    first = begin(engine, {&a, &b});
    REQUIRE(first);
    first->end();
    first->end();
    CHECK_FALSE(stands_at(a));
    engine.push({write(a)}, [](RunContext&) {});
    engine.wait(a);
  });
}

TEST_CASE("shared read lease: does not begin where a write is pending or has failed") {
  at_thread_counts(1, [](Engine& engine) {
    Watchdog watchdog;
    Var a, b;
    Gate gate;
    engine.push({write(a)}, [&](RunContext&) { gate.wait(); });
    CHECK_FALSE(begin(engine, {&b, &a}));
    CHECK_FALSE(stands_at(b));
    gate.open();
    engine.wait(a);
    CHECK(begin(engine, {&b, &a}) != nullptr);
  });
}

TEST_CASE("shared read lease: an operation that writes one of the vars itself reads the others one by one") {
  at_thread_counts(0, [](Engine& engine) {
    Watchdog watchdog;
    std::array<Var, 9> vars;
    std::vector<Var*> all;
    for (Var& v : vars) all.push_back(&v);
    const auto lease = begin(engine, all);
    int ran = 0;
    push_inside(engine, lease, {write(vars[3])}, [&](RunContext&) { ++ran; });
    push_inside(engine, lease, {write(vars[8]), read(vars[1])}, [&](RunContext&) { ++ran; });
    engine.wait_all();
    CHECK(ran == 2);
    CHECK(lease->has_ended());
  });
}

TEST_CASE("shared read lease: operations enter at all vars at once, from several threads") {
  at_thread_counts(1, [](Engine& engine) {
    Watchdog watchdog(60s);
    constexpr int writers = 2, readers = 2, standing_vars = 5;
    std::array<Var, standing_vars> vars;
    std::array<int, standing_vars> values{};
    Var x;
    int value_of_x = 0;
    std::vector<Var*> all;
    for (Var& v : vars) all.push_back(&v);
    std::atomic<int> torn{0}, entered{0};
    std::vector<std::thread> threads;
    for (int w = 0; w < writers; ++w) {
      threads.emplace_back([&, w] {
        std::mt19937 random(uint32_t(w + 1));
        for (int i = 0; i < rounds(3000); ++i) {
          const int k = w * 100000 + i, at = int(random() % standing_vars);
          // x and one of the others change together; the others keep that number until theirs changes
          engine.push({update(vars[size_t(at)]), update(x)}, [&, k, at](RunContext&) {
            values[size_t(at)] = k;
            value_of_x = k;
          });
        }
      });
    }
    for (int r = 0; r < readers; ++r) {
      threads.emplace_back([&] {
        IntrusivePtr<SharedReadLease> lease;
        bool has_entered = false;  // at the latest when the writers have ended
        for (int i = 0; i < rounds(6000) || !has_entered; ++i) {
          if (!lease || lease->has_ended()) lease = begin(engine, all);
          auto check = [&](RunContext&) {
            if (value_of_x != 0 && std::find(values.begin(), values.end(), value_of_x) == values.end()) ++torn;
          };
          if (lease) {
            has_entered = true;
            ++entered;
            push_inside(engine, lease, {read(x)}, check);
          } else {
            std::this_thread::yield();
          }
        }
        if (lease) lease->end();
      });
    }
    for (std::thread& t : threads) t.join();
    engine.wait_all();
    CHECK(torn == 0);
    CHECK(entered > 0);
    for (Var& v : vars) CHECK_FALSE(stands_at(v));
  });
}

TEST_CASE("shared read lease: random programs give what one thread gives, wherever it is entered") {
  constexpr int num_vars = 6, num_sets = 3;
  using Values = std::array<uint64_t, num_vars>;
  auto run = [](Engine& engine, uint32_t seed) {
    std::mt19937 random(seed);
    std::array<Var, num_vars> vars;
    Values values{};
    std::array<std::vector<int>, num_sets> sets{{{0, 1, 2}, {1, 2, 3, 4, 5}, {4, 5}}};
    std::array<IntrusivePtr<SharedReadLease>, num_sets> reads;
    int entered = 0;
    for (int i = 0; i < rounds(2000); ++i) {
      const size_t number = random() % num_sets, target = random() % num_vars;
      if (random() % 8 == 0) {
        engine.push({update(vars[target])}, [&values, target, i](RunContext&) { values[target] += uint64_t(i); });
        continue;
      }
      const std::vector<int>& set = sets[number];
      const bool writes = random() % 8 == 0;  // to one of the vars of a set, perhaps of this one
      auto body = [&values, &set, target, writes](RunContext&) {
        uint64_t sum = 0;
        for (const int n : set) sum = sum * 31 + values[size_t(n)];
        if (writes) values[target] = values[target] * 7 + sum;
      };
      std::vector<Var*> all;
      for (const int n : set) all.push_back(&vars[size_t(n)]);
      IntrusivePtr<SharedReadLease>& lease = reads[number];
      if (!lease || lease->has_ended()) lease = begin(engine, all);
      const Access own = writes ? update(vars[target]) : read(vars[target]);
      if (lease) {
        ++entered;
        push_inside(engine, lease, {own}, body);
      } else {
        std::vector<Access> accesses{own};
        for (Var* v : all) accesses.push_back(read(*v));
        engine.push(accesses, body);
      }
    }
    engine.wait_all();
    CHECK(entered > 0);
    for (auto& lease : reads) {
      if (lease) lease->end();
    }
    return values;
  };
  for (uint32_t seed = 1; seed <= 5; ++seed) {
    Engine serial({.threads = 0});
    const Values expected = run(serial, seed);
    at_thread_counts([&](Engine& engine) { CHECK(run(engine, seed) == expected); });
  }
}

}  // namespace shared_read_lease_test
