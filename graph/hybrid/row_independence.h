// Proof that a program computes each row of its data independently, so that it may run on padded data.
#pragma once

#include <string>
#include <vector>

#include "kaon/graph/ir/graph.h"

namespace kaon {

// For a prediction. The first dimension of the first `num_data` inputs is rows. Proves, node by node, that row i of
// each value is computed from row i of the data and from values that all rows share; shapes are compared for `rows`
// rows and for one more, so that no constant of the program depends on the number of rows. Returns by output: whether
// it has rows. Throws ShapeError naming the first node that mixes rows, or whose operator has no rule.
std::vector<bool> prove_rows_independent(const Symbol& program, const std::vector<std::string>& input_names,
                                         const std::vector<TensorMeta>& inputs, size_t num_data, int64_t rows,
                                         const std::string& who);

}  // namespace kaon
