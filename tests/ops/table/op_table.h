// The test table: rows of every operator, by family. CONTRIBUTING.md says what a row has to have.
#pragma once

#include <set>
#include <string>

#include "kaon/tests/support/check_op.h"

namespace kaon::test {

Rows elementwise_rows();
Rows reduce_rows();
Rows movement_rows();
Rows index_rows();
Rows nn_rows();
Rows layer_rows();
Rows resize_rows();
Rows composed_rows();
Rows attention_rows();
Rows detection_rows();
Rows multibox_rows();
Rows region_rows();
Rows spatial_rows();
Rows pooled_region_rows();
Rows quant_rows();
Rows rnn_rows();
Rows rearrange_rows();
Rows random_rows();
Rows density_rows();
Rows image_rows();
Rows linalg_rows();
Rows numeric_rows();
Rows statistics_rows();
Rows search_rows();
Rows init_rows();
Rows optim_rows();
Rows signal_rows();
Rows more_rows();
Rows numpy_rows();
Rows analysis_rows();
Rows all_rows();

// The names in a that are not in b.
std::set<std::string> minus(const std::set<std::string>& a, const std::set<std::string>& b);

}  // namespace kaon::test
