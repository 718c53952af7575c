// What operations derive from memory and keep until that is written.
#include "kaon/engine/buffer/packed_cache.h"

#include "kaon/engine/storage.h"
#include "kaon/tests/engine/support.h"

namespace packed_cache_test {

using namespace kaon;
using namespace kaon::engine;
using namespace kaon::test;

namespace {

// The memory's first byte plus `more`, and how many of these live.
struct Sum : PackedData {
  Sum(int m, int v) : more(m), value(v) { ++living; }
  ~Sum() override { --living; }
  const int more, value;
  static inline std::atomic<int> living{0}, made{0};
};

using Memory = IntrusivePtr<Buffer>;

Memory memory(Engine& engine) { return Memory(new Buffer(64, Device(), engine)); }

void fill(Engine& engine, const Memory& m, char value) {
  engine.push({write(m->var)}, [m, value](RunContext&) { *static_cast<char*>(m->ensure()) = value; });
}

int sum_of(Buffer& buffer, int more) {
  auto found = find_or_pack(
      buffer, [&](const PackedData& d) { return static_cast<const Sum&>(d).more == more; },
      [&]() -> std::shared_ptr<const PackedData> {
        ++Sum::made;
        return std::make_shared<Sum>(more, *static_cast<const char*>(buffer.ensure()) + more);
      });
  return static_cast<const Sum&>(*found).value;
}

void read_sum(Engine& engine, const Memory& m, int more, int expected, std::atomic<int>& right) {
  engine.push({read(m->var)}, [m, more, expected, &right](RunContext&) { right += sum_of(*m, more) == expected; });
}

}  // namespace

TEST_CASE("packed cache:kept until the memory is written, and made again then", "[engine]") {
  at_thread_counts([](Engine& engine) {
    std::atomic<int> right{0};
    Sum::made = 0;
    Memory m = memory(engine);
    for (char value : {1, 2, 3}) {
      fill(engine, m, value);
      for (int i = 0; i < 5; ++i) {
        read_sum(engine, m, 10, 10 + value, right);
        engine.wait_all();  // one after the other: none is made twice
        read_sum(engine, m, 20, 20 + value, right);
        engine.wait_all();
      }
      CHECK(Sum::made == 2 * value);
      CHECK(Sum::living == 2);
    }
    CHECK(right == 30);
    m = nullptr;
    CHECK(Sum::living == 0);
  });
}

TEST_CASE("packed cache:what a writer leaves is never taken for what was there before", "[engine]") {
  at_thread_counts([](Engine& engine) {
    constexpr int steps = 300;
    std::atomic<int> right{0};
    std::vector<Memory> all;
    for (int i = 0; i < 4; ++i) all.push_back(memory(engine));
    for (int step = 0; step < steps; ++step) {
      for (const Memory& m : all) {
        fill(engine, m, char(step % 100));
        for (int reader = 0; reader < 3; ++reader) read_sum(engine, m, reader % 2, step % 100 + reader % 2, right);
      }
    }
    engine.wait_all();
    CHECK(right == steps * 4 * 3);
    all.clear();
    CHECK(Sum::living == 0);
  });
}

TEST_CASE("packed cache:given up where memory lacks, and alive for who holds it", "[engine]") {
  Engine engine({.threads = 1});
  Memory m = memory(engine);
  fill(engine, m, 1);
  std::shared_ptr<const PackedData> held;
  auto keep = [&](RunContext&) {
    held = find_or_pack(
        *m, [](const PackedData&) { return true; }, [] { return std::make_shared<const Sum>(0, 7); });
  };
  engine.push({read(m->var)}, keep);
  std::atomic<int> right{0};
  engine.wait_all();
  Memory other = memory(engine);
  fill(engine, other, 1);
  read_sum(engine, other, 0, 1, right);
  engine.wait_all();
  CHECK(Sum::living == 2);
  drop_packed();
  CHECK(Sum::living == 1);
  CHECK(static_cast<const Sum&>(*held).value == 7);
  read_sum(engine, m, 0, 1, right);  // not what is still held
  engine.wait_all();
  CHECK(right == 2);
  // an array that finds no memory gives up what others have derived
  const size_t live = Storage::cpu().stats().live;
  Storage::cpu().set_limit(live + 1024);
  Memory large(new Buffer(1 << 20, Device(), engine));
  engine.push({write(large->var)}, [large](RunContext&) { large->ensure(); });
  CHECK_THROWS_AS(engine.wait_all(), Error);
  Storage::cpu().set_limit(0);
  CHECK(Sum::living == 1);
  held.reset();
  CHECK(Sum::living == 0);
}

}  // namespace packed_cache_test
