// Autograd on operators called one by one. Cases named after MXNet's test_autograd.py.
#include <cmath>

#include "kaon/tests/graph/support.h"

namespace autograd_test {

using namespace kaon;
using namespace kaon::engine;
using namespace kaon::test;
using Catch::Matchers::Contains;

namespace {
NDArray with_grad(NDArray a, GradReq req = GradReq::write) {
  a.attach_grad(req);
  return a;
}
}  // namespace

TEST_CASE("autograd: test_unary_func") {
  NDArray x = with_grad(numbers({4, 5}));
  NDArray y = autograd::record([&] { return nd.exp(x); });
  y.backward();
  CHECK(same_bits(x.grad(), y));
  autograd::record([&] { return x / 2; }).backward();
  CHECK(floats(x.grad()) == std::vector<float>(20, 0.5f));
  autograd::record([&] { return nd.square(x); }).backward();
  CHECK(same_bits(x.grad(), x * 2));
}

TEST_CASE("autograd: test_binary_func") {
  NDArray x = with_grad(numbers({4, 5}, 1)), y = with_grad(numbers({4, 5}, 2));
  autograd::record([&] { return x + y; }).backward();
  CHECK(floats(x.grad()) == std::vector<float>(20, 1));
  CHECK(floats(y.grad()) == std::vector<float>(20, 1));
  autograd::record([&] { return x * y; }).backward();
  CHECK(same_bits(x.grad(), y));
  CHECK(same_bits(y.grad(), x));
  autograd::record([&] { return x + x * y; }).backward();
  CHECK(same_bits(x.grad(), y + 1));
  CHECK(same_bits(y.grad(), x));
}

TEST_CASE("autograd: test_argnum: gradients of chosen arguments, branches of the program") {
  NDArray a = with_grad(numbers({3}, 1)), b = with_grad(numbers({3}, 2));
  for (bool add : {true, false}) {
    NDArray y = autograd::record([&] { return add ? a + b : a * b; });
    NDArray g = autograd::grad(y, a);
    CHECK(same_bits(g, add ? nd.ones({3}) : b));
  }
  CHECK(floats(b.grad()) == std::vector<float>(3, 0));  // grad() stores nothing
}

TEST_CASE("autograd: test_operator_with_state") {
  NDArray x = with_grad(numbers({2, 3})), w = with_grad(numbers({4, 3})), b = with_grad(numbers({4}));
  autograd::record([&] { return nd.FullyConnected(x, w, b, {.num_hidden = 4}); }).backward();
  CHECK(floats(b.grad()) == std::vector<float>(4, 2));
}

TEST_CASE("autograd: test_training and test_is_train: Dropout follows the mode") {
  NDArray x = with_grad(nd.ones({10, 10}));
  auto drop = [&] { return nd.Dropout(x, {.p = 0.5}); };
  auto is_dropped = [&](const NDArray& y) { return floats(y) != floats(x); };
  NDArray y = autograd::record([&] {
    CHECK(autograd::is_recording());
    CHECK(autograd::is_training());
    NDArray inside = autograd::pause([&] {
      CHECK_FALSE(autograd::is_recording());
      CHECK_FALSE(autograd::is_training());
      return drop();
    });
    CHECK_FALSE(is_dropped(inside));
    return drop();
  });
  CHECK(is_dropped(y));
  CHECK(nd.max(y).asscalar<float>() == 2);
  CHECK(nd.min(y).asscalar<float>() == 0);
  y.backward();
  CHECK(same_bits(x.grad(), y));

  y = autograd::record([&] {
    return autograd::predict_mode([&] {
      CHECK(autograd::is_recording());
      return drop();
    });
  });
  CHECK_FALSE(is_dropped(y));
  y.backward();
  CHECK(same_bits(x.grad(), x));

  y = autograd::record(drop, false);
  CHECK_FALSE(is_dropped(y));
  y.backward();
  CHECK(same_bits(x.grad(), x));
  y = autograd::record([&] { return autograd::train_mode(drop); }, false);
  CHECK(is_dropped(y));
  y = autograd::train_mode([&] {
    CHECK_FALSE(autograd::is_recording());
    CHECK(autograd::is_training());
    return drop();
  });
  CHECK(is_dropped(y));
  CHECK_FALSE(autograd::is_training());
}

TEST_CASE("autograd: test_out_grads: some heads have a gradient of their own, some none") {
  NDArray x = with_grad(nd.ones({3, 5}));
  std::vector<NDArray> rows = autograd::record([&] { return nd.split(x, 3, {.axis = 0, .squeeze_axis = true}); });
  std::vector<NDArray> heads{NDArray(), nd.array({1, 2, 3, 4, 5}), nd.array({5, 4, 3, 2, 1})};
  autograd::backward(rows, heads);
  CHECK(floats(x.grad()) == std::vector<float>{1, 1, 1, 1, 1, 1, 2, 3, 4, 5, 5, 4, 3, 2, 1});
}

TEST_CASE("autograd: test_detach_updated_grad: nothing flows through detach()") {
  NDArray x = with_grad(nd.ones({2, 2})), y = with_grad(nd.ones({2, 2}));
  autograd::record([&] { return (x + 2) + y; }).backward();
  CHECK(floats(x.grad()) == std::vector<float>(4, 1));
  auto x_stamp = autograd::gradient_stamp(x), y_stamp = autograd::gradient_stamp(y);
  x.grad().assign(0);
  autograd::record([&] { return (x + 2).detach() + y; }).backward();
  CHECK(floats(x.grad()) == std::vector<float>(4, 0));
  CHECK(autograd::gradient_stamp(x) == x_stamp);
  CHECK(autograd::gradient_stamp(y) != y_stamp);
}

TEST_CASE("autograd: test_retain_grad: twice with retain_graph, an error without") {
  NDArray x = with_grad(nd.ones({2, 2}), GradReq::add);
  NDArray y = autograd::record([&] { return nd.tanh(x) * x; });
  NDArray one = nd.ones({2, 2});
  y.backward(one, true);
  std::vector<float> once = floats(x.grad());
  y.backward(one, false);
  for (size_t i = 0; i < 4; ++i) CHECK(floats(x.grad())[i] == 2 * once[i]);
  CHECK_THROWS_AS(y.backward(), StateError);
  CHECK_THROWS_WITH(y.backward(), Contains("retain_graph"));
}

TEST_CASE("autograd: test_attach_grad") {
  NDArray x = nd.ones({10});
  CHECK_FALSE(x.grad().defined());
  x.attach_grad();
  NDArray y = autograd::record([&] { return x * 2; });
  CHECK_FALSE(y.grad().defined());
  y.backward(nd.ones({10}));
  CHECK(floats(x.grad()) == std::vector<float>(10, 2));
  x.attach_grad(GradReq::null);
  CHECK_FALSE(x.grad().defined());
  CHECK_THROWS_AS(nd.cast(x, DType::int32).attach_grad(), TypeError);
}

TEST_CASE("autograd: a gradient array of the program's is written, added to, and kept by both sides") {
  NDArray x = numbers({3}, 1), g = nd.full({3}, 7);
  x.attach_grad(GradReq::add, g);
  CHECK(x.grad().ptr() == g.ptr());
  CHECK(floats(g) == std::vector<float>(3, 7));  // it keeps what it holds
  autograd::record([&] { return x * 2; }).backward();
  CHECK(floats(g) == std::vector<float>(3, 9));
  x.attach_grad(GradReq::write, g);
  autograd::record([&] { return x * 3; }).backward();
  CHECK(floats(g) == std::vector<float>(3, 3));

  // one array as the gradient of two arrays, each in its own computation
  NDArray y = numbers({3}, 2);
  y.attach_grad(GradReq::add, g);
  autograd::record([&] { return y * 4; }).backward();
  CHECK(floats(g) == std::vector<float>(3, 7));

  // a part of a larger array, as trainers keep all gradients in one
  NDArray all = nd.zeros({2, 3});
  x.attach_grad(GradReq::write, all[1]);
  autograd::record([&] { return x * 5; }).backward();
  CHECK(floats(all) == std::vector<float>{0, 0, 0, 5, 5, 5});
  x.attach_grad(GradReq::null, NDArray());
  CHECK_FALSE(x.grad().defined());

  CHECK_THROWS_WITH(x.attach_grad(GradReq::write, nd.zeros({4})),
                    "[attach_grad] the gradient has shape (4,), the array (3,)");
  CHECK_THROWS_WITH(x.attach_grad(GradReq::write, nd.zeros({3}, {.dtype = DType::float64})),
                    "[attach_grad] the gradient has dtype float64, the array float32");
  CHECK_THROWS_WITH(x.attach_grad(GradReq::write, nd.zeros({3}).as_in_context(cpu(1))),
                    "[attach_grad] the gradient is on cpu(1), the array on cpu(0)");
  CHECK_THROWS_AS(x.attach_grad(GradReq::write, NDArray()), ValueError);
}

TEST_CASE("autograd: integers may have a gradient array, which a cast reaches and arithmetic does not") {
  NDArray i = nd.arange(4, {.dtype = DType::int32}), g = nd.full({4}, 9, {.dtype = DType::int32});
  CHECK_THROWS_AS(i.attach_grad(), TypeError);  // without one, a gradient of integers is a mistake
  i.attach_grad(GradReq::write, g);
  autograd::record([&] { return nd.cast(i, DType::float32) * 2; }).backward();
  CHECK(g.asvector<int>() == std::vector<int>(4, 2));
  NDArray x = with_grad(nd.ones({4}));
  autograd::record([&] { return x * nd.cast(i * 3, DType::float32); }).backward();
  CHECK(floats(x.grad()) == std::vector<float>{0, 3, 6, 9});
}

TEST_CASE("autograd: history ends where a backward has freed it") {
  // a recurrent state that goes from batch to batch
  NDArray w = with_grad(nd.full({2}, 3)), state = nd.ones({2});
  for (int batch = 0; batch < 3; ++batch) {
    NDArray before = state.copy();
    state = autograd::record([&] { return state * w; });
    state.backward();
    CHECK(same_bits(w.grad(), before));
  }
  CHECK_THROWS_WITH(state.backward(), Contains("freed by an earlier backward()") && Contains("retain_graph"));
  state += 1;  // it is no part of a recorded computation any more
  // what was recorded before the backward keeps its history, and says so
  NDArray y = autograd::record([&] { return w * 2; });
  NDArray z = autograd::record([&] { return y * y; });
  y.backward();
  CHECK_THROWS_WITH(z.backward(), Contains("freed by an earlier backward()"));
  // with retain_graph nothing ends
  y = autograd::record([&] { return w * 2; });
  y.backward(nd.ones({2}), true);
  z = autograd::record([&] { return y * 5; });
  z.backward();
  CHECK(floats(w.grad()) == std::vector<float>(2, 10));
}

TEST_CASE("autograd: test_gradient: the gradient of a gradient") {
  NDArray x = with_grad(nd.ones({1}));
  NDArray dx = autograd::record([&] {
    NDArray z = nd.exp(x) + x;
    return autograd::grad(z, x, true);
  });
  require_near(dx, {3.71828182845904}, 1e-7);
  dx.backward();
  require_near(x.grad(), {2.71828182845904}, 1e-7);
}

TEST_CASE("autograd: test_higher_order_grad: second derivatives") {
  struct Row {
    const char* name;
    NDArray (*f)(const NDArray&);
    double (*second)(double);
  };
  const Row rows[] = {
      {"sin", [](const NDArray& x) { return nd.sin(x); }, [](double x) { return -std::sin(x); }},
      {"cos", [](const NDArray& x) { return nd.cos(x); }, [](double x) { return -std::cos(x); }},
      {"exp", [](const NDArray& x) { return nd.exp(x); }, [](double x) { return std::exp(x); }},
      {"log", [](const NDArray& x) { return nd.log(x); }, [](double x) { return -1 / (x * x); }},
      {"sigmoid", [](const NDArray& x) { return nd.sigmoid(x); },
       [](double x) {
         double s = 1 / (1 + std::exp(-x));
         return s * (1 - s) * (1 - 2 * s);
       }},
      {"tanh", [](const NDArray& x) { return nd.tanh(x); },
       [](double x) {
         double t = std::tanh(x);
         return -2 * t * (1 - t * t);
       }},
      {"sqrt", [](const NDArray& x) { return nd.sqrt(x); }, [](double x) { return -0.25 / (x * std::sqrt(x)); }},
      {"square", [](const NDArray& x) { return nd.square(x); }, [](double) { return 2.0; }},
      {"reciprocal", [](const NDArray& x) { return nd.reciprocal(x); }, [](double x) { return 2 / (x * x * x); }},
      {"cubed", [](const NDArray& x) { return x * x * x; }, [](double x) { return 6 * x; }},
  };
  for (const Row& row : rows) {
    INFO(row.name);
    NDArray x = with_grad(nd.array({0.3, 0.7, 1.1, 1.9}));
    NDArray dx = autograd::record([&] { return autograd::grad(row.f(x), x, true); });
    dx.backward();
    std::vector<double> expected;
    for (double v : x.asvector<double>()) expected.push_back(row.second(v));
    require_near(x.grad(), expected, 1e-4);
  }
}

TEST_CASE("autograd: third derivatives") {
  NDArray x = with_grad(nd.array({0.5}));
  NDArray d2 = autograd::record([&] {
    NDArray d1 = autograd::grad(nd.exp(x * 2), x, true);
    return autograd::grad(d1, x, true);
  });
  d2.backward();
  require_near(x.grad(), {8 * std::exp(1.0)}, 1e-5);
}

TEST_CASE("autograd: attaching a gradient to a recorded value cuts later computations, not earlier ones") {
  NDArray x = with_grad(nd.array({2}));
  NDArray y, before, after;
  autograd::record([&] {
    y = x * 3;
    before = y * 5;
    y.attach_grad();
    after = y * 7;
  });
  before.backward();
  CHECK(x.grad().asscalar<float>() == 15);
  CHECK(y.grad().asscalar<float>() == 0);
  x.grad().assign(0);
  after.backward();
  CHECK(x.grad().asscalar<float>() == 0);
  CHECK(y.grad().asscalar<float>() == 7);
}

TEST_CASE("autograd: a gradient attached after the computation stays zero") {
  NDArray x = with_grad(nd.array({2})), late = nd.array({3});
  NDArray y = autograd::record([&] { return x * late; });
  late.attach_grad();
  y.backward();
  CHECK(x.grad().asscalar<float>() == 3);
  CHECK(late.grad().asscalar<float>() == 0);
}

TEST_CASE("autograd: one array many times, written and added") {
  for (int k = 1; k <= 20; ++k) {
    NDArray w = with_grad(nd.array({2})), a = with_grad(nd.array({2}), GradReq::add);
    auto f = [&](const NDArray& x) {
      NDArray sum = x;
      for (int i = 1; i < k; ++i) sum = sum + x * double(i + 1);
      return sum;
    };
    for (int times = 1; times <= 2; ++times) {
      autograd::record([&] { return f(w) + f(a); }).backward();
      CHECK(w.grad().asscalar<float>() == float(k * (k + 1) / 2));
      CHECK(a.grad().asscalar<float>() == float(times * k * (k + 1) / 2));
    }
  }
}

TEST_CASE("autograd: gradients do not share memory with each other or with the head") {
  NDArray x = with_grad(nd.ones({4})), y = with_grad(nd.ones({4})), head = nd.ones({4});
  NDArray z = autograd::record([&] { return nd.reshape(x + y, {2, 2}).reshape({4}); });
  z.backward(head);
  head += 1;
  x.grad() += 5;
  CHECK(floats(y.grad()) == std::vector<float>(4, 1));
  CHECK(floats(x.grad()) == std::vector<float>(4, 6));
  z = autograd::record([&] { return x + y; });
  NDArray variables[] = {x, y};
  auto g = autograd::grad(std::span(&z, 1), variables, std::span(&head, 1));
  g[0] += 1;
  CHECK(floats(g[1]) == std::vector<float>(4, 2));
  CHECK(floats(head) == std::vector<float>(4, 2));
}

TEST_CASE("autograd: the handle of a gradient stays valid over steps") {
  NDArray x = with_grad(nd.ones({3}));
  NDArray g = x.grad();
  for (double k : {2.0, 3.0}) {
    autograd::record([&] { return x * k; }).backward();
    CHECK(floats(g) == std::vector<float>(3, float(k)));
  }
}

TEST_CASE("users row 57: in-place writes under record are refused") {
  NDArray x = with_grad(nd.ones({3})), plain = nd.zeros({3});
  autograd::record([&] {
    NDArray y = x * 2;
    CHECK_THROWS_WITH(y += 1, Contains("x = x + y"));
    CHECK_THROWS_AS(x.assign(0), StateError);
    CHECK_THROWS_AS(plain += y, StateError);  // its gradient would be lost
    CHECK_THROWS_AS(plain.assign(y), StateError);
    plain += y.detach();
  });
  CHECK(floats(plain) == std::vector<float>(3, 2));
}

TEST_CASE("autograd: messages of backward") {
  NDArray x = nd.ones({3});
  CHECK_THROWS_WITH(x.backward(), Contains("not part of a recorded computation"));
  x.attach_grad();
  NDArray y = autograd::record([&] { return x * 2; });
  CHECK_THROWS_AS(y.backward(nd.ones({2})), ShapeError);
  CHECK_THROWS_AS(autograd::grad(y, nd.ones({3})), StateError);
  y.backward();  // the failed tries have left nothing behind
  CHECK(floats(x.grad()) == std::vector<float>(3, 2));
}

TEST_CASE("autograd: an error in the middle of a backward leaves nothing behind") {
  NDArray x = with_grad(nd.ones({3}));
  NDArray used, y;
  autograd::record([&] {
    used = nd.exp(x);
    y = nd.tanh(x) + used * 2;
  });
  used.backward();  // frees what exp has saved
  CHECK_THROWS_AS(y.backward(), StateError);
  CHECK_THROWS_AS(y.backward(), StateError);
  CHECK(same_bits(x.grad(), nd.exp(x)));
}

TEST_CASE("autograd: grad() stores nothing, also where a planned call could write attached gradients directly") {
  CachedGraph graph(sym.var("data") * sym.var("w"), {"data", "w"}, {}, "net");
  NDArray x = with_grad(nd.array({1, 2})), w = with_grad(nd.array({3, 4}));
  w.grad().assign(7);
  for (bool planned : {false, true}) {
    NDArray y = autograd::record([&] { return planned ? call(graph, {x, w})[0] : x * w; });
    CHECK(floats(autograd::grad(y, x)) == std::vector<float>{3, 4});
    CHECK(floats(w.grad()) == std::vector<float>{7, 7});
  }
  NDArray y = autograd::record([&] { return call(graph, {x, w})[0]; });
  CHECK(autograd::grad(std::span(&y, 1), {}).empty());
  CHECK(floats(w.grad()) == std::vector<float>{7, 7});
}

TEST_CASE("autograd: an attached gradient may be part of the computation") {
  CachedGraph graph(sym.var("data") * 3, {"data"}, {}, "net");
  for (bool planned : {false, true}) {
    INFO(planned);
    NDArray x = with_grad(nd.array({1, 2}));
    x.grad().assign(10);
    NDArray y = autograd::record([&] {
      NDArray first = x * x.grad();
      return first + (planned ? call(graph, {x})[0] : x * 3);
    });
    y.backward();
    CHECK(floats(x.grad()) == std::vector<float>{13, 13});
  }
}

TEST_CASE("autograd: an attached gradient may be the head gradient of another array") {
  for (bool planned : {false, true}) {
    INFO(planned);
    CachedGraph twice(sym.var("data") * 2, {"data"}, {}, "net");
    NDArray x = with_grad(nd.array({1, 2}));
    x.grad().assign(10);
    std::vector<NDArray> others, heads, head_grads;
    autograd::record([&] {
      heads.push_back(planned ? call(twice, {x})[0] : x * 2);  // the first call is the last of the backward
      for (int i = 0; i < 8; ++i) {
        others.push_back(with_grad(nd.zeros({2})));
        heads.push_back(others.back() + nd.ones({2}));  // hands its head through
      }
    });
    head_grads.assign(9, x.grad());
    head_grads[0] = NDArray();
    autograd::backward(heads, head_grads);
    CHECK(floats(x.grad()) == std::vector<float>{2, 2});
    for (const NDArray& o : others) CHECK(floats(o.grad()) == std::vector<float>{10, 10});
  }
}

TEST_CASE("autograd: a head gradient has the dtype of its head, planned or not") {
  CachedGraph graph(sym.tanh(sym.var("data")), {"data"}, {}, "net");
  NDArray x = with_grad(numbers({4}));
  for (bool planned : {false, true}) {
    NDArray y = autograd::record([&] { return planned ? call(graph, {x})[0] : nd.tanh(x); });
    NDArray narrow = nd.ones({4}, {.dtype = DType::float16});
    CHECK_THROWS_AS(y.backward(narrow), TypeError);
    CHECK_THROWS_WITH(y.backward(narrow),
                      Contains("dtype float16") && Contains("float32") && Contains("autograd_test.cpp:"));
    CHECK_THROWS_AS(autograd::grad(std::span(&y, 1), std::span(&x, 1), std::span(&narrow, 1)), TypeError);
    y.backward(nd.ones({4}));
    require_near(x.grad(), (1 - nd.square(nd.tanh(x))).asvector<double>());
  }
}

TEST_CASE("autograd: an array that is its own head, and arrays without elements") {
  NDArray x = with_grad(nd.array({5, 6}));
  x.backward();
  CHECK(floats(x.grad()) == std::vector<float>{1, 1});
  CachedGraph graph(sym.tanh(sym.var("data")) * 2, {"data"}, {}, "net");
  for (bool planned : {false, true}) {
    NDArray none = with_grad(nd.zeros({0, 3}));
    NDArray y = autograd::record([&] { return planned ? call(graph, {none})[0] : nd.tanh(none) * 2; });
    y.backward();
    CHECK(none.grad().shape() == Shape(0, 3));
    CHECK(floats(none.grad()).empty());
  }
}

TEST_CASE("autograd: a change of mode inside a traced program is refused, for the trace would not keep it") {
  auto nothing = [] {};
  thread_context().tracing = true;
  auto record = message_of([&] { autograd::record(nothing); });
  auto pause = message_of([&] { autograd::pause(nothing); });
  auto train = message_of([&] { autograd::train_mode(nothing); });
  autograd::predict_mode(nothing);  // as it is
  thread_context().tracing = false;
  for (const std::string& text : {record, pause, train}) CHECK_THAT(text, Contains("x.detach()"));
  CHECK_THAT(pause, Contains("[pause]"));
  autograd::train_mode([&] {
    thread_context().tracing = true;
    CHECK_THROWS_AS(autograd::predict_mode(nothing), TraceError);
    autograd::train_mode(nothing);
    thread_context().tracing = false;
  });
}

namespace {
Task<NDArray> square_later(NDArray x, int& recording) {
  recording += autograd::is_recording();
  co_await x;  // may resume on another thread
  recording += autograd::is_recording();
  co_return x* x;
}
}  // namespace

TEST_CASE("users row 49: the mode of record() goes with the coroutine and with it alone") {
  NDArray x = with_grad(nd.array({3}));
  int recording = 0;
  auto task = autograd::record([&] { return square_later(x, recording); });
  CHECK_FALSE(autograd::is_recording());
  NDArray y = sync_wait(std::move(task));
  CHECK(recording == 2);
  CHECK_FALSE(autograd::is_recording());
  y.backward();
  CHECK(x.grad().asscalar<float>() == 6);
  NDArray z = sync_wait(autograd::pause([&] { return square_later(x, recording); }));
  CHECK(recording == 2);
  CHECK_THROWS_AS(z.backward(), StateError);
}

TEST_CASE("autograd: an exception inside record() ends the mode") {
  CHECK_THROWS_AS(autograd::record([] { throw ValueError("no"); }), ValueError);
  CHECK_FALSE(autograd::is_recording());
  CHECK(thread_context().interceptor == nullptr);
}

TEST_CASE("autograd: a chain of 100000 calls is recorded, differentiated and freed") {
  NDArray x = with_grad(nd.array({1}));
  NDArray y = autograd::record([&] {
    NDArray v = x;
    for (int i = 0; i < 100000; ++i) v = v + 1;
    return v;
  });
  y.backward();
  CHECK(x.grad().asscalar<float>() == 1);
  autograd::record([&] {
    NDArray v = x;
    for (int i = 0; i < 100000; ++i) v = v + 1;
    return v;
  });  // dropped without a backward
}

TEST_CASE("autograd: the second gradient of p-norms of windows, in all dtypes") {
  const Shape shape{1, 2, 4, 5};
  const NDArray direction = numbers(shape, 4).astype(DType::float64);
  for (int p : {1, 2, 3}) {
    auto first = [&](const NDArray& x, bool create_graph) {
      const NDArray y = autograd::record([&] {
        return nd.Pooling(x,
                          {.kernel = {2, 3}, .pool_type = PoolType::lp, .stride = {2, 1}, .pad = {1, 1}, .p_value = p});
      });
      return autograd::grad(autograd::record([&] { return nd.sum(nd.square(y) * y); }), x, create_graph);
    };
    auto second = [&](NDArray x) {
      x = with_grad(x);
      autograd::record([&] { return nd.sum(first(x, true) * direction.astype(x.dtype())); }).backward();
      return x.grad().astype(DType::float64);
    };
    const NDArray x = numbers(shape, 3).astype(DType::float64);
    const NDArray got = second(x);
    // the first gradient on both sides
    const double step = 1e-6;
    const auto change = [&](double by) { return first(with_grad(x + direction * by), false); };
    require_near(got, ((change(step) - change(-step)) / (2 * step)).asvector<double>(), 1e-6);
    for (const auto& [dtype, tolerance] :
         {std::pair(DType::float32, 1e-5), std::pair(DType::float16, 0.03), std::pair(DType::bfloat16, 0.25)}) {
      INFO("p " << p << ", " << name_of(dtype));
      require_near(second(x.astype(dtype)), got.asvector<double>(), tolerance);
    }
    // windows of zeros have no slope
    const NDArray none = second(nd.zeros(shape));
    for (double v : none.asvector<double>()) REQUIRE(v == 0);
  }
}

}  // namespace autograd_test
