// Calls of operators and values of arrays through MXNet's C interface, for tests.
#pragma once

#include "symbols.h"

namespace symbols {

// The result of MXImperativeInvokeEx, with its results as new handles.
inline int invoke(const char* op, const std::vector<const Array*>& inputs, const Texts& attributes,
                  std::vector<Array>& results) {
  std::vector<NDArrayHandle> in = handles_of(inputs);
  std::vector<const char*> keys, values;
  for (const auto& [k, v] : attributes) keys.push_back(k.c_str()), values.push_back(v.c_str());
  int n = 0;
  NDArrayHandle* out = nullptr;
  const int* storage = nullptr;
  const int result = MXImperativeInvokeEx(Sym::op(op), int(in.size()), in.data(), &n, &out, int(keys.size()),
                                          keys.data(), values.data(), &storage);
  results.clear();
  for (int i = 0; result == 0 && i < n; ++i) results.emplace_back(out[i]);
  return result;
}
// The same with arrays for the results.
inline int invoke_into(const char* op, const std::vector<const Array*>& inputs, const Texts& attributes,
                       const std::vector<const Array*>& outputs) {
  std::vector<NDArrayHandle> in = handles_of(inputs), out = handles_of(outputs);
  std::vector<const char*> keys, values;
  for (const auto& [k, v] : attributes) keys.push_back(k.c_str()), values.push_back(v.c_str());
  int n = int(out.size());
  NDArrayHandle* given = out.data();
  const int* storage = nullptr;
  return MXImperativeInvokeEx(Sym::op(op), int(in.size()), in.data(), &n, &given, int(keys.size()), keys.data(),
                              values.data(), &storage);
}
// The only result.
inline Array one(const char* op, const std::vector<const Array*>& inputs, const Texts& attributes = {}) {
  std::vector<Array> results;
  ok(invoke(op, inputs, attributes, results));
  REQUIRE(results.size() == 1);
  return std::move(results[0]);
}

inline Array view(const Array& array, int (*function)(NDArrayHandle, uint32_t, NDArrayHandle*), uint32_t index) {
  NDArrayHandle h = nullptr;
  ok(function(array.get(), index, &h));
  return Array(h);
}
inline Array reshaped(const Array& array, std::vector<int64_t> codes, bool reverse = false) {
  NDArrayHandle h = nullptr;
  ok(MXNDArrayReshape64(array.get(), int(codes.size()), codes.data(), reverse, &h));
  return Array(h);
}

// Records what stands in the scope, in training.
class Recording {
 public:
  Recording() {
    ok(MXAutogradSetIsRecording(1, &recording_));
    ok(MXAutogradSetIsTraining(1, &training_));
  }
  ~Recording() {
    int now = 0;
    MXAutogradSetIsRecording(recording_, &now);
    MXAutogradSetIsTraining(training_, &now);
  }
  Recording(const Recording&) = delete;
  Recording& operator=(const Recording&) = delete;

 private:
  int recording_ = 0, training_ = 0;
};

}  // namespace symbols
