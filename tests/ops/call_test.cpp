// F.call: operators with several inputs.
#include <catch2/catch.hpp>

#include "kaon/graph/symbol.h"
#include "kaon/ops/functions.h"

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
