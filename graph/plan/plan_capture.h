// PlanCapture: the launches of one half of a plan on a GPU, captured as one graph.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "kaon/engine/run_context.h"

namespace kaon::engine {

class DeviceLaunch;

}  // namespace kaon::engine

namespace kaon::graph {

// An array of the call at its present address.
struct CallArray {
  void* data;
  size_t bytes;
  bool is_read;     // its earlier values are read
  bool is_written;  // all of it is written
};

// How it works. A captured graph contains the addresses of all arrays. The third run of a half is captured: by then
// kernels are compiled, algorithms chosen and memory cached, and it is known which arrays keep their address, as
// parameters do. Those are used in place. The others, such as inputs and results, get a slot, memory of the graph: read
// arrays are copied into their slots before each launch, written ones out of theirs after it. When an array that kept
// its address has moved after all, the half is captured again. Workspace belongs to the graph. When copies cost more
// than launches, or a launch cannot be captured, steps are launched one by one. Thread safety: one thread at a time.
class PlanCapture {
 public:
  PlanCapture();
  ~PlanCapture();
  PlanCapture(PlanCapture&&) noexcept;

  // Launches the work of work(context, addresses), with `arrays` at these addresses. False: nothing is launched, and
  // the caller must run it. `work` may have been called for a capture that failed; it must do nothing but launch.
  // `arena`: its address is used as well. `worth`: the bytes of slots that may be copied.
  using Work = FunctionRef<void(RunContext&, std::span<void* const>)>;
  bool launch(DeviceLaunch& launch, const void* arena, std::span<const CallArray> arrays, size_t worth, Work work);

 private:
  struct Graph;
  bool note(const void* arena, std::span<const CallArray> arrays);  // false: all that stays where it was
  bool capture(DeviceLaunch& launch, std::span<const CallArray> arrays, size_t worth, Work work);

  std::unique_ptr<Graph> graph_;
  const void* arena_ = nullptr;  // of the last run, as the next
  std::vector<void*> addresses_;
  std::vector<bool> moves_;  // by array: does it get a slot?
  int runs_ = 0;             // before the first capture
  size_t captures_ = 0, launches_ = 0, since_capture_ = 0;
  bool is_refused_ = false;
};

}  // namespace kaon::graph
