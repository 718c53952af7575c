// Var: the queue itself, then what it means for operations.
#include <algorithm>
#include <atomic>
#include <deque>
#include <random>
#include <set>
#include <vector>

#include "kaon/engine/task.h"
#include "kaon/tests/engine/support.h"

namespace var_test {

using namespace kaon;
using namespace kaon::engine;
using namespace kaon::test;

namespace {

// Grants as the documentation says, written as plainly as possible.
class ModelVar {
 public:
  bool append(int id, bool is_write) {
    bool granted = queue_.empty() && (is_write ? !writer_ && readers_ == 0 : !writer_);
    if (granted) start(is_write);
    else queue_.push_back({id, is_write});
    return granted;
  }
  std::vector<int> complete(bool was_write) {
    if (was_write) writer_ = false;
    else --readers_;
    std::vector<int> granted;
    while (!queue_.empty() && (queue_.front().is_write ? !writer_ && readers_ == 0 : !writer_)) {
      start(queue_.front().is_write);
      granted.push_back(queue_.front().id);
      queue_.pop_front();
    }
    return granted;
  }

 private:
  struct Entry {
    int id;
    bool is_write;
  };
  void start(bool is_write) {
    if (is_write) writer_ = true;
    else ++readers_;
  }
  std::deque<Entry> queue_;
  bool writer_ = false;
  int readers_ = 0;
};

bool append(Var& v, Dep& d) {
  v.lock();
  bool granted = v.append(d);
  v.unlock();
  return granted;
}

}  // namespace

TEST_CASE("var: readers run together, a writer alone, all in order of arrival", "[engine]") {
  Var v;
  Dep r1, r2, w1, r3, r4, w2;
  for (Dep* d : {&r1, &r2, &r3, &r4}) d->set(v, AccessMode::read);
  w1.set(v, AccessMode::write);
  w2.set(v, AccessMode::update);
  CHECK(append(v, r1));
  CHECK(append(v, r2));
  CHECK_FALSE(append(v, w1));
  CHECK_FALSE(append(v, r3));  // behind a writer, although readers run
  CHECK_FALSE(append(v, r4));
  CHECK_FALSE(append(v, w2));
  CHECK(v.complete(r2) == nullptr);
  CHECK(v.complete(r1) == &w1);
  CHECK(w1.next == nullptr);
  CHECK(v.complete(w1) == &r3);
  CHECK(r3.next == &r4);
  CHECK(r4.next == nullptr);
  CHECK(v.complete(r3) == nullptr);
  CHECK(v.complete(r4) == &w2);
  CHECK(v.complete(w2) == nullptr);
  CHECK(v.is_idle());
}

TEST_CASE("var: random accesses are granted like a plain model grants them", "[engine]") {
  std::mt19937 random(1);
  for (int trial = 0; trial < 200; ++trial) {
    Var v;
    ModelVar model;
    std::vector<Dep> deps(300);
    std::vector<int> running;
    size_t arrived = 0;
    bool agree = true;
    while (arrived < deps.size() || !running.empty()) {
      if (arrived < deps.size() && (running.empty() || random() % 2)) {
        Dep& d = deps[arrived];
        d.set(v, random() % 3 == 0 ? AccessMode::write : AccessMode::read);
        bool granted = append(v, d);
        agree = agree && granted == model.append(int(arrived), d.is_write());
        if (granted) running.push_back(int(arrived));
        ++arrived;
      } else {
        size_t at = random() % running.size();
        Dep& d = deps[size_t(running[at])];
        running.erase(running.begin() + long(at));
        std::vector<int> granted;
        for (Dep* g = v.complete(d); g; g = g->next) granted.push_back(int(g - deps.data()));
        agree = agree && granted == model.complete(d.is_write());
        running.insert(running.end(), granted.begin(), granted.end());
      }
    }
    REQUIRE(agree);
    REQUIRE(v.is_idle());
  }
}

TEST_CASE("engine: operations on one var run in push order", "[engine]") {
  at_thread_counts([](Engine& engine) {
    Var v;
    std::vector<int> order;
    for (int i = 0; i < 5000; ++i) {
      engine.push({i % 2 ? write(v) : update(v)}, [&order, i](RunContext&) { order.push_back(i); });
    }
    engine.wait(v);
    REQUIRE(order.size() == 5000);
    CHECK(std::is_sorted(order.begin(), order.end()));
  });
}

TEST_CASE("engine: a write waits for all earlier reads", "[engine]") {
  at_thread_counts([](Engine& engine) {
    Var v;
    std::atomic<int> reading{0};
    std::atomic<int> wrong{0};
    for (int round = 0; round < rounds(300); ++round) {
      for (int r = 0; r < 5; ++r) {
        engine.push({read(v)}, [&](RunContext&) {
          ++reading;
          spin_for(1us);
          --reading;
        });
      }
      engine.push({write(v)}, [&](RunContext&) { wrong += reading != 0; });
    }
    engine.wait_all();
    CHECK(wrong == 0);
  });
}

TEST_CASE("engine: readers of one var run at the same time", "[engine]") {
  at_thread_counts(2, [](Engine& engine) {
    Var v;
    std::atomic<int> met{0};
    std::atomic<int> lonely{0};
    auto meet = [&](RunContext&) {
      ++met;
      lonely += !becomes_true([&] { return met == 2; });
    };
    engine.push({read(v)}, meet);
    engine.push({read(v)}, meet);
    REQUIRE(becomes_true([&] { return met == 2; }));
    engine.wait_all();
    CHECK(lonely == 0);
  });
}

TEST_CASE("engine: a stream of reads does not starve a write", "[engine]") {
  at_thread_counts([](Engine& engine) {
    Var v;
    std::atomic<int> reads_before_write{0};
    std::atomic<bool> written{false};
    auto reader = [&](RunContext&) { reads_before_write += !written; };
    for (int i = 0; i < 10; ++i) engine.push({read(v)}, reader);
    engine.push({write(v)}, [&](RunContext&) { written = true; });
    for (int i = 0; i < 1000; ++i) engine.push({read(v)}, reader);
    engine.wait_all();
    CHECK(reads_before_write == 10);
  });
}

TEST_CASE("engine: a var that is listed twice is accessed once, with the stronger mode", "[engine]") {
  at_thread_counts([](Engine& engine) {
    Var a, b;
    int runs = 0;
    auto run = [&runs](RunContext&) { ++runs; };
    engine.push({read(a), write(a)}, run);
    engine.push({write(b), read(a), write(b), read(a), update(b)}, run);
    engine.push({write(a), update(a), read(a), write(a), read(b)}, run);
    engine.push({read(a), write(b), read(a)}, run);
    engine.wait_all();
    CHECK(runs == 4);
  });
}

TEST_CASE("engine: a read and a write of one var together are an update", "[engine]") {
  at_thread_counts([](Engine& engine) {
    Var v;
    engine.push({write(v)}, [](RunContext&) { throw ValueError("[first] fails"); });
    bool ran = false;
    engine.push({write(v), read(v)}, [&](RunContext&) { ran = true; });  // needs the old value: does not heal
    CHECK_THROWS_AS(engine.wait(v), ValueError);
    CHECK_FALSE(ran);
  });
}

TEST_CASE("engine: an operation may access many vars, or none", "[engine]") {
  at_thread_counts([](Engine& engine) {
    std::vector<Var> vars(500);
    std::mt19937 random(2);
    int sum = 0;
    for (int i = 0; i < 20; ++i) {
      std::vector<Access> accesses;
      for (int k = 0; k < 3000; ++k) {
        Var& v = vars[random() % vars.size()];
        accesses.push_back(k % 2 ? read(v) : update(v));
        if (k % 6 == 0) accesses.push_back(update(vars[size_t(k) / 6]));
      }
      engine.push(std::span<const Access>(accesses), [&sum](RunContext&) { ++sum; });
    }
    engine.wait_all();
    CHECK(sum == 20);
    CHECK(std::all_of(vars.begin(), vars.end(), [](const Var& v) { return v.is_idle(); }));

    std::atomic<int> free_runs{0};
    for (int i = 0; i < 100; ++i) engine.push({}, [&](RunContext&) { ++free_runs; });
    engine.wait_all();
    CHECK(free_runs == 100);
  });
}

TEST_CASE("engine: more than 65535 accesses are refused", "[engine]") {
  at_thread_counts([](Engine& engine) {
    Var v;
    std::vector<Access> accesses(70000, read(v));
    auto token = std::make_shared<int>();
    CHECK_THROWS_AS(engine.push(std::span<const Access>(accesses), [token](RunContext&) {}), ValueError);
    CHECK(token.use_count() == 1);
    while (accesses.size() > 65535) accesses.pop_back();
    engine.push(std::span<const Access>(accesses), [](RunContext&) {});
    engine.wait_all();
    CHECK(engine.stats().ops == 1);
  });
}

TEST_CASE("engine: bodies of any size and alignment of 16 run and are destroyed once", "[engine]") {
  at_thread_counts([](Engine& engine) {
    auto token = std::make_shared<int>(7);
    struct Big {
      long double aligned = 1;
      char filler[500] = {};
    };
    std::atomic<int> sum{0};
    engine.push({}, [token, &sum](RunContext&) { sum += *token; });
    engine.push({}, [token, big = Big(), &sum](RunContext&) { sum += *token + big.filler[499]; });
    engine.push({}, [token = std::make_unique<int>(1), &sum](RunContext&) { sum += *token; });
    engine.wait_all();
    CHECK(sum == 15);
    CHECK(token.use_count() == 1);
  });
}

TEST_CASE("engine: a body whose copy throws leaves nothing behind", "[engine]") {
  struct ThrowsWhenCopied {
    ThrowsWhenCopied() = default;
    ThrowsWhenCopied(const ThrowsWhenCopied&) { throw std::runtime_error("copy"); }
    void operator()(RunContext&) const {}
  };
  at_thread_counts([](Engine& engine) {
    Var vars[6];
    ThrowsWhenCopied body;
    CHECK_THROWS_AS(engine.push({write(vars[0]), write(vars[1]), write(vars[2]), write(vars[3]), write(vars[4])}, body),
                    std::runtime_error);
    CHECK(engine.stats().ops == 0);
    CHECK(vars[0].is_idle());
    engine.wait_all();
  });
}

TEST_CASE("engine: a higher priority overtakes what is ready", "[engine]") {
  at_thread_counts(1, [](Engine& engine) {
    if (engine.stats().threads != 1) return;  // order is visible with one thread only
    Gate gate;
    Var blocked;
    engine.push({write(blocked)}, [&](RunContext&) { gate.wait(); });
    std::vector<int> order;
    for (Priority p : {Priority::low, Priority::normal, Priority::high}) {
      for (int i = 0; i < 3; ++i) {
        engine.push({}, [&order, p](RunContext&) { order.push_back(int(p)); }, {.priority = p});
      }
    }
    gate.open();
    engine.wait_all();
    CHECK(order == std::vector<int>{0, 0, 0, 1, 1, 1, 2, 2, 2});
  });
}

namespace {

void push_name(Engine& engine, std::vector<int>& order, int name, const PushOptions& options = {}) {
  engine.push(
      {}, [&order, name](RunContext&) { order.push_back(name); }, options);
}

Task<void> push_high(Engine& engine, std::vector<int>& order, int name) {
  PriorityScope scope(Priority::high);
  co_await yield();
  push_name(engine, order, name);
}

}  // namespace

TEST_CASE("engine: what is pushed has the priority of the scope, which a coroutine keeps", "[engine]") {
  at_thread_counts(1, [](Engine& engine) {
    if (engine.stats().threads != 1) return;  // order is visible with one thread only
    Gate gate;
    Var blocked;
    engine.push({write(blocked)}, [&](RunContext&) { gate.wait(); });
    std::vector<int> order;
    const auto push = [&](int name, const PushOptions& options = {}) { push_name(engine, order, name, options); };
    {
      PriorityScope low(Priority::low);
      push(4);
      {
        PriorityScope high(Priority::high);
        push(0);
      }
      push(5);
      sync_wait(push_high(engine, order, 1));
      push(2, {.priority = Priority::high});
    }
    push(3);
    gate.open();
    engine.wait_all();
    CHECK(order == std::vector<int>{0, 1, 2, 3, 4, 5});
  });
}

TEST_CASE("engine: of what an operation makes ready the highest priority runs first, also before its own successors",
          "[engine]") {
  at_thread_counts(1, [](Engine& engine) {
    if (engine.stats().threads != 1 || !engine.has_workers()) return;
    Gate gate;
    Var first, chain;
    std::vector<int> order;
    engine.push({write(first)}, [&](RunContext&) { gate.wait(); });
    for (Priority p : {Priority::low, Priority::normal, Priority::high}) {
      engine.push({read(first)}, [&order, p](RunContext&) { order.push_back(int(p)); }, {.priority = p});
    }
    gate.open();
    engine.wait_all();
    CHECK(order == std::vector<int>{0, 1, 2});

    order.clear();
    Gate until_all_are_pushed;
    engine.push({write(chain)}, [&](RunContext&) { until_all_are_pushed.wait(); });
    for (int i = 10; i < 16; ++i) {  // runs through, each the successor of the one before
      auto body = [&, i](RunContext&) {
        order.push_back(i);
        for (Priority p : {Priority::low, Priority::normal, Priority::high}) {
          if (i == 12) engine.push({}, [&order, p](RunContext&) { order.push_back(int(p)); }, {.priority = p});
        }
      };
      engine.push({update(chain)}, body, {.priority = i < 14 ? Priority::normal : Priority::low});
    }
    until_all_are_pushed.open();
    engine.wait_all();
    REQUIRE(order.size() == 9);
    CHECK(std::vector<int>(order.begin(), order.begin() + 4) == std::vector<int>{10, 11, 12, 0});
    CHECK(std::set<int>(order.begin() + 4, order.begin() + 6) == std::set<int>{1, 13});
    CHECK(std::set<int>(order.begin() + 6, order.end()) == std::set<int>{2, 14, 15});
  });
}

}  // namespace var_test
