// Executors through MXNet's C interface, for tests.
#pragma once

#include <map>

#include "calls.h"

namespace symbols {

struct Executor {
  explicit Executor(ExecutorHandle handle = nullptr) : handle(handle) {}
  Executor(Executor&& o) noexcept
      : handle(std::exchange(o.handle, nullptr)),
        arguments(std::move(o.arguments)),
        gradients(std::move(o.gradients)),
        states(std::move(o.states)) {}
  ~Executor() { MXExecutorFree(handle); }
  std::vector<Array> outputs() const {
    uint32_t n = 0;
    NDArrayHandle* list = nullptr;
    ok(MXExecutorOutputs(handle, &n, &list));
    std::vector<Array> arrays;
    for (uint32_t i = 0; i < n; ++i) arrays.emplace_back(list[i]);
    return arrays;
  }
  std::vector<float> forward(bool training = false) const {
    ok(MXExecutorForward(handle, training));
    return outputs()[0].values();
  }
  int backward(const std::vector<const Array*>& heads = {}) const {
    std::vector<NDArrayHandle> handles = handles_of(heads);
    return MXExecutorBackwardEx(handle, uint32_t(handles.size()), handles.data(), 1);
  }
  void take(uint32_t n, NDArrayHandle* args, NDArrayHandle* grads, uint32_t n_aux, NDArrayHandle* aux) {
    for (uint32_t i = 0; i < n; ++i) {
      arguments.emplace_back(args[i]);
      gradients.emplace_back(grads[i]);
    }
    for (uint32_t i = 0; i < n_aux; ++i) states.emplace_back(aux[i]);
  }
  ExecutorHandle handle;
  std::vector<Array> arguments, gradients, states;  // of simple_bind and reshape
};

inline constexpr uint32_t null_request = 0, write_request = 1, add_request = 3;

inline int try_bind(const Sym& symbol, const std::vector<const Array*>& args, const std::vector<const Array*>& grads,
                    std::vector<uint32_t> requests, ExecutorHandle* out) {
  std::vector<NDArrayHandle> a = handles_of(args), g = handles_of(grads);
  return MXExecutorBindEX(symbol.get(), 1, 0, 0, nullptr, nullptr, nullptr, uint32_t(a.size()), a.data(),
                          g.empty() ? nullptr : g.data(), requests.empty() ? nullptr : requests.data(), 0, nullptr,
                          nullptr, out);
}

inline Executor bind(const Sym& symbol, const std::vector<const Array*>& args,
                     const std::vector<const Array*>& grads = {}, const std::vector<uint32_t>& requests = {}) {
  ExecutorHandle h = nullptr;
  ok(try_bind(symbol, args, grads, requests, &h));
  return Executor(h);
}

using NamedShapes = std::map<std::string, std::vector<int>>;

struct FlatShapes {
  explicit FlatShapes(const NamedShapes& shapes) {
    for (const auto& [name, dims] : shapes) {
      names.push_back(name.c_str());
      data.insert(data.end(), dims.begin(), dims.end());
      starts.push_back(uint32_t(data.size()));
    }
  }
  std::vector<const char*> names;
  std::vector<int> data;
  std::vector<uint32_t> starts{0};
};

inline int try_simple_bind(const Sym& symbol, const NamedShapes& shapes, const char* request, Executor* out,
                           const std::vector<const char*>& shared_names = {}, ExecutorHandle shared = nullptr) {
  const FlatShapes flat(shapes);
  std::vector<const char*> names = flat.names, shared_list = shared_names;
  int buffer = -1;
  uint32_t n = 0, n_aux = 0;
  NDArrayHandle *args = nullptr, *grads = nullptr, *aux = nullptr;
  const int rc =
      MXExecutorSimpleBindEx(symbol.get(), 1, 0, 0, nullptr, nullptr, nullptr, 0, nullptr, &request,
                             uint32_t(names.size()), names.data(), flat.data.data(), flat.starts.data(), 0, nullptr,
                             nullptr, 0, nullptr, nullptr, uint32_t(shared_list.size()), shared_list.data(), &buffer,
                             nullptr, nullptr, nullptr, nullptr, &n, &args, &grads, &n_aux, &aux, shared, &out->handle);
  if (rc == 0) out->take(n, args, grads, n_aux, aux);
  return rc;
}

inline int try_reshape(const Executor& from, const NamedShapes& shapes, bool partial, bool grow, Executor* out) {
  const FlatShapes flat(shapes);
  std::vector<const char*> names = flat.names;
  uint32_t n = 0, n_aux = 0;
  NDArrayHandle *args = nullptr, *grads = nullptr, *aux = nullptr;
  const int rc = MXExecutorReshapeEx(partial, grow, 1, 0, 0, nullptr, nullptr, nullptr, uint32_t(names.size()),
                                     names.data(), flat.data.data(), flat.starts.data(), &n, &args, &grads, &n_aux,
                                     &aux, from.handle, &out->handle);
  if (rc == 0) out->take(n, args, grads, n_aux, aux);
  return rc;
}

}  // namespace symbols
