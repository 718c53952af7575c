// Which programs treat the rows of their data alone: what makes it right to run them on more rows than there are.
#pragma once

#include <string>
#include <vector>

#include "kaon/graph/ir/graph.h"

namespace kaon {

// Of a prediction. The first dimension of the first `num_data` inputs counts rows. Proves, node by node, that row i of
// each value is computed from row i of the data and from what is the same for all rows; shapes are compared for `rows`
// rows and for one more, so that no number of the program stands for that of the rows. By output: does it have rows?
// Throws ShapeError naming the first node that mixes rows, or that is of a kind that has no rule.
std::vector<bool> prove_rows_independent(const Symbol& program, const std::vector<std::string>& input_names,
                                         const std::vector<TensorMeta>& inputs, size_t num_data, int64_t rows,
                                         const std::string& who);

}  // namespace kaon
