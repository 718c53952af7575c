// Stream: a queue of work on a device, as the device's driver has it.
#pragma once

#include "kaon/engine/intrusive_ptr.h"

namespace kaon {

// A place in a stream's work. Thread safety: any thread.
class StreamEvent : public RefCounted<StreamEvent> {
 public:
  virtual ~StreamEvent() = default;
  virtual bool is_done() = 0;  // has all work before it run? Throws DeviceError when the device has failed
  virtual void wait() = 0;     // blocks until it is done; throws the same
  virtual double seconds_since(StreamEvent& earlier) = 0;  // both made by record_time(), and done
};

// What is launched on a stream runs in that order, after its launch. Thread safety: one thread at a time.
class Stream {
 public:
  virtual ~Stream() = default;
  virtual IntrusivePtr<StreamEvent> record() = 0;  // after what has been launched so far
  virtual IntrusivePtr<StreamEvent> record_time() = 0;  // the same, with the time
  virtual void wait(StreamEvent& event) = 0;       // what is launched later runs after it
  // Calls work(argument) on a thread of the driver when what has been launched so far has run or failed; what is
  // launched later runs after the call. `work` must not call the driver.
  virtual void call(void (*work)(void*) noexcept, void* argument) = 0;
  virtual void* native() = 0;  // the driver's handle: a cudaStream_t
};

}  // namespace kaon
