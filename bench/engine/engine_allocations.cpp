// operator new of this program counts its calls, so that "nothing is allocated in steady state" is measured.
#include <cstdlib>
#include <new>

#include "kaon/bench/engine/engine_parts.h"

namespace {

std::atomic<bool> counting{false};
std::atomic<long> count{0};

void* counted(size_t bytes, size_t alignment) {
  if (counting.load(std::memory_order_relaxed)) count.fetch_add(1, std::memory_order_relaxed);
  if (bytes == 0) bytes = 1;
  void* p =
      alignment ? std::aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment) : std::malloc(bytes);
  if (!p) throw std::bad_alloc();
  return p;
}

}  // namespace

// The other forms call these.
void* operator new(size_t bytes) { return counted(bytes, 0); }
void* operator new(size_t bytes, std::align_val_t alignment) { return counted(bytes, size_t(alignment)); }
void operator delete(void* p) noexcept { std::free(p); }
void operator delete(void* p, size_t) noexcept { std::free(p); }
void operator delete(void* p, std::align_val_t) noexcept { std::free(p); }
void operator delete(void* p, size_t, std::align_val_t) noexcept { std::free(p); }

namespace kaon::bench {

void print_allocations(const std::string& name, int n, const std::function<void()>& work) {
  work();  // pools and queues grow to what it needs
  count.store(0);
  counting.store(true);
  work();
  counting.store(false);
  print(name + "_allocations", summarize({double(count.load()) / n}), "operator new/op", "", {}, 0);
}

}  // namespace kaon::bench
