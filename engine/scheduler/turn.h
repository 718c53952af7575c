// Turn: how long a thread has run coroutines since their executor last had it.
#pragma once

#include <cstdint>

namespace kaon::detail {

// A coroutine whose awaits are all ready would keep its executor's thread for ever, and with it an event loop. So each
// await in a Kaon coroutine counts here, and the one that finds the turn over gives way first. Reading the clock takes
// longer than a ready await: where awaits come quickly it is read at every 64th, and at every 4th the kernel's tick,
// which is there for a tenth of that; where they come seldom, at each. A turn takes max_turn and one more await; where
// quick awaits turn into slow ones, up to four more.
class Turn {
 public:
  static constexpr int64_t max_turn = 1'000'000;  // ns

  // An executor resumes a coroutine, or a thread starts one. Gives the beginning of the turn around it.
  int64_t begin() noexcept;
  void end(int64_t outer) noexcept {
    began_ = outer;
    if (outer != none) left_ = looks_left_ = 1;  // its awaits may all have fallen between two looks
  }
  // For an await: true when it should give way. Then a turn begins, whether it does or not.
  bool is_over() noexcept { return --left_ <= 0 && look(); }

 private:
  static constexpr int few = 4;             // awaits
  static constexpr int looks = 16;          // at the tick, until the clock is read
  static constexpr int64_t seldom = 2'000;  // ns from one await to the next
  static constexpr int64_t none = -1;       // no turn
  static constexpr int burst = 8;           // awaits that come quickly, one after another, before it is believed
  bool look() noexcept;
  bool is_quick() const noexcept { return quick_ == burst; }

  int left_ = 1;          // awaits until the next look
  int looks_left_ = 1;    // looks until the clock is read
  int quick_ = 0;         // looks at the clock that found awaits coming quickly, up to burst
  int64_t seen_ = 0;      // when that was, ns
  int64_t tick_ = 0;      // the kernel's then
  int64_t began_ = none;  // ns
};

inline thread_local constinit Turn t_turn{};

// While it lives, a turn of this thread.
class TurnScope {
 public:
  TurnScope() noexcept : outer_(t_turn.begin()) {}
  ~TurnScope() { t_turn.end(outer_); }
  TurnScope(const TurnScope&) = delete;
  TurnScope& operator=(const TurnScope&) = delete;

 private:
  const int64_t outer_;
};

}  // namespace kaon::detail
