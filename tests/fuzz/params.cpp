// Fuzz target: lists of arrays. Any bytes give arrays or an IoError. What was read can be written, and read again it is
// the same.
#include <string>
#include <string_view>

#include "kaon/ops/ndarray_file.h"
#include "kaon/tests/fuzz/require.h"

using namespace kaon;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  NamedArrays loaded;
  try {
    loaded = nd_file::load_from_bytes({reinterpret_cast<const char*>(data), size});
  } catch (const IoError&) {
    return 0;
  }
  const std::string bytes = nd_file::save_to_bytes(loaded);
  test::require(nd_file::save_to_bytes(nd_file::load_from_bytes(bytes)) == bytes,
                "arrays that are written and read again are the same");
  return 0;
}
