// A Program as C++ source: what a user would have written, with a main() that shows how it fails.
#pragma once

#include <string>

#include "kaon/tests/support/programs/program_check.h"

namespace kaon::test {

// A whole program against <kaon/kaon.h> that returns 0 when `way` gives what is expected. `what` goes into a comment.
std::string source_of(const Program& program, Way way, const std::string& what);

// "Pooling op7; op7.kernel = Shape(2, 2);": an operator's struct with these attributes, as statements.
std::string attributes_source(const OpDef& def, const Attributes& attrs, const std::string& name);

}  // namespace kaon::test
