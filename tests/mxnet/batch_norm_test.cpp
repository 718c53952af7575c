// The moving statistics of BatchNorm move with its gradient, as MXNet's do. The numbers are those of MXNet 1.9.1.
#include "executors.h"

namespace batch_norm_test {

using namespace symbols;
using Floats = std::vector<float>;

namespace {

const Texts attributes{{"fix_gamma", "False"}, {"eps", "1e-05"}, {"momentum", "0.9"}};

struct Layer {
  Array x{{4, 3}, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}};
  Array gamma{{3}, {1, 1, 1}}, beta{{3}, {0, 0, 0}}, mean{{3}, {0, 0, 0}}, var{{3}, {1, 1, 1}};
  Array d_gamma{{3}, {0, 0, 0}}, d_beta{{3}, {0, 0, 0}};
  CachedOpHandle op = nullptr;

  explicit Layer(bool hybridized) {
    NDArrayHandle variables[] = {gamma.get(), beta.get()}, gradients[] = {d_gamma.get(), d_beta.get()};
    uint32_t requests[] = {1, 1};
    ok(MXAutogradMarkVariables(2, variables, requests, gradients));
    if (!hybridized) return;
    const Sym names[] = {Sym::variable("x"), Sym::variable("gamma"), Sym::variable("beta"), Sym::variable("mean"),
                         Sym::variable("var")};
    const Sym y = Sym::call("BatchNorm", "bn", attributes, {&names[0], &names[1], &names[2], &names[3], &names[4]});
    ok(MXCreateCachedOpEx(y.get(), 0, nullptr, nullptr, &op));
  }
  ~Layer() {
    if (op) ok(MXFreeCachedOp(op));
  }
  Array operator()() const {
    if (!op) return one("BatchNorm", {&x, &gamma, &beta, &mean, &var}, attributes);
    NDArrayHandle inputs[] = {x.get(), gamma.get(), beta.get(), mean.get(), var.get()}, *results = nullptr;
    const int* storage = nullptr;
    int n = 0;
    ok(MXInvokeCachedOpEx(op, 5, inputs, &n, &results, &storage));
    return Array(results[0]);
  }
  void check(float mean_of_first, float var_of_all) const {
    CHECK(mean.values()[0] == Approx(mean_of_first));
    for (const float v : var.values()) CHECK(v == Approx(var_of_all));
  }
};

void backward(const Array& head, bool retain = false) {
  NDArrayHandle h = head.get();
  ok(MXAutogradBackwardEx(1, &h, nullptr, 0, nullptr, retain, 0, 1, nullptr, nullptr));
}

}  // namespace

TEST_CASE("Moving statistics move once for each backward", "[mxnet]") {
  for (const bool hybridized : {false, true}) {
    INFO(hybridized);
    const Layer layer(hybridized);
    {
      const Recording recording;
      layer();  // a generator in the step of its discriminator
      const Array y = layer();
      layer.check(0, 1);
      backward(y, true);
      layer.check(0.45f, 2.025f);
      backward(y);
      layer.check(0.855f, 2.9475f);
    }
    for (int step = 0; step < 2; ++step) {
      const Recording recording;
      backward(layer());
    }
    layer.check(1.54755f, 4.524975f);
    const Floats before = layer.mean.values();
    layer();  // a prediction
    CHECK(layer.mean.values() == before);
  }
}

TEST_CASE("Moving statistics in use stay", "[mxnet]") {
  const Layer layer(false);
  Texts in_use = attributes;
  in_use.emplace_back("use_global_stats", "True");
  const Recording recording;
  backward(one("BatchNorm", {&layer.x, &layer.gamma, &layer.beta, &layer.mean, &layer.var}, in_use));
  layer.check(0, 1);
}

TEST_CASE("Moving statistics of an executor move once for each backward", "[mxnet]") {
  const Sym x = Sym::variable("x");
  const Sym y = Sym::call("BatchNorm", "bn", attributes, {&x});
  Executor e;
  ok(try_simple_bind(y, {{"x", {4, 3}}}, "write", &e));
  e.arguments[0].set({0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11});
  e.arguments[1].set({1, 1, 1});
  e.states[1].set({1, 1, 1});
  const Array head({4, 3}, Floats(12, 1));
  const auto check = [&](float mean, float var) {
    CHECK(e.states[0].values()[0] == Approx(mean));
    CHECK(e.states[1].values()[2] == Approx(var));
  };
  e.forward(true);
  check(0, 1);
  ok(e.backward({&head}));
  check(0.45f, 2.025f);
  ok(e.backward({&head}));
  check(0.855f, 2.9475f);
  e.forward(true);
  e.forward(true);
  ok(e.backward({&head}));
  check(1.2195f, 3.77775f);
  CHECK(e.forward()[0] == Approx(-0.627430f));
}

}  // namespace batch_norm_test
