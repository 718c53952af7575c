// Memory of the program as arrays, and of arrays for the program: from_blob, data, copyto, nd.array of containers,
// DLPack.
#include <dlpack/dlpack.h>

#include <array>
#include <catch2/catch.hpp>
#include <numeric>
#include <thread>

#include "kaon/engine/operation/var.h"
#include "kaon/gluon/nn/basic.h"
#include "kaon/kaon.h"
#include "kaon/ops/dlpack.h"

namespace program_memory_test {

using namespace kaon;
using Catch::Matchers::Contains;

TEST_CASE("from_blob: reads and writes the program's memory, and releases it once") {
  std::vector<float> memory{1, 2, 3, 4, 5, 6};
  int released = 0;
  {
    const NDArray x = NDArray::from_blob(memory.data(), {2, 3}, [&] { ++released; });
    CHECK(x.dtype() == DType::float32);
    CHECK((x * 2).asvector<float>() == std::vector<float>{2, 4, 6, 8, 10, 12});
    NDArray row = x[1];
    row += 10;
    row.wait_to_read();
    CHECK(memory == std::vector<float>{1, 2, 3, 14, 15, 16});
    memory[0] = 7;
    CHECK(x.sum().asscalar<float>() == 57);
    CHECK(released == 0);
  }
  nd.waitall();
  CHECK(released == 1);
}

TEST_CASE("from_blob: pending operations keep the memory", "[async]") {
  auto memory = std::make_unique<std::vector<double>>(1000, 1.0);
  std::atomic<bool> released{false};
  Engine& engine = Engine::current();
  std::atomic<bool> open{false};
  NDArray sum;
  {
    double* data = memory->data();
    const NDArray x = NDArray::from_blob(data, Shape(1000),
                                         [&released, owner = std::shared_ptr(std::move(memory))] { released = true; });
    engine.push({update(x.var())}, [&](RunContext&) {  // until then the sum cannot begin, which keeps the memory
      while (!open) std::this_thread::yield();
    });
    sum = x.sum();
  }
  CHECK(!released);
  open = true;
  CHECK(sum.asscalar<double>() == 1000);
  nd.waitall();
  CHECK(released);
}

TEST_CASE("from_blob: refuses what it cannot hold, and then does not release") {
  float memory[4] = {};
  int released = 0;
  const auto release = [&] { ++released; };
  CHECK_THROWS_WITH(NDArray::from_blob(nullptr, Shape(4), DType::float32, release), Contains("[from_blob] no memory"));
  CHECK_THROWS_WITH(NDArray::from_blob(reinterpret_cast<char*>(memory) + 1, Shape(2), DType::float32, release),
                    Contains("not aligned for float32: expected a multiple of 4 bytes"));
  CHECK_THROWS_AS(NDArray::from_blob(memory, Shape(-1, 2), DType::float32, release), ShapeError);
  CHECK_THROWS_AS(NDArray::from_blob(memory, Shape(4), DType::float32, release, gpu(99)), DeviceError);
  CHECK(released == 0);
  CHECK(NDArray::from_blob(nullptr, Shape(0, 3), DType::float32).sum().asscalar<float>() == 0);
}

TEST_CASE("from_blob: weights that the program changes are seen by a plan that predicts") {
  std::vector<float> memory(64 * 64, 1.0f);
  const NDArray weight = NDArray::from_blob(memory.data(), {64, 64});
  gluon::nn::Dense dense(64, {.use_bias = false, .in_units = 64});
  dense.initialize();
  dense.weight.set_data(weight);
  dense.hybridize();
  const NDArray x = nd.ones({8, 64});
  const NDArray held = dense.weight.data();
  for (int i = 1; i < 5; ++i) {
    for (float& w : held.data<float>()) w = float(i);
    CHECK(dense(x).asvector<float>() == std::vector<float>(8 * 64, 64.0f * float(i)));
  }
}

TEST_CASE("data: waits, and checks") {
  const NDArray x = nd.arange(1000);
  NDArray y = x * 2;
  const std::span<const float> values = y.data<const float>();
  CHECK(values.size() == 1000);
  CHECK(values[999] == 1998);
  for (float& v : y.data<float>()) v += 1;
  CHECK((y - 1).asvector<float>() == (x * 2).asvector<float>());
  CHECK_THROWS_WITH(y.data<const double>(),
                    Contains("[data] the array has dtype float32, asked for elements of float64"));
  const NDArray empty = nd.zeros({0, 3}), halves = nd.zeros({2}, {.dtype = DType::float16});
  CHECK(empty.data<const float>().empty());
  CHECK(halves.data<const float16>().size() == 2);
  const NDArray failed = nd.take(x, nd.array({5000}), {.mode = IndexMode::raise});
  CHECK_THROWS_AS(failed.data<const float>(), IndexError);
}

TEST_CASE("data: writing counts as a write for backward") {
  NDArray x = nd.array({1, 2, 3});
  x.attach_grad();
  const NDArray y = autograd::record([&] { return x * x; });
  x.data<float>()[0] = 5;
  CHECK_THROWS_AS(y.backward(), StateError);
  CHECK_THROWS_AS(autograd::record([&] {
                    const NDArray z = x * 2;
                    z.data<float>();
                    return z;
                  }),
                  StateError);
}

TEST_CASE("copyto: into the program's memory, converted") {
  const NDArray x = nd.array({{1.5, -2}, {3, 4}});
  std::array<int32_t, 4> out{};
  x.copyto(out);
  CHECK(out == std::array<int32_t, 4>{1, -2, 3, 4});
  std::vector<double> wide(4);
  x.copyto(wide);
  CHECK(wide == std::vector<double>{1.5, -2, 3, 4});
  CHECK_THROWS_WITH(x.copyto(std::span(wide).first(3)),
                    Contains("[copyto] an array of shape (2, 2) has 4 elements, got room for 3"));
}

TEST_CASE("array: containers") {
  const std::vector<int64_t> large{16777217, -1};
  CHECK(nd.array(large).dtype() == DType::int64);
  CHECK(nd.array(large).asvector<int64_t>() == large);
  CHECK(nd.array(large, Shape(2), {.dtype = DType::float64}).dtype() == DType::float64);
  CHECK(nd.array(std::vector<float>{1, 2, 3, 4}, {2, 2}).dtype() == DType::float32);
  CHECK(nd.array(std::vector<double>{1, 2}).dtype() == DType::float32);
  CHECK(nd.array(std::vector<int32_t>{1, 2}).dtype() == DType::float32);
  CHECK(nd.array(std::array{1.5f, 2.5f}).asvector<float>() == std::vector<float>{1.5, 2.5});
  const std::vector<uint16_t> small{65535, 1};
  CHECK(nd.array(std::span(small)).asvector<int32_t>() == std::vector<int32_t>{65535, 1});
  CHECK(nd.array(std::span(small).first(1)).shape() == Shape(1));
  CHECK(nd.array(std::vector<bool>{true, false, true}, {.dtype = DType::boolean}).asvector<bool>() ==
        std::vector<bool>{true, false, true});
  CHECK(nd.array(std::vector<unsigned long>{7}).dtype() == DType::int64);
  CHECK(nd.array(std::vector<long long>{-7}).asvector<int64_t>() == std::vector<int64_t>{-7});
  CHECK_THROWS_WITH(nd.array(std::vector<uint64_t>{UINT64_MAX}),
                    Contains("18446744073709551615 is larger than int64 holds"));
  CHECK(nd.array(std::vector<float16>{float16(1.5f)}).asscalar<float>() == 1.5f);
  CHECK_THROWS_WITH(nd.array(std::vector<float>{1, 2}, {3}), Contains("[array] 2 values do not fill shape (3,)"));
}

namespace {

// A tensor as another library makes it.
struct Producer {
  std::vector<int32_t> data{1, 2, 3, 4, 5, 6};
  std::vector<int64_t> shape{2, 3}, strides{3, 1};
  int deleted = 0;
  DLManagedTensor managed{};

  Producer() {
    managed.dl_tensor.data = data.data();
    managed.dl_tensor.device = {kDLCPU, 0};
    managed.dl_tensor.ndim = 2;
    managed.dl_tensor.dtype = {kDLInt, 32, 1};
    managed.dl_tensor.shape = shape.data();
    managed.dl_tensor.strides = strides.data();
    managed.manager_ctx = this;
    managed.deleter = [](DLManagedTensor* self) { ++static_cast<Producer*>(self->manager_ctx)->deleted; };
  }
};

}  // namespace

TEST_CASE("DLPack: another library's tensor") {
  Producer p;
  {
    NDArray x = dlpack::from(&p.managed);
    CHECK(x.shape() == Shape(2, 3));
    CHECK(x.dtype() == DType::int32);
    x += 1;
    CHECK(x.asvector<int>() == std::vector<int>{2, 3, 4, 5, 6, 7});
    CHECK(p.data[5] == 7);
    CHECK(p.deleted == 0);
  }
  nd.waitall();
  CHECK(p.deleted == 1);
  p.managed.dl_tensor.strides = nullptr;
  p.managed.dl_tensor.byte_offset = 4;
  p.shape = {5, 1};
  p.managed.dl_tensor.shape = p.shape.data();
  CHECK(dlpack::from(&p.managed).asvector<int>() == std::vector<int>{3, 4, 5, 6, 7});
}

TEST_CASE("DLPack: what cannot be an array is left to the caller") {
  Producer p;
  CHECK_THROWS_WITH(dlpack::from(static_cast<DLManagedTensor*>(nullptr)), Contains("null is no tensor"));
  p.strides = {1, 2};
  CHECK_THROWS_WITH(dlpack::from(&p.managed), Contains("stride 2 of axis 1 of a tensor of shape (2, 3): expected 1"));
  p.strides = {3, 1};
  p.managed.dl_tensor.dtype = {kDLComplex, 64, 1};
  CHECK_THROWS_AS(dlpack::from(&p.managed), TypeError);
  p.managed.dl_tensor.dtype = {kDLInt, 32, 4};
  CHECK_THROWS_AS(dlpack::from(&p.managed), TypeError);
  p.managed.dl_tensor.dtype = {kDLInt, 32, 1};
  p.managed.dl_tensor.device = {kDLOpenCL, 0};
  CHECK_THROWS_AS(dlpack::from(&p.managed), DeviceError);
  CHECK(p.deleted == 0);
}

TEST_CASE("DLPack: an array as a tensor, and back") {
  for (const DType t : ops::all_dtypes) {
    CAPTURE(t);
    DLManagedTensor* tensor;
    {
      const NDArray x = (nd.arange(12).reshape({3, 4}) > 5).astype(t);
      tensor = dlpack::to(x[1]);
    }
    CHECK(tensor->dl_tensor.ndim == 1);
    CHECK(tensor->dl_tensor.shape[0] == 4);
    CHECK(tensor->dl_tensor.strides[0] == 1);
    CHECK(tensor->dl_tensor.device.device_type == kDLCPU);
    CHECK(tensor->dl_tensor.dtype.bits == 8 * size_of(t));
    if (ops::is_unsigned(t)) CHECK(tensor->dl_tensor.dtype.code == kDLUInt);
    const NDArray back = dlpack::from(tensor);
    CHECK(back.dtype() == t);
    CHECK(back.asvector<int>() == std::vector<int>{0, 0, 1, 1});
  }
  const NDArray x = nd.array({1, 2, 3});
  NDArray y = dlpack::from(dlpack::to_versioned(x));
  y += 1;
  CHECK(y.asvector<int>() == std::vector<int>{2, 3, 4});
  CHECK(x.asvector<int>() == std::vector<int>{2, 3, 4});
}

}  // namespace program_memory_test
