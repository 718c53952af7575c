// engine/device/cuda/shared_library.cpp needs nothing of CUDA's.
#include "kaon/engine/device/cuda/shared_library.h"

#include <catch2/catch.hpp>
#include <cmath>

#include "kaon/engine/error.h"

namespace shared_library_test {

using namespace kaon;
using namespace kaon::engine;
using Catch::Contains;

TEST_CASE("shared library: the first file that is there, and its functions by name", "[engine]") {
  const cuda::SharedLibrary library("sines", {"libkaon_has_no_such_file.so.1", "libm.so.6"});
  double (*sine)(double) = library.function("sin");
  CHECK(sine(1.0) == std::sin(1.0));
  CHECK_THROWS_AS(library.function("no_such_function"), DeviceError);
  CHECK_THROWS_WITH(library.function("no_such_function"), Contains("libm.so.6") && Contains("no_such_function"));
}

TEST_CASE("shared library: a missing one is named, with what needs it and why it cannot be loaded", "[engine]") {
  const auto open = [] { cuda::SharedLibrary("matrix products", {"libnot_here.so.13", "libnot_here.so.12"}); };
  CHECK_THROWS_AS(open(), DeviceError);
  CHECK_THROWS_WITH(open(), Contains("[libnot_here.so.13]") && Contains("matrix products") &&
                                Contains("libnot_here.so.12: cannot open shared object file"));
}

}  // namespace shared_library_test
