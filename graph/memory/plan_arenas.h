// PlanArenas: the memory in which the plans of one net take turns.
#pragma once

#include <thread>
#include <vector>

#include "kaon/engine/base/spin_lock.h"
#include "kaon/engine/buffer/buffer.h"

namespace kaon::graph {

// Two arenas let one run be queued while another executes; callers on other threads get their own, as many as the
// engine has threads. Beyond that, runs on one arena follow one another, by its var. An arena has the size of the
// largest plan that has used it. Thread safety: any thread.
class PlanArenas : public RefCounted<PlanArenas> {
 public:
  // The number of an arena for a run on this engine and device, which no other run gets until end_lease().
  size_t lease(Engine& engine, Device device, size_t bytes);
  void end_lease(size_t number);
  // Frees the memory of an arena that is neither leased nor used by an operation.
  void give_back_unused(size_t number);
  IntrusivePtr<Buffer> buffer(size_t number) const;
  size_t count() const;

 private:
  struct Arena {
    IntrusivePtr<Buffer> buffer;
    std::thread::id caller{};  // the last one
    bool leased = false;
  };
  Arena* find(Engine& engine, Device device);

  mutable SpinLock lock_;
  std::vector<Arena> arenas_;
  size_t next_ = 0;
};

}  // namespace kaon::graph
