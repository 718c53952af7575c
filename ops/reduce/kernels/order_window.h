// The part of a row that holds the elements wanted of it in order.
#pragma once

#include <cstdint>

namespace kaon::ops {

inline constexpr int64_t order_window_room = 8;  // words behind the last one of `to` that may change

// Of n different words, n >= 32, those between two bounds, from a sample of them, that most often have the `first`th to
// the (first + k - 1)th in order between them; to `to`, which has room for n and order_window_room words. `before`: how
// many words are below. Returns how many are between; 0 where others than these are wanted.
int64_t order_window(const uint64_t* words, int64_t n, int64_t first, int64_t k, uint64_t* to, int64_t& before);

// The same of the words of a row's entries, OrderEntry<uint32_t>::both of order_key(x[i], is_ascend) and i, which are
// made on the way.
int64_t order_window(const float* x, bool is_ascend, int64_t n, int64_t first, int64_t k, uint64_t* to,
                     int64_t& before);

}  // namespace kaon::ops
