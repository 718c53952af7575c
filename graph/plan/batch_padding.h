// Batch padding: plans for more rows than a call has. The number of rows is rounded up to a bucket, data is padded,
// outputs are sliced; a proof that no row depends on another one comes before.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "kaon/graph/ir/graph.h"

namespace kaon::graph {

// The first of `sizes` (none: of 0, 1, 2, 4, 8, ...) that is at least `rows`. Throws ShapeError beyond the last.
int64_t bucket_of(int64_t rows, const Shape& sizes, const char* who);
// Throws ValueError unless the sizes are positive and ascending.
void check_buckets(const Shape& sizes);
// The common first dimension of these arrays. Throws ShapeError when there is none.
int64_t rows_of(std::span<const NDArray* const> data, const char* who);

// For a prediction. The first dimension of the first `num_data` inputs is rows. Proves, node by node, that row i of
// each value is computed from row i of the data and from values that all rows share; shapes are compared for `rows`
// rows and for one more, so that no constant of the program depends on the number of rows. Returns by output: whether
// it has rows. Throws ShapeError naming the first node that mixes rows, or whose operator has no rule.
std::vector<bool> prove_rows_independent(const Symbol& program, const std::vector<std::string>& input_names,
                                         const std::vector<TensorMeta>& inputs, size_t num_data, int64_t rows,
                                         const std::string& who);

// The same graph on padded data, with those outputs sliced that have rows. Runs after all passes, which do not know its
// nodes.
Graph pad_rows(Graph graph, size_t num_data, const std::vector<bool>& has_rows);

}  // namespace kaon::graph
