// F.call: operators with several inputs.
#include <catch2/catch.hpp>

#include "kaon/graph/symbol.h"
#include "kaon/ops/functions.h"

namespace call_test {

using namespace kaon;

TEST_CASE("call: any number of arrays, by themselves or as In") {
  const NDArray x = nd.array({1, 2}), y = nd.array({10, 20}), c = nd.array({1, 0});
  CHECK(nd.call(op::BroadcastAdd{}, x, y).asvector<float>() == std::vector<float>{11, 22});
  CHECK(nd.call(op::BroadcastAdd{}, x, In<NDArray>(y)).asvector<float>() == std::vector<float>{11, 22});
  CHECK(nd.call(op::BroadcastAdd{}, In<NDArray>(x), y).asvector<float>() == std::vector<float>{11, 22});
  CHECK(nd.call(op::Where{}, c, x, y).asvector<float>() == std::vector<float>{1, 20});
  CHECK(nd.call(op::Where{}, c, x + 1, In<NDArray>(y)).asvector<float>() == std::vector<float>{2, 20});
  CHECK(nd.call(op::Concat{.dim = 0, .num_args = 3}, x, y, c).shape() == Shape(6));
  const Symbol a = sym.var("a"), b = sym.var("b");
  CHECK(sym.call(op::BroadcastAdd{}, a, b).list_arguments() == std::vector<std::string>{"a", "b"});
  CHECK(sym.call(op::Where{}, a, b, In<Symbol>(a)).list_arguments() == std::vector<std::string>{"a", "b"});
}

template <class F>
constexpr bool sum_takes_numbers = requires(const F& f, const NDArray& x) {
  f.sum(x, {0, 1});
};
template <class F>
constexpr bool sum_takes_options = requires(const F& f, const NDArray& x) {
  f.sum(x, {0, true});
};

TEST_CASE("reductions: axes as numbers and Shapes; a list in braces is not taken for options") {
  const NDArray x = nd.ones({2, 3, 4});
  CHECK(nd.sum(x, Shape(0, 1)).shape() == Shape(4));
  CHECK(nd.mean(x, Shape(0, 1), true).shape() == Shape(1, 1, 4));
  CHECK(nd.max(x, -1).shape() == Shape(2, 3));
  CHECK(nd.any(x, Shape(1, 2)).shape() == Shape(2));
  CHECK(nd.std(x, 0, true).shape() == Shape(1, 3, 4));
  CHECK(nd.sum(x, {.axis = {0, 1}, .keepdims = true}).shape() == Shape(1, 1, 4));
  // what means axes to a reader who knows MXNet was axis 0 with keepdims
  static_assert(!sum_takes_numbers<Functions<NDArray>>);
  static_assert(sum_takes_options<Functions<NDArray>>);
}

}  // namespace call_test
