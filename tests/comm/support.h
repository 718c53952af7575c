// Nets and numbers that are the same on every rank.
#pragma once

#include <string>
#include <vector>

#include "kaon/comm/communicator.h"
#include "kaon/kaon.h"

namespace kaon::ranks_test {

inline int ranks() { return comm::mpi().size(); }
inline int rank() { return comm::mpi().rank(); }

// The same on every rank.
inline NDArray numbers(const Shape& shape, int seed) {
  std::vector<float> v(size_t(shape.size()));
  for (size_t i = 0; i < v.size(); ++i)
    v[i] = float(int((i + 1) * 2654435761u * unsigned(seed) >> 20 & 0xfff) - 2048) / 2048;
  return NDArray::from(v.data(), v.size(), shape);
}

inline NDArray labels(int64_t n, int step) {
  std::vector<float> v(static_cast<size_t>(n));
  for (size_t i = 0; i < v.size(); ++i) v[i] = float((i * 7 + size_t(step)) % 4);
  return NDArray::from(v.data(), v.size(), {n});
}

// The rows of this rank.
inline NDArray part(const NDArray& all) {
  const int64_t each = all.shape()[0] / ranks();
  return all.slice(each * rank(), each * (rank() + 1));
}

inline gluon::nn::HybridSequential mlp(int hidden = 32) {
  gluon::nn::HybridSequential net;
  net.add(gluon::nn::Dense(hidden, {.activation = "relu", .in_units = 10}), gluon::nn::Dense(4, {.in_units = hidden}));
  return net;
}

enum class Mode { imperative, hybridized, training_step };
constexpr Mode all_modes[] = {Mode::imperative, Mode::hybridized, Mode::training_step};

}  // namespace kaon::ranks_test
