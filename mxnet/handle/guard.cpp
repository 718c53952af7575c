#include "kaon/mxnet/handle/guard.h"

#include <fmt/format.h>

namespace kaon::mxnet {

namespace {
std::string& text() {
  static thread_local std::string last;
  return last;
}
}  // namespace

// Python takes the class from the text before the first colon, where it knows one of that name. Operators' failures are
// MXNetError in MXNet, an index outside of an array included, but for the operators of indices in tuples.
void set_last_error(const std::exception& error) noexcept {
  try {
    const std::string_view what = error.what();
    const bool is_index = dynamic_cast<const IndexError*>(&error) &&
                          (what.starts_with("[gather_nd]") || what.starts_with("[_scatter_set_nd]"));
    set_last_error(fmt::format("{}: {}", is_index ? "IndexError" : "MXNetError", what));
  } catch (...) {
    set_last_error(std::string());
  }
}
void set_last_error(std::string what) noexcept { text() = std::move(what); }
const char* last_error() noexcept { return text().c_str(); }

void refuse(const char* name, const char* why) { throw ValueError(fmt::format("[{}] {}", name, why)); }

}  // namespace kaon::mxnet
