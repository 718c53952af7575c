// Turn: how long a thread has run coroutines since their executor last got control.
#pragma once

#include <cstdint>

namespace kaon::engine {

// A coroutine whose awaits are all ready would keep its executor's thread forever, and with it an event loop. So each
// await in a Kaon coroutine counts here, and the one that finds the turn over yields first. Reading the clock takes
// longer than a ready await. When awaits come quickly, it is read at every 64th, and at every 4th the kernel's tick,
// which costs a tenth of that; when they come seldom, at each. A turn takes max_turn and one more await; when quick
// awaits turn into slow ones, up to four more.
class Turn {
 public:
  static constexpr int64_t max_turn = 1'000'000;  // ns

  // Called when an executor resumes a coroutine or a thread starts one. Returns the start of the enclosing turn.
  int64_t begin() noexcept;
  void end(int64_t outer) noexcept {
    began_ = outer;
    if (outer != none) left_ = looks_left_ = 1;  // the inner turn's awaits may all have been between two looks
  }
  // Called by an await: true when it should yield. Then a new turn begins, whether it yields or not.
  bool is_over() noexcept { return --left_ <= 0 && look(); }

 private:
  static constexpr int few = 4;             // awaits
  static constexpr int looks = 16;          // looks at the tick until the clock is read
  static constexpr int64_t seldom = 2'000;  // ns from one await to the next
  static constexpr int64_t none = -1;       // no turn
  static constexpr int burst = 8;           // quick awaits in a row before they count as quick
  bool look() noexcept;
  bool is_quick() const noexcept { return quick_ == burst; }

  int left_ = 1;          // awaits until the next look
  int looks_left_ = 1;    // looks until the clock is read
  int quick_ = 0;         // consecutive clock readings that found quick awaits, up to burst
  int64_t seen_ = 0;      // the last clock reading, ns
  int64_t tick_ = 0;      // the kernel's tick at that reading
  int64_t began_ = none;  // ns
};

inline thread_local constinit Turn t_turn{};

// A turn of this thread, as long as this object exists.
class TurnScope {
 public:
  TurnScope() noexcept : outer_(t_turn.begin()) {}
  ~TurnScope() { t_turn.end(outer_); }
  TurnScope(const TurnScope&) = delete;
  TurnScope& operator=(const TurnScope&) = delete;

 private:
  const int64_t outer_;
};

}  // namespace kaon::engine
