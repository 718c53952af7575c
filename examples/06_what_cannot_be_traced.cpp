// What a trace cannot record: most of it does not compile, the rest throws.
// Prints the message for each of: a shape that is not known, a layer that works on arrays only, a child that was never
// registered, and a net that is not hybrid as a whole. Then what to write instead of an `if` on a value.
#include <kaon/kaon.h>

#include <concepts>

namespace nn = kaon::gluon::nn;
using namespace kaon;

// A Symbol has no values, so a function that reads one is no hybrid_forward. This line in it
//     if (x.asscalar<float>() > 0) ...
// makes the call of the block an error at compile time; no trace ever meets it:
template <class A>
concept ReadsValues = requires(const A& x) {
  x.template asscalar<float>();
};
template <class A>
concept Awaited = requires(const A& x) {
  x.operator co_await();
};
template <class A>
concept UsedAsCondition = std::convertible_to<A, bool>;
static_assert(ReadsValues<NDArray> && !ReadsValues<Symbol>);
static_assert(Awaited<NDArray> && !Awaited<Symbol>);
static_assert(!UsedAsCondition<NDArray> && !UsedAsCondition<Symbol>);  // `if (x > 0)` compiles for neither

// An array from outside does not mix with a Symbol: it would be a hidden input. Parameters and F.array do.
template <class A, class B>
concept Adds = requires(const A& a, const B& b) {
  a + b;
};
static_assert(Adds<NDArray, NDArray> && Adds<Symbol, Symbol> && !Adds<Symbol, NDArray>);

struct HalfWidth : gluon::HybridBlock<HalfWidth> {
  auto hybrid_forward(auto F, auto x) { return F.slice_axis(x, 1, 0, x.shape()[1] / 2); }
};

struct Stranger : gluon::HybridBlock<Stranger> {
  nn::Dense dense{3};  // forgot child("dense", ...)
  auto hybrid_forward(auto, auto x) { return dense(x); }
};

// A value decides here without an `if`: both sides are computed, and where() chooses.
struct Choose : gluon::HybridBlock<Choose> {
  auto hybrid_forward(auto F, auto x) { return F.where(x > 0, x, F.exp(x) - 1); }
};

template <class Action>
void show(const char* what, Action action) {
  try {
    action();
    fmt::print("{}: nothing thrown\n", what);
  } catch (const TraceError& e) {
    fmt::print("{}\n  TraceError: {}\n", what, e.what());
  } catch (const StateError& e) {
    fmt::print("{}\n  StateError: {}\n", what, e.what());
  } catch (const ValueError& e) {
    fmt::print("{}\n  ValueError: {}\n", what, e.what());
  }
}

int main() {
  HalfWidth half;
  show("a shape that is not known", [&] { half(sym.var("data")); });
  fmt::print("the same with a known one: {}\n", half(sym.var("data", {2, 6})).shape().str());
  half.hybridize();
  fmt::print("and hybridized, where each call knows it: {}\n", half(nd.ones({2, 6})).shape().str());

  auto host_only = nn::Lambda([](const NDArray& x) { return nd.array(x.asvector<float>(), x.shape(), {}); });
  nn::Sequential mixed(nn::Dense(4), host_only);
  show("a layer on arrays only, given a Symbol", [&] { mixed[1](sym.var("data")); });
  show("the same layer in a HybridSequential", [&] { nn::HybridSequential(nn::Dense(4), host_only); });

  Stranger stranger;
  stranger.initialize();
  show("a child that was not registered", [&] { stranger(nd.ones({1, 2})); });

  // A plain Sequential takes such a layer. Its other children are hybridized all the same.
  mixed.initialize();
  mixed.hybridize();
  fmt::print("a Sequential of both: {}\n", mixed(nd.ones({1, 2})).shape().str());

  Choose choose;
  choose.hybridize();
  fmt::print("x where x > 0, else e^x - 1:\n{}\n", choose(nd.array({-1, 0, 2})));
}
