#include "kaon/graph/plan_ops/fused_kernel.h"

#include "kaon/ops/cuda/compiled_kernel.h"
#include "kaon/ops/cuda/launch.cuh"

namespace kaon {

using namespace graph;
namespace {

struct Compiled final : KernelState {
  cudaKernel_t kernel = nullptr;
  std::string implementation() const override { return "compiled by NVRTC"; }
};

Compiled& compiled(const KernelSource& source, std::unique_ptr<KernelState>& state) {
  if (!state) {
    auto made = std::make_unique<Compiled>();
    int device = 0;
    cuda::check(cudaGetDevice(&device), "device");
    made->kernel = cuda::compiled_kernel(source.text, "fused", device);
    state = std::move(made);
  }
  return static_cast<Compiled&>(*state);
}

}  // namespace

void op::prepare_cuda(const FusedKernel& op, int device) { cuda::prepare_kernel(op.source->text, "fused", device); }

void run_cuda(const op::FusedKernel& op, KernelContext& c) {
  const KernelSource& source = *op.source;
  std::unique_ptr<KernelState> once;
  Compiled& state = compiled(source, c.state ? *c.state : once);
  int64_t n = op.shape.size();
  bool aligned = true;
  std::vector<const void*> pointers;
  const auto add = [&](const TensorView& v, bool packed) {
    aligned =
        aligned && (!packed || reinterpret_cast<uintptr_t>(v.data) % (size_of(v.dtype) * size_t(source.pack)) == 0);
    pointers.push_back(v.data);
  };
  for (int i = 0; i < c.num_inputs(); ++i) add(c.in(i), source.packed[size_t(i)]);
  for (const TensorView& v : c.outputs) add(v, true);
  std::vector<void*> arguments{&n, &aligned};
  for (const void*& p : pointers) arguments.push_back(&p);
  cudaLaunchConfig_t config{};
  config.gridDim = cuda::blocks_for(n, cuda::block, source.pack);
  config.blockDim = unsigned(cuda::block);
  config.stream = cuda::native(*c.run.stream());
  cuda::check(cudaLaunchKernelExC(&config, reinterpret_cast<const void*>(state.kernel), arguments.data()), "launch");
}

}  // namespace kaon
