// EngineRef: a reference to the engine of an array, which may outlive it.
#pragma once

#include <atomic>
#include <cstdint>

#include "kaon/engine/run_context.h"

namespace kaon {

class Engine;

namespace detail {
// Holds the address of an engine. Places are never freed: an engine that ends leaves its place to a later one with
// another number.
struct EnginePlace {
  std::atomic<Engine*> engine{nullptr};
  std::atomic<uint32_t> number{0};  // of the engine that is here now
};
}  // namespace detail

// A dereference costs two loads and a comparison; nothing is counted. Once the engine has ended, the reference is to
// Engine::ended(). Ending an engine while another thread uses its arrays is a data race of the program.
// Thread safety: immutable: any thread.
class EngineRef {
 public:
  constexpr EngineRef() noexcept = default;  // to none
  EngineRef(detail::EnginePlace& place, uint32_t number) noexcept : place_(&place), number_(number) {}
  explicit operator bool() const noexcept { return place_ != nullptr; }
  Engine& get() const {
    // relaxed: the program orders an engine's end and the uses of its arrays
    if (place_->number.load(std::memory_order_relaxed) != number_) [[unlikely]]
      return ended();
    return *place_->engine.load(std::memory_order_relaxed);
  }
  Engine& operator*() const { return get(); }
  Engine* operator->() const { return &get(); }
  // Calls `f` unless the engine has ended, which cannot happen during the call. `f` makes and ends no engine.
  void use_if_alive(FunctionRef<void(Engine&)> f) const;
  friend bool operator==(const EngineRef& a, const EngineRef& b) noexcept {
    return a.place_ == b.place_ && a.number_ == b.number_;
  }

 private:
  static Engine& ended();

  detail::EnginePlace* place_ = nullptr;
  uint32_t number_ = 0;
};

}  // namespace kaon
