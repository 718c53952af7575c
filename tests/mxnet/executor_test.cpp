#include "executors.h"

namespace executor_test {

using namespace symbols;
using Catch::Contains;

namespace {

Sym product() {
  const Sym x = Sym::variable("x"), y = Sym::variable("y");
  return Sym::call("elemwise_mul", "m", {}, {&x, &y});
}

Sym dense() {
  const Sym x = Sym::variable("x");
  return Sym::call("FullyConnected", "fc", {{"num_hidden", "2"}}, {&x});
}

}  // namespace

TEST_CASE("an executor reads and writes the arrays that it is bound to", "[mxnet]") {
  const Array x({2}, {1, 2}), y({2}, {3, 4}), dx({2}, {9, 9}), dy({2}, {1, 1});
  const Executor e = bind(product(), {&x, &y}, {&dx, &dy}, {write_request, add_request});
  const std::vector<Array> outputs = e.outputs();
  CHECK(e.forward(true) == std::vector<float>{3, 8});
  CHECK(outputs[0].values() == std::vector<float>{3, 8});  // the memory of before
  ok(e.backward());
  CHECK(dx.values() == std::vector<float>{3, 4});
  CHECK(dy.values() == std::vector<float>{2, 3});
  ok(e.backward());  // again
  CHECK(dx.values() == std::vector<float>{3, 4});
  CHECK(dy.values() == std::vector<float>{3, 5});
  x.set({10, 20});
  CHECK(e.forward() == std::vector<float>{30, 80});
  const Array head({2}, {1, 0});
  ok(e.backward({&head}));  // after a forward that did not train
  CHECK(dx.values() == std::vector<float>{3, 0});
}

// The numbers are those of MXNet 1.9.1: results of the forward as they were, arguments as they are.
TEST_CASE("an executor's gradient takes arguments that have changed since the forward", "[mxnet]") {
  const Array x({2}, {0.5f, 1}), w({2}, {1, 2}), dx({2}, {0, 0}), dw({2}, {0, 0}), head({2}, {1, 1});
  const Sym xs = Sym::variable("x"), ws = Sym::variable("w");
  const Sym product = Sym::call("elemwise_mul", "m", {}, {&xs, &ws}), bent = Sym::call("tanh", "t", {}, {&product});
  const Executor e =
      bind(Sym::call("elemwise_mul", "y", {}, {&bent, &ws}), {&x, &w}, {&dx, &dw}, {write_request, write_request});
  e.forward(true);
  w.set({3, 5});
  ok(e.backward({&head}));
  const std::vector<float> expected_dx{7.078029f, 1.7662704f}, expected_dw{1.6417887f, 1.3172817f};
  for (size_t i = 0; i < 2; ++i) {
    CHECK(dx.values()[i] == Approx(expected_dx[i]));
    CHECK(dw.values()[i] == Approx(expected_dw[i]));
  }
}

TEST_CASE("a backward comes before any forward, and after the arguments have changed", "[mxnet]") {
  const Array x({1}, {2}), y({1}, {3}), dx({1}, {0}), dy({1}, {0});
  const Executor e = bind(product(), {&x, &y}, {&dx, &dy}, {write_request, write_request});
  ok(e.backward());
  CHECK(dx.values() == std::vector<float>{3});
  e.forward(true);
  y.set({7});
  ok(e.backward());
  CHECK(dx.values() == std::vector<float>{7});
}

TEST_CASE("what no gradient reaches is zero, and what wants none stays", "[mxnet]") {
  const Sym x = Sym::variable("x"), y = Sym::variable("y");
  const Sym blocked = Sym::call("BlockGrad", "b", {}, {&y});
  const Sym sum = Sym::call("elemwise_add", "s", {}, {&x, &blocked});
  const Array a({1}, {2}), b({1}, {3}), da({1}, {5}), db({1}, {5});
  {
    const Executor e = bind(sum, {&a, &b}, {&da, &db}, {null_request, write_request});
    e.forward(true);
    ok(e.backward());
    CHECK(da.values() == std::vector<float>{5});
    CHECK(db.values() == std::vector<float>{0});
  }
  db.set({5});
  const Executor e = bind(sum, {&a, &b}, {&da, &db}, {write_request, add_request});
  e.forward(true);
  ok(e.backward());
  CHECK(da.values() == std::vector<float>{1});
  CHECK(db.values() == std::vector<float>{5});
}

TEST_CASE("a head that no derivative reads may have any shape", "[mxnet]") {
  const Sym x = Sym::variable("x");
  const Array data({2, 3}, {1, 3, 2, 6, 5, 4}), slopes({2, 3}, {9, 9, 9, 9, 9, 9}), head({3}, {1, 1, 1});
  const Executor e = bind(Sym::call("argmax", "a", {{"axis", "1"}}, {&x}), {&data}, {&slopes}, {write_request});
  CHECK(e.forward(true) == std::vector<float>{1, 0});
  ok(e.backward({&head}));
  CHECK(slopes.values() == std::vector<float>(6, 0));
  const Executor squares = bind(Sym::call("square", "s", {}, {&x}), {&data}, {&slopes}, {write_request});
  squares.forward(true);
  CHECK(squares.backward({&head}) == -1);
}

TEST_CASE("one gradient array serves two executors", "[mxnet]") {
  const Array x({1}, {2}), y({1}, {3}), z({1}, {4}), dx({1}, {0});
  const Executor first = bind(product(), {&x, &y}, {&dx, nullptr}, {add_request, null_request});
  const Executor second = bind(product(), {&x, &z}, {&dx, nullptr}, {add_request, null_request});
  for (const Executor* e : {&first, &second}) {
    e->forward(true);
    ok(e->backward());
  }
  CHECK(dx.values() == std::vector<float>{7});
}

TEST_CASE("simple_bind makes arrays of inferred shapes, and shares those of another executor", "[mxnet]") {
  Executor e;
  ok(try_simple_bind(dense(), {{"x", {4, 3}}}, "write", &e));
  REQUIRE(e.arguments.size() == 3);
  CHECK(e.arguments[1].shape() == std::vector<int>{2, 3});
  CHECK(e.gradients[1].shape() == std::vector<int>{2, 3});
  e.arguments[0].set(std::vector<float>(12, 1));
  e.arguments[1].set({1, 2, 3, 4, 5, 6});
  CHECK(e.forward(true) == std::vector<float>{6, 15, 6, 15, 6, 15, 6, 15});
  ok(e.backward());
  CHECK(e.gradients[2].values() == std::vector<float>{4, 4});

  Executor other;
  ok(try_simple_bind(dense(), {{"x", {1, 3}}}, "null", &other, {"fc_weight", "fc_bias"}, e.handle));
  CHECK(other.gradients[1].get() == nullptr);
  other.arguments[0].set({1, 0, 0});
  CHECK(other.forward() == std::vector<float>{1, 4});
  other.arguments[1].set({0, 0, 0, 0, 0, 0});
  CHECK(e.forward() == std::vector<float>(8, 0));
}

TEST_CASE("simple_bind makes sparse arrays for variables that are sparse", "[mxnet]") {
  const auto sparse = [](const char* name, const char* storage) {
    Sym made = Sym::variable(name);
    ok(MXSymbolSetAttr(made.get(), "__storage_type__", storage));
    return made;
  };
  const auto storage_of = [](const Array& array) {
    int number = -2;
    ok(MXNDArrayGetStorageType(array.get(), &number));
    return number;
  };
  const auto dense_values = [](const Array& array) {
    return one("cast_storage", {&array}, {{"stype", "default"}}).values();
  };
  const Sym data = sparse("data", "2"), weight = sparse("weight", "1");
  const Sym symbol = Sym::call("dot", "product", {}, {&data, &weight});
  Executor executor;
  ok(try_simple_bind(symbol, {{"data", {2, 3}}, {"weight", {3, 1}}}, "write", &executor));
  CHECK(storage_of(executor.arguments[0]) == 2);
  CHECK(storage_of(executor.arguments[1]) == 1);
  CHECK(storage_of(executor.gradients[1]) == 1);
  CHECK(executor.forward(true) == std::vector<float>{0, 0});
  const Array rows({2, 3}, {1, 0, 2, 0, 0, 3}), values({3, 1}, {5, 6, 7});
  ok(invoke_into("_copyto", {&rows}, {}, {&executor.arguments[0]}));
  ok(invoke_into("_copyto", {&values}, {}, {&executor.arguments[1]}));
  CHECK(executor.forward(true) == std::vector<float>{19, 21});
  const Array head({2, 1}, {1, 10});
  ok(executor.backward({&head}));
  CHECK(dense_values(executor.gradients[1]) == std::vector<float>{1, 0, 32});
  Executor larger;
  ok(try_reshape(executor, {{"data", {4, 3}}, {"weight", {3, 1}}}, true, true, &larger));
  CHECK(storage_of(larger.arguments[0]) == 2);
  CHECK(dense_values(larger.arguments[1]) == std::vector<float>{5, 6, 7});
  CHECK(larger.forward() == std::vector<float>(4, 0));
  const Sym odd = sparse("data", "7");
  Executor none;
  CHECK(try_simple_bind(Sym::call("square", "s", {}, {&odd}), {{"data", {2, 3}}}, "null", &none) == -1);
  CHECK_THAT(MXGetLastError(), Contains("7 is no storage type"));
}

TEST_CASE("simple_bind says which shapes do not follow, and what does not fit", "[mxnet]") {
  Executor e;
  CHECK(try_simple_bind(dense(), {}, "write", &e) == -1);
  CHECK_THAT(MXGetLastError(), Contains("cannot decide shapes") && Contains("fc_weight"));
  CHECK(try_simple_bind(dense(), {{"x", {4, 3}}, {"fc_weight", {2, 5}}}, "write", &e) == -1);
  CHECK_THAT(MXGetLastError(), Contains("fc"));
  CHECK(try_simple_bind(dense(), {{"x", {4, 3}}}, "sometimes", &e) == -1);
  CHECK_THAT(MXGetLastError(), Contains("sometimes"));
  CHECK(e.handle == nullptr);
}

TEST_CASE("a reshaped executor uses the memory of the one before", "[mxnet]") {
  Executor e;
  ok(try_simple_bind(dense(), {{"x", {4, 3}}}, "write", &e));
  e.arguments[0].set(std::vector<float>(12, 1));
  e.arguments[1].set({1, 1, 1, 2, 2, 2});
  Executor small;
  ok(try_reshape(e, {{"x", {2, 3}}}, false, false, &small));
  CHECK(small.arguments[0].shape() == std::vector<int>{2, 3});
  CHECK(small.forward() == std::vector<float>{3, 6, 3, 6});
  CHECK(e.outputs()[0].values() == std::vector<float>{3, 6, 3, 6, 0, 0, 0, 0});
  small.arguments[0].set(std::vector<float>(6, 0));
  CHECK(e.forward() == std::vector<float>{0, 0, 0, 0, 3, 6, 3, 6});

  Executor large;
  CHECK(try_reshape(e, {{"x", {9, 3}}}, false, false, &large) == -1);
  CHECK_THAT(MXGetLastError(), Contains("allow_up_sizing"));
  ok(try_reshape(e, {{"x", {9, 3}}}, false, true, &large));
  CHECK(large.arguments[0].values() == std::vector<float>(27, 0));
  CHECK(large.arguments[1].values() == std::vector<float>{1, 1, 1, 2, 2, 2});
  Executor wide;
  CHECK(try_reshape(e, {{"x", {4, 2}}}, false, false, &wide) == -1);
  CHECK_THAT(MXGetLastError(), Contains("fc_weight") && Contains("partial_shaping"));
  ok(try_reshape(e, {{"x", {4, 2}}}, true, false, &wide));
  CHECK(wide.arguments[1].shape() == std::vector<int>{2, 2});
}

TEST_CASE("arrays of named contexts are copied to where the executor runs", "[mxnet]") {
  const Sym x = Sym::variable("x"), y = Sym::variable("y");
  Sym first = Sym::call("elemwise_mul", "m", {{"ctx_group", "one"}}, {&x, &y});
  const Sym last = Sym::call("_plus_scalar", "p", {{"scalar", "1"}, {"ctx_group", "two"}}, {&first});
  NDArrayHandle raw = nullptr;
  const uint32_t dims[] = {2};
  ok(MXNDArrayCreateEx(dims, 1, 1, 1, 0, 0, &raw));
  const Array a(raw), b({2}, {3, 4}), da({2}, {0, 0}), db({2}, {0, 0});
  a.set({1, 2});
  std::vector<NDArrayHandle> args = handles_of({&a, &b}), grads = handles_of({&da, &db});
  uint32_t requests[] = {write_request, add_request};
  const char* keys[] = {"one", "two"};
  const int types[] = {1, 1}, ids[] = {0, 2};
  Executor e;
  ok(MXExecutorBindEX(last.get(), 1, 0, 2, keys, types, ids, 2, args.data(), grads.data(), requests, 0, nullptr,
                      nullptr, &e.handle));
  CHECK(e.forward(true) == std::vector<float>{4, 9});
  int type = 0, id = 0;
  ok(MXNDArrayGetContext(e.outputs()[0].get(), &type, &id));
  CHECK(type == 1);
  CHECK(id == 2);
  ok(e.backward());
  CHECK(da.values() == std::vector<float>{3, 4});
  CHECK(db.values() == std::vector<float>{1, 2});
}

TEST_CASE("what an executor says of itself", "[mxnet]") {
  const Sym x = Sym::variable("x");
  const Sym a = Sym::call("_plus_scalar", "a", {{"scalar", "1"}}, {&x});
  const Sym b = Sym::call("_plus_scalar", "b", {{"scalar", "1"}}, {&x});
  const Sym sum = Sym::call("elemwise_add", "s", {}, {&a, &b});
  const Array data({1}, {1});
  const Executor e = bind(sum, {&data});
  const char* text = nullptr;
  ok(MXExecutorPrint(e.handle, &text));
  CHECK_THAT(text, Contains("Op:elemwise_add, Name=s") && Contains("Total 0 MB allocated"));
  SymbolHandle h = nullptr;
  ok(MXExecutorGetOptimizedSymbol(e.handle, &h));
  CHECK(Sym(h).by(MXSymbolGetInternals).outputs() == std::vector<std::string>{"x", "a_output", "s_output"});
}

TEST_CASE("an executor is refused for arrays that do not fit", "[mxnet]") {
  const Array x({2}, {1, 2}), three({3}, {1, 2, 3});
  ExecutorHandle h = nullptr;
  CHECK(try_bind(product(), {&x}, {}, {}, &h) == -1);
  CHECK_THAT(MXGetLastError(), Contains("2 arguments, got 1"));
  CHECK(try_bind(product(), {&x, &three}, {}, {}, &h) == -1);
  CHECK(try_bind(product(), {&x, nullptr}, {}, {}, &h) == -1);
  CHECK(try_bind(product(), {&x, &x}, {&three, &x}, {write_request, write_request}, &h) == -1);
  CHECK_THAT(MXGetLastError(), Contains("gradient"));
  CHECK(try_bind(product(), {&x, &x}, {&x, &x}, {7, 1}, &h) == -1);
  CHECK(h == nullptr);
  CHECK(MXExecutorForward(nullptr, 0) == -1);
  CHECK(MXExecutorBackwardEx(nullptr, 0, nullptr, 1) == -1);
  ok(MXExecutorFree(nullptr));
}

TEST_CASE("arguments and gradients of an executor may be sparse", "[mxnet]") {
  const auto cast = [](const Array& a, const char* stype) { return one("cast_storage", {&a}, {{"stype", stype}}); };
  const Array x({2, 2}, {1, 2, 3, 4}), y({2, 2}, {0, 5, 0, 0}), nothing({2, 2}, {0, 0, 0, 0});
  const Array csr = cast(y, "csr"), gradient = cast(nothing, "row_sparse");
  const Executor e = bind(product(), {&x, &csr}, {&gradient, nullptr}, {write_request, null_request});
  const auto forward = [&] {
    ok(MXExecutorForward(e.handle, true));
    return cast(e.outputs()[0], "default").values();
  };
  CHECK(forward() == std::vector<float>{0, 10, 0, 0});
  ok(e.backward());
  CHECK(cast(gradient, "default").values() == std::vector<float>{0, 5, 0, 0});
  ok(invoke_into("_copyto", {&x}, {}, {&csr}));  // the same array, other elements
  CHECK(forward() == std::vector<float>{1, 4, 9, 16});
  ok(e.backward());
  CHECK(cast(gradient, "default").values() == std::vector<float>{1, 2, 3, 4});
}

TEST_CASE("outputs of an executor are stored as MXNet infers it", "[mxnet]") {
  const auto cast = [](const Array& a, const char* stype) { return one("cast_storage", {&a}, {{"stype", stype}}); };
  const auto storage_of = [](const Array& a) {
    int number = -2;
    ok(MXNDArrayGetStorageType(a.get(), &number));
    return number;
  };
  const auto stored_in = [](const Array& a) {
    NDArrayHandle h = nullptr;
    ok(MXNDArrayGetDataNDArray(a.get(), &h));
    return Array(h).values();
  };
  const Sym a = Sym::variable("a"), b = Sym::variable("b");
  const Array x({3, 2}, {0, 0, 1, 2, 3, 0}), ones({3, 2}, {1, 1, 1, 1, 1, 1});
  for (const auto& [stype, number, more] : {std::tuple{"row_sparse", 1, std::vector<float>{6, 7, 8, 5}},
                                            std::tuple{"csr", 2, std::vector<float>{6, 7, 8}}}) {
    INFO(stype);
    const Array s = cast(x, stype);
    const auto output = [&](const Sym& symbol, const std::vector<const Array*>& arrays) {
      const Executor e = bind(symbol, arrays);
      ok(MXExecutorForward(e.handle, 0));
      std::vector<Array> outputs = e.outputs();
      return std::move(outputs[0]);
    };
    const Array added = output(Sym::call("_scatter_plus_scalar", "p", {{"scalar", "5"}}, {&a}), {&s});
    CHECK(storage_of(added) == number);
    CHECK(stored_in(added) == more);  // the elements of s, and no others
    CHECK(storage_of(output(Sym::call("cos", "c", {}, {&a}), {&s})) == 0);
    CHECK(storage_of(output(Sym::call("elemwise_sub", "m", {}, {&a, &b}), {&s, &ones})) == 0);
    const Array product = output(Sym::call("elemwise_mul", "t", {}, {&a, &b}), {&ones, &s});
    CHECK(storage_of(product) == number);
    CHECK(cast(product, "default").values() == x.values());
    const Array back = output(Sym::call("cast_storage", "d", {{"stype", "default"}}, {&a}), {&s});
    CHECK(storage_of(back) == 0);
    CHECK(storage_of(output(Sym::call("cast_storage", "d", {{"stype", stype}}, {&a}), {&x})) == number);

    const Array gradient = cast(Array({3, 2}, std::vector<float>(6, 0)), stype);
    const Executor e = bind(Sym::call("square", "q", {}, {&a}), {&s}, {&gradient}, {write_request});
    ok(MXExecutorForward(e.handle, 1));
    CHECK(cast(e.outputs()[0], "default").values() == std::vector<float>{0, 0, 1, 4, 9, 0});
    const Array head = cast(ones, stype);
    ok(e.backward({&head}));
    CHECK(cast(gradient, "default").values() == std::vector<float>{0, 0, 2, 4, 6, 0});
  }
}

TEST_CASE("sums of squares and retained rows are operators of symbols", "[mxnet]") {
  const Sym a = Sym::variable("a"), b = Sym::variable("b");
  const Array x({3, 2}, {1, 2, 3, 4, 5, 6}), which({2}, {2, 0}), gradient({3, 2}, {0, 0, 0, 0, 0, 0});
  const Executor kept = bind(Sym::call("_sparse_retain", "r", {}, {&a, &b}), {&x, &which}, {&gradient, nullptr},
                             {write_request, null_request});
  CHECK(kept.forward(true) == std::vector<float>{1, 2, 0, 0, 5, 6});
  ok(kept.backward({&x}));
  CHECK(gradient.values() == std::vector<float>{1, 2, 0, 0, 5, 6});
  const Executor squares = bind(Sym::call("_square_sum", "s", {{"axis", "1"}, {"keepdims", "True"}}, {&a}), {&x},
                                {&gradient}, {write_request});
  CHECK(squares.forward(true) == std::vector<float>{5, 25, 61});
  ok(squares.backward());
  CHECK(gradient.values() == std::vector<float>{2, 4, 6, 8, 10, 12});
}

TEST_CASE("the gradient of an embedding's weight is stored as the embedding says", "[mxnet]") {
  const Sym data = Sym::variable("data"), weight = Sym::variable("weight");
  for (const auto& [text, number] : {std::pair{"True", 1}, std::pair{"False", 0}}) {
    Executor e;
    const Sym rows =
        Sym::call("Embedding", "e", {{"input_dim", "4"}, {"output_dim", "2"}, {"sparse_grad", text}}, {&data, &weight});
    ok(try_simple_bind(rows, {{"data", {2}}}, "write", &e));
    int storage = -2;
    ok(MXNDArrayGetStorageType(e.gradients[1].get(), &storage));
    CHECK(storage == number);
  }
}

TEST_CASE("gradients of integers are integers", "[mxnet]") {
  NDArrayHandle h = nullptr;
  const uint32_t shape[] = {2};
  ok(MXNDArrayCreateEx(shape, 1, 1, 0, 0, 4, &h));
  const Array x(h);
  ok(MXNDArrayCreateEx(shape, 1, 1, 0, 0, 4, &h));
  const Array dx(h), head({2}, {2.75, -3});
  const Sym v = Sym::variable("x");
  const Executor e = bind(Sym::call("Cast", "c", {{"dtype", "float32"}}, {&v}), {&x}, {&dx}, {write_request});
  ok(MXExecutorForward(e.handle, true));
  ok(e.backward({&head}));
  CHECK(one("Cast", {&dx}, {{"dtype", "float32"}}).values() == std::vector<float>{2, -3});
}

TEST_CASE("gradients of integers are those of real numbers, cut", "[mxnet]") {
  struct Case {
    const char* op;
    std::vector<float> a, b, da, db;
  };
  // MXNet 1.9.1's
  const std::vector<Case> cases{{"broadcast_mod", {5, 7}, {3, 2}, {0, 0}, {0, 0}},
                                {"broadcast_div", {7, 3, 5}, {2, 1, 2}, {0, 1, 0}, {-1, -3, -1}},
                                {"elemwise_div", {7, 3, 5}, {2, 1, 2}, {0, 1, 0}, {-1, -3, -1}},
                                {"broadcast_power", {2, 7, 3}, {3, 2, 1}, {12, 14, 1}, {5, 95, 3}},
                                {"broadcast_hypot", {0, 3, 7}, {3, 4, 0}, {0, 0, 1}, {1, 0, 0}}};
  for (const Case& c : cases) {
    INFO(c.op);
    const unsigned n = unsigned(c.a.size());
    const std::vector<float> filled(n, 9), ones(n, 1);
    const Array a({n}, c.a), b({n}, c.b), da({n}, filled), db({n}, filled), head({n}, ones);
    const Sym x = Sym::variable("a"), y = Sym::variable("b");
    const auto whole = [](const Sym& s) { return Sym::call("Cast", "", {{"dtype", "int32"}}, {&s}); };
    const Sym m = whole(x), k = whole(y);
    const Sym result = Sym::call(c.op, "r", {}, {&m, &k});
    const Executor e = bind(Sym::call("Cast", "f", {{"dtype", "float32"}}, {&result}), {&a, &b}, {&da, &db},
                            {write_request, write_request});
    ok(MXExecutorForward(e.handle, true));
    ok(e.backward({&head}));
    CHECK(da.values() == c.da);
    CHECK(db.values() == c.db);
  }
}

TEST_CASE("gradients of integers and a number are those of real numbers, cut", "[mxnet]") {
  struct Case {
    const char *op, *number;
    std::vector<float> dx;  // at 1, 2, 3
  };
  const std::vector<Case> cases{{"_rdiv_scalar", "7", {-7, -1, 0}},
                                {"_rpower_scalar", "3", {3, 9, 29}},
                                {"_power_scalar", "3", {3, 12, 27}},
                                {"_hypot_scalar", "2", {0, 0, 0}}};
  for (const Case& c : cases) {
    INFO(c.op);
    const Array x({3}, {1, 2, 3}), dx({3}, {9, 9, 9}), head({3}, {1, 1, 1});
    const Sym v = Sym::variable("x"), whole = Sym::call("Cast", "", {{"dtype", "int32"}}, {&v});
    const Sym result = Sym::call(c.op, "r", {{"scalar", c.number}}, {&whole});
    const Executor e = bind(Sym::call("Cast", "f", {{"dtype", "float32"}}, {&result}), {&x}, {&dx}, {write_request});
    ok(MXExecutorForward(e.handle, true));
    ok(e.backward({&head}));
    CHECK(dx.values() == c.dx);
  }
}

}  // namespace executor_test
