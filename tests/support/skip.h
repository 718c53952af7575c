// skip: for a case that needs what this machine does not have (real model files, a GPU).
#pragma once

#include <string>

namespace kaon::test {

// Says why the running case is skipped; ctest then reports it as "Skipped" unless a check failed. The case
// returns right after it.
void skip(const std::string& reason);

// False: the running case is skipped for want of one.
bool has_gpu();

}  // namespace kaon::test
