// Fuzz target: IDX files, plain and compressed. Any bytes give a tensor or an IoError.
#include <string_view>

#include "kaon/gluon/data/internal/idx.h"
#include "kaon/tests/fuzz/require.h"

using namespace kaon;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  try {
    const gluon::data::HostTensor tensor = gluon::data::parse_idx(bytes, "bytes");
    const bool is_plain = !bytes.starts_with("\x1f\x8b");
    const size_t head = 4 + 4 * size_t(tensor.shape().ndim());
    test::require(!is_plain || head + tensor.bytes() == size, "every byte of a plain file is head or element");
  } catch (const IoError&) {
  }
  return 0;
}
