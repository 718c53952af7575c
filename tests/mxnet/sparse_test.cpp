#include <catch2/catch.hpp>

#include "calls.h"

namespace sparse_test {

using namespace symbols;
using Floats = std::vector<float>;

namespace {

int storage_of(const Array& a) {
  int storage = -2;
  ok(MXNDArrayGetStorageType(a.get(), &storage));
  return storage;
}
Array dense(const Array& a) { return one("cast_storage", {&a}, {{"stype", "default"}}); }
Array sparse(const Array& a, const char* stype) { return one("cast_storage", {&a}, {{"stype", stype}}); }
Array data_of(const Array& a) {
  NDArrayHandle h = nullptr;
  ok(MXNDArrayGetDataNDArray(a.get(), &h));
  return Array(h);
}

}  // namespace

TEST_CASE("Sparse arrays are cast, computed with and cast back", "[mxnet]") {
  const Array x({3, 2}, {0, 0, 1, 2, 0, 3});
  for (const auto& [stype, number, stored] : {std::tuple{"row_sparse", 1, 4}, std::tuple{"csr", 2, 3}}) {
    INFO(stype);
    const Array s = sparse(x, stype);
    REQUIRE(storage_of(s) == number);
    REQUIRE(int(data_of(s).values().size()) == stored);
    REQUIRE(dense(s).values() == x.values());
    const Array squares = one("square", {&s});
    REQUIRE(storage_of(squares) == number);
    REQUIRE(dense(squares).values() == Floats{0, 0, 1, 4, 0, 9});
    const Array sum = one("elemwise_add", {&s, &s});
    REQUIRE(storage_of(sum) == number);
    REQUIRE(dense(sum).values() == Floats{0, 0, 2, 4, 0, 6});
    const Array cosines = one("cos", {&s});  // not zero at zero: dense
    REQUIRE(storage_of(cosines) == 0);
    REQUIRE(cosines.values()[0] == 1);
    ok(MXNDArraySyncCheckFormat(s.get(), true));
    ok(invoke_into("_zeros", {}, {{"shape", "(3, 2)"}}, {&s}));
    REQUIRE(dense(s).values() == Floats(6, 0));
  }
}

TEST_CASE("A sparse array is made of its parts", "[mxnet]") {
  const uint32_t shape[] = {3, 2};
  NDArrayHandle h = nullptr;
  int aux_type = 6;
  ok(MXNDArrayCreateSparseEx(1, shape, 2, 1, 0, 0, 0, 1, &aux_type, nullptr, nullptr, &h));
  const Array rows(h), values({1, 2}, {5, 6}), where({1}, {2});
  REQUIRE(dense(rows).values() == Floats(6, 0));
  ok(MXNDArraySyncCopyFromNDArray(rows.get(), values.get(), -1));
  ok(MXNDArraySyncCopyFromNDArray(rows.get(), where.get(), 0));
  REQUIRE(dense(rows).values() == Floats{0, 0, 0, 0, 5, 6});
  int type = 0;
  ok(MXNDArrayGetAuxType(rows.get(), 0, &type));
  REQUIRE(type == 6);
  REQUIRE(MXNDArrayGetAuxType(rows.get(), 1, &type) == -1);
  const Array beyond({1}, {3});
  ok(MXNDArraySyncCopyFromNDArray(rows.get(), beyond.get(), 0));
  REQUIRE(MXNDArraySyncCheckFormat(rows.get(), true) == -1);
  REQUIRE(MXNDArrayCreateSparseEx(2, shape, 1, 1, 0, 0, 0, 0, nullptr, nullptr, nullptr, &h) == -1);
  REQUIRE(MXNDArrayCreateSparseEx(0, shape, 2, 1, 0, 0, 0, 0, nullptr, nullptr, nullptr, &h) == -1);
}

TEST_CASE("A sparse gradient updates the rows that it stores", "[mxnet]") {
  const Array weight({3, 1}, {1, 1, 1}), g({3, 1}, {0, 2, 0});
  const Array gradient = sparse(g, "row_sparse");
  ok(invoke_into("sgd_update", {&weight, &gradient}, {{"lr", "0.5"}, {"wd", "1"}}, {&weight}));
  REQUIRE(weight.values() == Floats{1, -0.5, 1});
}

TEST_CASE("A gradient may be kept sparse", "[mxnet]") {
  const Array x({3, 1}, {1, 2, 3}), nothing({3, 1}, {0, 0, 0}), mask({3, 1}, {0, 1, 0});
  const Array gradient = sparse(nothing, "row_sparse");
  NDArrayHandle v = x.get(), g = gradient.get();
  uint32_t req = 1;
  ok(MXAutogradMarkVariables(1, &v, &req, &g));
  {
    const Recording recording;
    const Array y = one("elemwise_mul", {&x, &mask});
    NDArrayHandle h = y.get();
    ok(MXAutogradBackward(1, &h, nullptr, 0));
  }
  NDArrayHandle h = nullptr;
  ok(MXNDArrayGetGrad(x.get(), &h));
  const Array got(h);
  REQUIRE(storage_of(got) == 1);
  REQUIRE(data_of(got).values() == Floats{1});
  REQUIRE(dense(got).values() == Floats{0, 1, 0});
}

// MXNet's: an update of the gradient's rows alone (momentum, weight decay) moves every row that was read.
TEST_CASE("A sparse gradient has the rows that were read, zeros among them", "[mxnet]") {
  const Array weight({4, 1}, {1, 2, 3, 4}), nothing({4, 1}, {0, 0, 0, 0}), where({3}, {3, 1, 3});
  const Array gradient = sparse(nothing, "row_sparse");
  NDArrayHandle v = weight.get(), g = gradient.get();
  const auto rows = [&] {
    NDArrayHandle h = nullptr;
    ok(MXNDArrayGetAuxNDArray(gradient.get(), 0, &h));
    const Array aux(h);
    return one("Cast", {&aux}, {{"dtype", "float32"}}).values();
  };
  const Texts attributes{{"input_dim", "4"}, {"output_dim", "1"}, {"sparse_grad", "True"}};
  const Sym x = Sym::variable("x"), w = Sym::variable("w");
  const Sym look = Sym::call("Embedding", "e", attributes, {&x, &w});
  CachedOpHandle op = nullptr;
  ok(MXCreateCachedOpEx(look.get(), 0, nullptr, nullptr, &op));
  const auto backward = [&](bool hybridized, const Floats& head, const Array* indices) {
    const Recording recording;
    Array y({1}, {0});
    if (hybridized) {
      NDArrayHandle inputs[] = {indices->get(), weight.get()}, *results = nullptr;
      const int* storage = nullptr;
      int n = 0;
      ok(MXInvokeCachedOpEx(op, 2, inputs, &n, &results, &storage));
      y = Array(results[0]);
    } else {
      y = one("Embedding", {indices, &weight}, attributes);
    }
    const Array heads({uint32_t(head.size()), 1}, head);
    NDArrayHandle h = y.get(), given = heads.get();
    ok(MXAutogradBackward(1, &h, &given, 0));
  };
  for (bool hybridized : {false, true}) {
    INFO(hybridized);
    uint32_t req = 1;
    ok(MXAutogradMarkVariables(1, &v, &req, &g));
    backward(hybridized, {1, 0, 2}, &where);
    CHECK(rows() == Floats{1, 3});
    CHECK(data_of(gradient).values() == Floats{0, 3});
    const Array other({1}, {2});
    backward(hybridized, {0}, &other);
    CHECK(rows() == Floats{2});
    CHECK(dense(gradient).values() == Floats(4, 0));
    ok(invoke_into("sgd_update", {&weight, &gradient}, {{"lr", "0.5"}, {"wd", "1"}}, {&weight}));
    CHECK(weight.values() == Floats{1, 2, 1.5, 4});
    weight.set({1, 2, 3, 4});
    req = 3;  // adds
    ok(MXAutogradMarkVariables(1, &v, &req, &g));
    backward(hybridized, {0, 0, 0}, &where);
    CHECK(rows() == Floats{1, 2, 3});
    ok(invoke_into("_zeros", {}, {{"shape", "(4, 1)"}}, {&gradient}));
    backward(hybridized, {5}, &other);
    CHECK(rows() == Floats{2});
  }
  ok(MXFreeCachedOp(op));
}

TEST_CASE("The gradient of a product with a csr matrix has the rows of its stored columns", "[mxnet]") {
  const Array weight({4, 1}, {1, 2, 3, 4}), nothing({4, 1}, {0, 0, 0, 0}), matrix({2, 4}, {0, 2, 0, 0, 0, 3, 0, 4});
  const Array gradient = sparse(nothing, "row_sparse"), x = sparse(matrix, "csr"), heads({2, 1}, {1, 0});
  NDArrayHandle v = weight.get(), g = gradient.get();
  uint32_t req = 1;
  ok(MXAutogradMarkVariables(1, &v, &req, &g));
  {
    const Recording recording;
    const Array y = one("dot", {&x, &weight});
    NDArrayHandle h = y.get(), given = heads.get();
    ok(MXAutogradBackward(1, &h, &given, 0));
  }
  NDArrayHandle h = nullptr;
  ok(MXNDArrayGetAuxNDArray(gradient.get(), 0, &h));
  const Array rows(h);
  CHECK(one("Cast", {&rows}, {{"dtype", "float32"}}).values() == Floats{1, 3});
  CHECK(data_of(gradient).values() == Floats{2, 0});
}

TEST_CASE("A sparse variable and the dense array of its recorded computations keep the same values", "[mxnet]") {
  const Array start({3, 1}, {1, 0, 3}), nothing({3, 1}, {0, 0, 0}), other({3, 1}, {0, 5, 0});
  const Array x = sparse(start, "row_sparse"), gradient = sparse(nothing, "row_sparse");
  const auto mark = [&] {
    NDArrayHandle v = x.get(), g = gradient.get();
    uint32_t req = 1;
    ok(MXAutogradMarkVariables(1, &v, &req, &g));
  };
  mark();
  ok(invoke_into("_copyto", {&other}, {}, {&x}));
  REQUIRE(dense(x).values() == Floats{0, 5, 0});
  REQUIRE(data_of(x).values() == Floats{5});
  {
    const Recording recording;
    const Array y = one("square", {&x});
    NDArrayHandle h = y.get();
    ok(MXAutogradBackward(1, &h, nullptr, 0));
  }
  REQUIRE(dense(gradient).values() == Floats{0, 10, 0});
  ok(invoke_into("sgd_update", {&x, &gradient}, {{"lr", "0.5"}}, {&x}));
  REQUIRE(dense(x).values() == Floats{0, 0, 0});
  ok(invoke_into("_copyto", {&start}, {}, {&x}));
  mark();
  REQUIRE(dense(x).values() == Floats{1, 0, 3});
  REQUIRE(data_of(x).values() == Floats{1, 3});
}

}  // namespace sparse_test
