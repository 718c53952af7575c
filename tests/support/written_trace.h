// The file that a profiler writes, read back.
#pragma once

#include <boost/json.hpp>
#include <string>

#include "kaon/engine/profiler.h"
#include "kaon/tests/support/files.h"

namespace kaon::test {

inline boost::json::value written_trace(const Profiler& profiler) {
  const ScratchFolder folder;
  profiler.write(folder / "trace.json");
  return boost::json::parse(bytes_of(folder / "trace.json"));
}

}  // namespace kaon::test
