// parallel_for: pieces that depend on the shape alone, on any number of threads.
#include <array>
#include <atomic>
#include <set>
#include <vector>

#include "kaon/tests/engine/support.h"

namespace parallel_for_test {

using namespace kaon;
using namespace kaon::test;

namespace {

// The pieces of one call, sorted.
std::set<std::pair<int64_t, int64_t>> pieces_of(Engine& engine, int64_t n, int64_t grain) {
  std::mutex mutex;
  std::set<std::pair<int64_t, int64_t>> pieces;
  engine.parallel_for(n, grain, [&](int64_t begin, int64_t end) {
    std::lock_guard lock(mutex);
    pieces.emplace(begin, end);
  });
  return pieces;
}

}  // namespace

TEST_CASE("parallel_for: pieces depend on n and grain only", "[engine]") {
  at_thread_counts([](Engine& engine) {
    for (int repeat = 0; repeat < 20; ++repeat) {
      CHECK(pieces_of(engine, 10, 3) == std::set<std::pair<int64_t, int64_t>>{{0, 3}, {3, 6}, {6, 9}, {9, 10}});
      CHECK(pieces_of(engine, 9, 3) == std::set<std::pair<int64_t, int64_t>>{{0, 3}, {3, 6}, {6, 9}});
      CHECK(pieces_of(engine, 2, 100) == std::set<std::pair<int64_t, int64_t>>{{0, 2}});
      CHECK(pieces_of(engine, 3, 0) == std::set<std::pair<int64_t, int64_t>>{{0, 1}, {1, 2}, {2, 3}});
      CHECK(pieces_of(engine, 0, 5).empty());
      CHECK(pieces_of(engine, -4, 5).empty());
    }
  });
}

TEST_CASE("parallel_for: every item once, 10000 times", "[engine]") {
  at_thread_counts([](Engine& engine) {
    Var v;
    std::vector<int> hits(64);
    const int calls = rounds(10000);
    for (int i = 0; i < calls; ++i) {
      engine.push({update(v)}, [&hits](RunContext& run) {
        run.parallel_for(int64_t(hits.size()), 8, [&](int64_t begin, int64_t end) {
          for (int64_t k = begin; k < end; ++k) ++hits[size_t(k)];
        });
      });
    }
    engine.wait(v);
    CHECK(hits == std::vector<int>(hits.size(), calls));
    engine.wait_all();
    CHECK(engine.stats().ops == uint64_t(calls));  // pieces are not operations
  });
}

TEST_CASE("parallel_for: partial sums in piece order give the same bits on any number of threads", "[engine]") {
  std::vector<float> values(100001);
  for (size_t i = 0; i < values.size(); ++i) values[i] = 1.0f / float(i + 1);
  std::vector<float> results;
  at_thread_counts([&](Engine& engine) {
    Var v;
    float sum = 0;
    engine.push({write(v)}, [&](RunContext& run) {
      constexpr int64_t grain = 1000;
      std::vector<float> partial((values.size() + grain - 1) / grain);
      run.parallel_for(int64_t(values.size()), grain, [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) partial[size_t(begin / grain)] += values[size_t(i)];
      });
      for (float p : partial) sum += p;
    });
    engine.wait(v);
    results.push_back(sum);
  });
  for (float r : results) CHECK(r == results.front());
}

TEST_CASE("parallel_for: idle workers take part", "[engine]") {
  at_thread_counts(2, [](Engine& engine) {
    Var v;
    std::atomic<int> inside{0};
    std::atomic<bool> met{false};
    engine.push({write(v)}, [&](RunContext& run) {
      run.parallel_for(2, 1, [&](int64_t, int64_t) {
        ++inside;
        met = becomes_true([&] { return inside == 2; });  // both pieces run at once
      });
    });
    engine.wait(v);
    CHECK(met);
  });
}

TEST_CASE("parallel_for: the next call has the same threads, with the same parts", "[engine]") {
  at_thread_counts(2, [](Engine& engine) {
    constexpr int64_t calls = 200;
    std::vector<std::array<std::thread::id, 2>> threads(calls);  // by call and half
    int64_t alone = 0;
    Var v;
    engine.push({write(v)}, [&](RunContext& run) {
      for (auto& halves : threads) {
        std::atomic<int> inside{0};
        run.parallel_for(2, 1, [&](int64_t half, int64_t) {
          halves[size_t(half)] = std::this_thread::get_id();
          ++inside;
          for (auto end = std::chrono::steady_clock::now() + 5s;
               inside < 2 && std::chrono::steady_clock::now() < end;) {
            std::this_thread::yield();
          }
        });
        alone += halves[0] == halves[1];
      }
    });
    engine.wait(v);
    CHECK(alone == 0);  // the other thread had hardly left the call before
    int64_t alike = 0, same_threads = 0;
    for (size_t i = 1; i < threads.size(); ++i) {
      const auto swapped = std::array{threads[i][1], threads[i][0]};
      alike += threads[i] == threads[i - 1];
      same_threads += threads[i] == threads[i - 1] || swapped == threads[i - 1];
    }
    CHECK(alike == same_threads);
  });
}

TEST_CASE("parallel_for: throws the failure of the first failed piece, after all pieces have ended", "[engine]") {
  at_thread_counts([](Engine& engine) {
    for (int i = 0; i < rounds(200); ++i) {
      Var v;
      std::atomic<int> running{0};
      int left_running = -1;
      engine.push({write(v)}, [&](RunContext& run) {
        try {
          run.parallel_for(16, 1, [&](int64_t begin, int64_t) {
            ++running;
            spin_for(2us);
            --running;
            if (begin >= 3) throw int(begin);
          });
        } catch (...) {
          left_running = running;
          throw;
        }
      });
      int thrown = -1;
      try {
        engine.wait(v);
      } catch (int piece) {
        thrown = piece;
      }
      REQUIRE(thrown == 3);
      REQUIRE(left_running == 0);
    }
  });
}

TEST_CASE("parallel_for: nests, inside pieces and among many operations", "[engine]") {
  at_thread_counts([](Engine& engine) {
    std::atomic<long> total{0};
    const int ops = rounds(200);
    for (int i = 0; i < ops; ++i) {
      engine.push({}, [&total](RunContext& run) {
        run.parallel_for(4, 1, [&](int64_t, int64_t) {
          run.parallel_for(8, 2, [&](int64_t begin, int64_t end) { total += end - begin; });
        });
      });
    }
    engine.wait_all();
    CHECK(total == long(ops) * 32);
  });
}

TEST_CASE("parallel_for: works from a thread that is no worker", "[engine]") {
  at_thread_counts([](Engine& engine) {
    std::atomic<long> total{0};
    std::vector<std::thread> threads;
    for (int t = 0; t < 3; ++t) {
      threads.emplace_back([&] {
        for (int i = 0; i < rounds(500); ++i) {
          engine.parallel_for(10, 1, [&](int64_t begin, int64_t end) { total += end - begin; });
        }
      });
    }
    for (std::thread& t : threads) t.join();
    CHECK(total == 3L * rounds(500) * 10);
  });
}

TEST_CASE("parallel_for: pieces know their engine", "[engine]") {
  at_thread_counts([](Engine& engine) {
    Var v;
    std::atomic<int> strangers{0};
    engine.push({write(v)}, [&](RunContext& run) {
      run.parallel_for(32, 1, [&](int64_t, int64_t) {
        strangers += &Engine::current() != &engine || !engine.on_worker();
        spin_for(5us);
      });
    });
    engine.wait(v);
    CHECK(strangers == 0);
  });
}

TEST_CASE("workspace: aligned, distinct, given back", "[engine]") {
  at_thread_counts([](Engine& engine) {
    Var v;
    bool good = true;
    engine.push({write(v)}, [&](RunContext& run) {
      char* blocks[5];
      for (int i = 0; i < 5; ++i) {
        size_t bytes = size_t(1) << (4 * i);
        blocks[i] = static_cast<char*>(run.workspace(bytes));
        good = good && reinterpret_cast<uintptr_t>(blocks[i]) % 64 == 0;
        std::fill(blocks[i], blocks[i] + bytes, char(i));
      }
      for (int i = 0; i < 5; ++i) good = good && blocks[i][0] == char(i);
      good = good && run.workspace(0) != nullptr;
    });
    engine.wait(v);
    CHECK(good);
  });
}

}  // namespace parallel_for_test
