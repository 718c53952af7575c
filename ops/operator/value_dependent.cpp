#include "kaon/ops/operator/value_dependent.h"

#include <fmt/format.h>

#include "kaon/engine/error.h"
#include "kaon/ops/array_functions.h"
#include "kaon/ops/operator/interceptor.h"

namespace kaon::ops {

void refuse_in_trace(const char* function) {
  throw TraceError(
      fmt::format("[{}] the size of the result depends on the values of its arguments, which a trace does not have; "
                  "call it outside of hybridized blocks and Symbols",
                  function));
}

void expect_values(const char* function) {
  if (Interceptor* i = Interceptor::current(); i && i->instead_of_running) refuse_in_trace(function);
}

}  // namespace kaon::ops
