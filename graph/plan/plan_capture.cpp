#include "kaon/graph/plan/plan_capture.h"

#include <algorithm>

#include "kaon/engine/buffer/device_launch.h"

namespace kaon::graph {
namespace {

constexpr int runs_before = 2;          // that are launched step by step
constexpr size_t settled = 16;          // launches after which an array that moves has been moved for good
constexpr size_t captures_at_once = 8;  // further captures must pay: one for this many launches

struct Block {
  void* memory;
  size_t bytes;
  bool in_use = true;
};

// The RunContext of kernels that are captured.
class CaptureContext final : public RunContext {
 public:
  CaptureContext(DeviceLaunch& launch, Stream& stream, std::vector<Block>& blocks)
      : launch_(launch), stream_(stream), blocks_(blocks) {}
  void parallel_for(int64_t n, int64_t grain, FunctionRef<void(int64_t, int64_t)> body) override {
    launch_.parallel_for(n, grain, body);
  }
  // Steps follow each other, so they share it.
  void* workspace(size_t bytes) override {
    const auto found =
        std::find_if(blocks_.begin(), blocks_.end(), [&](const Block& b) { return !b.in_use && b.bytes >= bytes; });
    if (found != blocks_.end()) {
      found->in_use = true;
      return found->memory;
    }
    blocks_.reserve(blocks_.size() + 1);
    blocks_.push_back({launch_.gpu().memory.allocate(bytes, launch_.stream_number()), bytes});
    return blocks_.back().memory;
  }
  void free_workspace() noexcept override {
    for (Block& b : blocks_) b.in_use = false;
  }
  Stream* stream() override { return &stream_; }

 private:
  DeviceLaunch& launch_;
  Stream& stream_;
  std::vector<Block>& blocks_;
};

}  // namespace

struct PlanCapture::Graph {
  explicit Graph(DeviceLaunch& launch) : gpu(launch.gpu()), stream(launch.stream_number()) {}
  ~Graph() {
    work = nullptr;
    const StreamPoint point = Gpu::order().launched(stream);
    for (const std::vector<Block>* blocks : {&slots, &workspace}) {
      for (const Block& b : *blocks) gpu.memory.free(b.memory, b.bytes, std::span(&point, 1));
    }
  }
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;

  Gpu& gpu;
  const uint32_t stream;  // on which it is launched
  std::vector<Block> slots, workspace;
  std::vector<void*> addresses;  // by array: its address in the graph
  std::unique_ptr<CapturedWork> work;
};

PlanCapture::PlanCapture() = default;
PlanCapture::~PlanCapture() = default;
PlanCapture::PlanCapture(PlanCapture&&) noexcept = default;

bool PlanCapture::note(const void* arena, std::span<const CallArray> arrays) {
  bool differs = arena != arena_;
  arena_ = arena;
  const bool is_first = addresses_.empty();
  addresses_.resize(arrays.size());
  moves_.resize(arrays.size());
  for (size_t i = 0; i < arrays.size(); ++i) {
    if (moves_[i] || addresses_[i] == arrays[i].data || arrays[i].bytes == 0) continue;
    addresses_[i] = arrays[i].data;
    differs = true;
    moves_[i] = !is_first && (!graph_ || since_capture_ < settled);
  }
  return differs;
}

bool PlanCapture::capture(DeviceLaunch& launch, std::span<const CallArray> arrays, size_t worth, Work work) {
  if (captures_ >= captures_at_once + launches_ / captures_at_once) return false;
  graph_ = nullptr;
  size_t copied = 0;
  for (size_t i = 0; i < arrays.size(); ++i) {
    if (!moves_[i]) continue;
    // an array that is updated in place may also be read through another handle
    if (arrays[i].is_read && arrays[i].is_written) return false;
    copied += arrays[i].bytes;
  }
  if (copied > worth) return false;
  auto made = std::make_unique<Graph>(launch);
  for (size_t i = 0; i < arrays.size(); ++i) {
    made->addresses.push_back(arrays[i].data);
    if (!moves_[i]) continue;
    made->slots.reserve(made->slots.size() + 1);
    made->slots.push_back({launch.gpu().memory.allocate(arrays[i].bytes, launch.stream_number()), arrays[i].bytes});
    made->addresses.back() = made->slots.back().memory;
  }
  made->work = launch.gpu().driver.capture([&](Stream& stream) {
    CaptureContext context(launch, stream, made->workspace);
    work(context, made->addresses);
  });
  graph_ = std::move(made);
  ++captures_;
  since_capture_ = 0;
  return true;
}

bool PlanCapture::launch(DeviceLaunch& launch, const void* arena, std::span<const CallArray> arrays, size_t worth,
                         Work work) {
  if (is_refused_) return false;
  const bool differs = note(arena, arrays);
  if (!graph_ && ++runs_ <= runs_before) return false;
  if (!graph_ || differs) {
    try {
      if (!capture(launch, arrays, worth, work)) is_refused_ = true;
    } catch (...) {  // step by step it works, or says why it does not
      is_refused_ = true;
    }
    if (is_refused_) return graph_ = nullptr, false;
  }
  const auto copy = [&](void* to, const void* from, size_t bytes) {
    launch.gpu().driver.copy(to, from, bytes, *launch.stream());
  };
  for (size_t i = 0; i < arrays.size(); ++i) {
    if (moves_[i] && arrays[i].is_read) copy(graph_->addresses[i], arrays[i].data, arrays[i].bytes);
  }
  graph_->work->launch(*launch.stream());
  for (size_t i = 0; i < arrays.size(); ++i) {
    if (moves_[i] && arrays[i].is_written) copy(arrays[i].data, graph_->addresses[i], arrays[i].bytes);
  }
  ++launches_;
  ++since_capture_;
  return true;
}

}  // namespace kaon::graph
