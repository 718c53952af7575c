// The CUDA library's list of kernels, which needs no GPU.
#include <catch2/catch.hpp>

#include "kaon/engine/device/backend.h"
#include "kaon/engine/error.h"
#include "kaon/ops/operator/gpu_kernels.h"
#include "kaon/ops/operator/registry.h"
#include "kaon/tests/support/skip.h"

namespace gpu_kernels_test {

using namespace kaon;
using namespace kaon::ops;

TEST_CASE("every operator has a CUDA kernel", "[ops][cuda]") {
  if (!gpu_library_function("kaon_cuda_kernels")) {
    return test::skip(std::string("built without CUDA: ") + gpu_unavailable_reason());
  }
  for (const OpDef* def : all_op_defs()) {
    if (def->compose) continue;                                 // its parts have
    if (def->name() == "_contrib_calibrate_entropy") continue;  // of a histogram, before a net is quantised
    if (def->name() == "_npi_eig") continue;                    // LAPACK's geev, on the CPU alone
    INFO(def->name());
    CHECK_NOTHROW(gpu_kernel(*def));
  }
  OpDef unknown = *all_op_defs().front();
  unknown.traits.name = "no_such_operator";
  CHECK_THROWS_WITH(gpu_kernel(unknown), Catch::Contains("no_such_operator") && Catch::Contains("as_in_context"));
}

}  // namespace gpu_kernels_test
