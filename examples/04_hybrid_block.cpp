// hybrid_forward: one function for arrays and for symbols.
// Prints F, x and the hidden layer on each of two calls; after hybridize() once, with symbols, and on the second call
// nothing. Then five things that used to be forbidden in such a function, before and after hybridize(): the same
// values.
#include <kaon/kaon.h>

#include <type_traits>

namespace nn = kaon::gluon::nn;
using namespace kaon;

const char* name_of(const Functions<NDArray>&) { return "nd"; }
const char* name_of(const Functions<Symbol>&) { return "sym"; }

struct HybridNet : gluon::HybridBlock<HybridNet> {
  nn::Dense hidden = child("hidden", nn::Dense(10));
  nn::Dense output = child("output", nn::Dense(2));

  auto hybrid_forward(auto F, auto x) {  // F is nd and x an NDArray, or F is sym and x a Symbol
    fmt::print("F: {}\nx: {}\n", name_of(F), x);
    x = F.relu(hidden(x));
    fmt::print("hidden: {}\n", x);
    return output(x);
  }
};

struct Allowed : gluon::HybridBlock<Allowed> {
  gluon::Parameter scale = param("scale", {1, 3}, {.init = init::Constant(2)});

  auto hybrid_forward(auto F, auto x) {
    x = x + F.ones({1, 3});          // + broadcasts
    x = x * F(scale);                // a parameter: the array, or the variable
    x += F.array({100, 200, 300});   // in place, and values from the program: in a trace a constant
    if (x.shape()[0] > 1) x = x[0];  // shapes are known while tracing, and [] slices
    x.slice_assign({0}, {1}, -1);    // in a trace: a new value under the same name
    return x;
  }
};

// Several arrays in, several out.
struct SumAndDifference : gluon::HybridBlock<SumAndDifference> {
  auto hybrid_forward(auto, auto a, auto b) { return std::pair(a + b, a - b); }
};

int main() {
  random::seed(7);
  HybridNet net;
  net.initialize();
  NDArray x = nd.random_normal({1, 4});
  fmt::print("=== 1st forward ===\n");
  net(x);
  fmt::print("=== 2nd forward ===\n");
  net(x);

  net.hybridize();
  fmt::print("\n=== hybridized, 1st forward ===\n");
  net(x);
  fmt::print("=== hybridized, 2nd forward: the traced program runs, hybrid_forward does not ===\n");
  net(x);
  fmt::print("=== of any shape ===\n");
  net(nd.random_normal({3, 4}));

  Allowed allowed;
  allowed.initialize();
  NDArray m = nd.array({{1, 2, 3}, {4, 5, 6}});
  fmt::print("\nbefore hybridizing: {}\n", allowed(m));
  allowed.hybridize();
  fmt::print("after hybridizing:  {}\n", allowed(m));
  // This trace has read a shape, so it holds for that shape; another one is traced anew.
  fmt::print("one row:            {}\n\n", allowed(m.slice(0, 1)));

  SumAndDifference both;
  both.hybridize();
  auto [sum, difference] = both(nd.array({5, 6}), nd.array({3, 2}));
  fmt::print("sum {}\ndifference {}\n", sum, difference);
}
