// foreach, while_loop and cond: on arrays and in a trace they give the same.
#include "kaon/graph/control_flow.h"
#include "kaon/graph/ir/symbol_node.h"

#include <thread>

#include "kaon/tests/graph/control_flow_support.h"

namespace control_flow_test {

using namespace kaon;
using namespace kaon::graph;
using namespace kaon::test;
using Catch::Matchers::Contains;

namespace {

template <class A>
using List = std::vector<A>;

// A program on a list of inputs.
template <class A>
using array_of = typename std::remove_cvref_t<A>::value_type;

}  // namespace

TEST_CASE("control flow: MXNet's while loops: sums, no end, no iteration, outputs") {
  auto run = [](double limit, int64_t most, bool always) {
    return [=](auto, auto x) {
      using A = array_of<decltype(x)>;
      auto [outputs, vars] = contrib::while_loop([&](const List<A>& v) { return always ? v[0] >= 0 : v[0] <= limit; },
                                                 [](const List<A>& v) {
                                                   return std::pair(v[0], List<A>{v[0] + 1, v[1] + v[0]});
                                                 },
                                                 x, most);
      return List<A>{outputs, vars[0], vars[1]};
    };
  };
  const List<NDArray> start{nd.array({1}), nd.array({0})};
  auto last = [](const Both& b) { return std::pair(floats(b.outputs[1])[0], floats(b.outputs[2])[0]); };
  CHECK(last(check_both(run(5, 10, false), start)) == std::pair(6.f, 15.f));
  CHECK(last(check_both(run(0, 1000, true), start)) == std::pair(1001.f, 500500.f));
  CHECK(last(check_both(run(0, 1000, false), start)) == std::pair(1.f, 0.f));
  const Both counted = check_both(run(100, 200, false), start);
  CHECK(last(counted) == std::pair(101.f, 5050.f));
  REQUIRE(counted.outputs[0].shape() == Shape(200, 1));
  for (int i = 0; i < 200; ++i) CHECK(floats(counted.outputs[0])[size_t(i)] == (i < 100 ? float(i + 1) : 0));
}

TEST_CASE("control flow: foreach over several data and states, with captured values") {
  check_both(
      [](auto F, auto x) {
        using A = array_of<decltype(x)>;
        A w = F.tanh(x[4]);
        auto [outputs, states] = contrib::foreach (
            [&](const List<A>& row, const List<A>& state) {
              A next = F.tanh(F.dot(state[0], w) + row[0] * w.sum());
              return std::pair(List<A>{next * 2, row[1] + state[1]}, List<A>{next, state[1] * row[1]});
            },
            List<A>{x[0], x[1]}, List<A>{x[2], x[3]});
        return List<A>{outputs[0], outputs[1], states[0], states[1]};
      },
      {numbers({5, 2, 3}, 1), numbers({5, 4}, 2), numbers({2, 3}, 3), numbers({4}, 4), numbers({3, 3}, 5)});
}

TEST_CASE("control flow: cond takes one branch; its gradient is that of the branch taken") {
  for (float p : {1.f, 0.f, -3.f}) {
    const Both both = check_both(
        [](auto F, auto x) {
          using A = array_of<decltype(x)>;
          A y = contrib::cond(
              x[0], [&] { return F.exp(x[1]) * x[2]; }, [&] { return x[1] + x[2] * 2; });
          return List<A>{y};
        },
        {nd.array({p}), numbers({2, 3}, 1), numbers({2, 3}, 2)});
    const auto values = floats(both.gradients[2]);
    const auto heads = floats(numbers({2, 3}, 77)), x = floats(numbers({2, 3}, 1));
    for (size_t i = 0; i < values.size(); ++i) {
      CHECK(values[i] == Approx(p != 0 ? heads[i] * std::exp(x[i]) : heads[i] * 2));
    }
  }
}

// Its own gradient, whatever arrives.
TEST_CASE("control flow: an output layer gives its gradient where neither branch has one") {
  for (float p : {1.f, 0.f}) {
    const auto check = [&](auto then, auto otherwise) {
      const Both both = check_both(
          [&](auto F, auto x) {
            using A = array_of<decltype(x)>;
            const A h = F.LogisticRegressionOutput(x[1], x[2]);
            A y = contrib::cond(
                x[0], [&] { return then(F, h); }, [&] { return otherwise(F, h); });
            return List<A>{y + x[3]};
          },
          {nd.array({p}), numbers({2, 3}, 1), numbers({2, 3}, 2), numbers({2, 3}, 3)});
      return floats(both.gradients[1]);
    };
    auto flat = [](auto F, auto h) { return F.floor(h * 3); };
    auto sign = [](auto F, auto h) { return F.sign(h); };
    auto through = [](auto, auto h) { return h * 2; };
    const std::vector<float> own = check(through, through);
    CHECK(own != std::vector<float>(6, 0));
    CHECK(check(flat, sign) == own);
    CHECK(check(flat, through) == own);
  }
}

TEST_CASE("control flow: no gradient arrives where no iteration has one") {
  for (int64_t n : {0, 1, 2, 3, 4, 5, 6, 7}) {
    INFO(n << " iterations");
    auto output = [](auto F, auto a) { return F.LogisticRegressionOutput(a, F.zeros_like(a)); };
    // The first states: three that change places, of which one is read at the end, and one that the second iteration
    // from the end no longer reads.
    check_both(
        [&](auto F, auto x) {
          using A = array_of<decltype(x)>;
          const List<A> first = {output(F, x[1]), output(F, x[2]), output(F, x[3]), output(F, x[4])};
          auto [out, s] = contrib::foreach (
              [&](const A& row, const List<A>& s) {
                return std::pair(F.floor(row * 3 + s[1]), List<A>{s[1], s[2], s[0], F.floor(s[3])});
              },
              output(F, x[0]), first);
          return List<A>{out, s[0] + x[1], s[3]};
        },
        {numbers({n, 3}, 1), numbers({3}, 2), numbers({3}, 3), numbers({3}, 4), numbers({3}, 5)});
    // Values that the body captures.
    check_both(
        [&](auto F, auto x) {
          using A = array_of<decltype(x)>;
          const A flat = output(F, x[2]), steep = output(F, x[3]);
          auto [out, s] = contrib::foreach (
              [&](const A& row, const A& s) { return std::pair(row * steep, F.sign(flat) + s); }, x[0], x[1]);
          return List<A>{out, s};
        },
        {numbers({n, 3}, 1), numbers({3}, 2), numbers({3}, 3), numbers({3}, 4)}, Sums::in_another_order);
  }
}

TEST_CASE("control flow: a loop without iterations whose body holds control flow") {
  for (int64_t n : {0, 1}) {
    INFO(n << " iterations");
    auto body = [](auto, auto x) {
      using A = array_of<decltype(x)>;
      const A w = x[2];
      auto [rows, last] = contrib::foreach (
          [&](const A& row, const A& s) {
            const A chosen = contrib::cond(
                row.sum() > 0, [&] { return row * w; }, [&] { return row - w; });
            auto [inner, sum] = contrib::foreach (
                [&](const A& cell, const A& t) {
                  return std::pair(List<A>{cell * 2, t}, t + cell);
                },
                chosen, row[0]);
            auto [powers, v] = contrib::while_loop([](const A& v) { return v < 4; },
                                                   [](const A& v) { return std::pair(v * v, v + 1); }, sum, 5);
            return std::pair(List<A>{chosen, inner[0], inner[1], powers}, s + v);
          },
          x[0], x[1]);
      rows.push_back(last);
      return rows;
    };
    const Both both = check_both(body, {numbers({n, 3}, 1), numbers({1}, 2), numbers({3}, 3)});
    CHECK(both.outputs[0].shape() == Shape(n, 3));
    CHECK(both.outputs[2].shape() == Shape(n, 3, 1));
    CHECK(both.outputs[3].shape() == Shape(n, 5, 1));
  }
  // A body that asks for a value has none to give; the error says why it was called at all.
  const NDArray none = nd.zeros({0, 3}), counter = nd.zeros({1});
  auto text_of = [&](auto body) {
    return message_of(
        [&] { contrib::foreach ([&](NDArray row, NDArray s) { return std::pair(body(row), s); }, none, counter); });
  };
  CHECK_THAT(text_of([](NDArray row) { return row * row.sum().asscalar<float>(); }),
             Contains("[foreach] makes no iteration") && Contains("has no value") && Contains("control_flow_test.cpp"));
  CHECK_THAT(text_of([&](NDArray row) {
               NDArray c = counter;
               c += row.sum();
               return row;
             }),
             Contains("[foreach] makes no iteration") && Contains("in place") && Contains("control_flow_test.cpp"));
  CHECK_THAT(text_of([](NDArray row) {
               return contrib::cond(
                   row.sum(), [&] { return row; }, [&] { return row.sum(); });
             }),
             Contains("[cond] output 0 is (3,) float32 from one branch and (1,) float32 from the other"));
  CHECK(counter.asscalar<float>() == 0);
}

TEST_CASE("control flow: loops in loops, and one loop's results in another") {
  check_both(
      [](auto F, auto x) {
        using A = array_of<decltype(x)>;
        auto [rows, total] = contrib::foreach (
            [&](const A& row, const A& sum) {
              auto [inner, last] = contrib::while_loop([&](const List<A>& v) { return v[0] < 3; },
                                                       [&](const List<A>& v) {
                                                         A next = F.tanh(v[1] * x[1] + row);
                                                         return std::pair(next, List<A>{v[0] + 1, next});
                                                       },
                                                       List<A>{F.zeros({1}), row}, 4);
              A chosen = contrib::cond(
                  F.sum(row) > 0, [&] { return last[1] * row; }, [&] { return F.mean(inner, {.axis = Shape(0)}); });
              return std::pair(chosen, sum + chosen * x[1]);
            },
            x[0], F.zeros({3}));
        auto [again, end] =
            contrib::foreach ([&](const A& row, const A& s) { return std::pair(s * row, row + total); }, rows, total);
        return List<A>{rows, total, again, end};
      },
      {numbers({4, 3}, 1), numbers({3}, 2)}, Sums::in_another_order);
}

TEST_CASE("control flow: values used more than once in an iteration, and results that are states") {
  check_both(
      [](auto F, auto x) {
        using A = array_of<decltype(x)>;
        auto [out, last] = contrib::foreach (
            [&](const A& row, const A& h) {  // a GRU reads its state three times and its weights twice
              A z = F.sigmoid(row * x[2] + h * x[2]);
              A n = F.tanh(row * x[3] + z * h * x[3]);
              A next = (1 - z) * n + z * h;
              return std::pair(next, next);
            },
            x[0], x[1]);
        return List<A>{out, last * 2};
      },
      {numbers({7, 2, 5}, 1), numbers({2, 5}, 2), numbers({5}, 3), numbers({5}, 4)});
}

TEST_CASE("control flow: states that swap, that nothing reads, that are returned as they came") {
  check_both(
      [](auto F, auto x) {
        using A = array_of<decltype(x)>;
        auto [out, s] = contrib::foreach (
            [&](const A& row, const List<A>& s) {
              return std::pair(s[0] * row, List<A>{s[1], F.sin(s[0]), s[2], F.zeros_like(row)});
            },
            x[0], List<A>{x[1], x[2], x[1], x[2]});
        return List<A>{out, s[0], s[2]};
      },
      {numbers({5, 3}, 1), numbers({3}, 2), numbers({3}, 3)});
}

TEST_CASE("control flow: the format of outputs and states is kept, names are unique") {
  NameScope names("");
  Symbol x = sym.var("x", {4, 2}), s = sym.var("s", {2});
  auto body = [](const Symbol& row, const Symbol& state) { return std::pair(row + state, state * 2); };
  auto [out, last] = contrib::foreach (body, x, s);
  static_assert(std::same_as<decltype(out), Symbol> && std::same_as<decltype(last), Symbol>);
  auto [outs, lasts] =
      contrib::foreach ([&](const List<Symbol>& row, const List<Symbol>& state) { return std::pair(row, state); },
                        List<Symbol>{x}, List<Symbol>{s});
  static_assert(std::same_as<decltype(outs), List<Symbol>> && std::same_as<decltype(lasts), List<Symbol>>);
  CHECK(out.name() == "foreach0");
  CHECK(outs[0].name() == "foreach1");
  CHECK(out.shape() == Shape(4, 2));
  CHECK(last.shape() == Shape(2));
  CHECK(out.entry().node == last.entry().node);
  auto [none, counted] =
      contrib::while_loop([](const Symbol& v) { return v < 3; },
                          [](const Symbol& v) { return std::pair(List<Symbol>{}, v + 1); }, sym.var("i", {1}), 5);
  CHECK(none.empty());
  CHECK(counted.shape() == Shape(1));
}

TEST_CASE("control flow: every dtype; sequences of 0, 1 and 32 rows; batch 1; no elements") {
  auto sums = [](auto, auto x) {
    using A = array_of<decltype(x)>;
    auto [out, last] =
        contrib::foreach ([&](const A& row, const A& s) { return std::pair(s + row, s + row * 2); }, x[0], x[1]);
    return List<A>{out, last};
  };
  for (DType t : {DType::float64, DType::float16, DType::bfloat16, DType::int32, DType::int64}) {
    INFO(name_of(t));
    check_both(sums, {(numbers({5, 3}, 1) * 8).astype(t), (numbers({3}, 2) * 8).astype(t)});
  }
  for (int n : {0, 1, 32}) {
    INFO(n << " rows");
    const Both both = check_both(sums, {numbers({n, 1, 4}, 1), numbers({1, 4}, 2)});
    CHECK(both.outputs[0].shape() == Shape(n, 1, 4));
    if (n == 0) CHECK(same_bits(both.outputs[1], numbers({1, 4}, 2)));
  }
  check_both(sums, {numbers({4, 0, 2}), numbers({0, 2})});
  check_both(sums, {numbers({6}), numbers({1})});  // rows of a 1-D array have one element
}

TEST_CASE("control flow: a count in integers beside values that learn") {
  check_both(
      [](auto F, auto x) {
        using A = array_of<decltype(x)>;
        auto [out, v] = contrib::while_loop([](const List<A>& v) { return v[0] < 4; },
                                            [&](const List<A>& v) {
                                              A y = F.tanh(v[1] * x[2]);
                                              return std::pair(List<A>{y, v[0]}, List<A>{v[0] + 1, y});
                                            },
                                            List<A>{x[0], x[1]}, 6);
        return List<A>{out[0], out[1], v[0], v[1]};
      },
      {nd.array({0}).astype(DType::int32), numbers({2, 3}, 1), numbers({2, 3}, 2)});
}

TEST_CASE("control flow: a trip count that differs from call to call needs no new plan") {
  auto body = [](auto, auto x) {
    using A = array_of<decltype(x)>;
    auto [out, v] = contrib::while_loop([&](const List<A>& v) { return v[0] < x[1]; },
                                        [](const List<A>& v) {
                                          return std::pair(v[1], List<A>{v[0] + 1, v[1] * 1.5});
                                        },
                                        List<A>{x[0], x[2]}, 10);
    return List<A>{out, v[0], v[1]};
  };
  const NDArray zero = nd.array({0}), start = numbers({3}, 4);
  CachedGraph graph = traced(body, {zero, zero, start});
  for (int n : {3, 0, 10, 20, 1}) {
    auto run = [&](auto&& f) { return with_gradients(f, {zero, nd.array({double(n)}), start}); };
    const Both expected = run([&](const List<NDArray>& x) { return body(nd, x); });
    const Both got = run([&](const List<NDArray>& x) { return call(graph, x); });
    INFO(n);
    require_same(got.outputs, expected.outputs, "output");
    require_same({got.gradients[2]}, {expected.gradients[2]}, "gradient");
    CHECK(floats(got.outputs[1])[0] == std::min(n, 10));
  }
  CHECK(graph.stats().misses == 1);
}

TEST_CASE("control flow: one operation forward, one backward, whatever the number of iterations") {
  Engine engine;
  EngineScope scope(engine);
  auto body = [](auto F, auto x) {
    using A = array_of<decltype(x)>;
    auto [out, last] = contrib::foreach (
        [&](const A& row, const A& s) { return std::pair(F.tanh(row + s), F.tanh(row * s)); }, x[0], x[1]);
    return List<A>{out, last};
  };
  List<NDArray> x{numbers({20, 300}, 1), numbers({300}, 2)};
  CachedGraph graph = traced(body, x);
  for (NDArray& a : x) a.attach_grad();
  const NDArray head = nd.ones({20, 300});
  for (int time = 0; time < 3; ++time) {
    engine.wait_all();
    uint64_t before = engine.stats().ops;
    List<NDArray> y = autograd::record([&] { return call(graph, x); });
    CHECK(engine.stats().ops == before + 1);
    y[0].backward(head);
    CHECK(engine.stats().ops == before + 2);
  }
}

TEST_CASE("control flow: random numbers differ between iterations, and the backward sees those of the forward") {
  auto dropped = [](auto F, auto x) {
    using A = array_of<decltype(x)>;
    auto [out, last] = contrib::foreach (
        [&](const A& row, const A& s) {
          A noise = F.Dropout(row, {.p = 0.5}) + F.random_normal({40}, {.scale = 0.1});
          return std::pair(noise, s * F.Dropout(x[1], {.p = 0.3}));
        },
        x[0], x[1]);
    A after = F.Dropout(last, {.p = 0.5});
    return List<A>{out, last, after};
  };
  const Both both = check_both(dropped, {nd.ones({6, 40}), nd.ones({40})});
  for (int k = 1; k < 6; ++k) CHECK_FALSE(same_bits(both.outputs[0][0], both.outputs[0][k]));
  check_both(
      [](auto F, auto x) {
        using A = array_of<decltype(x)>;
        A y = contrib::cond(
            x[0], [&] { return F.Dropout(x[1], {.p = 0.5}) * x[1]; }, [&] { return F.Dropout(x[1], {.p = 0.1}); });
        auto [out, v] = contrib::while_loop([](const List<A>& v) { return v[0] < 3; },
                                            [&](const List<A>& v) {
                                              A d = F.Dropout(v[1], {.p = 0.4});
                                              return std::pair(d, List<A>{v[0] + 1, d + 1});
                                            },
                                            List<A>{x[0], y}, 5);
        return List<A>{y, out, v[1], F.Dropout(y, {.p = 0.5})};
      },
      {nd.array({1}), numbers({50}, 3)});
}

TEST_CASE("control flow: constants and values of the program around are captured; equal bodies are one program") {
  auto body = [](auto F, auto x) {
    using A = array_of<decltype(x)>;
    A half = F.array({0.5, 0.25, 2}), w = F.exp(x[1]);
    auto step = [&](const A& row, const A& s) {
      return std::pair(row * half + w + F.array({1.0, 2.0, 3.0}), s + x[1]);
    };
    auto [a, b] = contrib::foreach (step, x[0], x[1]);
    auto [c, d] = contrib::foreach (step, x[0], x[1]);
    return List<A>{a, b, c, d};
  };
  check_both(body, {numbers({3, 3}, 1), numbers({3}, 2)}, Sums::in_another_order);
  auto program = [&] {
    NameScope names("");
    auto all = body(sym, variables_like({numbers({3, 3}), numbers({3})}));
    const SymbolNode& n = *all[0].entry().node;
    return std::pair(n.op, n.attrs);
  };
  const auto first = program(), second = program();
  CHECK(first.first->equal(first.second.get(), second.second.get()));
}

TEST_CASE("control flow: from eight threads") {
  auto body = [](auto F, auto x) {
    using A = array_of<decltype(x)>;
    auto [out, last] = contrib::foreach (
        [&](const A& row, const A& s) { return std::pair(F.tanh(F.dot(row, x[2]) + s), F.tanh(s + row)); }, x[0], x[1]);
    return List<A>{out, last};
  };
  auto inputs = [](int seed) {
    return List<NDArray>{numbers({9, 4, 4}, uint32_t(seed)), numbers({4, 4}, uint32_t(seed + 50)), numbers({4, 4}, 3)};
  };
  CachedGraph graph = traced(body, inputs(1));
  List<Both> expected;
  for (int i = 0; i < 3; ++i) {
    expected.push_back(with_gradients([&](const List<NDArray>& x) { return body(nd, x); }, inputs(i)));
  }
  std::atomic<int> wrong{0};
  List<std::thread> threads;
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 20; ++i) {
        const Both& right = expected[size_t(i + t) % 3];
        const Both got = with_gradients([&](const List<NDArray>& x) { return call(graph, x); }, inputs((i + t) % 3));
        for (size_t k = 0; k < got.outputs.size(); ++k) wrong += !same_bits(got.outputs[k], right.outputs[k]);
        for (size_t k = 0; k < got.gradients.size(); ++k) wrong += !same_bits(got.gradients[k], right.gradients[k]);
      }
    });
  }
  for (std::thread& t : threads) t.join();
  CHECK(wrong == 0);
}

TEST_CASE("control flow: retain_graph, grad_req add, and gradients of inputs that are not all wanted") {
  auto body = [](auto F, auto x) {
    using A = array_of<decltype(x)>;
    auto [out, last] = contrib::foreach (
        [&](const A& row, const A& s) { return std::pair(F.sin(row * s) * x[2], s * 0.5 + row); }, x[0], x[1]);
    return List<A>{out, last};
  };
  const List<NDArray> inputs{numbers({4, 3}, 1), numbers({3}, 2), numbers({3}, 3)};
  CachedGraph graph = traced(body, inputs);
  for (size_t wanted = 0; wanted < 3; ++wanted) {
    auto gradient = [&](auto&& run) {
      List<NDArray> x{inputs[0].copy(), inputs[1].copy(), inputs[2].copy()};
      x[wanted].attach_grad(GradReq::add);
      List<NDArray> y = autograd::record([&] { return run(x); });
      y[0].backward(nd.ones({4, 3}), true);
      y[0].backward(nd.ones({4, 3}));
      return x[wanted].grad();
    };
    CHECK(same_bits(gradient([&](const List<NDArray>& x) { return call(graph, x); }),
                    gradient([&](const List<NDArray>& x) { return body(nd, x); })));
  }
}

TEST_CASE("control flow: what is wrong is said by name") {
  const NDArray rows = numbers({3, 2}), state = numbers({2});
  auto fails = [](auto&& body, const List<NDArray>& inputs) {
    const std::string on_arrays = message_of([&] { body(nd, inputs); });
    const std::string in_trace = message_of([&] {
      CachedGraph graph = traced(body, inputs);
      call(graph, inputs);
    });
    INFO(on_arrays << "\n" << in_trace);
    CHECK(in_trace.substr(0, on_arrays.size()) == on_arrays);
    return on_arrays;
  };
  auto one = [](auto&& step) {
    return [=](auto F, auto x) {
      using A = array_of<decltype(x)>;
      auto [out, last] =
          contrib::foreach ([&](const A& row, const List<A>& s) { return step(F, row, s); }, x[0], List<A>{x[1]});
      return List<A>{out};
    };
  };
  CHECK(fails(one([](auto, auto row, auto s) {
                return std::pair(row, decltype(s){s[0], s[0]});
              }),
              {rows, state}) == "[foreach] expected 1 states, the body returned 2");
  CHECK(fails(one([](auto F, auto row, auto s) {
                return std::pair(row, decltype(s){F.concat(op::Concat{.dim = 0}, s[0], row)});
              }),
              {rows, state}) ==
        "[foreach] a state keeps its shape and dtype: state 0 was (2,) float32, the body returned (4,) float32");
  CHECK(fails(one([](auto F, auto row, auto s) { return std::pair(row, decltype(s){F.cast(s[0], DType::float64)}); }),
              {rows, state}) ==
        "[foreach] a state keeps its shape and dtype: state 0 was (2,) float32, the body returned (2,) float64");
  auto while_with = [](auto&& condition, int64_t most) {
    return [=](auto F, auto x) {
      using A = array_of<decltype(x)>;
      auto [out, last] = contrib::while_loop([&](const A& v) { return condition(F, v); },
                                             [](const A& v) { return std::pair(v, v); }, x[0], most);
      return List<A>{out};
    };
  };
  CHECK(fails(while_with([](auto, auto v) { return v < 3; }, 5), {state}) ==
        "[while_loop] the condition must have one element, got an array of shape (2,)");
  CHECK(fails(while_with([](auto F, auto v) { return F.sum(v) < 3; }, -1), {state}) ==
        "[while_loop] max_iterations must not be negative, got -1");
  CHECK(fails(
            [](auto, auto x) {
              using A = array_of<decltype(x)>;
              return List<A>{contrib::cond(
                  x[0], [&] { return x[0]; }, [&] { return x[0]; })};
            },
            {state}) == "[cond] the condition must have one element, got an array of shape (2,)");
  CHECK(fails(
            [](auto, auto x) {
              using A = array_of<decltype(x)>;
              auto [out, last] = contrib::foreach ([](const List<A>& row, const A& s) { return std::pair(row[0], s); },
                                                   List<A>{x[0], x[1]}, x[1]);
              return List<A>{out};
            },
            {rows, state}) == "[foreach] all data need the same length, data 0 has 3 rows, data 1 has 2");
  // what only a trace can see
  NameScope names("");
  const Symbol p = sym.var("p", {1}), x = sym.var("x", {2});
  auto pair_of = [](const Symbol& a) { return List<Symbol>{a, a}; };
  CHECK_THROWS_WITH(contrib::cond(
                        p, [&] { return x; }, [&] { return sym.sum(x); }),
                    Contains("[cond] output 0 is (2,) float32 from one branch and"));
  CHECK_THROWS_WITH(contrib::cond(
                        p, [&] { return pair_of(x); }, [&] { return List<Symbol>{x}; }),
                    Contains("[cond] one branch returns 2 arrays, the other 1"));
  CHECK_THROWS_WITH(contrib::while_loop([](const Symbol& v) { return sym.Dropout(v) < 1; },
                                        [](const Symbol& v) { return std::pair(v, v); }, p, 3),
                    Contains("[while_loop] the condition must not draw random numbers"));
}

TEST_CASE("control flow: an operator that updates what it reads is refused in a body") {
  NameScope names("");
  auto make = [] {
    auto variable = [](const char* name) { return sym.var(name, {4}); };
    return contrib::foreach (
               [&](const Symbol& row, const Symbol& s) {
                 const Symbol y =
                     sym.BatchNorm(row, variable("gamma"), variable("beta"), variable("mean"), variable("var"));
                 return std::pair(y, s);
               },
               sym.var("x", {3, 2, 4}), sym.var("s", {1}))
        .first;
  };
  CachedGraph graph(make(), {"x", "s", "gamma", "beta", "mean", "var"}, {}, "norm");
  const NDArray x = numbers({3, 2, 4}), one = nd.ones({4}), zero = nd.zeros({4});
  auto run = [&] { return call(graph, {x, nd.zeros({1}), one, zero, zero, one})[0]; };
  const std::string text = "[BatchNorm] updates what it reads, which it cannot do in the body of a loop";
  require_near(run(), x.asvector<double>(), 1e-2);
  CHECK_THAT(message_of([&] { autograd::train_mode(run).wait_to_read(); }), Contains(text));
  CHECK_THAT(message_of([&] { autograd::train_mode(make); }), Contains(text));
}

TEST_CASE("control flow: a failure inside says node and iteration, and reaches whoever waits") {
  auto body = [](auto F, auto x) {
    using A = array_of<decltype(x)>;
    auto [out, last] = contrib::foreach (
        [&](const A& row, const A& s) { return std::pair(fails_on_nan(row) + s, F.tanh(s)); }, x[0], x[1]);
    return List<A>{out};
  };
  NDArray x = numbers({5, 2}, 1);
  CachedGraph graph = traced(body, {x, numbers({2})});
  CHECK(floats(call(graph, {x, numbers({2})})[0]).size() == 10);
  NDArray bad = x.copy();
  bad.slice_assign({3, 0}, {4, 2}, NAN);
  NDArray y = call(graph, {bad, numbers({2})})[0];
  const std::string text = message_of([&] { y.wait_to_read(); });
  CHECK_THAT(text, Contains("NaN") && Contains("_test_fails_on_nan") && Contains("iteration 3"));
  CHECK_THAT(text, Contains("foreach0"));
  CHECK(floats(call(graph, {x, numbers({2})})[0]).size() == 10);
}

TEST_CASE("control flow: its plan can be printed") {
  auto body = [](auto F, auto x) {
    using A = array_of<decltype(x)>;
    auto [out, last] =
        contrib::foreach ([&](const A& row, const A& s) { return std::pair(F.Dropout(row), s); }, x[0], x[1]);
    return List<A>{out};
  };
  CachedGraph graph = traced(body, {numbers({3, 2}), numbers({2})});
  call(graph, {numbers({3, 2}), numbers({2})});
  CHECK_THAT(graph.report()->dump(), Contains("_foreach"));
}

TEST_CASE("control flow: a program without shapes gets them when it is called, and is composed on another") {
  NameScope names("");
  auto [out, last] = contrib::foreach ([](const Symbol& row, const Symbol& s) { return std::pair(row + s, row * s); },
                                       sym.var("x"), sym.var("s"));
  CHECK_THROWS_AS(out.shape(), TraceError);
  CachedGraph graph(out, {"x", "s"}, {.exact = true}, "late");
  CHECK(call(graph, {numbers({3, 2}), numbers({2})})[0].shape() == Shape(3, 2));
  CHECK(call(graph, {numbers({6, 4, 2}), numbers({4, 2})})[0].shape() == Shape(6, 4, 2));
  CHECK(out.infer_shape({{"x", Shape(3, 2)}, {"s", Shape(2)}}).outputs[0] == Shape(3, 2));
  const Symbol on = compose(out, {{"x", sym.exp(sym.var("y"))}});
  CachedGraph composed(on, {"y", "s"}, {.exact = true}, "composed");
  CHECK(same_bits(call(composed, {numbers({3, 2}), numbers({2})})[0],
                  call(graph, {nd.exp(numbers({3, 2})), numbers({2})})[0]));
}

}  // namespace control_flow_test
