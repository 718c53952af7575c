// A shared object with an engine of its own inside: what a plug-in or a language binding looks like. The cases about
// exits open it, use it and close it.
#include <atomic>
#include <cstring>

#include "kaon/engine/buffer/buffer.h"
#include "kaon/engine/task.h"

using namespace kaon;
using namespace kaon::engine;

namespace {
std::atomic<int> g_runs{0};
IntrusivePtr<Buffer> g_chunk;  // goes with the library
}  // namespace

// Waits for some operations and leaves others pending. Gives how many have run.
extern "C" __attribute__((visibility("default"))) int use_engine(int count) {
  Engine& engine = Engine::current();
  g_chunk = IntrusivePtr<Buffer>(new Buffer(1000, cpu(), engine));
  auto push = [&] {
    engine.push({update(g_chunk->var)}, [buffer = g_chunk](RunContext&) {
      std::memset(buffer->ensure(), 1, buffer->bytes);
      ++g_runs;
    });
  };
  for (int i = 0; i < count; ++i) push();
  engine.wait(g_chunk->var);
  const int runs = g_runs;
  for (int i = 0; i < count; ++i) push();
  return runs;
}
