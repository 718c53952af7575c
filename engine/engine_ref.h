// EngineRef: which engine an array belongs to. An array may outlive its engine.
#pragma once

#include <atomic>
#include <cstdint>

#include "kaon/engine/run_context.h"

namespace kaon {

class Engine;

namespace detail {
// Where an engine is found. Places are never freed: an engine that ends leaves its place to a later one, which has
// another number.
struct EnginePlace {
  std::atomic<Engine*> engine{nullptr};
  std::atomic<uint32_t> number{0};  // of the engine that is here now
};
}  // namespace detail

// A reference costs two loads and a comparison; nothing is counted. What belongs to an engine that has ended belongs to
// Engine::ended() from then on. Ending an engine while another thread uses its arrays is a data race of the program.
// Thread safety: immutable: any thread.
class EngineRef {
 public:
  constexpr EngineRef() noexcept = default;  // to none
  EngineRef(detail::EnginePlace& place, uint32_t number) noexcept : place_(&place), number_(number) {}
  explicit operator bool() const noexcept { return place_ != nullptr; }
  Engine& get() const {
    // relaxed: the program orders an engine's end behind the last use of its arrays, or before it
    if (place_->number.load(std::memory_order_relaxed) != number_) [[unlikely]]
      return ended();
    return *place_->engine.load(std::memory_order_relaxed);
  }
  Engine& operator*() const { return get(); }
  Engine* operator->() const { return &get(); }
  // Unless it has ended; it does not end meanwhile, and `f` makes and ends no engine.
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
