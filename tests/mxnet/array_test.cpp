#include <catch2/catch.hpp>

#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <string>

#include "calls.h"
#include "kaon/ops/array/dlpack_structs.h"

namespace array_test {

using namespace symbols;
using Catch::Matchers::Contains;
using Floats = std::vector<float>;
using Dims = std::vector<int>;

TEST_CASE("Arrays say what they are", "[mxnet]") {
  const uint32_t shape[] = {2, 3};
  NDArrayHandle h = nullptr;
  ok(MXNDArrayCreateEx(shape, 2, 3, 0, 0, 1, &h));  // cpu_pinned, float64
  const Array pinned(h);
  int kind = 0, index = -1, dtype = 0, storage = 9;
  ok(MXNDArrayGetContext(h, &kind, &index));
  ok(MXNDArrayGetDType(h, &dtype));
  ok(MXNDArrayGetStorageType(h, &storage));
  REQUIRE((kind == 3 && index == 0 && dtype == 1 && storage == 0));
  REQUIRE(pinned.shape() == Dims{2, 3});
  ok(MXNDArrayCreateNone(&h));
  const Array none(h);
  ok(MXNDArrayGetDType(h, &dtype));
  ok(MXNDArrayGetStorageType(h, &storage));
  REQUIRE((dtype == -1 && storage == -1));
  REQUIRE(none.shape().empty());
  NDArrayHandle bad = nullptr;
  REQUIRE(MXNDArrayCreateEx(shape, 2, 4, 0, 0, 0, &bad) == -1);
  REQUIRE(MXNDArrayCreateEx(shape, 2, 1, 0, 0, 99, &bad) == -1);
  REQUIRE(MXNDArrayGetDType(nullptr, &dtype) == -1);
  REQUIRE_THAT(MXGetLastError(), Contains("null"));
}

TEST_CASE("Host values go in and out whole", "[mxnet]") {
  const Array x({2, 2}, {1, 2, 3, 4});
  float values[4] = {};
  REQUIRE(MXNDArraySyncCopyToCPU(x.get(), values, 3) == -1);
  REQUIRE(MXNDArraySyncCopyFromCPU(x.get(), values, 5) == -1);
  REQUIRE(x.values() == Floats{1, 2, 3, 4});
  const Array empty({0, 3}, {});
  REQUIRE(empty.shape() == Dims{0, 3});
  REQUIRE(empty.values().empty());
  ok(MXNDArrayWaitToRead(empty.get()));
  ok(MXNDArrayWaitToWrite(x.get()));
  ok(MXNDArrayWaitAll());
}

TEST_CASE("Views share memory", "[mxnet]") {
  const Array x({3, 2}, {1, 2, 3, 4, 5, 6});
  const Array row = view(x, MXNDArrayAt, 1);
  REQUIRE(row.shape() == Dims{2});
  row.set({30, 40});
  REQUIRE(x.values() == Floats{1, 2, 30, 40, 5, 6});
  NDArrayHandle h = nullptr;
  ok(MXNDArraySlice(x.get(), 1, 3, &h));
  const Array rows(h);
  rows.set({7, 8, 9, 10});
  REQUIRE(row.values() == Floats{7, 8});
  REQUIRE(reshaped(x, {-1}).values() == Floats{1, 2, 7, 8, 9, 10});
  REQUIRE(reshaped(x, {0, -1, 1}).shape() == Dims{3, 2, 1});
  REQUIRE(reshaped(x, {-1, 0}, true).shape() == Dims{3, 2});
  const Array fewer = reshaped(x, {2, 2});  // the elements at the beginning
  fewer.set({0, 0, 0, 0});
  REQUIRE(x.values() == Floats{0, 0, 0, 0, 9, 10});
  REQUIRE(MXNDArrayAt(x.get(), 3, &h) == -1);
  REQUIRE(MXNDArraySlice(x.get(), 1, 4, &h) == -1);
  int64_t codes[] = {4, 2};
  REQUIRE(MXNDArrayReshape64(x.get(), 2, codes, false, &h) == -1);
  ok(MXShallowCopyNDArray(x.get(), &h));
  const Array same(h);
  same.set({1, 1, 1, 1, 1, 1});
  REQUIRE(rows.values() == Floats{1, 1, 1, 1});
}

TEST_CASE("NumPy's shapes have no dimensions, and sizes of 0", "[mxnet]") {
  int before = -1;
  ok(MXSetIsNumpyShape(1, &before));
  NDArrayHandle h = nullptr;
  ok(MXNDArrayCreateEx(nullptr, 0, 1, 0, 0, 0, &h));
  {
    const Array scalar(h);
    scalar.set({3});
    REQUIRE(scalar.shape().empty());
    const Array x({2}, {4, 5});
    REQUIRE(view(x, MXNDArrayAt, 1).shape().empty());
    REQUIRE(one("_zeros", {}, {{"shape", "(0, 2)"}}).shape() == Dims{0, 2});
  }
  int now = -1;
  ok(MXSetIsNumpyShape(before, &now));
  REQUIRE(now == 1);
  ok(MXIsNumpyShape(&now));
  REQUIRE(now == before);
  REQUIRE(MXSetIsNumpyShape(3, &now) == -1);
}

TEST_CASE("Lists in files and arrays as bytes", "[mxnet]") {
  const Array x({2}, {1, 2}), y({1, 2}, {3, 4});
  const std::string file = (std::filesystem::temp_directory_path() / ("kaon_" + std::to_string(getpid()))).string();
  NDArrayHandle list[] = {x.get(), y.get()};
  const char* names[] = {"x", "y"};
  ok(MXNDArraySave(file.c_str(), 2, list, names));
  uint32_t n = 0, num_names = 0;
  NDArrayHandle* loaded = nullptr;
  const char** loaded_names = nullptr;
  ok(MXNDArrayLoad(file.c_str(), &n, &loaded, &num_names, &loaded_names));
  REQUIRE((n == 2 && num_names == 2 && std::string(loaded_names[1]) == "y"));
  {
    const Array a(loaded[0]), b(loaded[1]);
    REQUIRE(a.values() == Floats{1, 2});
    REQUIRE(b.shape() == Dims{1, 2});
  }
  int mode = 0;
  ok(MXSetIsNumpyShape(1, &mode));
  REQUIRE(MXNDArrayLoad(file.c_str(), &n, &loaded, &num_names, &loaded_names) == -1);
  ok(MXSetIsNumpyShape(0, &mode));
  std::filesystem::remove(file);
  REQUIRE(MXNDArrayLoad(file.c_str(), &n, &loaded, &num_names, &loaded_names) == -1);

  size_t size = 0;
  const char* bytes = nullptr;
  ok(MXNDArraySaveRawBytes(y.get(), &size, &bytes));
  const std::string kept(bytes, size);
  NDArrayHandle h = nullptr;
  ok(MXNDArrayLoadFromRawBytes(kept.data(), kept.size(), &h));
  REQUIRE(Array(h).values() == Floats{3, 4});
  for (size_t cut = 0; cut < kept.size(); ++cut) {
    REQUIRE(MXNDArrayLoadFromRawBytes(kept.data(), cut, &h) == -1);
  }
  REQUIRE(MXNDArrayLoadFromBuffer(kept.data(), kept.size(), &n, &loaded, &num_names, &loaded_names) == -1);
}

TEST_CASE("Memory that another process could map", "[mxnet]") {
  const uint32_t shape[] = {2};
  NDArrayHandle h = nullptr;
  ok(MXNDArrayCreateEx(shape, 1, 5, 0, 0, 0, &h));  // cpu_shared
  const Array shared(h), plain({2}, {5, 6});
  shared.set({1, 2});
  const auto mapped = [](const Array& a) {
    int pid = 0, descriptor = -1;
    ok(MXNDArrayGetSharedMemHandle(a.get(), &pid, &descriptor));
    REQUIRE(pid == getpid());
    const int dims[] = {2};
    NDArrayHandle other = nullptr;
    ok(MXNDArrayCreateFromSharedMemEx(pid, dup(descriptor), dims, 1, 0, &other));
    return Array(other);
  };
  const Array here = mapped(shared);
  here.set({3, 4});
  REQUIRE(shared.values() == Floats{3, 4});  // one memory
  const Array copy = mapped(plain);
  copy.set({0, 0});
  REQUIRE(plain.values() == Floats{5, 6});
  const int dims[] = {1 << 20};
  int pid = 0, descriptor = -1;
  ok(MXNDArrayGetSharedMemHandle(shared.get(), &pid, &descriptor));
  NDArrayHandle none = nullptr;
  REQUIRE(MXNDArrayCreateFromSharedMemEx(pid, dup(descriptor), dims, 1, 0, &none) == -1);  // larger than it is
}

TEST_CASE("A tensor of another library is given back when every handle on it has gone", "[mxnet]") {
  static int deleted = 0;
  deleted = 0;
  float values[] = {1, 2, 3};
  int64_t shape[] = {3};
  DLManagedTensor tensor{};
  tensor.tensor = {values, {1, 0}, 1, {2, 32, 1}, shape, nullptr, 0};
  tensor.deleter = [](DLManagedTensor*) { ++deleted; };
  {
    NDArrayHandle h = nullptr;
    ok(MXNDArrayFromDLPackEx(&tensor, true, &h));
    const Array x(h);
    const Array tail = [&] {
      NDArrayHandle part = nullptr;
      ok(MXNDArraySlice(x.get(), 1, 3, &part));
      return Array(part);
    }();
    const Array twice = one("_mul_scalar", {&tail}, {{"scalar", "2"}});
    REQUIRE(twice.values() == Floats{4, 6});
    tail.set({8, 9});
    REQUIRE(values[2] == 9);
    DLManagedTensorHandle out = nullptr;
    ok(MXNDArrayToDLPack(x.get(), &out));
    REQUIRE(static_cast<DLManagedTensor*>(out)->tensor.data == values);
    ok(MXNDArrayCallDLPackDeleter(out));
    ok(MXNDArrayWaitAll());
    REQUIRE(deleted == 0);
  }
  REQUIRE(deleted == 1);
  NDArrayHandle h = nullptr;
  REQUIRE(MXNDArrayFromDLPack(nullptr, &h) == -1);
}

}  // namespace array_test
