// Several threads call MXNet's C functions at once, as ctypes does, which holds no lock during a call.
#include <catch2/catch.hpp>

#include <atomic>
#include <cstdio>
#include <cstdlib>

#include "callers.h"

namespace threads_test {

using namespace callers;

namespace {

void gradients(Caller& c) {
  NDArrayHandle x = c.array({1, 2, 3, float(c.seed())}, {2, 2}), g = c.array({0, 0, 0, 0}, {2, 2});
  c.mark(x, g);
  NDArrayHandle y = nullptr;
  NDArrayHandle z = c.recorded([&] {
    y = c.call("elemwise_mul", {x, x});
    return c.call("_mul_scalar", {y}, {{"scalar", "3"}});
  });
  c.ok(MXAutogradBackward(1, &z, nullptr, 0), "backward");
  c.expect(c.values(g, 4) == std::vector<float>{6, 12, 18, 6 * float(c.seed())}, "gradient");
  c.free({x, g, y, z});
}

void failures_of_this_thread(Caller& c) {
  OpHandle handle = nullptr;
  const std::string name = "no_operator_" + std::to_string(c.seed());
  c.expect(NNGetOpHandle(name.c_str(), &handle) == -1, "an operator that is not there");
  const std::string first = MXGetLastError();
  std::this_thread::yield();
  c.expect(first == MXGetLastError() && !first.empty(), "the error of the thread");
  int count = 0;
  NDArrayHandle* outputs = nullptr;
  const int* storage = nullptr;
  NDArrayHandle a = c.array({1, 2}, {2}), b = c.array({1, 2, 3}, {3});
  NDArrayHandle inputs[] = {a, b};
  c.ok(NNGetOpHandle("dot", &handle), "operator");
  c.expect(MXImperativeInvokeEx(handle, 2, inputs, &count, &outputs, 0, nullptr, nullptr, &storage) == -1,
           "shapes that do not fit");
  c.free({a, b});
}

void stores(Caller& c) {
  KVStoreHandle store = nullptr;
  c.ok(MXKVStoreCreate("device", &store), "store");
  NDArrayHandle one = c.array({1, 1}, {2}), out = c.array({0, 0}, {2});
  const int key = c.seed();
  c.ok(MXKVStoreInit(store, 1, &key, &one), "init");
  const int keys[] = {key, key};
  NDArrayHandle both[] = {one, one};
  c.ok(MXKVStorePush(store, 2, keys, both, 0), "push");
  c.ok(MXKVStorePullWithSparse(store, 1, &key, &out, 0, true), "pull");
  c.expect(c.values(out, 2) == std::vector<float>{2, 2}, "sum");
  c.ok(MXKVStoreFree(store), "free a store");
  c.free({one, out});
}

void files(Caller& c, const std::string& folder) {
  const std::string file = folder + "/" + std::to_string(c.seed()) + ".rec";
  RecordIOHandle io = nullptr;
  c.ok(MXRecordIOWriterCreate(file.c_str(), &io), "write");
  c.ok(MXRecordIOWriterWriteRecord(io, "abc", 3), "write");
  c.ok(MXRecordIOWriterFree(io), "close");
  c.ok(MXRecordIOReaderCreate(file.c_str(), &io), "read");
  const char* bytes = nullptr;
  size_t size = 0;
  c.ok(MXRecordIOReaderReadRecord(io, &bytes, &size), "read");
  c.expect(std::string(bytes, size) == "abc", "record");
  c.ok(MXRecordIOReaderReadRecord(io, &bytes, &size), "read");
  c.expect(bytes == nullptr && size == 0, "the end");
  c.ok(MXRecordIOReaderFree(io), "close");
  std::remove(file.c_str());
}

// A function of the program whose gradient is ten times what arrives.
int backward_of_ten(int heads, int gradients, void** handles, const int*, int, void* context) {
  ++*static_cast<std::atomic<int>*>(context);
  int result = heads == 1 && gradients == 1;
  std::vector<float> v(4);
  if (MXNDArraySyncCopyToCPU(handles[0], v.data(), 4) != 0) result = 0;
  for (float& x : v) x *= 10;
  if (MXNDArraySyncCopyFromCPU(handles[1], v.data(), 4) != 0) result = 0;
  for (int i = 0; i < heads + gradients; ++i) MXNDArrayFree(handles[i]);
  return result;
}
int note_delete(void* context) {
  *static_cast<std::atomic<int>*>(context) += 1000;
  return 1;
}

void custom_function(Caller& c) {
  std::atomic<int> calls{0};
  NDArrayHandle x = c.array({1, 2, 3, 4}, {4}), g = c.array({0, 0, 0, 0}, {4}), y = c.array({1, 2, 3, 4}, {4});
  c.mark(x, g);
  int (*functions[])(void) = {reinterpret_cast<int (*)(void)>(reinterpret_cast<void (*)(void)>(backward_of_ten)),
                              reinterpret_cast<int (*)(void)>(reinterpret_cast<void (*)(void)>(note_delete))};
  void* contexts[] = {&calls, &calls};
  MXCallbackList list{2, functions, contexts};
  c.ok(c.recorded([&] { return MXCustomFunctionRecord(1, &x, 1, &y, &list); }), "function");
  c.ok(MXAutogradBackward(1, &y, nullptr, 0), "backward");
  c.expect(c.values(g, 4) == std::vector<float>(4, 10.0f), "the gradient of the function");
  c.free({x, g, y});
  c.expect(calls == 1001, "one call, one end");
}

}  // namespace

TEST_CASE("MXNet's functions are called from several threads at once", "[mxnet]") {
  int64_t before = 0, after = 0;
  REQUIRE(KaonLiveHandles("all", &before) == 0);
  char folder[] = "/tmp/kaon_mxnet_threads_XXXXXX";
  REQUIRE(mkdtemp(folder) != nullptr);
  CHECK(on_threads(6, [&](Caller& c) {
          for (int turn = 0; turn < 40; ++turn) {
            gradients(c);
            failures_of_this_thread(c);
            stores(c);
            custom_function(c);
            if (turn % 8 == 0) files(c, folder);
            if (turn % 16 == 0) c.ok(MXNDArrayWaitAll(), "wait");
          }
        }) == "");
  std::remove(folder);
  REQUIRE(KaonLiveHandles("all", &after) == 0);
  CHECK(after == before);
}

TEST_CASE("threads share arrays, and read them while others do", "[mxnet]") {
  Failures failures;
  Caller main(failures, 0);
  NDArrayHandle shared = main.array({1, 2, 3, 4}, {2, 2});
  CHECK(on_threads(4, [&](Caller& c) {
          for (int turn = 0; turn < 100; ++turn) {
            NDArrayHandle y = c.call("_plus_scalar", {shared}, {{"scalar", "1"}});
            c.expect(c.values(y, 4) == std::vector<float>{2, 3, 4, 5}, "sum");
            NDArrayHandle again = nullptr;
            c.ok(MXShallowCopyNDArray(shared, &again), "copy of a handle");
            c.free({y, again});
          }
        }) == "");
  main.free({shared});
}

}  // namespace threads_test
