// The test table: rows of every operator, by family. CONTRIBUTING.md says what a row has to have.
#pragma once

#include "kaon/tests/support/check_op.h"

namespace kaon::test {

Rows elementwise_rows();
Rows reduce_rows();
Rows movement_rows();
Rows index_rows();
Rows nn_rows();
Rows layer_rows();
Rows init_rows();
Rows optim_rows();

}  // namespace kaon::test
