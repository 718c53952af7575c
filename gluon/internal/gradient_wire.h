// GradientWire: how an array is added up over ranks: as it is, compressed, or by a fixed tree.
#pragma once

#include <optional>
#include <string>

#include "kaon/comm/communicator.h"
#include "kaon/gluon/trainer.h"

namespace kaon::gluon::detail {

// All ranks call the same functions on arrays of the same shapes in one order. Nothing blocks. Thread safety: one
// thread.
class GradientWire {
 public:
  // Throws ValueError for another type than there are, listing those, and for a threshold that is not above 0.
  GradientWire(comm::Communicator ranks, const CompressionParams& compression);
  const comm::Communicator& ranks() const { return ranks_; }
  bool compresses() const { return type_ != Type::none; }
  bool keeps_residuals() const { return type_ == Type::two_bits; }

  // x becomes its sum over the ranks. `residual`: what is left of this array, which the first call makes. `priority`:
  // of Communicator::all_reduce_by_priority(); unset: sums follow each other. Throws TypeError for a dtype that the
  // compression does not take.
  void add_up(const NDArray& x, NDArray& residual, std::optional<int> priority = {}) const;
  // The same by a binary tree over the ranks, of which there must be a power of two: the sum of 2n ranks is that of the
  // first n and of the last n. So the bits are those of one rank that adds up by such a tree.
  void add_up_by_tree(const NDArray& x) const;

 private:
  enum class Type : uint8_t { none, two_bits, float16, bfloat16 };
  void all_reduce(const NDArray& x, std::optional<int> priority) const;
  void add_up_two_bits(const NDArray& x, NDArray& residual) const;

  comm::Communicator ranks_;
  Type type_;
  float threshold_;
};

}  // namespace kaon::gluon::detail
