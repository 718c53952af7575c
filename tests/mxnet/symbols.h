// Symbols and arrays through MXNet's C interface, for tests: they own their handles.
#pragma once

#include <catch2/catch.hpp>

#include <string>
#include <utility>
#include <vector>

#include "kaon/mxnet/c_api.h"

namespace symbols {

using Texts = std::vector<std::pair<std::string, std::string>>;

inline void ok(int result) {
  INFO(MXGetLastError());
  REQUIRE(result == 0);
}

inline std::vector<std::string> texts_of(uint32_t n, const char** list) { return {list, list + n}; }

class Sym {
 public:
  explicit Sym(SymbolHandle handle) : handle_(handle) {}
  Sym(Sym&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  Sym& operator=(Sym&& other) noexcept {
    std::swap(handle_, other.handle_);
    return *this;
  }
  ~Sym() { NNSymbolFree(handle_); }
  SymbolHandle get() const { return handle_; }

  static Sym variable(const char* name) {
    SymbolHandle h = nullptr;
    ok(MXSymbolCreateVariable(name, &h));
    return Sym(h);
  }
  static OpHandle op(const char* name) {
    OpHandle h = nullptr;
    ok(NNGetOpHandle(name, &h));
    return h;
  }
  static int create(const char* op_name, const Texts& attributes, SymbolHandle* out) {
    std::vector<const char*> keys, values;
    for (const auto& [k, v] : attributes) keys.push_back(k.c_str()), values.push_back(v.c_str());
    return MXSymbolCreateAtomicSymbol(op(op_name), uint32_t(keys.size()), keys.data(), values.data(), out);
  }
  static Sym atomic(const char* op_name, const Texts& attributes = {}) {
    SymbolHandle h = nullptr;
    ok(create(op_name, attributes, &h));
    return Sym(h);
  }
  static Sym call(const char* op_name, const char* name, const Texts& attributes,
                  const std::vector<const Sym*>& inputs) {
    Sym made = atomic(op_name, attributes);
    ok(made.compose(name, inputs));
    return made;
  }
  static Sym group(const std::vector<const Sym*>& parts) {
    std::vector<SymbolHandle> handles;
    for (const Sym* s : parts) handles.push_back(s->get());
    SymbolHandle h = nullptr;
    ok(MXSymbolCreateGroup(uint32_t(handles.size()), handles.data(), &h));
    return Sym(h);
  }
  static Sym json(const std::string& text) {
    SymbolHandle h = nullptr;
    ok(MXSymbolCreateFromJSON(text.c_str(), &h));
    return Sym(h);
  }
  int compose(const char* name, const std::vector<const Sym*>& inputs, const std::vector<const char*>& keys = {}) {
    std::vector<SymbolHandle> handles;
    std::vector<const char*> names = keys;
    for (const Sym* s : inputs) handles.push_back(s->get());
    return NNSymbolCompose(handle_, name, uint32_t(handles.size()), keys.empty() ? nullptr : names.data(),
                           handles.data());
  }
  template <class F>
  Sym by(F function) const {
    SymbolHandle h = nullptr;
    ok(function(handle_, &h));
    return Sym(h);
  }
  Sym output(uint32_t i) const {
    SymbolHandle h = nullptr;
    ok(MXSymbolGetOutput(handle_, i, &h));
    return Sym(h);
  }
  std::vector<std::string> list(int (*function)(SymbolHandle, uint32_t*, const char***)) const {
    uint32_t n = 0;
    const char** texts = nullptr;
    ok(function(handle_, &n, &texts));
    return texts_of(n, texts);
  }
  std::vector<std::string> arguments() const { return list(MXSymbolListArguments); }
  std::vector<std::string> states() const { return list(MXSymbolListAuxiliaryStates); }
  std::vector<std::string> outputs() const { return list(MXSymbolListOutputs); }
  std::string tojson() const {
    const char* text = nullptr;
    ok(MXSymbolSaveToJSON(handle_, &text));
    return text;
  }
  // "" where there is none.
  std::string attribute(const char* key) const {
    const char* text = nullptr;
    int success = -1;
    ok(MXSymbolGetAttr(handle_, key, &text, &success));
    return success == 1 ? text : "";
  }

 private:
  SymbolHandle handle_;
};

class Array {
 public:
  explicit Array(NDArrayHandle handle) : handle_(handle) {}
  Array(const std::vector<uint32_t>& shape, const std::vector<float>& values) {
    ok(MXNDArrayCreateEx(shape.data(), uint32_t(shape.size()), 1, 0, 0, 0, &handle_));
    set(values);
  }
  Array(Array&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  Array& operator=(Array&& other) noexcept {
    std::swap(handle_, other.handle_);
    return *this;
  }
  ~Array() {
    if (handle_) MXNDArrayFree(handle_);
  }
  NDArrayHandle get() const { return handle_; }
  void set(const std::vector<float>& values) const {
    ok(MXNDArraySyncCopyFromCPU(handle_, values.data(), values.size()));
  }
  std::vector<int> shape() const {
    int n = 0;
    const int* dims = nullptr;
    ok(MXNDArrayGetShapeEx(handle_, &n, &dims));
    return {dims, dims + n};
  }
  std::vector<float> values() const {
    size_t size = 1;
    for (int d : shape()) size *= size_t(d);
    std::vector<float> v(size);
    ok(MXNDArraySyncCopyToCPU(handle_, v.data(), size));
    return v;
  }

 private:
  NDArrayHandle handle_ = nullptr;
};

inline std::vector<NDArrayHandle> handles_of(const std::vector<const Array*>& arrays) {
  std::vector<NDArrayHandle> handles;
  for (const Array* a : arrays) handles.push_back(a ? a->get() : nullptr);
  return handles;
}

}  // namespace symbols
