// Plans for more rows than a call has: numbers of rows rounded up, data padded, outputs cut.
#pragma once

#include <vector>

#include "kaon/graph/graph.h"
#include "kaon/ops/op.h"

namespace kaon {

struct OpDef;

// The rows of the data, then zeros; the first rows of a value. How many rows there are follows from the array of the
// call: in a graph, data and outputs have the shapes of the bucket. Exist in plans only.
struct PadRows {
  static constexpr OpTraits traits{.name = "_pad_rows", .in_mxnet = false};
  static constexpr auto fields = std::tuple<>{};
  static const OpDef def;
  void infer(InferContext& c) const { c.set_output(c.shape(0), c.dtype()); }
};
void run_cpu(const PadRows& op, KernelContext& c);

struct TakeRows {
  static constexpr OpTraits traits{.name = "_take_rows", .in_mxnet = false};
  static constexpr auto fields = std::tuple<>{};
  static const OpDef def;
  void infer(InferContext& c) const { c.set_output(c.shape(0), c.dtype()); }
};
void run_cpu(const TakeRows& op, KernelContext& c);

// The first of `sizes` (none: of 0, 1, 2, 4, 8, ...) that is at least `rows`. Throws ShapeError beyond the last.
int64_t bucket_of(int64_t rows, const Shape& sizes, const char* who);
// Throws ValueError unless the sizes are positive and ascending.
void check_buckets(const Shape& sizes);
// The common first dimension of these arrays. Throws ShapeError when there is none.
int64_t rows_of(std::span<const NDArray* const> data, const char* who);

// The same graph on padded data with the outputs cut, of those with rows. No pass knows these nodes: it comes after all.
Graph pad_rows(Graph graph, size_t num_data, const std::vector<bool>& has_rows);

}  // namespace kaon
