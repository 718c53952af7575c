// Storage: sizes, reuse, limit, figures; Buffer.
#include <algorithm>
#include <cstring>
#include <random>
#include <thread>
#include <vector>

#include "kaon/engine/buffer/buffer.h"
#include "kaon/engine/storage.h"
#include "kaon/tests/engine/support.h"

namespace storage_test {

using namespace kaon;
using namespace kaon::engine;
using namespace kaon::test;
using Catch::Matchers::Contains;

namespace {

// Ends the limit however the case ends.
struct LimitGuard {
  explicit LimitGuard(size_t bytes) { Storage::cpu().set_limit(bytes); }
  ~LimitGuard() { Storage::cpu().set_limit(0); }
};

}  // namespace

TEST_CASE("storage: blocks of any size are aligned, distinct and writable", "[engine]") {
  Storage& storage = Storage::cpu();
  const size_t live = storage.stats().live;
  std::vector<std::pair<unsigned char*, size_t>> blocks;
  std::vector<size_t> sizes{0, 1, 2, 63, 64, 65, 1023, 1024, 1025};
  for (size_t bytes = 1280; bytes < (size_t(9) << 20); bytes = bytes * 5 / 4 + 7) sizes.push_back(bytes);
  for (size_t edge = 2048; edge <= (size_t(4) << 20); edge *= 2) {
    for (size_t bytes : {edge - 1, edge, edge + 1}) sizes.push_back(bytes);
  }
  for (size_t bytes : sizes) {
    auto* p = static_cast<unsigned char*>(storage.allocate(bytes));
    REQUIRE(p != nullptr);
    CHECK(reinterpret_cast<uintptr_t>(p) % 64 == 0);
    std::memset(p, int(bytes % 251), bytes);
    blocks.emplace_back(p, bytes);
  }
  bool intact = true;
  for (auto [p, bytes] : blocks) {
    intact = intact && std::all_of(p, p + bytes, [b = bytes](unsigned char c) { return c == b % 251; });
  }
  CHECK(intact);
  for (auto [p, bytes] : blocks) storage.free(p, bytes);
  CHECK(storage.stats().live == live);
}

TEST_CASE("storage: what was freed is handed out again, and trim gives it back", "[engine]") {
  if (sanitized) return;  // every block is fresh under AddressSanitizer
  Storage& storage = Storage::cpu();
  for (size_t bytes : {size_t(2000), size_t(100'000), size_t(3'000'000)}) {
    void* first = storage.allocate(bytes);
    storage.free(first, bytes);
    CHECK(storage.stats().cached >= bytes);
    void* second = storage.allocate(bytes - 8);
    CHECK(second == first);
    storage.free(second, bytes - 8);
  }
  storage.trim();
  const size_t cached = storage.stats().cached;
  void* big = storage.allocate(8'000'000);
  storage.free(big, 8'000'000);
  CHECK(storage.stats().cached >= cached + 8'000'000);
  storage.trim();
  CHECK(storage.stats().cached == cached);
}

TEST_CASE("storage: sizes in use are kept, not those that were used once", "[engine]") {
  if (sanitized) return;  // every block is fresh under AddressSanitizer
  Storage& storage = Storage::cpu();
  constexpr size_t mb = size_t(1) << 20;
  storage.free(storage.allocate(64 * mb), 64 * mb);  // the least peak
  const size_t peak = storage.stats().peak;
  for (size_t bytes = mb; bytes < 4 * mb; bytes += mb / 2) {  // as much of each size as was live at once
    std::vector<void*> blocks;
    while (storage.stats().live + bytes <= peak) blocks.push_back(storage.allocate(bytes));
    for (void* b : blocks) storage.free(b, bytes);
  }
  const auto use = [&](size_t bytes) {
    void* const block = storage.allocate(bytes);
    const size_t reserved = storage.stats().reserved;
    storage.free(block, bytes);
    return reserved;
  };
  for (size_t bytes : {5 * mb, 10 * mb}) use(bytes);
  const size_t reserved = storage.stats().reserved;
  for (int i = 0; i < 3; ++i) {
    CHECK(use(5 * mb) == reserved);
    CHECK(use(10 * mb) == reserved);
  }
}

TEST_CASE("storage: figures follow what is allocated", "[engine]") {
  Storage& storage = Storage::cpu();
  const StorageStats before = storage.stats();
  CHECK(before.live + before.cached == before.reserved);
  void* a = storage.allocate(10'000'000);
  void* b = storage.allocate(100);
  void* c = storage.allocate(100'000);
  const StorageStats with = storage.stats();
  CHECK(with.live >= before.live + 10'100'100);
  CHECK(with.live <= before.live + 10'100'100 * 5 / 4 + 64);
  CHECK(with.live + with.cached == with.reserved);
  CHECK(with.peak >= with.live);
  storage.free(c, 100'000);
  storage.free(b, 100);
  storage.free(a, 10'000'000);
  const StorageStats after = storage.stats();
  CHECK(after.live == before.live);
  CHECK(after.live + after.cached == after.reserved);
  CHECK(after.peak >= with.live);
}

TEST_CASE("users row 14: beyond the limit a MemoryError, then recovery", "[engine]") {
  Storage& storage = Storage::cpu();
  const size_t live = storage.stats().live;
  LimitGuard limit(live + (size_t(64) << 20));
  for (int i = 0; i < 100; ++i) {
    CHECK_THROWS_AS(storage.allocate(size_t(128) << 20), MemoryError);
    void* p = storage.allocate(size_t(32) << 20);
    CHECK_THROWS_WITH(storage.allocate(size_t(33) << 20), Contains(std::to_string(size_t(33) << 20)));
    storage.free(p, size_t(32) << 20);
    REQUIRE(storage.stats().live == live);
  }
}

TEST_CASE("storage: an impossible size is an error, not a crash", "[engine]") {
  Storage& storage = Storage::cpu();
  const size_t live = storage.stats().live;
  CHECK_THROWS_AS(storage.allocate(size_t(1) << 60), MemoryError);
  CHECK_THROWS_AS(storage.allocate(SIZE_MAX), MemoryError);
  {
    LimitGuard limit(size_t(1) << 30);
    CHECK_THROWS_AS(storage.allocate(SIZE_MAX - 10), MemoryError);
  }
  CHECK(storage.stats().live == live);
}

TEST_CASE("storage: a failed allocation fails the array of the operation, and the next one works", "[engine]") {
  at_thread_counts([](Engine& engine) {
    LimitGuard limit(Storage::cpu().stats().live + (size_t(8) << 20));
    IntrusivePtr<Buffer> buffer(new Buffer(size_t(16) << 20, cpu(), engine));
    engine.push({write(buffer->var)}, [c = buffer.get()](RunContext&) { c->ensure(); });
    CHECK_THROWS_AS(engine.wait(buffer->var), MemoryError);
    Var v;
    engine.push({write(v)}, [](RunContext& run) { run.workspace(size_t(16) << 20); });
    CHECK_THROWS_AS(engine.wait(v), MemoryError);
    Storage::cpu().set_limit(0);
    engine.push({write(buffer->var)}, [c = buffer.get()](RunContext&) { std::memset(c->ensure(), 1, c->bytes); });
    CHECK_NOTHROW(engine.wait(buffer->var));
  });
}

TEST_CASE("storage: threads allocate and free each other's blocks", "[engine]") {
  Watchdog watchdog;
  Storage& storage = Storage::cpu();
  const size_t live = storage.stats().live;
  struct Item {
    void* block = nullptr;
    size_t bytes = 0;
    unsigned char mark = 0;
  };
  std::mutex mutex;
  std::vector<Item> pool;
  std::atomic<int> damaged{0};
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      std::mt19937 random(t);
      for (int i = 0; i < rounds(20000); ++i) {
        Item mine;
        {
          std::lock_guard lock(mutex);
          if (pool.size() > 100 || (!pool.empty() && random() % 2)) {
            std::swap(pool[random() % pool.size()], pool.back());
            mine = pool.back();
            pool.pop_back();
          }
        }
        if (mine.block) {
          auto* p = static_cast<unsigned char*>(mine.block);
          damaged += p[0] != mine.mark || p[mine.bytes - 1] != mine.mark;
          storage.free(mine.block, mine.bytes);
          continue;
        }
        mine.bytes = 1 + random() % (size_t(1) << (3 + random() % 12));
        mine.block = storage.allocate(mine.bytes);
        mine.mark = static_cast<unsigned char>(random());
        auto* p = static_cast<unsigned char*>(mine.block);
        p[0] = p[mine.bytes - 1] = mine.mark;
        std::lock_guard lock(mutex);
        pool.push_back(mine);
      }
    });
  }
  for (std::thread& t : threads) t.join();
  for (Item& i : pool) storage.free(i.block, i.bytes);
  CHECK(damaged == 0);
  CHECK(storage.stats().live == live);
}

TEST_CASE("storage: a buffer takes memory late and returns it, or drops what it wraps", "[engine]") {
  at_thread_counts([](Engine& engine) {
    const size_t live = Storage::cpu().stats().live;
    {
      IntrusivePtr<Buffer> buffer(new Buffer(1'000'000, cpu(), engine));
      CHECK(Storage::cpu().stats().live == live);
      engine.push({write(buffer->var)}, [c = buffer](RunContext&) { c->ensure(); });
      engine.wait(buffer->var);
      CHECK(Storage::cpu().stats().live == live + (size_t(1) << 20));
    }
    engine.wait_all();  // the operation has dropped its reference
    CHECK(Storage::cpu().stats().live == live);

    static int drops;
    drops = 0;
    int owned = 3;
    {
      IntrusivePtr<Buffer> buffer(new Buffer(&owned, sizeof owned, cpu(), engine, &owned,
                                             [](void* p) noexcept { drops += *static_cast<int*>(p); }));
      CHECK(buffer->ensure() == &owned);
    }
    CHECK(drops == 3);
  });
}

TEST_CASE("users row 13: 2,000 random shapes reserve at most half more than was live at once", "[engine]") {
  if (sanitized) return;  // every block is fresh under AddressSanitizer
  Storage& storage = Storage::cpu();
  storage.trim();
  for (size_t kept : {size_t(20), size_t(150)}) {  // arrays at a time
    std::mt19937 random(13);
    const StorageStats before = storage.stats();
    size_t most_live = 0, most_reserved = 0;
    std::vector<std::pair<void*, size_t>> arrays;
    for (int i = 0; i < 2000; ++i) {
      if (arrays.size() == kept) {
        std::swap(arrays[random() % kept], arrays.back());
        storage.free(arrays.back().first, arrays.back().second);
        arrays.pop_back();
      }
      const size_t bytes = (160 + random() % 865) * (160 + random() % 865) * sizeof(float);
      arrays.emplace_back(storage.allocate(bytes), bytes);
      most_live = std::max(most_live, storage.stats().live);
      most_reserved = std::max(most_reserved, storage.stats().reserved);
    }
    const size_t peak = storage.stats().peak;  // of this process, other cases included
    CHECK(peak >= most_live);
    INFO(kept << " arrays at a time: peak " << peak << ", reserved " << most_reserved);
    // regions of small blocks and a floor below which nothing is given back come on top
    CHECK(most_reserved <= before.reserved - before.live + peak + peak / 2 + (size_t(32) << 20));
    for (auto [p, bytes] : arrays) storage.free(p, bytes);
    CHECK(storage.stats().live == before.live);
    storage.trim();
    CHECK(storage.stats().reserved <= before.reserved + (size_t(32) << 20));
    CHECK(storage.stats().live + storage.stats().cached == storage.stats().reserved);
  }
}

TEST_CASE("users row 14: the message names what is requested, live, cached, and the largest holders", "[engine]") {
  at_thread_counts([](Engine& engine) {
    constexpr size_t mib = size_t(1) << 20;
    const size_t live = Storage::cpu().stats().live;
    LimitGuard limit(live + 64 * mib);
    {
      std::vector<IntrusivePtr<Buffer>> kept;
      auto take = [&](const char* name, size_t bytes) {
        IntrusivePtr<Buffer> buffer(new Buffer(bytes, cpu(), engine));
        engine.push({write(buffer->var)}, [buffer](RunContext&) { buffer->ensure(); }, {.label = {.name = name}});
        kept.push_back(buffer);
      };
      take("conv", 16 * mib);
      take("conv", 16 * mib);
      take("dot", 8 * mib);
      engine.wait_all();
      IntrusivePtr<Buffer> big(new Buffer(128 * mib, cpu(), engine));
      for (int i = 0; i < 100; ++i) {
        engine.push({write(big->var)}, [big](RunContext&) { big->ensure(); }, {.label = {.name = "concat"}});
        std::string text;
        try {
          engine.wait(big->var);
        } catch (const MemoryError& e) {
          text = e.what();
        }
        if (i == 0) {
          CHECK_THAT(text, Contains("requested " + std::to_string(128 * mib)));
          CHECK_THAT(text, Contains("live " + std::to_string(live + 40 * mib)));
          CHECK_THAT(text, Contains("cached ") && Contains("limit ") && Contains("[concat]"));
          CHECK_THAT(text, Contains("largest holders: conv " + std::to_string(32 * mib) + " bytes, dot " +
                                    std::to_string(8 * mib) + " bytes"));
        }
        REQUIRE_FALSE(text.empty());
        IntrusivePtr<Buffer> fits(new Buffer(16 * mib, cpu(), engine));
        engine.push({write(fits->var)}, [fits](RunContext&) { fits->ensure(); });
        CHECK_NOTHROW(engine.wait(fits->var));
        engine.wait_all();
      }
    }
    engine.wait_all();
    const StorageStats after = Storage::cpu().stats();
    CHECK(after.live == live);
    CHECK(after.live + after.cached == after.reserved);
  });
}

TEST_CASE("users row 14: memory that ready operations give back is waited for, also for scratch memory", "[engine]") {
  at_thread_counts(1, [](Engine& engine) {
    constexpr size_t mib = size_t(1) << 20;
    const size_t live = Storage::cpu().stats().live;
    LimitGuard limit(live + 64 * mib);
    for (int round = 0; round < 20; ++round) {
      const bool as_scratch = round % 2 == 1;
      Gate gate;
      Var start;
      std::vector<IntrusivePtr<Buffer>> full, wanted;
      for (int i = 0; i < 4; ++i) full.emplace_back(new Buffer(16 * mib, cpu(), engine));
      for (auto& c : full) engine.push({write(c->var)}, [c](RunContext&) { c->ensure(); });
      engine.wait_all();
      // the ones that need memory are ready before those that give it back
      engine.push({write(start)}, [&](RunContext&) { gate.wait(); });
      for (int i = 0; i < 3; ++i) {
        wanted.emplace_back(new Buffer(16 * mib, cpu(), engine));
        engine.push({read(start), write(wanted.back()->var)}, [c = wanted.back(), as_scratch](RunContext& run) {
          if (as_scratch) std::memset(run.workspace(c->bytes), 1, c->bytes);
          else c->ensure();
        });
      }
      for (auto& c : full) engine.push({read(start), write(c->var)}, [c](RunContext&) { c->give_back(); });
      full.clear();
      gate.open();
      for (auto& c : wanted) CHECK_NOTHROW(engine.wait(c->var));
      CHECK_NOTHROW(engine.wait_all());
    }
    CHECK(Storage::cpu().stats().live == live);
  });
}

TEST_CASE("users row 14: operations that lack memory at the same time do not wait for each other", "[engine]") {
  Watchdog watchdog;
  Engine engine({.threads = 2});
  constexpr size_t mib = size_t(1) << 20;
  LimitGuard limit(Storage::cpu().stats().live + 4 * mib);
  auto shortest = Clock::duration::max();
  for (int round = 0; round < 5 && shortest >= 500ms; ++round) {  // the machine may be busy
    std::vector<IntrusivePtr<Buffer>> wanted;
    std::atomic<int> begun{0};
    const uint64_t completed = engine.stats().completed;
    const auto start = Clock::now();
    for (int i = 0; i < 2; ++i) {
      wanted.emplace_back(new Buffer(8 * mib, cpu(), engine));
      engine.push({write(wanted.back()->var)}, [c = wanted.back(), &begun](RunContext&) {
        ++begun;
        while (begun < 2) cpu_pause();
        c->ensure();
      });
    }
    REQUIRE(becomes_true([&] { return engine.stats().completed == completed + 2; }));  // this thread does not help
    shortest = std::min(shortest, Clock::now() - start);
    for (auto& c : wanted) CHECK_THROWS_WITH(engine.wait(c->var), Contains("requested " + std::to_string(8 * mib)));
  }
  CHECK(shortest < 500ms);  // the deadline is a second
}

}  // namespace storage_test
