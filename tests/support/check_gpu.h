// Rows of test tables on a GPU, the CPU being the reference.
#pragma once

#include <catch2/catch.hpp>

#include "kaon/engine/device/backend.h"
#include "kaon/tests/support/row_run.h"
#include "kaon/tests/support/skip.h"

namespace kaon::test {

using namespace engine;

// Outputs and gradients, in these dtypes; `rtol` 0: bit by bit.
inline void check_gpu(const Rows& rows, std::initializer_list<DType> dtypes, double rtol = 0) {
  if (!has_gpu()) return;
  for (const Row& row : rows) {
    INFO(row.str());
    for (DType t : dtypes) {
      if (!row.accepts(t)) continue;
      INFO(name_of(t));
      auto differ = [&](const std::string& what, const Hosts& got, const Hosts& want) {
        const double tol = std::max(rtol, rtol > 0 ? 2 * tolerance(t) : 0);
        return tol > 0 ? compare_all(what, got, want, tol, tol) : compare_bits(what, got, want);
      };
      const Hosts inputs = make_inputs(row, t);
      CHECK(differ("output", run(row, inputs, gpu(0)), run(row, inputs)) == "");
      if (!is_floating(t) || !has_gradient(row, inputs)) continue;
      const Hosts got = backward(row, inputs, GradReq::write, gpu(0)).inputs;
      CHECK(differ("gradient", got, backward(row, inputs).inputs) == "");
    }
  }
}

}  // namespace kaon::test
