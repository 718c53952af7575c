// Steady state allocates nothing: malloc itself is counted.
#include <atomic>
#include <cerrno>
#include <cstdlib>

#include "kaon/tests/gluon/hybrid_support.h"

#if defined(__GLIBC__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)

namespace {
std::atomic<bool> counting{false};
std::atomic<long> allocations{0};
void count() {
  if (counting.load(std::memory_order_relaxed)) allocations.fetch_add(1, std::memory_order_relaxed);
}
}  // namespace

// The program's malloc takes the place of the library's; operator new calls it.
extern "C" {
void* __libc_malloc(size_t bytes);
void* __libc_calloc(size_t n, size_t bytes);
void* __libc_realloc(void* p, size_t bytes);
void* __libc_memalign(size_t alignment, size_t bytes);

void* malloc(size_t bytes) { return count(), __libc_malloc(bytes); }
void* calloc(size_t n, size_t bytes) { return count(), __libc_calloc(n, bytes); }
void* realloc(void* p, size_t bytes) { return count(), __libc_realloc(p, bytes); }
void* aligned_alloc(size_t alignment, size_t bytes) { return count(), __libc_memalign(alignment, bytes); }
int posix_memalign(void** out, size_t alignment, size_t bytes) {
  count();
  *out = __libc_memalign(alignment, bytes);
  return *out || !bytes ? 0 : ENOMEM;
}
}

using namespace kaon;
using namespace kaon::test;

TEST_CASE("hybrid: 100 forwards of an MLP with static_alloc allocate nothing", "[gluon]") {
  for (int threads : {0, 1, 2}) {
    Engine engine({.threads = threads});
    EngineScope scope(engine);
    nn::HybridSequential net(nn::Dense(64, {.activation = "relu"}), nn::Dense(32, {.activation = "relu"}),
                             nn::Dense(10));
    ready(net);
    net.hybridize({.static_alloc = true, .static_shape = true});
    NDArray x = numbers({1, 20});
    auto forwards = [&] {
      for (int i = 0; i < 100; ++i) {
        NDArray y = net(x);
        if (i % 3) y.wait_to_read();
      }
      x.wait_to_write();
    };
    for (int i = 0; i < 20; ++i) forwards();
    allocations = 0;
    counting = true;
    {
      std::vector<int> seen(100);
      CHECK(seen.size() == 100);
    }
    long own = allocations.exchange(0);
    // Once more operations are pending at a time than ever before, the pools grow by a page: that is not steady yet.
    long steady = -1;
    for (int attempt = 0; attempt < 5 && steady != 0; ++attempt) {
      forwards();
      steady = allocations.exchange(0);
    }
    counting = false;
    INFO(threads << " threads");
    CHECK(own >= 1);  // the count works
    CHECK(steady == 0);
  }
}

#endif
