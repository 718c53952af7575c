// Outputs that callers do not see: kernels get no memory, and no shape, for those that nobody asks for.
#include <catch2/catch.hpp>
#include <set>

#include "kaon/ops/functions.h"
#include "kaon/ops/operator/kernel_call.h"
#include "kaon/tests/ops/table/op_table.h"
#include "kaon/tests/support/row_run.h"
#include "kaon/tests/support/skip.h"

namespace hidden_outputs_test {

using namespace kaon;
using namespace kaon::ops;
using namespace kaon::test;

namespace {

// What a caller sees, then the inputs that were updated.
Hosts run_without_hidden(const Row& row, const Hosts& inputs, Device device) {
  const std::vector<NDArray> arrays = make_arrays(inputs, device);
  const size_t all = size_t(row.def->num_outputs(row.attrs.get()));
  const size_t visible = size_t(row.def->visible_outputs(row.attrs.get()));
  const Hosts like = run(row, inputs, device);
  Hosts seen = read_all(in_mode(row, false, arrays, [&](const std::vector<NDArray>& given) {
    std::vector<NDArray> results;
    std::vector<ArrayNode*> from, to(all, nullptr);
    for (const NDArray& a : given) from.push_back(a.ptr().get());
    for (size_t i = 0; i < visible; ++i) {
      results.push_back(nd.zeros(like[i].shape, {.dtype = *like[i].dtype, .device = device}));
      to[i] = results[i].ptr().get();
    }
    push_kernel(*row.def, row.attrs.get(), from, to, Outputs::known, {"test"}, autograd::is_training());
    return results;
  }));
  for (size_t i = 0; i < arrays.size(); ++i) {
    if (is_mutated(row.def->traits, int(i), int(arrays.size()))) seen.push_back(read(arrays[i]));
  }
  return seen;
}

void check_hidden(Device device) {
  std::set<std::string_view> checked;
  for (const Row& row : all_rows()) {
    const int all = row.def->num_outputs(row.attrs.get()), visible = row.def->visible_outputs(row.attrs.get());
    if (device != cpu() && !row.options.on_gpu) continue;
    if (row.def->compose) continue;  // no kernel: those of its parts are rows themselves
    if (row.options.refused || visible == 0 || visible >= all || !row.accepts(DType::float32)) continue;
    INFO(row.str());
    const Hosts inputs = make_inputs(row, DType::float32);
    Hosts want = run(row, inputs, device);
    want.erase(want.begin() + visible, want.begin() + all);
    CHECK(compare_bits("result", run_without_hidden(row, inputs, device), want) == "");
    checked.insert(row.def->name());
  }
  CHECK(checked.size() >= 4);  // BatchNorm, Dropout, LayerNorm, LeakyReLU
}

}  // namespace

TEST_CASE("every operator: outputs that nobody asks for change nothing", "[ops]") { check_hidden(cpu()); }

TEST_CASE("gpu: outputs that nobody asks for change nothing", "[ops][cuda]") {
  if (has_gpu()) check_hidden(gpu(0));
}

}  // namespace hidden_outputs_test
