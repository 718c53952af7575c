// Fuzz target: safetensors. Any bytes give arrays or an IoError. What was read can be written, and read again it is the
// same.
#include <string>
#include <string_view>

#include "kaon/interchange/safetensors.h"
#include "kaon/tests/fuzz/require.h"

using namespace kaon;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  safetensors::Contents loaded;
  try {
    loaded = safetensors::load_from_bytes({reinterpret_cast<const char*>(data), size});
  } catch (const IoError&) {
    return 0;
  }
  for (const auto& [name, array] : loaded.arrays) {
    if (name.empty()) return 0;  // the format has it, the writer refuses it
  }
  const safetensors::SaveOptions options{.metadata = loaded.metadata};
  const std::string bytes = safetensors::save_to_bytes(loaded.arrays, options);
  const safetensors::Contents again = safetensors::load_from_bytes(bytes);
  test::require(again.metadata == loaded.metadata, "metadata that are written and read again are the same");
  test::require(safetensors::save_to_bytes(again.arrays, options) == bytes,
                "arrays that are written and read again are the same");
  return 0;
}
