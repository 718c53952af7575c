// The block pool: reuse by the same thread, frees from another, threads that end.
#include <atomic>
#include <cstring>
#include <set>
#include <thread>
#include <vector>

#include "kaon/engine/block_pool.h"
#include "kaon/tests/engine/support.h"

namespace block_pool_test {

using namespace kaon;
using namespace kaon::engine;
using namespace kaon::test;

TEST_CASE("block pool: blocks of all sizes are aligned and distinct", "[engine]") {
  std::vector<std::pair<char*, size_t>> blocks;
  for (size_t bytes = 0; bytes <= 1500; ++bytes) {
    auto* p = static_cast<char*>(pool_allocate(bytes));
    REQUIRE(reinterpret_cast<uintptr_t>(p) % 64 == 0);
    std::memset(p, char(bytes), bytes);
    blocks.emplace_back(p, bytes);
  }
  bool intact = true;
  for (auto [p, bytes] : blocks) {
    for (size_t i = 0; i < bytes; ++i) intact = intact && p[i] == char(bytes);
  }
  CHECK(intact);
  for (auto [p, bytes] : blocks) pool_free(p, bytes);
}

TEST_CASE("block pool: a thread gets back what it freed", "[engine]") {
  if (sanitized) return;  // every block is fresh under AddressSanitizer
  void* first = pool_allocate(100);
  pool_free(first, 100);
  void* second = pool_allocate(128);  // the same size class
  CHECK(second == first);
  pool_free(second, 128);
}

TEST_CASE("block pool: one thread allocates, another frees, memory goes round", "[engine]") {
  Watchdog watchdog;
  constexpr size_t bytes = 640;
  constexpr int batch = 100;
  std::set<void*> seen;  // by the allocating thread
  std::atomic<char**> handed{nullptr};
  std::atomic<bool> end{false};
  std::thread freer([&] {
    while (!end) {
      if (char** blocks = handed.exchange(nullptr, std::memory_order_acquire)) {
        for (int i = 0; i < batch; ++i) pool_free(blocks[i], bytes);
        delete[] blocks;
      } else {
        std::this_thread::yield();
      }
    }
  });
  for (int round = 0; round < rounds(2000); ++round) {
    auto** blocks = new char*[batch];
    for (int i = 0; i < batch; ++i) {
      blocks[i] = static_cast<char*>(pool_allocate(bytes));
      std::memset(blocks[i], i, bytes);
      seen.insert(blocks[i]);
    }
    handed.store(blocks, std::memory_order_release);
    while (handed.load(std::memory_order_relaxed)) std::this_thread::yield();
  }
  end = true;
  freer.join();
  if (!sanitized) CHECK(seen.size() < 4000);  // of 200000 allocations
}

TEST_CASE("block pool: memory of a thread that ended serves the next", "[engine]") {
  Watchdog watchdog;
  std::set<void*> seen;
  void* kept = nullptr;
  for (int i = 0; i < rounds(200); ++i) {
    std::thread([&] {
      void* blocks[50];
      for (void*& b : blocks) {
        b = pool_allocate(900);
        seen.insert(b);
      }
      if (kept) pool_free(kept, 900);  // of a thread that is gone
      kept = blocks[0];
      for (int k = 1; k < 50; ++k) pool_free(blocks[k], 900);
    }).join();
  }
  pool_free(kept, 900);
  if (!sanitized) CHECK(seen.size() < 500);  // of 10000 allocations
}

TEST_CASE("block pool: threads that end while others free their blocks", "[engine]") {
  Watchdog watchdog;
  std::mutex mutex;
  std::vector<std::pair<unsigned char*, size_t>> shared;
  std::atomic<int> damaged{0};
  auto work = [&](unsigned seed) {
    for (int i = 0; i < rounds(2000); ++i) {
      size_t bytes = 16 + (seed * 131 + unsigned(i) * 7) % 1000;
      auto* p = static_cast<unsigned char*>(pool_allocate(bytes));
      std::memset(p, int(bytes % 256), bytes);
      std::pair<unsigned char*, size_t> other{nullptr, 0};
      {
        std::lock_guard lock(mutex);
        shared.emplace_back(p, bytes);
        if (shared.size() > 64) {
          std::swap(shared.front(), shared.back());
          other = shared.back();
          shared.pop_back();
        }
      }
      if (!other.first) continue;
      damaged += other.first[0] != other.second % 256 || other.first[other.second - 1] != other.second % 256;
      pool_free(other.first, other.second);
    }
  };
  for (unsigned generation = 0; generation < 5; ++generation) {
    std::vector<std::thread> threads;
    for (unsigned t = 0; t < 4; ++t) threads.emplace_back(work, generation * 4 + t);
    for (std::thread& t : threads) t.join();
  }
  for (auto [p, bytes] : shared) pool_free(p, bytes);
  CHECK(damaged == 0);
}

}  // namespace block_pool_test
