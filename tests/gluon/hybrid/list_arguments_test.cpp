// Blocks that take and return lists of arrays: one plan for each form of the arguments.
#include "kaon/gluon/nn/nn.h"
#include "kaon/graph/autograd.h"
#include "kaon/tests/gluon/support.h"

namespace list_arguments_test {

using namespace kaon;
using namespace kaon::test;

namespace {

using List = std::vector<NDArray>;

// Sums, and what came in, in every kind of structure.
struct Lists : gluon::HybridBlock<Lists> {
  auto hybrid_forward(auto, auto x, const auto& list, auto y) {
    auto sum = x + y;
    for (const auto& a : list) sum = sum + a;
    std::vector<decltype(x)> doubled;
    for (const auto& a : list) doubled.push_back(a * 2);
    return std::tuple(sum, doubled, std::pair(std::array{x * 3, y * 4}, std::vector{x - y}));
  }
};

struct Many : gluon::HybridBlock<Many> {
  auto hybrid_forward(auto, auto a, auto b, auto c, auto d, const auto& e, auto f) {
    return std::vector{a * 1 + b * 2 + c * 3, d * 4 + e[0] * 5 + f * 6};
  }
};

// One argument in a list, or two arrays: as many arrays, but another form.
struct Forms : gluon::HybridBlock<Forms> {
  auto hybrid_forward(auto, auto x, const std::vector<NDArray>& rest) { return x + rest[0]; }
  auto hybrid_forward(auto, auto x, const std::vector<Symbol>& rest) { return x + rest[0]; }
  auto hybrid_forward(auto, auto x, auto y) { return x - y; }
};

NDArray row(double first) { return nd.array({first, first + 1}); }

}  // namespace

TEST_CASE("lists: nested results are the same imperatively and hybridized", "[gluon]") {
  Lists net;
  for (bool active : {false, true}) {
    INFO(active);
    net.hybridize(active);
    for (size_t n : {2, 0, 3, 2}) {
      List list;
      for (size_t i = 0; i < n; ++i) list.push_back(row(double(i)));
      auto [sum, doubled, rest] = net(row(10), list, row(20));
      const double extra = n == 3 ? 3 : n == 2 ? 1 : 0;
      require_close(sum, {30 + extra, 32 + extra + double(n)});
      REQUIRE(doubled.size() == n);
      for (size_t i = 0; i < n; ++i) require_close(doubled[i], {double(i) * 2, double(i) * 2 + 2});
      require_close(rest.first[0], {30, 33});
      require_close(rest.first[1], {80, 84});
      REQUIRE(rest.second.size() == 1);
      require_close(rest.second[0], {-10, -10});
    }
  }
}

TEST_CASE("lists: six arguments, and gradients through a list", "[gluon]") {
  Many net;
  for (bool active : {false, true}) {
    net.hybridize(active);
    NDArray inside = row(5);
    inside.attach_grad();
    auto both = autograd::record([&] { return net(row(1), row(2), row(3), row(4), List{inside}, row(6)); });
    require_close(both[0], {14, 20});
    require_close(both[1], {77, 92});
    both[1].backward();
    require_close(inside.grad(), {5, 5});
  }
}

TEST_CASE("lists: a list of one array is no array", "[gluon][traces]") {
  Forms net;
  net.hybridize();
  for (int i = 0; i < 2; ++i) {
    require_close(net(row(1), List{row(3)}), {4, 6});
    require_close(net(row(1), row(3)), {-2, -2});
  }
  CHECK(net.plan_stats().misses == 2);
}

}  // namespace list_arguments_test
