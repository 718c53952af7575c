// What a recurrent layer or cell computes, for comparing ways to compute it.
#pragma once

#include <functional>
#include <utility>
#include <vector>

#include "kaon/graph/autograd.h"
#include "kaon/tests/gluon/support.h"

namespace kaon::test {

using List = std::vector<NDArray>;

// Output, states, and the gradients of input, states and parameters.
inline std::vector<std::vector<double>> everything(const gluon::Block& block, const NDArray& data, const List& first,
                                                   const std::function<std::pair<NDArray, List>(NDArray, List)>& call) {
  NDArray x = data.copy();
  List states;
  for (const NDArray& s : first) states.push_back(s.copy());
  x.attach_grad();
  for (NDArray& s : states) s.attach_grad();
  std::vector<std::vector<double>> all;
  NDArray loss = autograd::record([&] {
    auto [y, next] = call(x, states);
    all.push_back(values(y));
    auto weigh = [](const NDArray& a) { return (a * nd.reshape(nd.arange(double(a.size())), a.shape()) * 0.1).sum(); };
    NDArray sum = weigh(y);
    for (const NDArray& s : next) {
      all.push_back(values(s));
      sum = sum + weigh(s);
    }
    return sum;
  });
  loss.backward();
  all.push_back(values(x.grad()));
  for (const NDArray& s : states) all.push_back(values(s.grad()));
  for (const auto& p : block.collect_params()) all.push_back(values(p.grad()));
  return all;
}

inline void require_all_close(const std::vector<std::vector<double>>& got,
                              const std::vector<std::vector<double>>& expected, double tolerance = 2e-5) {
  REQUIRE(got.size() == expected.size());
  for (size_t i = 0; i < got.size(); ++i) {
    INFO("array " << i);
    require_close(got[i], expected[i], tolerance, tolerance);
  }
}

}  // namespace kaon::test
