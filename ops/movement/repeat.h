// repeat, tile and reverse.
#pragma once

#include "kaon/ops/op.h"
#include "kaon/ops/operator/attributes.h"

namespace kaon {

struct OpDef;

// Each element `repeats` times in a row along `axis`; without an axis, of the flattened array.
struct Repeat {
  int repeats = 1;
  std::optional<int> axis{};
  static constexpr OpTraits traits{.name = "repeat", .recomputable = true};
  static constexpr void fields(auto field) {
    field("repeats", &Repeat::repeats, true);
    field("axis", &Repeat::axis);
  }
  static const OpDef def;
  void infer(InferContext& c) const;
  void grad(GradContext& g) const;
  bool keeps_rows(const RowQuery& q) const { return axis && !q.is_first(*axis); }
};
void run_cpu(const Repeat& op, KernelContext& c);
void run_cuda(const Repeat& op, KernelContext& c);

// The whole array reps[i] times along axis i; shapes are padded with 1 on the left to equal length.
struct Tile {
  Shape reps{};
  static constexpr OpTraits traits{.name = "tile", .recomputable = true};
  static constexpr void fields(auto field) { field("reps", &Tile::reps, true); }
  static const OpDef def;
  void infer(InferContext& c) const;
  void grad(GradContext& g) const;
  bool keeps_rows(const RowQuery& q) const {
    return reps.ndim() < q.ndim() || (reps.ndim() == q.ndim() && reps[0] == 1);
  }
};
void run_cpu(const Tile& op, KernelContext& c);
void run_cuda(const Tile& op, KernelContext& c);

// The elements in opposite order along each of the axes.
struct Reverse {
  Shape axis{};
  static constexpr OpTraits traits{.name = "reverse", .recomputable = true, .aliases = Names("flip")};
  static constexpr void fields(auto field) { field("axis", &Reverse::axis, true); }
  static const OpDef def;
  void infer(InferContext& c) const;
  void grad(GradContext& g) const;
  bool keeps_rows(const RowQuery& q) const { return !axis.empty() && !q.names_first(axis); }
};
void run_cpu(const Reverse& op, KernelContext& c);
void run_cuda(const Reverse& op, KernelContext& c);

}  // namespace kaon
