// PlanCapture: what one half of a plan launches on a GPU, captured, so that it is launched as a whole.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "kaon/engine/run_context.h"

namespace kaon {

class DeviceLaunch;

// An array that comes with the call, as it lies this time.
struct CallArray {
  void* data;
  size_t bytes;
  bool is_read;     // what it held before
  bool is_written;  // all of it
};

// How it works. A captured graph holds the addresses of all arrays. The third run of a half is captured: until then
// kernels are compiled, algorithms chosen, memory cached, and it is seen which arrays stay where they are, as parameters
// do. Those are used in place. The others, as inputs and results, get a slot, memory of the graph: what is read is copied
// into it before each launch, what is written out of it after. When an array that stayed has moved all the same, the half
// is captured again. Work memory belongs to the graph. Where copies cost more than launches, or something cannot be
// captured, steps are launched one by one. Thread safety: one thread at a time.
class PlanCapture {
 public:
  PlanCapture();
  ~PlanCapture();
  PlanCapture(PlanCapture&&) noexcept;

  // Launches what work(context, addresses) launches with `arrays` at these addresses. False: nothing is launched, and it
  // is the caller's to run. `work` may have been called for a capture that failed; it must do nothing but launch.
  // `arena`: whose address it uses as well. `worth`: bytes of slots that may be copied to and fro.
  using Work = FunctionRef<void(RunContext&, std::span<void* const>)>;
  bool launch(DeviceLaunch& launch, const void* arena, std::span<const CallArray> arrays, size_t worth, Work work);

 private:
  struct Graph;
  bool note(const void* arena, std::span<const CallArray> arrays);  // false: all that stays where it was
  bool capture(DeviceLaunch& launch, std::span<const CallArray> arrays, size_t worth, Work work);

  std::unique_ptr<Graph> graph_;
  const void* arena_ = nullptr;      // of the last run, as the next
  std::vector<void*> addresses_;
  std::vector<bool> moves_;          // by array: does it get a slot?
  int runs_ = 0;                     // before the first capture
  size_t captures_ = 0, launches_ = 0, since_capture_ = 0;
  bool is_refused_ = false;
};

}  // namespace kaon
