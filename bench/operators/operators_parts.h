// What the files of bench/operators share: the calls that are timed, in one table for each family of operators.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "kaon/ops/functions.h"

namespace kaon::bench {

struct Case {
  std::string name;
  std::function<void()> call;  // may return before the result is there
};
using Cases = std::vector<Case>;

// Of arrays with about n elements. bench/peers_operators has the same calls of PyTorch under the same names.
Cases elementwise(int64_t n);
Cases reductions(int64_t n);
Cases searching(int64_t n);
Cases indexing(int64_t n);
Cases matrices(int64_t n);
Cases layers(int64_t n);
Cases sequences(int64_t n);
Cases draws(int64_t n);
Cases images(int64_t n);

// A matrix of n elements has rows of this length.
inline int64_t row_length(int64_t n) { return n >= 1'000'000 ? 1000 : 100; }

inline NDArray between(double low, double high, const Shape& shape) {
  return nd.random_uniform(shape, {.low = low, .high = high});
}
inline NDArray integers(int64_t low, int64_t high, const Shape& shape, DType dtype = DType::int64) {
  return nd.cast(nd.random_randint(low, high, shape, {.dtype = DType::int32}), dtype);
}

}  // namespace kaon::bench
