// The order in which a chosen schedule runs what is ready: any legal one, the same for the same seed, replayed from a
// file.
#include <unistd.h>
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "kaon/engine/task.h"
#include "kaon/tests/engine/support.h"

namespace schedule_test {

using namespace kaon;
using namespace kaon::test;
using Catch::Matchers::Contains;

namespace {

constexpr size_t vars_count = 12;

// A file of this process that goes with the object.
struct ScratchFile {
  explicit ScratchFile(const char* name)
      : path((std::filesystem::temp_directory_path() / ("kaon_schedule_" + std::to_string(getpid()) + name)).string()) {
  }
  ~ScratchFile() { std::remove(path.c_str()); }
  void write(const std::string& text) const { std::ofstream(path) << text; }
  std::string path;
};

struct Outcome {
  std::vector<int> order;  // of the operations, as they ran
  std::vector<uint64_t> values;
  bool operator==(const Outcome&) const = default;
};

// The same program each time, of one thread: what it gives depends on nothing, in what order only on the schedule.
Outcome run_program(Engine& engine, unsigned program) {
  std::mt19937 random(program);
  std::vector<Var> vars(vars_count);
  Outcome out;
  out.values.resize(vars_count);
  for (int i = 0; i < 200; ++i) {
    size_t from = random() % vars_count;
    size_t to = random() % vars_count;
    engine.push({read(vars[from]), update(vars[to])}, [&out, i, from, to](RunContext&) {
      out.order.push_back(i);
      out.values[to] = out.values[to] * 3 + out.values[from] + uint64_t(i);
    });
    if (i % 50 == 20) engine.wait(vars[to]);
  }
  engine.wait_all();
  return out;
}

// The second operation writes what it has not declared. In push order nobody notices.
bool planted_fault_shows(uint64_t seed) {
  Engine engine({.schedule = Schedule::random(seed)});
  Var a, b, c;
  int hidden = 0, seen = 0;
  engine.push({write(a)}, [&](RunContext&) { hidden = 1; });
  engine.push({write(b)}, [&](RunContext&) { hidden = 2; });  // shares memory with a, and does not say so
  engine.push({read(b), write(c)}, [&](RunContext&) { seen = hidden; });
  engine.wait_all();
  return seen != 2 || hidden != 2;
}

}  // namespace

TEST_CASE("schedule: 100 seeds give what serial execution gives, in many orders", "[engine]") {
  Watchdog watchdog;
  for (unsigned program = 0; program < 3; ++program) {
    Engine serial({.threads = 0});
    const Outcome expected = run_program(serial, program);
    REQUIRE(std::is_sorted(expected.order.begin(), expected.order.end()));
    std::set<std::vector<int>> orders;
    for (uint64_t seed = 0; seed < 100; ++seed) {
      Engine engine({.schedule = Schedule::random(seed)});
      Outcome got = run_program(engine, program);
      if (got.values != expected.values) FAIL("seed " << seed << " gives other values");
      orders.insert(got.order);
    }
    CHECK(orders.size() == 100);
  }
}

TEST_CASE("schedule: a seed always gives the same order", "[engine]") {
  Watchdog watchdog;
  for (uint64_t seed : {uint64_t(0), uint64_t(7), UINT64_MAX}) {
    std::vector<Outcome> runs;
    for (int i = 0; i < 5; ++i) {
      Engine engine({.schedule = Schedule::random(seed)});
      runs.push_back(run_program(engine, 5));
    }
    for (const Outcome& run : runs) CHECK(run == runs[0]);
  }
}

TEST_CASE("schedule: every order of independent operations comes up", "[engine]") {
  Watchdog watchdog;
  std::set<std::vector<int>> orders;
  for (uint64_t seed = 0; seed < 1000 && orders.size() < 24; ++seed) {
    Engine engine({.schedule = Schedule::random(seed)});
    std::vector<int> order;
    for (int i = 0; i < 4; ++i) engine.push({}, [&order, i](RunContext&) { order.push_back(i); });
    engine.wait_all();
    orders.insert(order);
  }
  CHECK(orders.size() == 24);
}

TEST_CASE("schedule: what was saved is replayed, also by a program that was changed", "[engine]") {
  Watchdog watchdog;
  ScratchFile file("saved");
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    Outcome first;
    {
      Engine engine({.schedule = Schedule::random(seed)});
      first = run_program(engine, unsigned(seed));
      engine.save_schedule(file.path);
    }
    Engine again({.schedule = Schedule::replay(file.path.c_str())});
    CHECK(run_program(again, unsigned(seed)) == first);
    Engine serial({.threads = 0});
    CHECK(run_program(again, 99).values == run_program(serial, 99).values);  // beyond the file
    Engine other({.schedule = Schedule::replay(file.path.c_str())});
    CHECK(run_program(other, 98).values == run_program(serial, 98).values);  // not what was saved
  }
}

TEST_CASE("schedule: a long run by chance takes no memory for its choices", "[engine]") {
  if (sanitized) return;  // sanitizers keep what is freed
  Watchdog watchdog(60s);
  Engine engine({.schedule = Schedule::random(3)});
  Var v;
  long runs = 0;
  auto run = [&](int n) {
    for (int i = 0; i < n; ++i) engine.push({update(v)}, [&](RunContext&) { ++runs; });
    engine.wait_all();
  };
  run(10000);
  const size_t before = resident_bytes();
  run(1000000);
  CHECK(resident_bytes() < before + (size_t(2) << 20));
  CHECK(runs == 1010000);
}

TEST_CASE("schedule: files that cannot be replayed, engines that have nothing to save", "[engine]") {
  Watchdog watchdog;
  auto replay = [](const char* path) { Engine engine({.schedule = Schedule::replay(path)}); };
  ScratchFile file("damaged");
  CHECK_THROWS_AS(replay(file.path.c_str()), IoError);  // is not there
  CHECK_THROWS_WITH(replay(file.path.c_str()), Contains(file.path));
  CHECK_THROWS_AS(replay(nullptr), IoError);
  CHECK_THROWS_AS(replay(std::filesystem::temp_directory_path().c_str()), IoError);
  for (const char* line : {"x", "1x", "-1", "+1", " 1", "4294967296", "99999999999999999999999", "1.5", "", "END"}) {
    file.write("3\n1\n" + std::string(line) + "\nend\n");
    CHECK_THROWS_AS(replay(file.path.c_str()), ValueError);
    CHECK_THROWS_WITH(replay(file.path.c_str()), Contains(file.path + ":3"));
  }
  for (const char* text : {"", "1\n2\n", "1\n2\nen"}) {
    file.write(text);
    CHECK_THROWS_AS(replay(file.path.c_str()), Error);
  }
  file.write("1\n2\n");
  CHECK_THROWS_WITH(replay(file.path.c_str()), Contains("cut off") && Contains("2 choices"));
  file.write("4294967295\n0\nend\n");
  CHECK_NOTHROW(replay(file.path.c_str()));

  Engine by_arrival({.threads = 1});
  CHECK_THROWS_AS(by_arrival.save_schedule(file.path), StateError);
  Engine replaying({.schedule = Schedule::replay(file.path.c_str())});
  CHECK_THROWS_AS(replaying.save_schedule(file.path), StateError);
  Engine random({.schedule = Schedule::random(1)});
  CHECK_THROWS_AS(random.save_schedule(file.path + "/no/such/folder"), IoError);
}

TEST_CASE("schedule: a write that was not declared is found within 100 seeds and reproduced by its seed", "[engine]") {
  Watchdog watchdog;
  uint64_t found = 0;
  while (found < 100 && !planted_fault_shows(found)) ++found;
  REQUIRE(found < 100);
  for (int i = 0; i < 20; ++i) REQUIRE(planted_fault_shows(found));
}

TEST_CASE("schedule: waits, Tasks, coroutines of the io pool and several threads get on", "[engine]") {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    Watchdog watchdog;
    Engine engine({.schedule = Schedule::random(seed)});
    EngineScope scope(engine);
    std::atomic<int> ended{0};
    std::atomic<int> wrong{0};
    auto work = [](Engine& engine, std::atomic<int>& ended, std::atomic<int>& wrong) -> Task<void> {
      Cell own(engine);
      for (int i = 0; i < 30; ++i) {
        engine.push({update(own.var())}, [own](RunContext&) { own.value() += 1; });
        if (i % 7 == 0) co_await sleep_for(50us);
        co_await own;
        wrong += own.value() != i + 1;
      }
      ++ended;
    };
    for (int i = 0; i < 4; ++i) spawn(work(engine, ended, wrong), engine.io_executor());
    std::vector<std::thread> threads;
    for (int t = 0; t < 3; ++t) {
      threads.emplace_back([&] {
        EngineScope inner(engine);
        Var mine;
        int value = 0;
        for (int i = 0; i < 100; ++i) {
          engine.push({update(mine)}, [&value](RunContext&) { ++value; });
          if (i % 5 == 0) {
            engine.wait(mine);
            wrong += value != i + 1;
          }
        }
        engine.wait(mine, AccessMode::write);
        sync_wait(work(engine, ended, wrong));
      });
    }
    sync_wait(work(engine, ended, wrong));
    for (std::thread& t : threads) t.join();
    REQUIRE(becomes_true([&] { return ended == 8; }));
    engine.wait_all();
    CHECK(wrong == 0);
    CHECK(engine.stats().completed == engine.stats().ops);
  }
}

TEST_CASE("schedule: a coroutine gets its array although no thread waits", "[engine]") {
  Watchdog watchdog;
  for (uint64_t seed = 0; seed < 50; ++seed) {
    Engine engine({.schedule = Schedule::random(seed)});
    std::atomic<bool> ended{false};
    auto read_it = [](Cell cell, std::atomic<bool>& ended) -> Task<void> {
      co_await cell;
      ended = true;
    };
    Cell cell(engine);
    Var other;
    for (int i = 0; i < 20; ++i) {
      engine.push({update(other)}, [](RunContext&) {});
      engine.push({read(other), update(cell.var())}, [](RunContext&) {});
    }
    spawn(read_it(cell, ended), engine.io_executor());
    REQUIRE(becomes_true([&] { return ended.load(); }));
    engine.wait_all();
  }
}

}  // namespace schedule_test
