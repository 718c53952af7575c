// What monitors see of executors. Names are those of MXNet 1.9.1; docs/mxnet.md says which values differ.
#include <cmath>

#include "executors.h"

namespace monitor_test {

using namespace symbols;

namespace {

Sym dense() {
  const Sym x = Sym::variable("x");
  return Sym::call("FullyConnected", "fc", {{"num_hidden", "2"}}, {&x});
}

struct Seen {
  std::vector<std::string> names;
  std::vector<std::vector<float>> values;
  std::vector<float> of(const std::string& name) const {
    for (size_t i = 0; i < names.size(); ++i) {
      if (names[i] == name) return values[i];
    }
    FAIL("no " << name);
    return {};
  }
};

void note(const char* name, NDArrayHandle array, void* context) {
  Seen& seen = *static_cast<Seen*>(context);
  seen.names.emplace_back(name);
  seen.values.push_back(Array(array).values());
}

// One forward in training and one backward.
Seen run(const Executor& e, const std::vector<const Array*>& heads = {}) {
  Seen seen;
  ok(MXExecutorSetMonitorCallbackEX(e.handle, note, &seen, false));
  e.forward(true);
  ok(e.backward(heads));
  ok(MXExecutorSetMonitorCallbackEX(e.handle, nullptr, nullptr, false));
  return seen;
}

using Names = std::vector<std::string>;
using Values = std::vector<float>;

}  // namespace

TEST_CASE("monitors see what an executor computes", "[mxnet]") {
  Executor e;
  ok(try_simple_bind(dense(), {{"x", {1, 3}}}, "write", &e));
  Seen seen;
  ok(MXExecutorSetMonitorCallbackEX(e.handle, note, &seen, false));
  e.forward();
  CHECK(seen.names == Names{"fc_output"});
  seen = {};
  ok(MXExecutorSetMonitorCallbackEX(e.handle, note, &seen, true));
  e.forward();
  CHECK(seen.names == Names{"x", "fc_data", "fc_weight", "fc_weight", "fc_bias", "fc_bias", "fc_output"});
  ok(MXExecutorSetMonitorCallbackEX(e.handle, nullptr, nullptr, false));
  seen = {};
  e.forward();
  CHECK(seen.names.empty());
}

TEST_CASE("monitors see the gradients of each operator's inputs", "[mxnet]") {
  const Sym fc = dense(), relu = Sym::call("Activation", "r", {{"act_type", "relu"}}, {&fc});
  const Array x({1, 2}, {1, 2}), w({2, 2}, {1, 0, 0, -1}), b({2}, {0, 0}), head({1, 2}, {3, 4});
  const Array dx({1, 2}, {9, 9}), dw({2, 2}, {0, 0, 0, 0}), db({2}, {10, 10});
  const Executor e = bind(relu, {&x, &w, &b}, {&dx, &dw, &db}, {write_request, write_request, add_request});
  for (int i = 1; i < 3; ++i) {  // twice
    const Seen seen = run(e, {&head});
    CHECK(seen.names == Names{"fc_output", "r_output", "_head_grad_0_id_output", "r_backward_output",
                              "fc_backward_output0", "fc_backward_output1", "fc_backward_output2"});
    CHECK(seen.of("_head_grad_0_id_output") == Values{3, 4});
    CHECK(seen.of("r_backward_output") == Values{3, 0});
    CHECK(seen.of("fc_backward_output0") == Values{3, 0});
    CHECK(seen.of("fc_backward_output1") == Values{3, 6, 0, 0});
    CHECK(seen.of("fc_backward_output2") == Values{3, 0});
    CHECK(dx.values() == Values{3, 0});
    CHECK(dw.values() == Values{3, 6, 0, 0});
    CHECK(db.values() == Values{10.f + 3 * float(i), 10});
  }
  const Seen again = [&] {  // a second backward after one forward
    Seen seen;
    ok(MXExecutorSetMonitorCallbackEX(e.handle, note, &seen, false));
    e.forward(true);
    ok(e.backward({&head}));
    seen = {};
    ok(e.backward({&head}));
    return seen;
  }();
  CHECK(again.names.size() == 5);
  CHECK(again.of("fc_backward_output2") == Values{3, 0});
}

TEST_CASE("monitors see sums of gradients where several operators read an array", "[mxnet]") {
  const Sym a = Sym::variable("a"), t = Sym::call("tanh", "t", {}, {&a}), e = Sym::call("exp", "e", {}, {&t});
  const Sym stopped = Sym::call("BlockGrad", "stop", {}, {&t});
  const Sym sum = Sym::call("elemwise_add", "sum", {}, {&e, &stopped}),
            y = Sym::call("elemwise_mul", "y", {}, {&sum, &t});
  const Array x({1}, {0.5f}), dx({1}, {0}), head({1}, {1});
  const Seen seen = run(bind(y, {&x}, {&dx}, {write_request}), {&head});
  CHECK(seen.names == Names{"t_output", "e_output", "stop_output", "sum_output", "y_output", "_head_grad_0_id_output",
                            "y_backward_output0", "y_backward_output1", "e_backward_output", "sum_grad_output",
                            "t_backward_output"});
  const float th = std::tanh(0.5f), ex = std::exp(th);
  CHECK(seen.of("y_backward_output1")[0] == Approx(ex + th));
  CHECK(seen.of("e_backward_output")[0] == Approx(th * ex));
  CHECK(seen.of("sum_grad_output")[0] == Approx(ex + th + th * ex));
  CHECK(seen.of("t_backward_output")[0] == Approx((ex + th + th * ex) * (1 - th * th)));
  CHECK(dx.values() == seen.of("t_backward_output"));
}

TEST_CASE("monitors see no head of a loss, and zeros for what is not computed", "[mxnet]") {
  const Sym fc = dense(), label = Sym::variable("label");
  const Sym loss = Sym::call("SoftmaxOutput", "sm", {}, {&fc, &label});
  const Array x({1, 2}, {1, 2}), w({2, 2}, {0, 0, 0, 0}), b({2}, {0, 0}), l({1}, {1});
  const Array none(NDArrayHandle{}), dw({2, 2}, {0, 0, 0, 0});
  const Executor e = bind(loss, {&x, &w, &b, &l}, {&none, &dw, &none, &none},
                          {null_request, write_request, null_request, null_request});
  const Seen seen = run(e);
  CHECK(seen.names == Names{"fc_output", "sm_output", "sm_backward_output0", "sm_backward_output1",
                            "fc_backward_output0", "fc_backward_output1", "fc_backward_output2"});
  CHECK(seen.of("sm_backward_output0") == Values{0.5, -0.5});
  CHECK(seen.of("sm_backward_output1") == Values{0});
  CHECK(seen.of("fc_backward_output0") == Values{0, 0});
  CHECK(seen.of("fc_backward_output1") == Values{0.5, 1, -0.5, -1});
  CHECK(dw.values() == seen.of("fc_backward_output1"));
}

TEST_CASE("statistics of BatchNorm move once in a backward that a monitor sees", "[mxnet]") {
  const Sym x = Sym::variable("x");
  const Sym bn = Sym::call("BatchNorm", "bn", {{"fix_gamma", "False"}, {"momentum", "0.5"}}, {&x});
  Executor e;
  ok(try_simple_bind(bn, {{"x", {2, 1}}}, "write", &e));
  e.arguments[0].set({1, 3});
  e.arguments[1].set({1});
  const Array head({2, 1}, {1, 1});
  const Seen seen = run(e, {&head});
  CHECK(seen.names == Names{"bn_output", "bn_mean", "bn_var", "_head_grad_0_id_output", "bn_backward_output0",
                            "bn_backward_output1", "bn_backward_output2"});
  CHECK(e.states[0].values() == Values{1});
  CHECK(seen.of("bn_backward_output2") == Values{2});
  Seen predicted;
  ok(MXExecutorSetMonitorCallbackEX(e.handle, note, &predicted, false));
  e.forward();
  CHECK(predicted.of("bn_mean") == Values{1});
  CHECK(predicted.of("bn_var")[0] == Approx(1 / std::sqrt(e.states[1].values()[0] + 1e-3)));
}

}  // namespace monitor_test
