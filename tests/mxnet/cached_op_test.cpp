#include <cmath>
#include <cstdlib>
#include <optional>

#include "calls.h"

namespace cached_op_test {

using namespace symbols;
using Catch::Contains;

namespace {

struct CachedOp {
  explicit CachedOp(const Sym& symbol, const Texts& flags = {}) {
    std::vector<const char*> keys, values;
    for (const auto& [k, v] : flags) keys.push_back(k.c_str()), values.push_back(v.c_str());
    ok(MXCreateCachedOpEx(symbol.get(), int(keys.size()), keys.data(), values.data(), &handle));
  }
  ~CachedOp() { MXFreeCachedOp(handle); }
  CachedOp(const CachedOp&) = delete;
  std::vector<Array> operator()(const std::vector<const Array*>& arrays) const {
    std::vector<NDArrayHandle> in = handles_of(arrays);
    int n = 0;
    NDArrayHandle* out = nullptr;
    const int* kinds = nullptr;
    ok(MXInvokeCachedOpEx(handle, int(in.size()), in.data(), &n, &out, &kinds));
    std::vector<Array> results;
    for (int i = 0; i < n; ++i) {
      CHECK(kinds[i] == 0);
      results.emplace_back(out[i]);
    }
    return results;
  }
  int into(const std::vector<const Array*>& arrays, const std::vector<const Array*>& outputs) const {
    std::vector<NDArrayHandle> in = handles_of(arrays), out = handles_of(outputs);
    int n = int(out.size());
    NDArrayHandle* list = out.data();
    const int* kinds = nullptr;
    return MXInvokeCachedOpEx(handle, int(in.size()), in.data(), &n, &list, &kinds);
  }
  CachedOpHandle handle = nullptr;
};

Sym product() {
  const Sym x = Sym::variable("x"), y = Sym::variable("y");
  return Sym::call("elemwise_mul", "m", {}, {&x, &y});
}

// The gradient of x is written to `gradient`.
void attach(const Array& x, const Array& gradient) {
  NDArrayHandle variable = x.get(), attached = gradient.get();
  uint32_t write = 1;
  ok(MXAutogradMarkVariables(1, &variable, &write, &attached));
}

std::vector<std::string> seen;
void note(const char* node, const char* op, NDArrayHandle array) {
  seen.push_back(std::string(node) + " " + op);
  MXNDArrayFree(array);
}

}  // namespace

TEST_CASE("a CachedOp computes, for each shape, also of none", "[mxnet]") {
  for (const char* fixed : {"False", "True"}) {
    const CachedOp op(product(), {{"static_alloc", fixed}, {"static_shape", fixed}, {"inline_limit", "2"}});
    for (uint32_t n : {2u, 3u, 2u}) {
      const Array x({n}, std::vector<float>(n, 2)), y({n}, std::vector<float>(n, 5));
      CHECK(op({&x, &y})[0].values() == std::vector<float>(n, 10));
    }
  }
  int before = 0;
  ok(MXSetIsNumpyShape(1, &before));
  const CachedOp op(product());
  const Array x({0, 4}, {}), y({0, 4}, {});
  CHECK(op({&x, &y})[0].shape() == std::vector<int>{0, 4});
  ok(MXSetIsNumpyShape(before, &before));
}

TEST_CASE("a CachedOp writes into arrays that are given", "[mxnet]") {
  const CachedOp op(product());
  const Array x({2}, {1, 2}), y({2}, {3, 4}), out({2}, {0, 0}), large({3}, {0, 0, 0});
  ok(op.into({&x, &y}, {&out}));
  CHECK(out.values() == std::vector<float>{3, 8});
  ok(op.into({&x, &y}, {&x}));  // an input too
  CHECK(x.values() == std::vector<float>{3, 8});
  CHECK(op.into({&x, &y}, {&large}) == -1);
  CHECK(op.into({&x, &y}, {&out, &out}) == -1);
  CHECK(op.into({&x}, {&out}) == -1);
  CHECK_THAT(MXGetLastError(), Contains("requires 2 inputs but got 1"));
  CHECK(op.into({&x, &large}, {&out}) == -1);
  CHECK_THAT(MXGetLastError(), Contains("in node m"));
}

TEST_CASE("a recorded call of a CachedOp has a gradient, after the CachedOp is gone too", "[mxnet]") {
  const Array x({2}, {1, 2}), y({2}, {3, 4}), gradient({2}, {7, 7});
  attach(x, gradient);
  int before = 0;
  ok(MXAutogradSetIsRecording(1, &before));
  std::vector<Array> results;
  {
    const CachedOp op(product());
    results = op({&x, &y});
  }
  ok(MXAutogradSetIsRecording(before, &before));
  NDArrayHandle head = results[0].get();
  ok(MXAutogradBackward(1, &head, nullptr, 0));
  CHECK(gradient.values() == std::vector<float>{3, 4});
}

TEST_CASE("a CachedOp computes results whose shapes depend on values", "[mxnet]") {
  const Sym x = Sym::variable("x"), index = Sym::variable("index");
  const Sym chosen = Sym::call("_contrib_boolean_mask", "chosen", {{"axis", "0"}}, {&x, &index});
  const CachedOp op(Sym::call("_mul_scalar", "twice", {{"scalar", "2"}}, {&chosen}));
  const Array data({3, 2}, {1, 2, 3, 4, 5, 6}), gradient({3, 2}, {7, 7, 7, 7, 7, 7});
  const Array two({3}, {0, 1, 1});
  CHECK(op({&data, &two})[0].values() == std::vector<float>{6, 8, 10, 12});
  attach(data, gradient);
  std::vector<Array> results;
  {
    const Recording recording;
    const Array one({3}, {0, 0, 1});
    results = op({&data, &one});
  }
  CHECK(results[0].values() == std::vector<float>{10, 12});
  NDArrayHandle head = results[0].get();
  ok(MXAutogradBackward(1, &head, nullptr, 0));
  CHECK(gradient.values() == std::vector<float>{0, 0, 0, 0, 2, 2});
}

TEST_CASE("a CachedOp takes sparse arrays for their values", "[mxnet]") {
  const Array x({2, 2}, {1, 0, 0, 2}), y({2, 2}, {3, 4, 5, 6}), gradient({2, 2}, {0, 0, 0, 0});
  const Array csr = one("cast_storage", {&x}, {{"stype", "csr"}});
  const Array rows = one("cast_storage", {&x}, {{"stype", "row_sparse"}});
  attach(y, gradient);
  const CachedOp op(product());
  CHECK(op({&rows, &y})[0].values() == std::vector<float>{3, 0, 0, 12});
  std::vector<Array> results;
  {
    const Recording recording;
    results = op({&csr, &y});
  }
  CHECK(results[0].values() == std::vector<float>{3, 0, 0, 12});
  NDArrayHandle head = results[0].get();
  ok(MXAutogradBackward(1, &head, nullptr, 0));
  CHECK(gradient.values() == std::vector<float>{1, 0, 0, 2});
}

TEST_CASE("a CachedOp of few operators is recorded as these", "[mxnet]") {
  const Array x({2}, {1, 2}), y({2}, {3, 4}), gradient({2}, {0, 0});
  attach(x, gradient);
  const Sym a = Sym::variable("a"), b = Sym::variable("b"), product = Sym::call("elemwise_mul", "m", {}, {&a, &b});
  const Sym square = Sym::call("square", "s", {}, {&product});
  for (const char* limit : {"1", "2"}) {
    const CachedOp op(square, {{"inline_limit", limit}});
    std::vector<Array> results;
    {
      const Recording recording;
      results = op({&x, &y});
    }
    SymbolHandle handle = nullptr;
    ok(MXAutogradGetSymbol(results[0].get(), &handle));
    const Sym recorded(handle);
    CHECK(recorded.arguments().size() == 2);
    const bool is_inlined = *limit == '2';
    CHECK((recorded.tojson().find("\"square\"") != std::string::npos) == is_inlined);
    CHECK((recorded.tojson().find("_CachedOp") != std::string::npos) == !is_inlined);
    NDArrayHandle head = results[0].get();
    ok(MXAutogradBackward(1, &head, nullptr, 0));
    CHECK(gradient.values() == std::vector<float>{18, 64});
  }
}

TEST_CASE("first states of unknown size get the size that the data has", "[mxnet]") {
  const Sym x = Sym::variable("x");
  const Sym zeros = Sym::call("_zeros", "begin", {{"shape", "(0, 2)"}}, {});
  const CachedOp op(Sym::call("elemwise_add", "sum", {}, {&x, &zeros}));
  for (uint32_t n : {3u, 1u}) {
    const Array data({n, 2}, std::vector<float>(2 * n, 4));
    CHECK(op({&data})[0].values() == std::vector<float>(2 * n, 4));
  }
}

TEST_CASE("hooks see each operator's outputs, or its inputs too", "[mxnet]") {
  const Sym x = Sym::variable("x"), w = Sym::variable("w");
  const Sym fc = Sym::call("FullyConnected", "fc", {{"num_hidden", "1"}, {"no_bias", "True"}}, {&x, &w});
  const CachedOp op(Sym::call("Activation", "act", {{"act_type", "relu"}}, {&fc}));
  const Array data({1, 2}, {1, 2}), weight({1, 2}, {3, 4});
  seen.clear();
  ok(MXCachedOpRegisterOpHook(op.handle, note, false));
  CHECK(op({&data, &weight})[0].values() == std::vector<float>{11});
  CHECK(seen == std::vector<std::string>{"fc_output FullyConnected", "act_output Activation"});
  seen.clear();
  ok(MXCachedOpRegisterOpHook(op.handle, note, true));
  op({&data, &weight});
  CHECK(seen == std::vector<std::string>{"fc_data FullyConnected", "fc_weight FullyConnected",
                                         "fc_output FullyConnected", "act_input0 Activation", "act_output Activation"});
}

TEST_CASE("hooks see gradients as long as they are there", "[mxnet]") {
  const Sym x = Sym::variable("x"), w = Sym::variable("w");
  const Sym fc = Sym::call("FullyConnected", "fc", {{"num_hidden", "1"}, {"no_bias", "True"}}, {&x, &w});
  const Sym symbol = Sym::call("Activation", "act", {{"act_type", "relu"}}, {&fc});
  const Array data({1, 2}, {1, 2}), weight({1, 2}, {3, 4}), gradient({1, 2}, {0, 0});
  attach(weight, gradient);
  const auto backward = [&](bool is_kept) {
    std::optional<CachedOp> op(std::in_place, symbol);
    ok(MXCachedOpRegisterOpHook(op->handle, note, false));
    std::vector<Array> results;
    {
      const Recording recording;
      results = (*op)({&data, &weight});
    }
    if (is_kept) {
      ok(MXCachedOpRegisterOpHook(op->handle, note, false));  // as a block does before its next call
    } else {
      op.reset();
    }
    seen.clear();
    NDArrayHandle head = results[0].get();
    ok(MXAutogradBackward(1, &head, nullptr, 0));
    CHECK(gradient.values() == std::vector<float>{1, 2});
    return seen;
  };
  CHECK(backward(true) ==
        std::vector<std::string>{"act_backward_0 _backward_Activation", "fc_backward_1 _backward_FullyConnected"});
  CHECK(backward(false).empty());
}

TEST_CASE("a CachedOp computes by Winograd's algorithm unless a flag or the environment says no", "[mxnet]") {
  const Sym x = Sym::variable("x"), w = Sym::variable("w");
  const Sym symbol =
      Sym::call("Convolution", "c", {{"kernel", "(3, 3)"}, {"num_filter", "32"}, {"no_bias", "True"}}, {&x, &w});
  const auto numbers = [](size_t n) {
    std::vector<float> v(n);
    for (size_t i = 0; i < n; ++i) v[i] = float(int(i * 2654435761u >> 20 & 0xfff) - 2048) / 2048;
    return v;
  };
  const Array data({2, 32, 14, 14}, numbers(2 * 32 * 14 * 14)), weight({32, 32, 3, 3}, numbers(32 * 32 * 9));
  const auto result = [&](const Texts& flags) { return CachedOp(symbol, flags)({&data, &weight})[0].values(); };
  const std::vector<float> direct = result({{"winograd", "False"}}), by_flag = result({{"winograd", "True"}});
  CHECK(result({}) == by_flag);
  CHECK(by_flag != direct);
  float worst = 0;
  for (size_t i = 0; i < direct.size(); ++i) worst = std::max(worst, std::abs(by_flag[i] - direct[i]));
  CHECK(worst < 1e-3f);
  ::setenv("KAON_WINOGRAD", "0", 1);
  CHECK(result({}) == direct);
  CHECK(result({{"winograd", "True"}}) == by_flag);
  ::setenv("KAON_WINOGRAD", "perhaps", 1);
  CachedOpHandle h = nullptr;
  CHECK(MXCreateCachedOpEx(symbol.get(), 0, nullptr, nullptr, &h) == -1);
  CHECK_THAT(MXGetLastError(), Contains("KAON_WINOGRAD must be 0 or 1, got 'perhaps'"));
  ::unsetenv("KAON_WINOGRAD");
  CHECK(result({}) == by_flag);
}

TEST_CASE("a CachedOp is refused without outputs, inputs or sense", "[mxnet]") {
  CachedOpHandle h = nullptr;
  CHECK(MXCreateCachedOpEx(nullptr, 0, nullptr, nullptr, &h) == -1);
  CHECK(MXCreateCachedOpEx(Sym::group({}).get(), 0, nullptr, nullptr, &h) == -1);
  CHECK(MXCreateCachedOpEx(Sym::atomic("Flatten").get(), 0, nullptr, nullptr, &h) == -1);
  const char *key = "static_shape", *value = "True", *nonsense = "perhaps";
  CHECK(MXCreateCachedOpEx(product().get(), 1, &key, &nonsense, &h) == -1);
  const Sym symbol = product();
  CHECK(MXCreateCachedOpEx(symbol.get(), 1, &key, &value, &h) == -1);  // without static_alloc
  CHECK_THAT(MXGetLastError(), Contains("static_alloc"));
  int n = 0;
  NDArrayHandle* out = nullptr;
  const int* kinds = nullptr;
  CHECK(MXInvokeCachedOpEx(nullptr, 0, nullptr, &n, &out, &kinds) == -1);
  CHECK(MXCachedOpRegisterOpHook(nullptr, note, false) == -1);
  ok(MXFreeCachedOp(nullptr));
}

}  // namespace cached_op_test
