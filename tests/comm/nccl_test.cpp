// The calls that Kaon makes of NCCL, by one rank: they need no MPI and one GPU.
#include <catch2/catch.hpp>
#include <utility>

#include "kaon/comm/backend/backend.h"
#include "kaon/engine/device/gpu.h"
#include "kaon/engine/gpu_stream.h"
#include "kaon/kaon.h"
#include "kaon/ops/array/array_node.h"

namespace nccl_test {

using namespace kaon;

TEST_CASE("comm gpu nccl: a communicator of one rank takes every call, and gives its values back", "[cuda][one]") {
  engine::Gpu& device = engine::Gpu::of(gpu(0));
  comm::GpuBackend& backend = comm::nccl_backend();
  device.driver.begin_range("test");  // the GPU is current for this thread
  const std::unique_ptr<engine::Stream> stream = device.driver.make_stream();
  const auto never = [] { return false; };
  std::unique_ptr<comm::GpuGroup> group = backend.join(backend.make_id(), 0, 1, never);
  {
    CallerStream order(gpu(0), stream->native());
    const auto all = std::make_shared<const engine::PooledVector<int64_t>>(1, 6);
    const comm::Call calls[] = {
        {.kind = comm::Kind::all_reduce, .op = comm::Reduce::sum, .dtype = DType::float32},
        {.kind = comm::Kind::all_reduce, .op = comm::Reduce::max, .dtype = DType::bfloat16},
        {.kind = comm::Kind::all_reduce, .op = comm::Reduce::min, .dtype = DType::boolean},
        {.kind = comm::Kind::all_reduce, .op = comm::Reduce::prod, .dtype = DType::int64},
        {.kind = comm::Kind::reduce_scatter, .dtype = DType::float16},
        {.kind = comm::Kind::reduce_scatter, .dtype = DType::float32, .counts = all},
        {.kind = comm::Kind::all_gather, .dtype = DType::int16},
        {.kind = comm::Kind::all_gather, .dtype = DType::uint16, .counts = all},
        {.kind = comm::Kind::broadcast, .dtype = DType::float64},
        {.kind = comm::Kind::exchange, .dtype = DType::int32},
    };
    for (comm::Call call : calls) {
      CAPTURE(int(call.kind), name_of(call.dtype));
      const double numbers[] = {1, 0, 1, 1, 0, 0};
      const NDArray x = NDArray::from(numbers, 6, {6}, call.dtype).as_in_context(gpu(0));
      const NDArray y = nd.zeros({6}, {.dtype = call.dtype, .device = gpu(0)});
      call.count = 6;
      call.on_gpus = true;
      call.in = order.begin(*x.node().buffer, false);
      call.out = order.begin(*y.node().buffer, true);
      group->launch(call, stream->native());
      order.end();
      CHECK(y.asvector<double>() == std::vector<double>(numbers, numbers + 6));
      CHECK(group->failure().empty());
    }
  }
  CHECK_THROWS_AS(group->launch({.kind = comm::Kind::all_reduce, .dtype = DType::int16}, stream->native()), CommError);
  group.reset();
  group = backend.join(backend.make_id(), 0, 1, never);
  group->abort();
  CHECK_THROWS_AS(group->launch({.kind = comm::Kind::broadcast}, stream->native()), CommError);
  CHECK_THROWS_AS(backend.join(backend.make_id(), 0, 2, [] { return true; }), CommError);  // the other rank never comes
  CHECK_THROWS_AS(backend.join("no id", 0, 1, never), CommError);
  device.driver.end_range();
}

}  // namespace nccl_test
