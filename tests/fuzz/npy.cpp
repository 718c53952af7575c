// Fuzz target: npy. Any bytes give an array or an IoError. What was read can be written, in both orders, and read again
// it is the same.
#include <string>
#include <string_view>

#include "kaon/interchange/numpy_files.h"
#include "kaon/tests/fuzz/require.h"

using namespace kaon;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  NDArray loaded;
  try {
    loaded = npy::load_from_bytes({reinterpret_cast<const char*>(data), size});
  } catch (const IoError&) {
    return 0;
  }
  const std::string bytes = npy::save_to_bytes(loaded);
  for (bool fortran_order : {false, true}) {
    const NDArray again = npy::load_from_bytes(npy::save_to_bytes(loaded, {.fortran_order = fortran_order}));
    test::require(npy::save_to_bytes(again) == bytes, "an array that is written and read again is the same");
  }
  return 0;
}
