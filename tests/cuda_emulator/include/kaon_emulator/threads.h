// What the threads of a block know and do together: indices, barriers, warp primitives, atomic operations.
#pragma once

#include <bit>
#include <concepts>
#include <cstdint>
#include <cstring>
#include <source_location>
#include <type_traits>

#pragma GCC visibility push(default)

// Of the thread that runs. One CPU thread runs all threads of a device, so these are cheap, and constant for a fiber.
#define KAON_EMULATOR_INDEX extern constinit thread_local __attribute__((tls_model("initial-exec")))
KAON_EMULATOR_INDEX uint3 threadIdx;
KAON_EMULATOR_INDEX uint3 blockIdx;
KAON_EMULATOR_INDEX dim3 blockDim;
KAON_EMULATOR_INDEX dim3 gridDim;
#undef KAON_EMULATOR_INDEX
constexpr int warpSize = 32;

namespace kaon_emulator {

enum class Barrier { sync, sync_or, sync_and, sync_count, warp_sync, shuffle, ballot };
using Here = std::source_location;

// Waits for the block's other threads.
int wait_block(Barrier kind, int predicate, const Here& here);
// Waits for the warp's threads in `mask`. Returns what lane `source` gave if it is there; of a ballot, all bits.
uint64_t wait_warp(Barrier kind, unsigned mask, uint64_t value, unsigned source, const Here& here);
unsigned lane();
[[noreturn]] void trap(const Here& here);

template <class T>
T shuffle(unsigned mask, T value, unsigned source, const Here& here) {
  static_assert(std::is_trivially_copyable_v<T> && (sizeof(T) == 4 || sizeof(T) == 8), "shuffles move 4 or 8 bytes");
  uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof(T));
  bits = wait_warp(Barrier::shuffle, mask, bits, source, here);
  std::memcpy(&value, &bits, sizeof(T));
  return value;
}

}  // namespace kaon_emulator
#pragma GCC visibility pop

#define KAON_EMULATOR_HERE const kaon_emulator::Here& here = kaon_emulator::Here::current()

inline void __syncthreads(KAON_EMULATOR_HERE) { kaon_emulator::wait_block(kaon_emulator::Barrier::sync, 0, here); }
inline int __syncthreads_or(int predicate, KAON_EMULATOR_HERE) {
  return kaon_emulator::wait_block(kaon_emulator::Barrier::sync_or, predicate, here);
}
inline int __syncthreads_and(int predicate, KAON_EMULATOR_HERE) {
  return kaon_emulator::wait_block(kaon_emulator::Barrier::sync_and, predicate, here);
}
inline int __syncthreads_count(int predicate, KAON_EMULATOR_HERE) {
  return kaon_emulator::wait_block(kaon_emulator::Barrier::sync_count, predicate, here);
}
inline void __syncwarp(unsigned mask = 0xffffffff, KAON_EMULATOR_HERE) {
  kaon_emulator::wait_warp(kaon_emulator::Barrier::warp_sync, mask, 0, kaon_emulator::lane(), here);
}
inline unsigned __ballot_sync(unsigned mask, int predicate, KAON_EMULATOR_HERE) {
  const uint64_t bits = kaon_emulator::wait_warp(kaon_emulator::Barrier::ballot, mask, predicate != 0, 0, here);
  return unsigned(bits);
}
inline int __any_sync(unsigned mask, int predicate, KAON_EMULATOR_HERE) {
  return __ballot_sync(mask, predicate, here) != 0;
}
inline int __all_sync(unsigned mask, int predicate, KAON_EMULATOR_HERE) {
  return __ballot_sync(mask, !predicate, here) == 0;
}
// Any set of threads that holds the caller is a right answer; this is the one that helps least.
inline unsigned __activemask() { return 1u << kaon_emulator::lane(); }

template <class T>
T __shfl_sync(unsigned mask, T value, int source, int width = 32, KAON_EMULATOR_HERE) {
  const unsigned lane = kaon_emulator::lane(), first = lane & ~unsigned(width - 1);
  return kaon_emulator::shuffle(mask, value, first + (unsigned(source) & unsigned(width - 1)), here);
}
template <class T>
T __shfl_up_sync(unsigned mask, T value, unsigned delta, int width = 32, KAON_EMULATOR_HERE) {
  const unsigned lane = kaon_emulator::lane(), first = lane & ~unsigned(width - 1);
  return kaon_emulator::shuffle(mask, value, lane < first + delta ? lane : lane - delta, here);
}
template <class T>
T __shfl_down_sync(unsigned mask, T value, unsigned delta, int width = 32, KAON_EMULATOR_HERE) {
  const unsigned lane = kaon_emulator::lane(), last = lane | unsigned(width - 1);
  return kaon_emulator::shuffle(mask, value, lane + delta > last ? lane : lane + delta, here);
}
template <class T>
T __shfl_xor_sync(unsigned mask, T value, int bits, int width = 32, KAON_EMULATOR_HERE) {
  const unsigned lane = kaon_emulator::lane(), last = lane | unsigned(width - 1), source = lane ^ unsigned(bits);
  return kaon_emulator::shuffle(mask, value, source > last ? lane : source, here);
}

inline void __threadfence() {}
inline void __threadfence_block() {}
inline void __threadfence_system() {}
inline void __trap(KAON_EMULATOR_HERE) { kaon_emulator::trap(here); }

// Atomic operations: no two threads of a device run at the same time.
namespace kaon_emulator {
template <class T, class... Types>
concept OneOf = (std::same_as<T, Types> || ...);
template <class T>
concept AtomicBits = OneOf<T, int, unsigned, unsigned long long>;
template <class T>
concept AtomicOrdered = OneOf<T, int, unsigned, long long, unsigned long long>;
template <class T>
concept AtomicNumber = OneOf<T, int, unsigned, unsigned long long, float, double>;

template <class T>
T exchange(T* at, T value) {
  const T before = *at;
  *at = value;
  return before;
}
}  // namespace kaon_emulator

template <kaon_emulator::AtomicNumber T>
T atomicAdd(T* at, std::type_identity_t<T> value) {
  if constexpr (std::is_integral_v<T>) {
    using Bits = std::make_unsigned_t<T>;
    return kaon_emulator::exchange(at, T(Bits(*at) + Bits(value)));
  } else {
    return kaon_emulator::exchange(at, *at + value);
  }
}
template <kaon_emulator::OneOf<int, unsigned> T>
T atomicSub(T* at, std::type_identity_t<T> value) {
  return kaon_emulator::exchange(at, T(unsigned(*at) - unsigned(value)));
}
template <kaon_emulator::AtomicOrdered T>
T atomicMax(T* at, std::type_identity_t<T> value) {
  return kaon_emulator::exchange(at, *at < value ? value : *at);
}
template <kaon_emulator::AtomicOrdered T>
T atomicMin(T* at, std::type_identity_t<T> value) {
  return kaon_emulator::exchange(at, value < *at ? value : *at);
}
template <kaon_emulator::OneOf<int, unsigned, unsigned long long, float> T>
T atomicExch(T* at, std::type_identity_t<T> value) {
  return kaon_emulator::exchange(at, value);
}
template <kaon_emulator::OneOf<int, unsigned, unsigned long long, unsigned short> T>
T atomicCAS(T* at, std::type_identity_t<T> expected, std::type_identity_t<T> value) {
  return kaon_emulator::exchange(at, *at == expected ? value : *at);
}
template <kaon_emulator::AtomicBits T>
T atomicAnd(T* at, std::type_identity_t<T> value) {
  return kaon_emulator::exchange(at, T(*at & value));
}
template <kaon_emulator::AtomicBits T>
T atomicOr(T* at, std::type_identity_t<T> value) {
  return kaon_emulator::exchange(at, T(*at | value));
}
template <kaon_emulator::AtomicBits T>
T atomicXor(T* at, std::type_identity_t<T> value) {
  return kaon_emulator::exchange(at, T(*at ^ value));
}
inline unsigned atomicInc(unsigned* at, unsigned last) {
  return kaon_emulator::exchange(at, *at >= last ? 0 : *at + 1);
}

#undef KAON_EMULATOR_HERE
