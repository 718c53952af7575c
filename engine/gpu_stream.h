// CallerStream: orders a cudaStream_t of the program with Kaon's operations.
#pragma once

#include <memory>
#include <source_location>

#include "kaon/engine/api.h"
#include "kaon/engine/device.h"

namespace KAON_API kaon {

namespace engine {
struct Buffer;
}

// Events order the program's launches on its stream with Kaon's; the host does not wait for the device. One for each
// stream at a time; the stream outlives it.
//
//   CallerStream mine(gpu(0), stream);
//   void* in = mine.begin(*x.node().buffer, false);  // x has been launched; the stream waits for it to be written
//   void* out = mine.begin(*y.node().buffer, true);
//   my_kernel<<<..., stream>>>(in, out);
//   mine.end();                                     // operations on x and y pushed from now on run after my_kernel
//
// No other operation may use the arrays between begin() and end(). Thread safety: one thread at a time.
class CallerStream {
 public:
  CallerStream(Device device, void* stream);  // throws DeviceError
  ~CallerStream();
  CallerStream(const CallerStream&) = delete;
  CallerStream& operator=(const CallerStream&) = delete;

  // The address of the memory. Blocks until the operations pushed on it have been launched. Throws the failure of the
  // operation that was to write it; ValueError for memory of another device. A write counts as a change, at `site`, of
  // what a recorded computation has read.
  void* begin(engine::Buffer& buffer, bool writes, const std::source_location& site = std::source_location::current());
  void end();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace kaon
