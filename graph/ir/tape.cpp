#include "kaon/graph/ir/tape.h"

#include <fmt/format.h>

#include <atomic>

#include "kaon/ops/functions.h"

namespace kaon::autograd {

using namespace engine;

namespace {
std::atomic<void (*)(const std::string&)> g_tell_changed{nullptr};
}

void allow_changed(void (*tell)(const std::string& what)) { g_tell_changed.store(tell, std::memory_order_relaxed); }

void report_changed(std::string_view op, const std::string& what, const SavedArray& saved,
                    const std::source_location& recorded) {
  std::string text =
      fmt::format("[backward] {} of {}, {} {}", what, op, name_of(saved.array.dtype()), saved.array.shape().str());
  const auto is_known = [](const std::source_location& site) { return site.line() != 0; };  // as from C++
  if (is_known(recorded)) text += fmt::format(", recorded at {},", describe(recorded));
  text += " was changed in place";
  const std::source_location changed = saved.array.node().buffer->last_write();
  if (is_known(changed)) text += " at " + describe(changed);
  const auto tell = g_tell_changed.load(std::memory_order_relaxed);
  if (tell && !is_recording()) return tell(text);
  throw StateError(text +
                   ": the gradient needs the values of the recorded call; call backward() first, or change a copy");
}

NDArray filled_like(const NDArray& array, double value) {
  constexpr int64_t small = 65536;  // elements; costs less than pushing an operation and waiting for it
  if (array.size() > small || array.device().type != DeviceType::cpu) {
    return nd.full(array.shape(), value, {.dtype = array.dtype(), .device = array.device()});
  }
  std::vector<float> values(size_t(array.size()), float(value));
  return NDArray::from(values.data(), values.size(), array.shape(), array.dtype(), array.device());
}

void detail::refuse_in_trace(const char* what) {
  if (!thread_context().tracing) return;
  throw TraceError(
      fmt::format("[{}] has no effect on a program that is being traced, which runs in one mode: use x.detach() where "
                  "no gradient is to "
                  "flow, and choose the mode where the net is called",
                  what));
}

}  // namespace kaon::autograd
