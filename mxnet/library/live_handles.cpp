// How many handles a program holds.
#include <fmt/format.h>

#include <string_view>

#include "kaon/engine/error.h"
#include "kaon/mxnet/c_api.h"
#include "kaon/mxnet/handle/guard.h"
#include "kaon/mxnet/handle/handle.h"

using namespace kaon;
using namespace kaon::mxnet;

int KaonLiveHandles(const char* kind, int64_t* out) {
  return guard([&] {
    const std::string_view name = kind;
    if (name == "array") {
      *out = ArrayObject::live();
    } else if (name == "all") {
      *out = detail::all_live.load(std::memory_order_relaxed);
    } else {
      throw ValueError(fmt::format("[KaonLiveHandles] expected 'array' or 'all', got '{}'", name));
    }
  });
}
