// Plans for more rows than a call has: the number of rows is rounded up, data is padded, outputs are sliced.
#pragma once

#include <vector>

#include "kaon/graph/ir/graph.h"
#include "kaon/graph/plan_ops/row_ops.h"

namespace kaon {

// The first of `sizes` (none: of 0, 1, 2, 4, 8, ...) that is at least `rows`. Throws ShapeError beyond the last.
int64_t bucket_of(int64_t rows, const Shape& sizes, const char* who);
// Throws ValueError unless the sizes are positive and ascending.
void check_buckets(const Shape& sizes);
// The common first dimension of these arrays. Throws ShapeError when there is none.
int64_t rows_of(std::span<const NDArray* const> data, const char* who);

// The same graph on padded data, with those outputs sliced that have rows. Runs after all passes, which do not know its
// nodes.
Graph pad_rows(Graph graph, size_t num_data, const std::vector<bool>& has_rows);

}  // namespace kaon
