#include "kaon/engine/scheduler/process_engines.h"

#include <dlfcn.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "kaon/engine/base/process_wide.h"
#include "kaon/engine/device/gpu.h"
#include "kaon/engine/scheduler/engine_impl.h"

namespace kaon::engine {
namespace {

using Clock = std::chrono::steady_clock;
using namespace std::chrono_literals;

class Places : public WithMutex {
 public:
  EngineRef take(Engine& engine) {
    std::lock_guard lock(mutex);
    if (free_.empty()) {
      free_.reserve(all_.size() + 1);  // so that leave() does not allocate
      all_.push_back(std::make_unique<EnginePlace>(&Engine::ended));
      free_.push_back(all_.back().get());
    }
    EnginePlace& place = *free_.back();
    free_.pop_back();
    place.engine.store(&engine, std::memory_order_relaxed);
    return EngineRef(place, place.number.load(std::memory_order_relaxed));
  }
  void leave(const Engine& engine) noexcept {
    std::lock_guard lock(mutex);
    for (const auto& place : all_) {
      if (place->engine.load(std::memory_order_relaxed) != &engine) continue;
      place->number.fetch_add(1, std::memory_order_relaxed);
      place->engine.store(nullptr, std::memory_order_relaxed);
      free_.push_back(place.get());
    }
  }
  // No engine is destroyed during the call.
  template <class F>
  void for_each(F&& use) {
    std::lock_guard lock(mutex);
    for (const auto& place : all_) {
      if (Engine* e = place->engine.load(std::memory_order_relaxed)) use(*e);
    }
  }

 private:
  std::vector<std::unique_ptr<EnginePlace>> all_;
  std::vector<EnginePlace*> free_;
};
Places& places() { return ProcessWide<Places, ForkOrder::engines>::get(); }

struct DefaultMutex : WithMutex {};
std::mutex& default_mutex() { return ProcessWide<DefaultMutex, ForkOrder::default_engine>::get().mutex; }
constinit std::atomic<Engine*> g_default{nullptr};
constinit EngineOptions g_default_options;  // under default_mutex()

// Waits until no operation is pending. This thread runs none itself, because its thread-locals, which operations use,
// may already be destroyed. If other threads keep pushing, waits for the operations pushed before the call, and at
// least a second.
void finish(Engine::Impl& e, bool gives_up) {
  constexpr auto longest_pause = 5s;  // without progress: an operation may be waiting for the exiting thread
  const uint64_t pushed = e.counts.pushed();
  const auto begin = Clock::now();
  auto progressed = begin;
  for (uint64_t done = e.counts.done(); e.counts.in_flight() != 0;) {
    e.workers.serve();
    if (!e.ready.is_empty()) e.workers.wake();
    std::this_thread::sleep_for(50us);
    const uint64_t now_done = e.counts.done();
    const auto now = Clock::now();
    if (now_done != std::exchange(done, now_done)) progressed = now;
    if (now_done >= pushed && now - begin > 1s) return;
    if (gives_up && now - progressed > longest_pause) return;
  }
}

void finish_all() {
  if (t_running || thread_context().op_engine) return;
  Engine* const standard = g_default.load();
  if (standard && !standard->is_gone()) finish(*standard->impl(), false);
  places().for_each([&](Engine& e) {
    if (&e != standard && !e.is_gone()) finish(*e.impl(), true);
  });
  try {
    Gpu::wait_for_all();
  } catch (const DeviceError&) {  // the process is exiting: no caller to report it to
  }
}

// Pins the shared library with this code: the default engine's threads run until the process ends, even after the
// program has closed the library with dlclose().
void keep_code_loaded() {
  Dl_info here;
  if (dladdr(&g_default, &here)) dlopen(here.dli_fname, RTLD_NOW | RTLD_NOLOAD | RTLD_NODELETE);
}

// Finishes pending operations when main returns. Thread-locals of the main thread are destroyed before all static
// objects; an atexit handler would run after the destructors of statics that libraries created while operations ran.
struct MainThreadEnd {
  ~MainThreadEnd() {
    if (getpid() == gettid()) finish_all();
  }
};
thread_local constinit bool t_watches_end = false;

void watch_end_of_thread() {
  t_watches_end = true;
  static thread_local MainThreadEnd end;
  (void)end;
}
// Also for a main thread that never uses an engine itself.
[[maybe_unused]] const bool g_watches_main = [] {
  if (getpid() == gettid()) watch_end_of_thread();
  return true;
}();

}  // namespace

EngineRef enter_engine(Engine& engine) { return places().take(engine); }
void leave_engine(const Engine& engine) noexcept { places().leave(engine); }
void for_each_engine(FunctionRef<void(Engine&)> use) { places().for_each(use); }
void finish_all_engines() { finish_all(); }

Engine& default_engine() {
  if (!t_watches_end) [[unlikely]]
    watch_end_of_thread();
  Engine* e = g_default.load(std::memory_order_acquire);
  if (e && !e->is_gone()) return *e;
  std::lock_guard lock(default_mutex());
  e = g_default.load(std::memory_order_relaxed);
  if (!e || e->is_gone()) {
    // Never destroyed, so static arrays may outlive main.
    if (!e) {
      std::atexit(&finish_all);
      keep_code_loaded();
    }
    e = new Engine(g_default_options);
    g_default.store(e, std::memory_order_release);
  }
  return *e;
}

void set_default_engine_options(const EngineOptions& options) {
  std::lock_guard lock(default_mutex());
  if (g_default.load(std::memory_order_relaxed)) {
    throw StateError("[set_default_options] the default engine has been made already: call this first in main");
  }
  g_default_options = options;
}

}  // namespace kaon::engine

// exit() destroys static objects in reverse order of construction. Those that oneDNN constructs while operations run
// are destroyed first, before any atexit handler of this library, and the workers' next operation would use destroyed
// objects. On a thread other than main only exit() itself runs early enough. Weak: a program may define its own.
extern "C" [[gnu::weak, gnu::visibility("default")]] void exit(int status) noexcept {
  kaon::engine::finish_all_engines();
  if (auto next = reinterpret_cast<void (*)(int)>(dlsym(RTLD_NEXT, "exit"))) next(status);
  _exit(status);
}
