// Schedule: the order in which an engine runs ready operations, and the random one that finds programs which depend on
// it.
#pragma once

#include <cstdint>

namespace kaon {

// An option of Engine.
struct Schedule {
  enum class Kind : uint8_t {
    arrival,  // first ready, first run, on `threads` threads
    random,   // no worker: threads that push and wait run any operation that may run, as the seed says
    replay,   // the same with the choices of a file
  };
  Kind kind = Kind::arrival;
  uint64_t seed = 0;
  const char* file = nullptr;

  static constexpr Schedule random(uint64_t seed) { return {Kind::random, seed, nullptr}; }
  static constexpr Schedule replay(const char* file) { return {Kind::replay, 0, file}; }
};

}  // namespace kaon
