// The pieces of code of docs/gpu.md.
#include <kaon/kaon.h>

#include <catch2/catch.hpp>

#include "kaon/engine/device/backend.h"
#include "kaon/engine/device/gpu.h"
#include "kaon/engine/device/stream.h"
#include "kaon/engine/gpu_stream.h"
#include "kaon/tests/support/skip.h"

namespace gpu_docs_test {

using namespace kaon;
using namespace kaon::engine;

namespace {

// Stands for a kernel of the program's.
void launch_my_kernel(void* in, void* out, void* stream) {
  DeviceDriver& driver = Gpu::of(gpu(0)).driver;
  const std::unique_ptr<Stream> borrowed = driver.borrow_stream(stream);
  driver.copy(out, in, 6 * sizeof(float), *borrowed);
}

Task<void> waits(NDArray y) {
  NDArray ready = co_await y;  // in a Task: resumes on its own executor when the GPU has written y
  CHECK(ready.asvector<float>() == std::vector<float>(6, 3));
}

}  // namespace

TEST_CASE("docs: GPUs", "[docs][cuda]") {
  if (!test::has_gpu()) return;
  NDArray x = nd.ones({2, 3}, {.device = gpu(0)});
  NDArray y = x * 2 + 1;                            // operators follow their arrays
  std::vector<float> values = y.asvector<float>();  // copied to the host; blocks
  NDArray host = y.as_in_context(cpu());            // copied; does not block
  CHECK(values == std::vector<float>(6, 3));
  CHECK(host.asvector<float>() == values);
  sync_wait(waits(y));
  const std::unique_ptr<Stream> own = Gpu::of(gpu(0)).driver.make_stream();
  void* stream = own->native();
  CallerStream mine(gpu(0), stream);
  void* in = mine.begin(*x.node().buffer, false);  // x has been launched; the stream waits for it
  void* out = mine.begin(*y.node().buffer, true);
  launch_my_kernel(in, out, stream);
  mine.end();  // what uses x and y from now on comes after
  CHECK((y + 1).asvector<float>() == std::vector<float>(6, 2));
  nd.waitall();
}

}  // namespace gpu_docs_test
