// Graphs, which streams capture. A launch runs a graph's operations in any order that its edges allow.
#include <algorithm>

#include "device.h"

using namespace kaon_emulator;

struct CUgraph_st {
  std::shared_ptr<const Nodes> nodes;
};
struct CUgraphExec_st {
  std::shared_ptr<const Nodes> nodes;
  std::shared_ptr<Moment> last;  // launches of one graph do not overlap
};

cudaError_t cudaStreamBeginCapture(cudaStream_t handle, cudaStreamCaptureMode mode) {
  std::lock_guard lock(Emulator::get().mutex);
  cudaError_t error;
  const auto stream = find_stream(handle, error);
  if (!stream) return failed(error);
  if (!handle) return failed(cudaErrorStreamCaptureUnsupported);
  if (stream->capture) return failed(cudaErrorInvalidValue);
  stream->capture = std::make_shared<Capture>();
  *stream->capture = {
      .mode = mode, .thread = std::this_thread::get_id(), .origin = handle, .streams = {stream}, .nodes = {}};
  Emulator::get().captures.push_back(stream->capture);
  return cudaSuccess;
}

namespace {

// Whether the stream that began the capture has waited for all that the others have added.
bool is_joined(const Capture& capture, const std::vector<size_t>& tails) {
  std::vector<bool> has_successor(capture.nodes.size());
  for (const Node& node : capture.nodes) {
    for (size_t a : node.after) has_successor[a] = true;
  }
  for (size_t i = 0; i < has_successor.size(); ++i) {
    if (!has_successor[i] && std::find(tails.begin(), tails.end(), i) == tails.end()) return false;
  }
  return true;
}

}  // namespace

cudaError_t cudaStreamEndCapture(cudaStream_t handle, cudaGraph_t* graph) {
  std::lock_guard lock(Emulator::get().mutex);
  cudaError_t error;
  *graph = nullptr;
  const auto stream = find_stream(handle, error);
  if (!stream) return failed(error);
  const std::shared_ptr<Capture> capture = stream->capture;
  if (!capture) return failed(cudaErrorInvalidValue);
  if (capture->origin != handle) {
    capture->is_invalid = true;
    return failed(cudaErrorStreamCaptureUnmatched);
  }
  if (capture->mode != cudaStreamCaptureModeRelaxed && capture->thread != std::this_thread::get_id()) {
    return failed(cudaErrorStreamCaptureWrongThread);
  }
  const bool joined = is_joined(*capture, stream->tails);
  for (const auto& s : capture->streams) {
    s->capture = nullptr;
    s->tails.clear();
  }
  capture->streams.clear();
  std::erase(Emulator::get().captures, capture);
  if (capture->is_invalid) return failed(cudaErrorStreamCaptureInvalidated);
  if (!joined) return failed(cudaErrorStreamCaptureUnjoined);
  *graph = new CUgraph_st{std::make_shared<const Nodes>(std::move(capture->nodes))};
  return cudaSuccess;
}

cudaError_t cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode* mode) {
  std::swap(caller().captures, *mode);
  return cudaSuccess;
}

cudaError_t cudaStreamIsCapturing(cudaStream_t handle, cudaStreamCaptureStatus* status) {
  std::lock_guard lock(Emulator::get().mutex);
  cudaError_t error;
  const auto stream = find_stream(handle, error);
  if (!stream) return failed(error);
  *status = !stream->capture              ? cudaStreamCaptureStatusNone
            : stream->capture->is_invalid ? cudaStreamCaptureStatusInvalidated
                                          : cudaStreamCaptureStatusActive;
  return cudaSuccess;
}

cudaError_t cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t* nodes, size_t* count) {
  if (nodes) return failed(cudaErrorNotSupported);
  *count = graph->nodes->size();
  return cudaSuccess;
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t* exec, cudaGraph_t graph, unsigned long long) {
  std::lock_guard lock(Emulator::get().mutex);
  cudaError_t error;
  if (!current_device(error)) return failed(error);
  *exec = new CUgraphExec_st{graph->nodes, nullptr};
  return cudaSuccess;
}

cudaError_t cudaGraphExecUpdate(cudaGraphExec_t exec, cudaGraph_t graph, cudaGraphExecUpdateResultInfo* result) {
  std::lock_guard lock(Emulator::get().mutex);
  cudaError_t error;
  if (!current_device(error)) return failed(error);
  const bool is_same = std::equal(exec->nodes->begin(), exec->nodes->end(), graph->nodes->begin(), graph->nodes->end(),
                                  [](const Node& a, const Node& b) { return a.after == b.after; });
  *result = {is_same ? cudaGraphExecUpdateSuccess : cudaGraphExecUpdateErrorTopologyChanged, nullptr, nullptr};
  if (!is_same) return failed(cudaErrorGraphExecUpdateFailure);
  exec->nodes = graph->nodes;
  return cudaSuccess;
}

cudaError_t cudaGraphUpload(cudaGraphExec_t, cudaStream_t stream) {
  std::lock_guard lock(Emulator::get().mutex);
  cudaError_t error;
  find_stream(stream, error);
  return failed(error);
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t handle) {
  std::lock_guard lock(Emulator::get().mutex);
  cudaError_t error;
  const auto stream = find_stream(handle, error);
  if (!stream) return failed(error);
  if (stream->capture) return failed(cudaErrorNotSupported);  // CUDA has child graphs; Kaon uses none
  auto moment = std::make_shared<Moment>();
  const auto work = [device = stream->device, nodes = exec->nodes, moment](cudaError_t status) {
    if (status == cudaSuccess) device->run_graph(*nodes);
    std::lock_guard lock(Emulator::get().mutex);
    if (status == cudaSuccess) ++Emulator::get().graph_launches;
    moment->is_reached = true;
  };
  stream->device->push(*stream, {.work = work, .after = exec->last, .is_certain = true});
  exec->last = std::move(moment);
  return cudaSuccess;
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec) {
  delete exec;
  return cudaSuccess;
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  delete graph;
  return cudaSuccess;
}
