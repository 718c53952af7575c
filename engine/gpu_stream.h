// CallerStream: a cudaStream_t of the program's, in order with Kaon's operations.
#pragma once

#include "kaon/engine/buffer/gpu_memory.h"

namespace kaon {

// What the program launches on its stream is ordered with what Kaon launches by events, and nobody waits on the host
// for the device. One for each stream at a time; the stream outlives it.
//
//   CallerStream mine(gpu(0), stream);
//   void* in = mine.begin(*x.node().chunk, false);  // x has been launched; the stream waits for it to be written
//   void* out = mine.begin(*y.node().chunk, true);
//   my_kernel<<<..., stream>>>(in, out);
//   mine.end();                                     // operations on x and y that come now run after my_kernel
//
// The arrays must not be used by others between begin() and end(). Thread safety: one thread at a time.
class CallerStream {
 public:
  CallerStream(Device device, void* stream);  // throws DeviceError
  ~CallerStream();
  CallerStream(const CallerStream&) = delete;
  CallerStream& operator=(const CallerStream&) = delete;

  // The address of the memory. Blocks until the operations on it that were pushed have been launched. Throws the failure
  // of what should have written it; ValueError for memory of another device. A recorded computation that has read the
  // memory notices the write, which `site` names.
  void* begin(Chunk& chunk, bool writes, const std::source_location& site = std::source_location::current());
  void end();

 private:
  Gpu& gpu_;
  std::unique_ptr<Stream> stream_;
  uint32_t number_;
  struct Used {
    IntrusivePtr<Chunk> chunk;
    bool writes;
  };
  std::vector<Used> used_;
};

}  // namespace kaon
