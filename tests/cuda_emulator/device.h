// The emulated devices: streams of commands, and for each device a thread that runs them in an order of chance, so that
// only what a stream has been told to wait for is certain. One mutex guards all of it: nothing here is hot.
#pragma once

#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "cuda_runtime_api.h"
#include "kernel.h"

namespace kaon_emulator {

using Clock = std::chrono::steady_clock;
class Device;
struct Capture;

// What an event has recorded: a place in a stream's work, or in what a stream captures.
struct Moment {
  bool is_reached = false;
  Clock::time_point at;
  std::shared_ptr<Capture> capture;
  std::vector<size_t> tails;  // of the capture
};

struct Command {
  std::function<void(cudaError_t)> work;  // called without the mutex
  std::shared_ptr<Moment> after;          // runs when this is reached
  bool is_certain = false;                // runs on a failed device as well, and is told so
};

// One operation of a graph.
struct Node {
  std::function<void()> work;
  std::vector<size_t> after;
};
using Nodes = std::vector<Node>;

// What several streams are capturing together.
struct Capture {
  cudaStreamCaptureMode mode;
  std::thread::id thread;
  cudaStream_t origin;
  std::vector<std::shared_ptr<CUstream_st>> streams;
  Nodes nodes;
  bool is_invalid = false;
};

class Emulator {
 public:
  static Emulator& get();
  Device* device(int index) { return index >= 0 && size_t(index) < devices_.size() ? devices_[index].get() : nullptr; }
  int device_count() const { return int(devices_.size()); }

  std::mutex mutex;
  std::condition_variable changed;  // a command has run or been added
  size_t memory_limit = size_t(8) << 30;
  unsigned long long launches = 0, graph_launches = 0, kernel_loads = 0;
  std::vector<std::shared_ptr<Capture>> captures;  // going on

  // Says on stderr what is wrong with the program, for kaon_emulator_message() as well.
  void complain(const std::string& text);
  std::string message;

 private:
  Emulator();
  std::vector<std::unique_ptr<Device>> devices_;
};

class Device {
 public:
  Device(int index, uint64_t seed);
  std::shared_ptr<CUstream_st> add_stream();
  void remove_stream(cudaStream_t stream);  // when its work has run
  std::shared_ptr<CUstream_st> find(cudaStream_t stream) const;
  void push(CUstream_st& stream, Command command);
  // What has been launched so far has run, on one stream or on all.
  void wait(std::unique_lock<std::mutex>& lock, const std::shared_ptr<CUstream_st>& stream);
  void wait(std::unique_lock<std::mutex>& lock);

  const int index;
  cudaError_t error = cudaSuccess;  // sticky
  bool fails_next = false;
  size_t allocated = 0;
  std::shared_ptr<CUstream_st> default_stream;

  void fail(cudaError_t with);

  // By the device's thread, without the mutex
  void run_kernel(dim3 grid, dim3 block, const std::function<void()>& body);
  void run_graph(const Nodes& nodes);

 private:
  void run();
  CUstream_st* pick(Clock::time_point now, Clock::time_point& next);
  std::mt19937_64 random_;
  std::vector<std::shared_ptr<CUstream_st>> streams_;
  bool is_started_ = false;
  KernelRunner kernels_;  // by the device's thread alone, as its numbers
  std::mt19937_64 kernel_random_;
};

// Who calls, and what must hold for that: every function of the interface begins with one of these.

// Of this thread: its device, its last error, whether it runs a callback.
struct Caller {
  int device = 0;
  cudaError_t last_error = cudaSuccess;
  bool is_in_callback = false;
  cudaStreamCaptureMode captures = cudaStreamCaptureModeGlobal;  // which of them forbid this thread what
};
Caller& caller();
cudaError_t failed(cudaError_t error);  // remembers it as the last; returns it
// The calling thread's device, where calls are allowed now; null: `error` is why not.
Device* current_device(cudaError_t& error);
// The stream behind a handle, its device being in order.
std::shared_ptr<CUstream_st> find_stream(cudaStream_t handle, cudaError_t& error);
// For calls that CUDA forbids while this thread, or in global mode any, captures, unless it has exchanged its mode:
// they spoil the capture.
cudaError_t forbid_capture();
// Launches on the stream, or adds to what it captures.
cudaError_t enqueue(const std::shared_ptr<CUstream_st>& stream, std::function<void()> work);

}  // namespace kaon_emulator

struct CUstream_st {
  kaon_emulator::Device* device;
  std::deque<kaon_emulator::Command> commands;
  uint64_t launched = 0, done = 0;
  kaon_emulator::Clock::time_point held_until;  // by chance
  bool is_destroyed = false;
  std::shared_ptr<kaon_emulator::Capture> capture;
  std::vector<size_t> tails;  // the nodes that the next one comes after
};
