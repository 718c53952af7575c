// Calls of MXNet's C functions from several threads, for tests.
#pragma once

#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "kaon/mxnet/c_api.h"

namespace callers {

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

  // Runs compute() while the thread records, and gives its result.
  template <class Compute>
  auto recorded(Compute compute) {
    int before = 0;
    ok(MXAutogradSetIsRecording(1, &before), "record");
    expect(before == 0, "recording is of the thread");
    auto result = compute();
    ok(MXAutogradSetIsRecording(0, &before), "record");
    return result;
  }
  void mark(NDArrayHandle variable, NDArrayHandle gradient) {
    uint32_t write = 1;
    ok(MXAutogradMarkVariables(1, &variable, &write, &gradient), "mark");
  }

  int seed() const { return seed_; }

 private:
  Failures& failures_;
  int seed_;
};

// Calls work(caller) on `count` threads, whose seeds begin at 1, and gives the first thing that was wrong.
template <class Work>
std::string on_threads(int count, Work work) {
  Failures failures;
  std::vector<std::thread> threads;
  for (int seed = 1; seed <= count; ++seed) {
    threads.emplace_back([&, seed] {
      Caller caller(failures, seed);
      try {
        work(caller);
      } catch (const Failed&) {
      }
    });
  }
  for (std::thread& t : threads) t.join();
  return failures.first;
}

}  // namespace callers
