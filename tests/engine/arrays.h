// Arrays of some size, and how much of them is in memory: shared by the cases about budgets.
#pragma once

#include <atomic>
#include <utility>

#include "kaon/engine/buffer/buffer.h"
#include "kaon/engine/storage.h"
#include "support.h"

namespace kaon::test {

using namespace engine;

constexpr size_t unit = 64 * 1024;  // takes just as much of the storage
using Array = IntrusivePtr<Buffer>;
inline Array make(Engine& engine, size_t bytes = unit) { return Array(new Buffer(bytes, cpu(), engine)); }

// The most that arrays take in memory while an operation runs.
struct Peak {
  const size_t base = Storage::cpu().stats().live;
  std::atomic<size_t> most{0};
  void look() {
    size_t now = Storage::cpu().stats().live - base;
    size_t seen = most;
    while (now > seen && !most.compare_exchange_weak(seen, now)) {
    }
  }
};

// b = a + 1, or 1 without an a; in the first double of each.
inline void push_step(Engine& engine, const Array& a, const Array& b, Peak& peak) {
  auto body = [a, b, &peak](RunContext&) {
    auto* out = static_cast<double*>(b->ensure());
    out[0] = a ? static_cast<double*>(a->ensure())[0] + 1 : 1;
    peak.look();
  };
  if (a) engine.push({read(a->var), write(b->var)}, std::move(body));
  else engine.push({write(b->var)}, std::move(body));
}

}  // namespace kaon::test
