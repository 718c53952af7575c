// What fuzz targets find is reported by ending the program.
#pragma once

#include <cstdio>
#include <cstdlib>

namespace kaon::test {

inline void require(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "does not hold: %s\n", what);
  std::abort();
}

}  // namespace kaon::test
