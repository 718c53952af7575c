// Threads that wait: for a var, for everything, for room; inside operations too.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <random>
#include <thread>
#include <vector>

#include "kaon/tests/engine/support.h"

namespace wait_test {

using namespace kaon;
using namespace kaon::test;
using Catch::Matchers::Contains;

TEST_CASE("wait: sees all writes that were pushed before it", "[engine]") {
  at_thread_counts([](Engine& engine) {
    Var v;
    int value = 0;
    for (int i = 0; i < rounds(20000); ++i) {  // the push-one-and-wait loop
      engine.push({update(v)}, [&value](RunContext&) { ++value; });
      engine.wait(v);
      if (value != i + 1) FAIL("wait came back before the write");
    }
  });
}

TEST_CASE("wait: a wait in write mode waits for readers too", "[engine]") {
  at_thread_counts(1, [](Engine& engine) {
    Var v;
    for (int i = 0; i < 50; ++i) {
      std::atomic<int> readers_done{0};
      for (int r = 0; r < 3; ++r) {
        engine.push({read(v)}, [&](RunContext&) {
          spin_for(50us);
          ++readers_done;
        });
      }
      engine.wait(v);  // only reads are pending: this does not wait for them
      engine.wait(v, AccessMode::write);
      REQUIRE(readers_done == 3);
    }
  });
}

// Waiting threads run these operations themselves, after which workers are called less often.
TEST_CASE("wait: an operation that nobody waits for begins, however many were waited for", "[engine]") {
  at_thread_counts(1, [](Engine& engine) {
    for (int round = 0; round < rounds(20); ++round) {
      Var v;
      std::atomic<bool> has_run{false};
      for (int i = 0; i < 30; ++i) {
        engine.push({update(v)}, [](RunContext&) { spin_for(60us); });
        engine.wait(v);
      }
      engine.push({update(v)}, [&](RunContext&) { has_run = true; });
      const auto begin = std::chrono::steady_clock::now();
      while (!has_run && std::chrono::steady_clock::now() < begin + 10s) std::this_thread::sleep_for(100us);
      REQUIRE(has_run);
      if (round % 4 == 3) std::this_thread::sleep_for(5ms);  // long enough for a worker to stop looking
      engine.wait(v);
    }
  });
}

TEST_CASE("wait: many threads wait for one var at once", "[engine]") {
  at_thread_counts(1, [](Engine& engine) {
    for (int round = 0; round < rounds(200); ++round) {
      Var v;
      Gate gate;
      std::atomic<int> value{0};
      std::atomic<int> wrong{0};
      engine.push({write(v)}, [&](RunContext&) {
        gate.wait();
        value = 1;
      });
      std::vector<std::thread> waiters;
      for (int t = 0; t < 4; ++t) {
        waiters.emplace_back([&, t] {
          engine.wait(v, t % 2 ? AccessMode::read : AccessMode::write);
          wrong += value != 1;
        });
      }
      if (round % 2) std::this_thread::sleep_for(200us);
      gate.open();
      for (std::thread& t : waiters) t.join();
      REQUIRE(wrong == 0);
    }
  });
}

TEST_CASE("wait: threads push and wait on vars of their own", "[engine]") {
  at_thread_counts([](Engine& engine) {
    std::atomic<int> wrong{0};
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; ++t) {
      threads.emplace_back([&] {
        Var mine;
        int value = 0;
        for (int i = 0; i < rounds(3000); ++i) {
          engine.push({update(mine)}, [&value](RunContext&) { ++value; });
          if (i % 3 == 0) {
            engine.wait(mine);
            wrong += value != i + 1;
          }
        }
        engine.wait(mine);
        wrong += value != rounds(3000);
      });
    }
    for (std::thread& t : threads) t.join();
    CHECK(wrong == 0);
    engine.wait_all();
  });
}

TEST_CASE("wait: wait_all from several threads while others push", "[engine]") {
  at_thread_counts([](Engine& engine) {
    std::atomic<int> done{0};
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; ++t) {
      threads.emplace_back([&] {
        for (int i = 0; i < rounds(1000); ++i) {
          engine.push({}, [&](RunContext&) { ++done; });
          if (i % 100 == 0) engine.wait_all();
        }
      });
    }
    for (std::thread& t : threads) t.join();
    engine.wait_all();
    CHECK(done == 4 * rounds(1000));
    CHECK(engine.stats().completed == engine.stats().ops);
  });
}

TEST_CASE("wait: pending operations stay within the limit", "[engine]") {
  at_thread_counts(0,
                   [](Engine& engine) {
                     std::atomic<uint64_t> peak{0};
                     auto pusher = [&] {
                       for (int i = 0; i < rounds(5000); ++i) {
                         engine.push({}, [](RunContext&) { spin_for(1us); });
                         EngineStats s = engine.stats();
                         uint64_t pending = s.ops - std::min(s.ops, s.completed);
                         uint64_t seen = peak;
                         while (pending > seen && !peak.compare_exchange_weak(seen, pending)) {
                         }
                       }
                     };
                     std::thread other(pusher);
                     pusher();
                     other.join();
                     engine.wait_all();
                     CHECK(peak <= 100 + 2);  // and what each of the two threads is pushing
                   },
                   {.max_in_flight = 100});
}

TEST_CASE("wait: an operation may wait for what it reads, also with a write behind it", "[engine][async]") {
  at_thread_counts([](Engine& engine) {
    Var input, output;
    std::atomic<bool> write_is_queued{engine.stats().threads == 0};
    engine.push({read(input), write(output)}, [&](RunContext&) {
      becomes_true([&] { return write_is_queued.load(); });
      engine.wait(input);
    });
    engine.push({write(input)}, [](RunContext&) {});
    write_is_queued = true;
    CHECK_NOTHROW(engine.wait_all());
  });
}

TEST_CASE("users row 39: an operation may wait for others, also with one thread", "[engine]") {
  at_thread_counts([](Engine& engine) {
    for (int round = 0; round < rounds(200); ++round) {
      Var outer, inner, deeper;
      int value = 0;
      engine.push({write(outer)}, [&](RunContext&) {
        engine.push({write(inner)}, [&](RunContext&) {
          engine.push({write(deeper)}, [&](RunContext&) { value = 1; });
          engine.wait(deeper);
          ++value;
        });
        engine.wait(inner);
        ++value;
      });
      engine.wait(outer);
      REQUIRE(value == 3);
    }
  });
}

TEST_CASE("wait: what an operation waits for may be pushed later, by another thread", "[engine]") {
  at_thread_counts(1, [](Engine& engine) {
    for (int round = 0; round < rounds(100); ++round) {
      Var outer, first, second;
      Gate pushed;
      std::atomic<int> value{0};
      engine.push({write(first)}, [&](RunContext&) { value = 1; });
      engine.push({write(outer)}, [&](RunContext&) {
        pushed.wait();
        engine.wait(second);
        value += 10;
      });
      if (round % 4 == 0) std::this_thread::sleep_for(100us);
      engine.push({read(first), write(second)}, [&](RunContext&) { value += 1; });
      pushed.open();
      engine.wait_all();  // all three vars end with this round
      REQUIRE(value == 12);
    }
  });
}

TEST_CASE("wait: an operation waits for what another thread is just pushing", "[engine]") {
  at_thread_counts(1,
                   [](Engine& engine) {
                     // The push enters the var at the lowest address first, then needs a while to be ready: in between
                     // the operation, which has the only thread, finds nothing to run and goes to sleep.
                     std::vector<Var> vars(20000);
                     Var& first = vars[0];
                     std::vector<Access> accesses;
                     for (Var& v : vars) accesses.push_back(write(v));
                     for (int round = 0; round < rounds(50); ++round) {
                       Var outer;
                       Gate started;
                       std::atomic<int> value{0};
                       engine.push({write(outer)}, [&](RunContext&) {
                         started.open();
                         for (bool entered = false; !entered;) {
                           spin_for(1us);  // leaves the lock to the push
                           first.lock();
                           entered = !first.is_readable() || value > 0;
                           first.unlock();
                         }
                         engine.wait(first);
                         ++value;
                       });
                       started.wait();
                       engine.push(std::span<const Access>(accesses), [&](RunContext&) { ++value; });
                       engine.wait(outer);
                       REQUIRE(value == 2);
                     }
                     engine.wait_all();
                   },
                   {.spin = 0us});
}

TEST_CASE("wait: a wait inside an operation throws the failure, which then is the operation's", "[engine]") {
  at_thread_counts([](Engine& engine) {
    Var bad, outer;
    engine.push({write(bad)}, [](RunContext&) { throw ShapeError("[inner] wrong"); });
    engine.push({write(outer)}, [&](RunContext&) { engine.wait(bad); });
    CHECK_THROWS_WITH(engine.wait(outer), Contains("[inner] wrong"));
  });
}

TEST_CASE("wait: the waiting thread runs what is ready itself", "[engine]") {
  // Nobody else has a slot: a one-thread engine whose thread is blocked finishes nothing, so a thread that
  // waits while the worker idles runs the operation or is woken by it.
  at_thread_counts(1, [](Engine& engine) {
    Var v;
    for (int i = 0; i < 100; ++i) {
      std::this_thread::sleep_for(100us);  // the workers park
      engine.push({update(v)}, [](RunContext&) {});
      engine.wait(v);
    }
    CHECK_FALSE(engine.on_worker());
  });
}

TEST_CASE("wait: an engine that ends finishes what was pushed", "[engine]") {
  for (int threads : {0, 1, 2, 4}) {
    Watchdog watchdog;
    std::vector<Var> vars(10);
    std::atomic<int> count{0};
    {
      Engine engine({.threads = threads});
      for (int i = 0; i < 1000; ++i) {
        engine.push({update(vars[size_t(i) % 10])}, [&](RunContext&) {
          spin_for(5us);
          ++count;
        });
      }
    }
    CHECK(count == 1000);
  }
}

TEST_CASE("wait: engines that start and end without work are cheap and quiet", "[engine]") {
  Watchdog watchdog;
  for (int i = 0; i < rounds(100); ++i) {
    Engine engine({.threads = i % 5});
    if (i % 3 == 0) engine.push({}, [](RunContext&) {});
  }
}

}  // namespace wait_test
