// Numbers as unsigned integers that have their order, and entries to sort. For both devices.
#pragma once

#include <cstdint>
#include <cstring>
#include <type_traits>

#include "kaon/ops/dtype.h"
#include "kaon/ops/half.h"
#include "kaon/ops/host_device.h"

namespace kaon::ops {

// 32 bits for numbers of up to 32 bits, else 64.
template <class T>
using OrderKey = std::conditional_t<sizeof(T) == 8, uint64_t, uint32_t>;

// Equal numbers have equal keys, 0 and -0 too; NaN has the largest.
template <class T>
KAON_HOST_DEVICE inline OrderKey<T> ascending_key(T x) {
  using Key = OrderKey<T>;
  constexpr Key top = Key(1) << (8 * sizeof(Key) - 1);
  if constexpr (std::is_same_v<T, float16> || std::is_same_v<T, bfloat16>) {
    return ascending_key(float(x));
  } else if constexpr (std::is_floating_point_v<T>) {
    const T number = x + T(0);  // no -0
    Key bits;
    memcpy(&bits, &number, sizeof bits);
    const Key sign = Key(0) - (bits >> (8 * sizeof(Key) - 1));  // without a decision: signs are often random
    return x == x ? bits ^ (sign | top) : ~Key(0);
  } else if constexpr (std::is_signed_v<T>) {
    return Key(std::make_signed_t<Key>(x)) ^ top;
  } else {
    return Key(x);
  }
}

template <class T>
KAON_HOST_DEVICE inline OrderKey<T> order_key(T x, bool is_ascend) {
  const OrderKey<T> key = ascending_key(x);
  return is_ascend ? key : OrderKey<T>(~key);
}

// An element's key and index. All of a row differ, so that any way to sort them gives the same.
template <class Key>
struct OrderEntry;
template <>
struct OrderEntry<uint32_t> {
  uint64_t both = 0;
  OrderEntry() = default;
  KAON_HOST_DEVICE OrderEntry(uint32_t key, uint32_t i) : both(uint64_t(key) << 32 | i) {}
  KAON_HOST_DEVICE uint32_t index() const { return uint32_t(both); }
  KAON_HOST_DEVICE friend bool operator<(const OrderEntry& a, const OrderEntry& b) { return a.both < b.both; }
};
template <>
struct OrderEntry<uint64_t> {
  uint64_t key = 0;
  uint32_t at = 0;
  OrderEntry() = default;
  KAON_HOST_DEVICE OrderEntry(uint64_t key, uint32_t i) : key(key), at(i) {}
  KAON_HOST_DEVICE uint32_t index() const { return at; }
  KAON_HOST_DEVICE friend bool operator<(const OrderEntry& a, const OrderEntry& b) {
    return a.key != b.key ? a.key < b.key : a.at < b.at;
  }
};

}  // namespace kaon::ops
