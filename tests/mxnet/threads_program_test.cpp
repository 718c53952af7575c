// Several threads run operators of the program, cached operators and executors at once, and see their own failures.
#include <catch2/catch.hpp>

#include <atomic>
#include <cstring>

#include "callers.h"

namespace threads_program_test {

using namespace callers;
using Floats = std::vector<float>;

namespace {

// --- Operators of this program: "c_twice" gives twice its data, "c_fails" fails when it computes.

std::atomic<int> instances{0};

template <class F>
int (*erased(F* function))(void) {
  return reinterpret_cast<int (*)(void)>(reinterpret_cast<void (*)(void)>(function));
}

int delete_nothing(void*) { return 1; }
int delete_instance(void*) {
  --instances;
  return 1;
}
int no_names(char*** out, void*) {
  static char* names[] = {nullptr};
  *out = names;
  return 1;
}
int data_name(char*** out, void*) {
  static char name[] = "data";
  static char* names[] = {name, nullptr};
  *out = names;
  return 1;
}
int output_name(char*** out, void*) {
  static char name[] = "output";
  static char* names[] = {name, nullptr};
  *out = names;
  return 1;
}
int shape_of_data(int, int* ndims, int** shapes, void*) {
  ndims[1] = ndims[0];
  shapes[1] = shapes[0];
  return 1;
}
int type_of_data(int, int* types, void*) {
  types[1] = types[0];
  return 1;
}
int no_dependencies(const int*, const int*, const int*, int* count, int** list, void*) {
  static int none = 0;
  *count = 0;
  *list = &none;
  return 1;
}

// Arrays in the order of their tags' numbers in a call: forward has data 0 and output 1, backward the gradient of the
// output 3 and that of the data 2.
int twice(int count, void** handles, const int* tags, int from, int to) {
  int result = 0;
  void *source = nullptr, *target = nullptr;
  for (int i = 0; i < count; ++i) {
    if (tags[i] == from) source = handles[i];
    if (tags[i] == to) target = handles[i];
  }
  int ndim = 0;
  const int* dims = nullptr;
  if (source && target && MXNDArrayGetShapeEx(source, &ndim, &dims) == 0) {
    size_t size = 1;
    for (int i = 0; i < ndim; ++i) size *= size_t(dims[i]);
    Floats v(size);
    result = MXNDArraySyncCopyToCPU(source, v.data(), size) == 0;
    for (float& x : v) x *= 2;
    result = result && MXNDArraySyncCopyFromCPU(target, v.data(), size) == 0;
  }
  for (int i = 0; i < count; ++i) MXNDArrayFree(handles[i]);
  return result;
}
int twice_forward(int count, void** handles, int* tags, const int*, int, void*) {
  return twice(count, handles, tags, 0, 1);
}
int twice_backward(int count, void** handles, int* tags, const int*, int, void*) {
  return twice(count, handles, tags, 3, 2);
}
int failing_forward(int count, void** handles, int*, const int*, int, void*) {
  for (int i = 0; i < count; ++i) MXNDArrayFree(handles[i]);
  return 0;
}

template <bool fails>
int create(const char*, int, unsigned**, const int*, const int*, MXCallbackList* out, void*) {
  static int (*functions[])(void) = {erased(delete_instance), erased(fails ? failing_forward : twice_forward),
                                     erased(twice_backward)};
  static void* contexts[3] = {};
  *out = {3, functions, contexts};
  ++instances;
  return 1;
}
template <bool fails>
int make_property(const char*, int, const char**, const char**, MXCallbackList* out) {
  static int (*functions[])(void) = {erased(delete_nothing), erased(data_name),     erased(output_name),
                                     erased(no_names),       erased(shape_of_data), erased(no_dependencies),
                                     erased(create<fails>),  erased(type_of_data)};
  static void* contexts[8] = {};
  *out = {8, functions, contexts};
  return 1;
}

void register_operators() {
  REQUIRE(MXCustomOpRegister("c_twice", make_property<false>) == 0);
  REQUIRE(MXCustomOpRegister("c_fails", make_property<true>) == 0);
}

void custom_operator(Caller& c) {
  const float own = float(c.seed());
  NDArrayHandle x = c.array({1, own}, {2}), g = c.array({0, 0}, {2}), squares = nullptr;
  c.mark(x, g);
  NDArrayHandle y = c.recorded([&] {
    squares = c.call("square", {x});
    return c.call("Custom", {squares}, {{"op_type", "c_twice"}});
  });
  c.expect(c.values(y, 2) == Floats{2, 2 * own * own}, "the operator's result");
  c.ok(MXAutogradBackward(1, &y, nullptr, 0), "backward");
  c.expect(c.values(g, 2) == Floats{4, 4 * own}, "the operator's gradient");
  c.free({x, g, y, squares});
}

void failing_operator(Caller& c) {
  NDArrayHandle x = c.array({1, 2}, {2});
  NDArrayHandle y = c.call("Custom", {x}, {{"op_type", "c_fails"}});
  float values[2];
  c.expect(MXNDArraySyncCopyToCPU(y, values, 2) == -1, "a wait for what has failed");
  c.expect(std::strstr(MXGetLastError(), "c_fails") != nullptr, "the failure names the operator");
  c.expect(c.values(x, 2) == Floats{1, 2}, "its input is as it was");
  c.free({x, y});
}

// --- Programs

SymbolHandle variable(Caller& c, const char* name) {
  SymbolHandle h = nullptr;
  c.ok(MXSymbolCreateVariable(name, &h), "variable");
  return h;
}
SymbolHandle compose(Caller& c, const char* op, const char* name, std::vector<SymbolHandle> inputs,
                     std::vector<std::pair<const char*, const char*>> attributes = {}) {
  OpHandle handle = nullptr;
  c.ok(NNGetOpHandle(op, &handle), op);
  std::vector<const char*> keys, texts;
  for (const auto& [k, v] : attributes) keys.push_back(k), texts.push_back(v);
  SymbolHandle made = nullptr;
  c.ok(MXSymbolCreateAtomicSymbol(handle, uint32_t(keys.size()), keys.data(), texts.data(), &made), op);
  c.ok(NNSymbolCompose(made, name, uint32_t(inputs.size()), nullptr, inputs.data()), name);
  for (SymbolHandle s : inputs) c.ok(NNSymbolFree(s), "free a symbol");
  return made;
}
// relu(x w^T) doubled by the program's operator.
SymbolHandle program(Caller& c) {
  SymbolHandle fc = compose(c, "FullyConnected", "fc", {variable(c, "x"), variable(c, "w")},
                            {{"num_hidden", "1"}, {"no_bias", "True"}});
  SymbolHandle relu = compose(c, "Activation", "relu", {fc}, {{"act_type", "relu"}});
  return compose(c, "Custom", "twice", {relu}, {{"op_type", "c_twice"}});
}

NDArrayHandle call(Caller& c, CachedOpHandle op, std::vector<NDArrayHandle> inputs) {
  int count = 0;
  NDArrayHandle* outputs = nullptr;
  const int* storage = nullptr;
  c.ok(MXInvokeCachedOpEx(op, int(inputs.size()), inputs.data(), &count, &outputs, &storage), "call");
  c.expect(count == 1, "one output");
  return outputs[0];
}

// Of several shapes, so that plans are made while others run.
void cached_operator(Caller& c, CachedOpHandle op, NDArrayHandle weight, int turn) {
  const uint32_t rows = uint32_t(1 + (turn + c.seed()) % 3);
  const float own = float(c.seed());
  Floats data, sums, slopes;
  for (uint32_t i = 0; i < rows; ++i) {
    data.insert(data.end(), {own, float(i)});
    sums.push_back(2 * (3 * own + 4 * float(i)));
    slopes.insert(slopes.end(), {6, 8});
  }
  NDArrayHandle x = c.array(data, {rows, 2}), g = c.array(Floats(data.size()), {rows, 2});
  NDArrayHandle y = call(c, op, {x, weight});
  c.expect(c.values(y, rows) == sums, "the cached operator's result");
  c.mark(x, g);
  NDArrayHandle z = c.recorded([&] { return call(c, op, {x, weight}); });
  c.ok(MXAutogradBackward(1, &z, nullptr, 0), "backward");
  c.expect(c.values(g, data.size()) == slopes, "the cached operator's gradient");
  int count = 0;
  NDArrayHandle *outputs = nullptr, wrong[] = {weight, x};
  const int* storage = nullptr;
  NDArrayHandle none[] = {x};
  c.expect(MXInvokeCachedOpEx(op, 1, none, &count, &outputs, &storage) == -1, "an input is missing");
  c.expect(std::strstr(MXGetLastError(), "requires 2 inputs but got 1") != nullptr, "the failure of this thread");
  if (rows > 1) c.expect(MXInvokeCachedOpEx(op, 2, wrong, &count, &outputs, &storage) == -1, "shapes that do not fit");
  c.free({x, g, y, z});
}

void executor(Caller& c, SymbolHandle symbol, NDArrayHandle weight) {
  const float own = float(c.seed());
  NDArrayHandle x = c.array({own, 1}, {1, 2}), g = c.array({0, 0}, {1, 2});
  NDArrayHandle arguments[] = {x, weight}, gradients[] = {g, nullptr};
  uint32_t requests[] = {1, 0}, count = 0;
  ExecutorHandle bound = nullptr;
  c.ok(MXExecutorBindEX(symbol, 1, 0, 0, nullptr, nullptr, nullptr, 2, arguments, gradients, requests, 0, nullptr,
                        nullptr, &bound),
       "bind");
  c.ok(MXExecutorForward(bound, 1), "forward");
  c.ok(MXExecutorBackwardEx(bound, 0, nullptr, 1), "backward");
  NDArrayHandle* outputs = nullptr;
  c.ok(MXExecutorOutputs(bound, &count, &outputs), "outputs");
  NDArrayHandle y = outputs[0];
  c.expect(c.values(y, 1) == Floats{2 * (3 * own + 4)}, "the executor's output");
  c.expect(c.values(g, 2) == Floats{6, 8}, "the executor's gradient");
  c.ok(MXExecutorFree(bound), "free an executor");
  c.free({x, g, y});
}

}  // namespace

TEST_CASE("threads run operators of the program at once, and see their own failures", "[mxnet]") {
  register_operators();
  int64_t before = 0, after = 0;
  REQUIRE(KaonLiveHandles("all", &before) == 0);
  CHECK(on_threads(5, [](Caller& c) {
          for (int turn = 0; turn < 25; ++turn) {
            custom_operator(c);
            if (turn % 5 == 0) failing_operator(c);
          }
        }) == "");
  CHECK(MXNDArrayWaitAll() == 0);
  REQUIRE(KaonLiveHandles("all", &after) == 0);
  CHECK(after == before);
  CHECK(instances == 0);
}

TEST_CASE("threads share a cached operator, a symbol and a weight", "[mxnet]") {
  register_operators();
  int64_t before = 0, after = 0;
  REQUIRE(KaonLiveHandles("all", &before) == 0);
  Failures failures;
  Caller main(failures, 0);
  SymbolHandle symbol = program(main);
  NDArrayHandle weight = main.array({3, 4}, {1, 2});
  CachedOpHandle shared = nullptr;
  main.ok(MXCreateCachedOpEx(symbol, 0, nullptr, nullptr, &shared), "cached operator");
  CHECK(on_threads(5, [&](Caller& c) {
          for (int turn = 0; turn < 15; ++turn) {
            cached_operator(c, shared, weight, turn);
            executor(c, symbol, weight);
            if (turn % 5 != 0) continue;
            SymbolHandle own_symbol = program(c);
            CachedOpHandle own = nullptr;
            const char *keys[] = {"static_alloc", "static_shape"}, *values[] = {"True", "True"};
            c.ok(MXCreateCachedOpEx(own_symbol, 2, keys, values, &own), "cached operator");
            c.ok(NNSymbolFree(own_symbol), "free a symbol");
            cached_operator(c, own, weight, turn);
            c.ok(MXFreeCachedOp(own), "free a cached operator");
          }
        }) == "");
  main.ok(MXFreeCachedOp(shared), "free a cached operator");
  main.ok(NNSymbolFree(symbol), "free a symbol");
  main.free({weight});
  CHECK(MXNDArrayWaitAll() == 0);
  REQUIRE(KaonLiveHandles("all", &after) == 0);
  CHECK(after == before);
}

}  // namespace threads_program_test
