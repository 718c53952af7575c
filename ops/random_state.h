// The seed of random operators, and how far its numbers have been used.
#pragma once

#include "kaon/ops/view.h"

namespace kaon::random {

// Sets the seed and starts its numbers from the first. Same seed, same pushes: same numbers, whatever the number of
// threads. Process-wide. Thread safety: any thread.
void seed(uint64_t value);

// A stream of its own: the numbers that belong to a key that was drawn before.
RandomKey stream_of(RandomKey key);
inline constexpr uint64_t stream_draws = 4;  // numbers that such a key takes

// The next `count` numbers. Called when an operator is pushed.
RandomKey draw(uint64_t count);

// While it lives, what this thread draws comes from a stream of its own, given by a key that was drawn before. So what
// is computed late (a parameter whose shape the first forward finds) gets the numbers of the place where it was asked for.
class StreamScope {
 public:
  explicit StreamScope(RandomKey key);
  StreamScope();  // its key is drawn when the first number is asked for
  ~StreamScope();
  StreamScope(const StreamScope&) = delete;
  StreamScope& operator=(const StreamScope&) = delete;

 private:
  friend RandomKey draw(uint64_t count);
  RandomKey next_{};
  bool has_key_;
  StreamScope* outer_;
};

}  // namespace kaon::random
