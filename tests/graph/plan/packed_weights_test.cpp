// Plans keep weights in the layout of their kernels, until the weights are written.
#include "kaon/engine/storage.h"
#include "kaon/tests/graph/support.h"

namespace packed_weights_test {

using namespace kaon;
using namespace kaon::test;

namespace {

size_t live_bytes() {
  nd.waitall();
  return Storage::cpu().stats().live;
}

// Dense layers and convolutions, each with sizes at which their kernels want another layout than the array's.
template <class F, class A>
std::vector<A> dense(F f, const std::vector<A>& in) {
  return {f.FullyConnected(in[0], in[1], in[2], {.num_hidden = 130})};
}
template <class F, class A>
std::vector<A> product(F f, const std::vector<A>& in) {
  return {f.dot(in[0], in[1])};
}
template <class F, class A>
std::vector<A> convolution(F f, const std::vector<A>& in) {
  return {f.Convolution(in[0], in[1], in[2], {.kernel = {3, 3}, .pad = {1, 1}, .num_filter = 32})};
}
template <class F, class A>
std::vector<A> deconvolution(F f, const std::vector<A>& in) {
  return {f.Deconvolution(in[0], in[1], {.kernel = {3, 3}, .num_filter = 16})};
}

// f planned against f called, before and after each kind of write to the weights (the second input).
template <class F>
void check(F&& f, std::vector<NDArray> inputs, bool exact) {
  std::vector<Symbol> data;
  for (size_t i = 0; i < inputs.size(); ++i) data.push_back(sym.var("data" + std::to_string(i)));
  CachedGraph graph(Symbol::group(f(sym, data)), data_names(int(inputs.size())),
                    {.static_alloc = true, .static_shape = true, .exact = exact}, "test");
  NDArray& w = inputs[1];
  auto require_right = [&](const char* when) {
    INFO(when << (exact ? ", exact" : ""));
    for (int call = 0; call < 3; ++call) {
      std::vector<const NDArray*> arguments;
      for (const NDArray& a : inputs) arguments.push_back(&a);
      NDArray planned = graph.call(arguments, std::source_location::current())[0];
      NDArray expected = f(nd, inputs)[0];
      if (exact) {
        REQUIRE(same_bits(planned, expected));
      } else {
        require_near(planned, expected.template asvector<double>(), 1e-4);
      }
    }
  };
  require_right("at first");
  w.assign(numbers(w.shape(), 5));
  require_right("after assign");
  w += numbers(w.shape(), 6);
  require_right("after +=");
  w.slice(0, 1).assign(numbers(w.slice(0, 1).shape(), 7));
  require_right("after a write through a view");
  w = numbers(w.shape(), 8);
  require_right("with another array");
  w.attach_grad();
  NDArray loss = autograd::record([&] { return f(nd, inputs)[0]; });
  loss.backward();
  nd.sgd_update(w, w.grad(), {.lr = 0.1});
  require_right("after an update by an optimizer");
}

struct Case {
  const char* name;
  Shape x, w, b;
};

}  // namespace

TEST_CASE("packed weights: a plan never multiplies by what the weights were", "[graph]") {
  for (bool exact : {false, true}) {
    for (int64_t rows : {1, 2, 13, 32, 300}) {
      INFO(rows << " rows");
      check([](auto f, auto in) { return dense(f, in); },
            {numbers({rows, 70}), numbers({130, 70}, 2), numbers({130}, 3)}, exact);
      check([](auto f, auto in) { return product(f, in); }, {numbers({rows, 70}), numbers({70, 90}, 2)}, exact);
    }
    for (int64_t images : {1, 3}) {
      INFO(images << " images");
      check([](auto f, auto in) { return convolution(f, in); },
            {numbers({images, 16, 9, 9}), numbers({32, 16, 3, 3}, 2), numbers({32}, 3)}, exact);
      check([](auto f, auto in) { return deconvolution(f, in); },
            {numbers({images, 32, 9, 9}), numbers({32, 16, 3, 3}, 2)}, exact);
    }
  }
}

TEST_CASE("packed weights: once for all plans, and gone with the weights", "[graph]") {
  const size_t before = live_bytes();
  {
    NDArray w = numbers({32, 16, 3, 3}, 2), b = numbers({32}, 3);
    const std::vector<Symbol> data{sym.var("data0"), sym.var("data1"), sym.var("data2")};
    std::vector<std::unique_ptr<CachedGraph>> nets;
    std::vector<size_t> grown;
    for (int net = 0; net < 3; ++net) {
      nets.push_back(std::make_unique<CachedGraph>(Symbol::group(convolution(sym, data)), data_names(3),
                                                   HybridizeOptions(), "test"));
      NDArray x = numbers({1 + net, 16, 9, 9});
      const size_t with_input = live_bytes();
      for (int call = 0; call < 4; ++call) {
        const NDArray* arguments[] = {&x, &w, &b};
        nets.back()->call(arguments, std::source_location::current())[0].wait_to_read();
      }
      grown.push_back(live_bytes() - with_input);
    }
    CHECK(grown[0] >= size_t(w.size()) * sizeof(float));
    CHECK(grown[0] < 2 * size_t(w.size()) * sizeof(float));
    CHECK(grown[1] == 0);
    CHECK(grown[2] == 0);
    w.assign(numbers({32, 16, 3, 3}, 4));
    w.wait_to_read();
  }
  CHECK(live_bytes() == before);
}

TEST_CASE("packed weights: no room for them is no fault", "[graph]") {
  NDArray x = numbers({1, 64, 9, 9}), w = numbers({64, 64, 3, 3}, 2), b = numbers({64}, 3);
  const std::vector<Symbol> data{sym.var("data0"), sym.var("data1"), sym.var("data2")};
  auto wide = [](auto f, auto in) {
    return std::vector{f.Convolution(in[0], in[1], in[2], {.kernel = {3, 3}, .pad = {1, 1}, .num_filter = 64})};
  };
  NDArray expected = wide(nd, std::vector{x, w, b})[0];
  CachedGraph graph(Symbol::group(wide(sym, data)), data_names(3), {}, "test");
  // room for the result and for weights that are laid out for one call, not for both of them and what is kept
  Storage::cpu().trim();
  Storage::cpu().set_limit(live_bytes() + size_t(w.size()) * sizeof(float) * 15 / 8);
  for (int call = 0; call < 3; ++call) {
    const NDArray* arguments[] = {&x, &w, &b};
    NDArray y = graph.call(arguments, std::source_location::current())[0];
    CHECK_NOTHROW(y.wait_to_read());
    Storage::cpu().set_limit(0);
    require_near(y, expected.asvector<double>(), 1e-4);
    Storage::cpu().set_limit(live_bytes() + size_t(w.size()) * sizeof(float) * 15 / 8);
  }
  Storage::cpu().set_limit(0);
}

}  // namespace packed_weights_test
