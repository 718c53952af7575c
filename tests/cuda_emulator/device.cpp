#include "device.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "memory.h"

namespace kaon_emulator {
namespace {

uint64_t from_environment(const char* name, uint64_t otherwise) {
  const char* text = std::getenv(name);
  return text ? std::strtoull(text, nullptr, 10) : otherwise;
}

}  // namespace

// Never destroyed: the devices' threads use it until the process ends.
Emulator& Emulator::get() {
  static auto* emulator = new Emulator;
  return *emulator;
}

Emulator::Emulator() {
  const uint64_t count = from_environment("KAON_CUDA_EMULATOR_DEVICES", 1);
  const uint64_t seed = from_environment("KAON_CUDA_EMULATOR_SEED", 1);
  for (uint64_t i = 0; i < count; ++i) devices_.push_back(std::make_unique<Device>(int(i), seed * 1000 + i));
}

void Emulator::complain(const std::string& text) {
  message = text;
  std::fprintf(stderr, "CUDA emulator: %s\n", text.c_str());
}

Device::Device(int index, uint64_t seed) : index(index), random_(seed), kernel_random_(~seed) {
  default_stream = add_stream();
}

std::shared_ptr<CUstream_st> Device::add_stream() {
  auto stream = std::make_shared<CUstream_st>();
  stream->device = this;
  streams_.push_back(stream);
  return stream;
}

void Device::remove_stream(cudaStream_t stream) {
  stream->is_destroyed = true;
  if (stream->done == stream->launched) std::erase_if(streams_, [&](auto& s) { return s.get() == stream; });
}

std::shared_ptr<CUstream_st> Device::find(cudaStream_t stream) const {
  for (const auto& s : streams_) {
    if (s.get() == stream && !s->is_destroyed) return s;
  }
  return nullptr;
}

// Held back now and then, so that other streams overtake it although the device is faster than the program.
void Device::push(CUstream_st& stream, Command command) {
  if (!is_started_) {
    is_started_ = true;
    std::thread([this] { run(); }).detach();
  }
  if (stream.commands.empty() && random_() % 8 == 0) {
    stream.held_until = Clock::now() + std::chrono::microseconds(random_() % 100);
  }
  stream.commands.push_back(std::move(command));
  ++stream.launched;
  Emulator::get().changed.notify_all();
}

void Device::wait(std::unique_lock<std::mutex>& lock, const std::shared_ptr<CUstream_st>& stream) {
  Emulator::get().changed.wait(lock, [&, until = stream->launched] { return stream->done >= until; });
}

void Device::wait(std::unique_lock<std::mutex>& lock) {
  std::vector<std::pair<std::shared_ptr<CUstream_st>, uint64_t>> until;
  for (const auto& s : streams_) until.emplace_back(s, s->launched);
  Emulator::get().changed.wait(lock, [&] {
    return std::all_of(until.begin(), until.end(), [](const auto& u) { return u.first->done >= u.second; });
  });
}

void Device::fail(cudaError_t with) {
  if (error == cudaSuccess) error = with;
}

CUstream_st* Device::pick(Clock::time_point now, Clock::time_point& next) {
  std::vector<CUstream_st*> able;
  for (const auto& s : streams_) {
    if (s->commands.empty()) continue;
    const Command& head = s->commands.front();
    if (error == cudaSuccess && head.after && !head.after->is_reached) continue;
    if (s->held_until > now) {
      next = std::min(next, s->held_until);
    } else {
      able.push_back(s.get());
    }
  }
  return able.empty() ? nullptr : able[random_() % able.size()];
}

void Device::run() {
  Emulator& emulator = Emulator::get();
  const DeviceAccess access;
  std::unique_lock lock(emulator.mutex);
  for (;;) {
    Clock::time_point next = Clock::time_point::max();
    CUstream_st* stream = pick(Clock::now(), next);
    if (!stream) {
      if (next == Clock::time_point::max()) {
        emulator.changed.wait(lock);
      } else {
        emulator.changed.wait_until(lock, next);
      }
      continue;
    }
    Command command = std::move(stream->commands.front());
    stream->commands.pop_front();
    if (std::exchange(fails_next, false)) fail(cudaErrorIllegalAddress);
    const cudaError_t status = error;
    lock.unlock();
    if (status == cudaSuccess || command.is_certain) command.work(status);
    command = {};
    lock.lock();
    ++stream->done;
    if (stream->is_destroyed) remove_stream(stream);
    emulator.changed.notify_all();
  }
}

void Device::run_kernel(dim3 grid, dim3 block, const std::function<void()>& body) {
  const std::string complaint = kernels_.run(grid, block, body, kernel_random_);
  std::lock_guard lock(Emulator::get().mutex);
  ++Emulator::get().launches;
  if (!complaint.empty()) {
    Emulator::get().complain(complaint);
    fail(cudaErrorLaunchFailure);
  }
  if (!Memory::get().check_red_zones(index)) fail(cudaErrorIllegalAddress);
}

// In any order that its edges allow.
void Device::run_graph(const Nodes& nodes) {
  std::vector<size_t> missing(nodes.size()), ready;
  std::vector<std::vector<size_t>> before(nodes.size());
  for (size_t i = 0; i < nodes.size(); ++i) {
    missing[i] = nodes[i].after.size();
    if (missing[i] == 0) ready.push_back(i);
    for (size_t a : nodes[i].after) before[a].push_back(i);
  }
  while (!ready.empty()) {
    std::swap(ready[kernel_random_() % ready.size()], ready.back());
    const size_t node = ready.back();
    ready.pop_back();
    {
      std::lock_guard lock(Emulator::get().mutex);
      if (error != cudaSuccess) return;
    }
    nodes[node].work();
    for (size_t b : before[node]) {
      if (--missing[b] == 0) ready.push_back(b);
    }
  }
}

Caller& caller() {
  thread_local Caller caller;
  return caller;
}

cudaError_t failed(cudaError_t error) {
  if (error != cudaSuccess) caller().last_error = error;
  return error;
}

Device* current_device(cudaError_t& error) {
  Device* device = Emulator::get().device(caller().device);
  error = caller().is_in_callback ? cudaErrorNotPermitted : device ? device->error : cudaErrorNoDevice;
  return error == cudaSuccess ? device : nullptr;
}

std::shared_ptr<CUstream_st> find_stream(cudaStream_t handle, cudaError_t& error) {
  Device* current = current_device(error);
  if (!handle) return current ? current->default_stream : nullptr;
  if (caller().is_in_callback) return nullptr;
  for (int i = 0; i < Emulator::get().device_count(); ++i) {
    if (auto stream = Emulator::get().device(i)->find(handle)) {
      error = stream->device->error;
      return error == cudaSuccess ? stream : nullptr;
    }
  }
  error = cudaErrorInvalidResourceHandle;
  return nullptr;
}

cudaError_t forbid_capture() {
  const cudaStreamCaptureMode mode = caller().captures;
  if (mode == cudaStreamCaptureModeRelaxed) return cudaSuccess;
  cudaError_t error = cudaSuccess;
  for (const auto& capture : Emulator::get().captures) {
    const bool is_mine = capture->thread == std::this_thread::get_id();
    const bool is_global = capture->mode == cudaStreamCaptureModeGlobal && mode == cudaStreamCaptureModeGlobal;
    if (is_global || (is_mine && capture->mode != cudaStreamCaptureModeRelaxed)) {
      capture->is_invalid = true;
      error = cudaErrorStreamCaptureUnsupported;
    }
  }
  return error;
}

cudaError_t enqueue(const std::shared_ptr<CUstream_st>& stream, std::function<void()> work) {
  if (Capture* capture = stream->capture.get()) {
    if (capture->is_invalid) return cudaErrorStreamCaptureInvalidated;
    capture->nodes.push_back({std::move(work), std::exchange(stream->tails, {capture->nodes.size()})});
    return cudaSuccess;
  }
  stream->device->push(*stream, {.work = [work = std::move(work)](cudaError_t) { work(); }, .after = nullptr});
  return cudaSuccess;
}

}  // namespace kaon_emulator

using namespace kaon_emulator;

void kaon_emulator_fail(int device) {
  std::lock_guard lock(Emulator::get().mutex);
  if (Device* d = Emulator::get().device(device)) d->fails_next = true;
}
void kaon_emulator_set_memory(size_t bytes) {
  std::lock_guard lock(Emulator::get().mutex);
  Emulator::get().memory_limit = bytes;
}
unsigned long long kaon_emulator_launches() {
  std::lock_guard lock(Emulator::get().mutex);
  return Emulator::get().launches;
}
unsigned long long kaon_emulator_graph_launches() {
  std::lock_guard lock(Emulator::get().mutex);
  return Emulator::get().graph_launches;
}
unsigned long long kaon_emulator_kernel_loads() {
  std::lock_guard lock(Emulator::get().mutex);
  return Emulator::get().kernel_loads;
}
const char* kaon_emulator_message() {
  thread_local std::string message;
  std::lock_guard lock(Emulator::get().mutex);
  message = Emulator::get().message;
  return message.c_str();
}
