#include "kaon/engine/threads/turn.h"

#include <time.h>

#include <algorithm>

#include "kaon/engine/engine.h"

namespace kaon::engine {
namespace {
int64_t read_clock(clockid_t clock) noexcept {
  timespec time{};
  clock_gettime(clock, &time);
  return int64_t(time.tv_sec) * 1'000'000'000 + time.tv_nsec;
}
}  // namespace

int64_t Turn::begin() noexcept {
  const int64_t outer = began_;
  // with quick awaits and an unchanged tick, the clock was read not long ago
  const bool is_near = is_quick() && read_clock(CLOCK_MONOTONIC_COARSE) == tick_;
  began_ = is_near ? seen_ : read_clock(CLOCK_MONOTONIC);
  left_ = 1;
  return outer;
}

bool Turn::look() noexcept {
  const int64_t tick = read_clock(CLOCK_MONOTONIC_COARSE);
  if (--looks_left_ > 0 && tick == tick_) {
    left_ = few;
    return false;
  }
  const int64_t time = read_clock(CLOCK_MONOTONIC);
  const int awaits = is_quick() ? few * (looks - looks_left_) : 1;
  quick_ = time - seen_ < awaits * seldom ? std::min(quick_ + 1, burst) : 0;
  left_ = is_quick() ? few : 1;
  looks_left_ = is_quick() ? looks : 1;
  seen_ = time;
  tick_ = tick;
  if (began_ == none) began_ = time;
  if (time - began_ < max_turn) return false;
  began_ = time;
  // a chosen order must not depend on the clock
  return Engine::current().options().schedule.kind == Schedule::Kind::arrival;
}

}  // namespace kaon::engine
