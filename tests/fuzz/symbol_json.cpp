// Fuzz target: symbol files. Any bytes give a Symbol or an IoError. What was read can be written, and read again it is
// the same; its shapes can be inferred or are refused.
#include <string>
#include <string_view>

#include "kaon/graph/symbol.h"
#include "kaon/tests/fuzz/require.h"

using namespace kaon;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  Symbol loaded;
  try {
    loaded = Symbol::load_json({reinterpret_cast<const char*>(data), size});
  } catch (const IoError&) {
    return 0;
  }
  std::string text;
  try {
    text = loaded.tojson();
  } catch (const ValueError&) {  // an operator that MXNet lacks
    return 0;
  }
  test::require(Symbol::load_json(text).tojson() == text, "a symbol that is written and read again is the same");
  try {
    loaded.infer_shape({});
  } catch (const Error&) {
  }
  return 0;
}
