// Several threads call MXNet's C functions at once, as ctypes does, which holds no lock during a call.
#include <catch2/catch.hpp>

#include <atomic>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "kaon/mxnet/c_api.h"

namespace {

// Catch's assertions are for one thread: the first thing that is wrong is kept.
struct Failures {
  std::mutex mutex;
  std::string first;
  void add(const std::string& text) {
    const std::scoped_lock lock(mutex);
    if (first.empty()) first = text;
  }
};

struct Failed {};

class Caller {
 public:
  Caller(Failures& failures, int seed) : failures_(failures), seed_(seed) {}

  void ok(int result, const char* what) {
    if (result != 0) fail(std::string(what) + ": " + MXGetLastError());
  }
  void expect(bool holds, const char* what) {
    if (!holds) fail(what);
  }
  [[noreturn]] void fail(const std::string& text) {
    failures_.add(text);
    throw Failed();
  }

  NDArrayHandle array(const std::vector<float>& values, std::vector<uint32_t> shape) {
    NDArrayHandle h = nullptr;
    ok(MXNDArrayCreateEx(shape.data(), uint32_t(shape.size()), 1, 0, 0, 0, &h), "create");
    ok(MXNDArraySyncCopyFromCPU(h, values.data(), values.size()), "copy from the host");
    return h;
  }
  std::vector<float> values(NDArrayHandle h, size_t count) {
    std::vector<float> v(count);
    ok(MXNDArraySyncCopyToCPU(h, v.data(), count), "copy to the host");
    return v;
  }
  NDArrayHandle call(const char* op, std::vector<NDArrayHandle> inputs,
                     std::vector<std::pair<const char*, const char*>> attributes = {}) {
    OpHandle handle = nullptr;
    ok(NNGetOpHandle(op, &handle), "operator");
    std::vector<const char*> keys, texts;
    for (const auto& [k, v] : attributes) keys.push_back(k), texts.push_back(v);
    int count = 0;
    NDArrayHandle* outputs = nullptr;
    const int* storage = nullptr;
    ok(MXImperativeInvokeEx(handle, int(inputs.size()), inputs.data(), &count, &outputs, int(keys.size()), keys.data(),
                            texts.data(), &storage),
       op);
    expect(count == 1, "one output");
    return outputs[0];
  }
  void free(std::initializer_list<NDArrayHandle> handles) {
    for (NDArrayHandle h : handles) ok(MXNDArrayFree(h), "free");
  }

  void gradients() {
    NDArrayHandle x = array({1, 2, 3, float(seed_)}, {2, 2}), g = array({0, 0, 0, 0}, {2, 2});
    uint32_t req = 1;
    ok(MXAutogradMarkVariables(1, &x, &req, &g), "mark");
    int before = -1;
    ok(MXAutogradSetIsRecording(1, &before), "record");
    expect(before == 0, "recording is of the thread");
    NDArrayHandle y = call("elemwise_mul", {x, x}), z = call("_mul_scalar", {y}, {{"scalar", "3"}});
    ok(MXAutogradSetIsRecording(0, &before), "record");
    ok(MXAutogradBackward(1, &z, nullptr, 0), "backward");
    expect(values(g, 4) == std::vector<float>{6, 12, 18, 6 * float(seed_)}, "gradient");
    free({x, g, y, z});
  }

  void failures_of_this_thread() {
    OpHandle handle = nullptr;
    const std::string name = "no_operator_" + std::to_string(seed_);
    expect(NNGetOpHandle(name.c_str(), &handle) == -1, "an operator that is not there");
    const std::string first = MXGetLastError();
    std::this_thread::yield();
    expect(first == MXGetLastError() && !first.empty(), "the error of the thread");
    int count = 0;
    NDArrayHandle* outputs = nullptr;
    const int* storage = nullptr;
    NDArrayHandle a = array({1, 2}, {2}), b = array({1, 2, 3}, {3});
    NDArrayHandle inputs[] = {a, b};
    ok(NNGetOpHandle("dot", &handle), "operator");
    expect(MXImperativeInvokeEx(handle, 2, inputs, &count, &outputs, 0, nullptr, nullptr, &storage) == -1,
           "shapes that do not fit");
    free({a, b});
  }

  void stores() {
    KVStoreHandle store = nullptr;
    ok(MXKVStoreCreate("device", &store), "store");
    NDArrayHandle one = array({1, 1}, {2}), out = array({0, 0}, {2});
    const int key = seed_;
    ok(MXKVStoreInit(store, 1, &key, &one), "init");
    const int keys[] = {key, key};
    NDArrayHandle both[] = {one, one};
    ok(MXKVStorePush(store, 2, keys, both, 0), "push");
    ok(MXKVStorePullWithSparse(store, 1, &key, &out, 0, true), "pull");
    expect(values(out, 2) == std::vector<float>{2, 2}, "sum");
    ok(MXKVStoreFree(store), "free a store");
    free({one, out});
  }

  void files(const std::string& folder) {
    const std::string file = folder + "/" + std::to_string(seed_) + ".rec";
    RecordIOHandle io = nullptr;
    ok(MXRecordIOWriterCreate(file.c_str(), &io), "write");
    ok(MXRecordIOWriterWriteRecord(io, "abc", 3), "write");
    ok(MXRecordIOWriterFree(io), "close");
    ok(MXRecordIOReaderCreate(file.c_str(), &io), "read");
    const char* bytes = nullptr;
    size_t size = 0;
    ok(MXRecordIOReaderReadRecord(io, &bytes, &size), "read");
    expect(std::string(bytes, size) == "abc", "record");
    ok(MXRecordIOReaderReadRecord(io, &bytes, &size), "read");
    expect(bytes == nullptr && size == 0, "the end");
    ok(MXRecordIOReaderFree(io), "close");
    std::remove(file.c_str());
  }

 private:
  Failures& failures_;
  int seed_;
};

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
  uint32_t req = 1;
  c.ok(MXAutogradMarkVariables(1, &x, &req, &g), "mark");
  int before = 0;
  c.ok(MXAutogradSetIsRecording(1, &before), "record");
  int (*functions[])(void) = {reinterpret_cast<int (*)(void)>(reinterpret_cast<void (*)(void)>(backward_of_ten)),
                              reinterpret_cast<int (*)(void)>(reinterpret_cast<void (*)(void)>(note_delete))};
  void* contexts[] = {&calls, &calls};
  MXCallbackList list{2, functions, contexts};
  c.ok(MXCustomFunctionRecord(1, &x, 1, &y, &list), "function");
  c.ok(MXAutogradSetIsRecording(0, &before), "record");
  c.ok(MXAutogradBackward(1, &y, nullptr, 0), "backward");
  c.expect(c.values(g, 4) == std::vector<float>(4, 10.0f), "the gradient of the function");
  c.free({x, g, y});
  c.expect(calls == 1001, "one call, one end");
}

}  // namespace

TEST_CASE("MXNet's functions are called from several threads at once", "[mxnet]") {
  Failures failures;
  int64_t before = 0, after = 0;
  REQUIRE(KaonLiveHandles("all", &before) == 0);
  char folder[] = "/tmp/kaon_mxnet_threads_XXXXXX";
  REQUIRE(mkdtemp(folder) != nullptr);
  std::vector<std::thread> threads;
  for (int seed = 1; seed <= 6; ++seed) {
    threads.emplace_back([&, seed] {
      Caller c(failures, seed);
      try {
        for (int turn = 0; turn < 40; ++turn) {
          c.gradients();
          c.failures_of_this_thread();
          c.stores();
          custom_function(c);
          if (turn % 8 == 0) c.files(folder);
          if (turn % 16 == 0) c.ok(MXNDArrayWaitAll(), "wait");
        }
      } catch (const Failed&) {
      }
    });
  }
  for (std::thread& t : threads) t.join();
  std::remove(folder);
  CHECK(failures.first == "");
  REQUIRE(KaonLiveHandles("all", &after) == 0);
  CHECK(after == before);
}

TEST_CASE("threads share arrays, and read them while others do", "[mxnet]") {
  Failures failures;
  Caller main(failures, 0);
  NDArrayHandle shared = main.array({1, 2, 3, 4}, {2, 2});
  std::vector<std::thread> threads;
  for (int seed = 1; seed <= 4; ++seed) {
    threads.emplace_back([&, seed] {
      Caller c(failures, seed);
      try {
        for (int turn = 0; turn < 100; ++turn) {
          NDArrayHandle y = c.call("_plus_scalar", {shared}, {{"scalar", "1"}});
          c.expect(c.values(y, 4) == std::vector<float>{2, 3, 4, 5}, "sum");
          NDArrayHandle again = nullptr;
          c.ok(MXShallowCopyNDArray(shared, &again), "copy of a handle");
          c.free({y, again});
        }
      } catch (const Failed&) {
      }
    });
  }
  for (std::thread& t : threads) t.join();
  main.free({shared});
  CHECK(failures.first == "");
}
