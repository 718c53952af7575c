// RunContext: the engine's services for an operator's body while it runs. A light header.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "kaon/engine/api.h"

namespace KAON_API kaon {

namespace engine {
class Stream;

// A borrowed callable: two words, no allocation. The callable must outlive the call.
template <class Signature>
class FunctionRef;
template <class R, class... Args>
class FunctionRef<R(Args...)> {
 public:
  template <class F, class = std::enable_if_t<!std::is_same_v<std::remove_cvref_t<F>, FunctionRef>>>
  FunctionRef(F&& f) noexcept
      : object_(const_cast<void*>(static_cast<const void*>(&f))), call_([](void* o, Args... args) -> R {
          return (*static_cast<std::remove_reference_t<F>*>(o))(static_cast<Args>(args)...);
        }) {}
  R operator()(Args... args) const { return call_(object_, static_cast<Args>(args)...); }

 private:
  void* object_;
  R (*call_)(void*, Args...);
};
}  // namespace engine

// Thread safety: used by the running op only (parallel_for bodies run on several threads).
class RunContext {
 public:
  virtual ~RunContext() = default;

  // Calls body(begin, end) for consecutive pieces of [0, n), each of `grain` items (the last may be
  // shorter), in any order, on this thread and on idle workers. Piece borders depend on n and grain
  // alone: a kernel that combines partial results in piece order gives the same bits on any number of
  // threads. The first exception thrown by a piece is rethrown here. Returns when all pieces are done.
  virtual void parallel_for(int64_t n, int64_t grain, engine::FunctionRef<void(int64_t, int64_t)> body) = 0;

  // Scratch memory, 64-byte aligned, valid until the op ends or free_workspace(). May throw MemoryError.
  virtual void* workspace(size_t bytes) = 0;
  // Frees everything that workspace() has returned so far: for operations that consist of many.
  virtual void free_workspace() noexcept {}

  // The device queue that the op runs on; nullptr on the CPU.
  virtual engine::Stream* stream() { return nullptr; }

  // A transactional op sets this while the arrays that it updates in place are unchanged or complete: if it throws
  // then, they do not fail.
  bool updates_are_whole = false;
};

}  // namespace kaon
