// Operators of a program from before CustomOp.
#include "calls.h"

namespace custom_test {

using namespace symbols;
using Catch::Contains;

namespace {

// As MXNet's NumpyOp has them.
struct Functions {
  void (*forward)(int, float**, int*, unsigned**, int*, void*);
  void (*backward)(int, float**, int*, unsigned**, int*, void*);
  void (*infer_shape)(int, int*, int**, void*);
  void (*list_outputs)(char***, void*);
  void (*list_arguments)(char***, void*);
  void* last[5];
};

char output[] = "twice", argument[] = "input";
char *outputs[] = {output, nullptr}, *arguments[] = {argument, nullptr};

// Tags: 0 an input, 1 an output, 2 a gradient of an input, 3 one of an output.
float* tagged(int tag, int n, float** data, const int* tags) {
  for (int i = 0; i < n; ++i) {
    if (tags[i] == tag) return data[i];
  }
  return nullptr;
}
void twice(int from, int to, int n, float** data, const int* ndims, unsigned** shapes, const int* tags) {
  const float* const x = tagged(from, n, data, tags);
  float* const y = tagged(to, n, data, tags);
  for (unsigned i = 0; ndims[0] == 1 && i < shapes[0][0]; ++i) y[i] = 2 * x[i];
}

const Functions functions{.forward = [](int n, float** data, int* ndims, unsigned** shapes, int* tags,
                                        void*) { twice(0, 1, n, data, ndims, shapes, tags); },
                          .backward = [](int n, float** data, int* ndims, unsigned** shapes, int* tags,
                                         void*) { twice(3, 2, n, data, ndims, shapes, tags); },
                          .infer_shape =
                              [](int, int* ndims, int** shapes, void*) {
                                ndims[1] = ndims[0];
                                shapes[1] = shapes[0];
                              },
                          .list_outputs = [](char*** names, void*) { *names = outputs; },
                          .list_arguments = [](char*** names, void*) { *names = arguments; },
                          .last = {}};

std::string address() {
  char text[32];
  std::snprintf(text, sizeof text, "%zx", reinterpret_cast<size_t>(&functions));
  return text;
}

}  // namespace

TEST_CASE("A NumpyOp computes in the memory of arrays", "[mxnet]") {
  const Array x({3}, {1, 2, 3});
  REQUIRE(one("_Native", {&x}, {{"info", address()}, {"need_top_grad", "True"}}).values() ==
          std::vector<float>{2, 4, 6});
  const Sym v = Sym::variable("v");
  const Sym s = Sym::call("_Native", "op", {{"info", address()}}, {&v});
  REQUIRE(s.outputs() == std::vector<std::string>{"op_twice"});
  const Array dx({3}, {0, 0, 0}), head({3}, {1, 0, 5});
  NDArrayHandle args[] = {x.get()}, grads[] = {dx.get()}, heads[] = {head.get()}, *results = nullptr;
  uint32_t request = 1, n = 0;
  ExecutorHandle e = nullptr;
  ok(MXExecutorBindEX(s.get(), 1, 0, 0, nullptr, nullptr, nullptr, 1, args, grads, &request, 0, nullptr, nullptr, &e));
  ok(MXExecutorForward(e, 1));
  ok(MXExecutorOutputs(e, &n, &results));
  REQUIRE(Array(results[0]).values() == std::vector<float>{2, 4, 6});
  ok(MXExecutorBackwardEx(e, 1, heads, 1));
  REQUIRE(dx.values() == std::vector<float>{2, 0, 10});
  ok(MXExecutorFree(e));
}

TEST_CASE("No address comes from elsewhere", "[mxnet]") {
  const Array x({1}, {1});
  std::vector<Array> results;
  REQUIRE(invoke("_Native", {&x}, {{"info", "none"}}, results) == -1);
  REQUIRE(invoke("Custom", {&x}, {{"op_type", "_Native"}, {"info", address()}}, results) == -1);
  REQUIRE_THAT(MXGetLastError(), Contains("info must name functions of this process"));
}

}  // namespace custom_test
