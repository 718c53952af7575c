#include "kaon/ops/operator/copy_to.h"

#include <algorithm>
#include <cstring>

#include "kaon/engine/buffer/device_launch.h"
#include "kaon/engine/buffer/gpu_memory.h"
#include "kaon/engine/operation.h"
#include "kaon/ops/array/same_engine.h"
#include "kaon/ops/ndarray.h"
#include "kaon/ops/op_def.h"

namespace kaon::ops {

namespace {

// Unpinned host memory is copied to a GPU in pieces of this size: while the GPU copies one, the next one is copied to
// pinned memory.
constexpr size_t piece_bytes = size_t(4) << 20;
constexpr size_t most_pieces = 4;  // in flight at a time

void copy_to_gpu(const ArrayNode& from, const ArrayNode& to, const OpLabel& label) {
  Gpu& gpu = GpuMemory::of(*to.buffer).gpu;
  const size_t bytes = from.bytes();
  const char* in = static_cast<const char*>(from.data());
  DeviceLaunch launch(gpu, Lane::to_gpu, label);
  launch.use(*to.buffer, true);
  char* out = static_cast<char*>(to.data());
  std::vector<StreamPoint> under_way;
  for (size_t at = 0; at < bytes; at += piece_bytes) {
    const size_t n = std::min(piece_bytes, bytes - at);
    if (under_way.size() >= most_pieces) gpu.wait(under_way[under_way.size() - most_pieces]);
    void* pinned = gpu.pinned.take(n);
    if (pinned) std::memcpy(pinned, in + at, n);
    gpu.driver.copy(out + at, pinned ? pinned : in + at, n, *launch.stream());
    under_way.push_back(launch.launched_so_far());
    if (pinned) gpu.pinned.give(pinned, n, under_way.back());
  }
}

struct ToHost {
  IntrusivePtr<ArrayNode> from, to;
};

// Launches the copy; the operation ends when the values have arrived, without holding a worker.
void begin_copy_to_host(OpNode& op, RunContext&) {
  const ToHost& c = OpBody<ToHost>::get(op);
  Engine& engine = *c.to->buffer->engine;
  try {
    Gpu& gpu = GpuMemory::of(*c.from->buffer).gpu;
    const size_t bytes = c.from->bytes();
    void* out = c.to->data();
    void* pinned = nullptr;
    StreamPoint copied;
    {
      DeviceLaunch launch(gpu, Lane::to_host, op.label);
      pinned = gpu.pinned.take(bytes);
      launch.use(*c.from->buffer, false);
      if (bytes > 0) gpu.driver.copy(pinned ? pinned : out, c.from->data(), bytes, *launch.stream());
      copied = launch.launched_so_far();
    }
    auto end = [&engine, &op, &gpu, out, pinned, bytes](std::exception_ptr failure) {
      if (!failure && pinned && bytes > 0) std::memcpy(out, pinned, bytes);
      if (pinned) gpu.pinned.give(pinned, bytes);
      engine.complete(op, failure);
    };
    if (engine.has_workers()) {
      gpu.when_done(copied, [&engine, end](std::exception_ptr failure) { engine.post_io([=] { end(failure); }); });
      return;
    }
    std::exception_ptr failure;
    try {
      gpu.wait(copied);
    } catch (...) {
      failure = std::current_exception();
    }
    end(failure);
  } catch (...) {
    engine.complete(op, std::current_exception());
  }
}

// Between two devices of the host: cpu(0) and cpu(1).
void copy_on_host(const ArrayNode& from, const ArrayNode& to) {
  if (const size_t bytes = from.bytes()) std::memcpy(to.data(), from.data(), bytes);
}

constexpr OpType copy_to_host_type{.run = begin_copy_to_host, .destroy = OpBody<ToHost>::destroy, .ends_later = true};

// Within a GPU on its compute stream; between two GPUs on a copy stream of the destination.
void copy_between_gpus(const ArrayNode& from, const ArrayNode& to, const OpLabel& label) {
  Gpu& gpu = GpuMemory::of(*to.buffer).gpu;
  DeviceLaunch launch(gpu, from.buffer->device == to.buffer->device ? Lane::compute : Lane::to_gpu, label);
  launch.use(*from.buffer, false);
  launch.use(*to.buffer, true);
  void* out = to.data();
  if (const size_t bytes = from.bytes()) gpu.driver.copy(out, from.data(), bytes, *launch.stream());
}

}  // namespace

void push_copy_between(ArrayNode& from, ArrayNode& to, const OpLabel& label) {
  check_same_engine(*from.buffer, *to.buffer, label.name);
  const IntrusivePtr<ArrayNode> source(&from), target(&to);
  Engine& engine = *to.buffer->engine;
  const Access accesses[] = {read(from.buffer->var),
                             to.covers_buffer() ? write(to.buffer->var) : update(to.buffer->var)};
  const PushOptions options{.label = label};
  to.buffer->note_write(label.site);
  if (!from.buffer->is_on_gpu() && !to.buffer->is_on_gpu()) {
    engine.push(
        accesses, [=](RunContext&) { copy_on_host(*source, *target); }, options);
  } else if (!to.buffer->is_on_gpu()) {
    engine.push_as(copy_to_host_type, accesses, ToHost{source, target}, options);
  } else if (from.buffer->is_on_gpu()) {
    engine.push(
        accesses, [=](RunContext&) { copy_between_gpus(*source, *target, label); }, options);
  } else {
    engine.push(
        accesses, [=](RunContext&) { copy_to_gpu(*source, *target, label); }, options);
  }
}

void push_copies(std::span<const NDArray> from, std::span<const NDArray> to, const OpLabel& label) {
  struct Copy {
    IntrusivePtr<ArrayNode> from, to;
  };
  std::vector<Copy> copies;
  std::vector<Access> accesses;
  for (size_t i = 0; i < to.size(); ++i) {
    ArrayNode &source = from[i].node(), &target = to[i].node();
    check_same_engine(*to[0].node().buffer, *target.buffer, label.name);
    check_same_engine(*source.buffer, *target.buffer, label.name);
    copies.push_back({IntrusivePtr<ArrayNode>(&source), IntrusivePtr<ArrayNode>(&target)});
    accesses.push_back(read(source.buffer->var));
    accesses.push_back(target.covers_buffer() ? write(target.buffer->var) : update(target.buffer->var));
  }
  if (copies.empty()) return;
  for (const Copy& c : copies) c.to->buffer->note_write(label.site);
  to[0].engine().push(accesses,
                      [copies = std::move(copies), label](RunContext&) {
                        for (const Copy& c : copies) {
                          if (c.to->buffer->is_on_gpu()) {
                            copy_between_gpus(*c.from, *c.to, label);
                          } else {
                            copy_on_host(*c.from, *c.to);
                          }
                        }
                      },
                      {.label = label});
}

NDArray copy_to(const NDArray& array, Device device, const std::source_location& site) {
  ArrayNode& from = array.node();
  NDArray there(ArrayNode::with_memory(from, device, array.engine()));
  push_copy_between(from, there.node(), {"copy_to", site, thread_context().block_path});
  return there;
}

}  // namespace kaon::ops

namespace kaon {

using namespace ops;

constinit const OpDef op::CopyTo::def = make_op_def<op::CopyTo>();

void op::CopyTo::grad(GradContext& g) const { g.set(0, g.head().as_in_context(g.input_like(0).device())); }

// Runs in plans only, whose arrays are all on one device.
void run_cpu(const op::CopyTo&, KernelContext& c) {
  if (const size_t n = c.out().bytes()) std::memcpy(c.out().data, c.in(0).data, n);
}

}  // namespace kaon
