// Fuzz target: npz, and so zip archives. Any bytes give arrays or an IoError. What was read can be written, and read
// again it is the same.
#include <string>
#include <string_view>

#include "kaon/interchange/numpy_files.h"
#include "kaon/tests/fuzz/require.h"

using namespace kaon;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  NamedArrays loaded;
  try {
    loaded = npz::load_from_bytes({reinterpret_cast<const char*>(data), size}, "bytes", {.max_bytes = 1 << 26});
  } catch (const IoError&) {
    return 0;
  }
  for (const auto& [name, array] : loaded) {
    if (name.empty()) return 0;  // ".npy": the format has it, the writer refuses it
  }
  const std::string bytes = npz::save_to_bytes(loaded);
  test::require(npz::save_to_bytes(npz::load_from_bytes(bytes)) == bytes,
                "arrays that are written and read again are the same");
  return 0;
}
