// ProgramBuilder: a program that grows call by call and runs as it grows, so that every value is known to be possible.
#pragma once

#include <optional>
#include <span>
#include <stdexcept>
#include <vector>

#include "kaon/ops/all_ops.h"
#include "kaon/ops/ndarray.h"
#include "kaon/tests/support/check_op.h"
#include "kaon/tests/support/programs/program.h"

namespace kaon::test {

// The same numbers on every machine.
class Dice {
 public:
  explicit Dice(uint64_t seed) : state_(seed) { state_ = next(); }
  uint64_t next();
  int64_t below(int64_t n) { return int64_t(next() % uint64_t(n)); }
  int64_t between(int64_t low, int64_t high) { return low + below(high - low + 1); }
  bool chance(double p) { return double(next() >> 11) * 0x1p-53 < p; }
  template <class T>
  const T& pick(const std::vector<T>& all) {
    return all[size_t(below(int64_t(all.size())))];
  }
  template <class T>
  T pick(std::initializer_list<T> all) {
    return all.begin()[below(int64_t(all.size()))];
  }

 private:
  uint64_t state_;
};

// What a step throws when it cannot go on; all that it has added goes.
struct Refused : std::runtime_error {
  Refused() : std::runtime_error("refused") {}
};

// The rows of the test table by operator: what each takes.
struct Facts {
  explicit Facts(const Rows& rows);

  std::vector<std::vector<const Row*>> by_operator;  // rows that a program can contain
  std::vector<const Row*> pointwise;                 // of these, such as take arrays of any one shape
};

// Not thread-safe; computes on the current engine.
class ProgramBuilder {
 public:
  ProgramBuilder(uint64_t seed, const Facts& facts, bool is_body = false);

  Dice dice;
  const Facts& facts;
  const bool is_body;       // of a loop or branch: nothing is updated there
  bool keeps_rows = false;  // axis 0 is the number of rows, which calls may change
  int64_t most_elements = 4096;

  Ref variable(Role role, const Shape& shape, const Range& range = {}, DType dtype = DType::float32,
               bool batched = false);
  Ref input(const NDArray& value);  // a body's
  // Each throws Refused, as do the coercions below.
  std::vector<Ref> add(ProgramNode node);
  Ref call(const OpDef& def, const Attributes& attrs, std::vector<Ref> inputs, bool is_derivative = true);
  template <class Op>
  Ref call(const Op& op, std::vector<Ref> inputs) {
    return call(Op::def, Attributes(Op::def, &op), std::move(inputs));
  }

  // What a later step may take; recent ones are likelier.
  void offer(Ref r) { pool_.push_back(r); }
  std::span<const Ref> pool() const { return pool_; }
  Ref pick();                                                    // a float32 of any shape
  Ref pick(engine::FunctionRef<bool(const TensorMeta&)> suits);  // throws Refused when none does
  const TensorMeta& meta(Ref r) const { return program_.meta(r); }
  const Shape& shape(Ref r) const { return meta(r).shape; }
  const NDArray& value(Ref r) const { return values_[r.node][r.output]; }
  const Program& program() const { return program_; }

  // The value made to fit: another value of a like origin.
  Ref calm(Ref r);  // of moderate size
  Ref to_dtype(Ref r, DType dtype);
  Ref to_shape(Ref r, const Shape& shape);
  Ref to_fill(Ref r, Fill fill);
  static Range range_of(const Input& input, DType dtype);

  // Runs step(*this); false: it was refused and has changed nothing.
  bool attempt(void (*step)(ProgramBuilder&));
  Program finish(std::vector<Ref> heads);

 private:
  Program program_;
  std::vector<std::vector<NDArray>> values_;
  std::vector<std::vector<double>> largest_;  // magnitude, by node and output
  std::vector<Ref> pool_;
};

}  // namespace kaon::test
