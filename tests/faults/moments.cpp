#include "moments.h"

#include <dlfcn.h>
#include <pthread.h>
#include <sched.h>

#include <atomic>

namespace kaon::test {
namespace {

constinit std::atomic<AtMoments*> g_action{nullptr};
constinit std::atomic<int> g_acting{0};
constinit thread_local bool t_is_left_out = false;
constinit thread_local int t_held = 0;

}  // namespace

void moment() noexcept {
  if (t_is_left_out || !g_action.load()) return;
  ++g_acting;
  if (AtMoments* const action = g_action.load()) {
    t_is_left_out = true;
    action->act();
    t_is_left_out = false;
  }
  --g_acting;
}

void AtMoments::begin() noexcept { g_action = this; }
void AtMoments::end() noexcept {
  g_action = nullptr;
  while (g_acting > 0) sched_yield();
}

int locks_held() noexcept { return t_held; }
void leave_out_this_thread() noexcept { t_is_left_out = true; }
void forget_moments() noexcept { g_action = nullptr; }

namespace {

// The C library's function; found at its first call, which may be before main.
template <class F>
class Original {
 public:
  explicit constexpr Original(const char* name) : name_(name) {}
  template <class... A>
  int operator()(A... a) noexcept {
    F* f = found_.load(std::memory_order_relaxed);
    if (!f) found_.store(f = reinterpret_cast<F*>(dlsym(RTLD_NEXT, name_)), std::memory_order_relaxed);
    return f(a...);
  }

 private:
  const char* name_;
  std::atomic<F*> found_{nullptr};
};

constinit Original<int(pthread_mutex_t*)> g_lock("pthread_mutex_lock"), g_try_lock("pthread_mutex_trylock"),
    g_unlock("pthread_mutex_unlock");
constinit Original<int(pthread_rwlock_t*)> g_read_lock("pthread_rwlock_rdlock"), g_write_lock("pthread_rwlock_wrlock"),
    g_rw_unlock("pthread_rwlock_unlock");

int taken(int error) noexcept {
  if (error == 0) ++t_held;
  return error;
}
int given(int error) noexcept {
  if (error == 0) --t_held;
  moment();
  return error;
}

}  // namespace
}  // namespace kaon::test

// The program's take the place of the C library's.
using namespace kaon::test;

extern "C" {
int pthread_mutex_lock(pthread_mutex_t* m) noexcept {
  moment();
  return taken(g_lock(m));
}
int pthread_mutex_trylock(pthread_mutex_t* m) noexcept { return taken(g_try_lock(m)); }
int pthread_mutex_unlock(pthread_mutex_t* m) noexcept { return given(g_unlock(m)); }
int pthread_rwlock_rdlock(pthread_rwlock_t* l) noexcept {
  moment();
  return taken(g_read_lock(l));
}
int pthread_rwlock_wrlock(pthread_rwlock_t* l) noexcept {
  moment();
  return taken(g_write_lock(l));
}
int pthread_rwlock_unlock(pthread_rwlock_t* l) noexcept { return given(g_rw_unlock(l)); }
}
