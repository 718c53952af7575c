// Capturing launches as a CUDA graph.
#include <exception>

#include "kaon/engine/device/cuda/cuda_device.h"

namespace kaon::cuda {
namespace {

class CudaGraph final : public CapturedWork {
 public:
  CudaGraph(int device, cudaGraph_t graph) : device_(device) {
    check(cudaGraphInstantiate(&work_, graph, 0), "capture");
  }
  ~CudaGraph() override { cudaGraphExecDestroy(work_); }
  void launch(Stream& stream) override {
    const DeviceScope scope(device_);
    check(cudaGraphLaunch(work_, native(stream)), "launch");
  }

 private:
  const int device_;
  cudaGraphExec_t work_ = nullptr;
};

}  // namespace

// Captures on a stream of its own: events that other threads record on streams in use would become part of the capture.
// Relaxed mode: this thread may allocate device memory during the capture.
std::unique_ptr<CapturedWork> CudaDriver::capture(FunctionRef<void(Stream&)> work) {
  const DeviceScope scope(index_);
  CudaStream stream(index_, events_);
  check(cudaStreamBeginCapture(native(stream), cudaStreamCaptureModeRelaxed), "capture");
  std::exception_ptr failure;
  try {
    work(stream);
  } catch (...) {
    failure = std::current_exception();
  }
  cudaGraph_t made = nullptr;
  const cudaError_t status = cudaStreamEndCapture(native(stream), &made);
  const std::unique_ptr<CUgraph_st, decltype(&cudaGraphDestroy)> graph(made, &cudaGraphDestroy);
  if (failure) {
    cudaGetLastError();  // clears the error, which `failure` reports
    std::rethrow_exception(failure);
  }
  check(status, "capture");
  return std::make_unique<CudaGraph>(index_, graph.get());
}

}  // namespace kaon::cuda
