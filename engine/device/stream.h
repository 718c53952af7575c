// Stream: a queue of work on a device.
#pragma once

#include "kaon/engine/intrusive_ptr.h"

namespace kaon::engine {

// A point in a stream's work. Thread safety: any thread.
class StreamEvent : public RefCounted<StreamEvent> {
 public:
  virtual ~StreamEvent() = default;
  virtual bool is_done() = 0;  // whether all work before it has run; throws DeviceError when the device has failed
  virtual void wait() = 0;     // blocks until it is done; throws the same
  virtual double seconds_since(StreamEvent& earlier) = 0;  // both made by record_time(), and done
};

// Launched work runs in the order of its launches. Thread safety: one thread at a time.
class Stream {
 public:
  virtual ~Stream() = default;
  virtual IntrusivePtr<StreamEvent> record() = 0;       // the point after everything launched so far
  virtual IntrusivePtr<StreamEvent> record_time() = 0;  // the same, with the time
  virtual void wait(StreamEvent& event) = 0;            // later launches run after it; does not block
  // Calls work(argument) on a thread of the driver when everything launched so far has run or failed; later launches
  // run after the call. `work` must not call the driver.
  virtual void call(void (*work)(void*) noexcept, void* argument) = 0;
  virtual void* native() = 0;  // the driver's handle: a cudaStream_t
};

}  // namespace kaon::engine
