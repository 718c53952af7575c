// The end of the program that has loaded the library: from then on none of its functions is called back.
#pragma once

#include <atomic>

namespace kaon::mxnet {

namespace detail {
inline std::atomic<bool> shut_down{false};
}
inline void note_shutdown() noexcept { detail::shut_down.store(true); }
inline bool may_call_back() noexcept { return !detail::shut_down.load(std::memory_order_relaxed); }

}  // namespace kaon::mxnet
