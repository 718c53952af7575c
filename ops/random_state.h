// The seed of random operators, and the position in its stream of numbers.
#pragma once

#include "kaon/engine/api.h"
#include "kaon/ops/view.h"

namespace KAON_API kaon {
namespace random {

// Sets the seed and starts its numbers from the first. Same seed, same pushes: same numbers, whatever the number of
// threads. Process-wide. Thread safety: any thread.
KAON_API void seed(uint64_t value);

// The seed and how many of its numbers have been drawn, by what is pushed so far. A checkpoint keeps it, so that
// training goes on with the numbers that would have come next. Process-wide. Nothing blocks. Thread safety: any thread.
KAON_API ops::RandomKey get_state();
KAON_API void set_state(ops::RandomKey state);

// A separate stream of numbers, given by a key that was drawn before.
KAON_API ops::RandomKey stream_of(ops::RandomKey key);
inline constexpr uint64_t stream_draws = 4;  // numbers to draw for such a key

// The next `count` numbers. Called when an operator is pushed.
KAON_API ops::RandomKey draw(uint64_t count);

// While it exists, this thread draws from a separate stream, given by a key that was drawn before. So a parameter whose
// shape the first forward finds gets the numbers that initialize() would have drawn.
class RandomSubstream {
 public:
  explicit RandomSubstream(ops::RandomKey key);
  RandomSubstream();  // its key is drawn with the first number
  ~RandomSubstream();
  RandomSubstream(const RandomSubstream&) = delete;
  RandomSubstream& operator=(const RandomSubstream&) = delete;

 private:
  friend ops::RandomKey draw(uint64_t count);
  ops::RandomKey next_{};
  bool has_key_;
  RandomSubstream* outer_;
};

}  // namespace random
}  // namespace kaon
