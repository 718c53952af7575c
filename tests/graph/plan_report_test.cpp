// What programs see of a plan.
#include "kaon/graph/plan_report.h"

#include "kaon/graph/plan/execution_plan.h"
#include "kaon/tests/graph/support.h"

namespace plan_report_test {

using namespace kaon;
using namespace kaon::graph;
using namespace kaon::test;
using Catch::Matchers::Contains;
using Catch::Matchers::StartsWith;

TEST_CASE("plan report: it says what the plan is, and grows with its runs", "[graph]") {
  Symbol x = sym.var("x"), w = sym.var("w");
  IntrusivePtr<PlanReport> report;
  {
    CachedGraph graph(sym.softmax(sym.tanh(sym.dot(x, w)) * 2), {"x", "w"}, {.exact = true}, "net");
    NDArray a = nd.ones({4, 3}), b = nd.ones({3, 5});
    const NDArray* arrays[] = {&a, &b};
    graph.call(arrays, std::source_location::current())[0].wait_to_read();
    report = graph.report();
    const IntrusivePtr<ExecutionPlan> plan = graph.plan();
    CHECK(report->arena_bytes() == plan->memory().arena_bytes);
    CHECK(report->arena_bytes() > 0);
    CHECK(report->num_arenas() == 1);
    CHECK(report->graph_launches() == 0);
    CHECK(report->memory() == plan->memory().report(plan->graph()));
    CHECK(report->svg() == plan->memory().svg(plan->graph()));
    CHECK_THAT(report->dump(), StartsWith("--- as traced: ") && Contains(report->implementations() + report->memory()));
  }
  // it keeps the plan
  CHECK_THAT(report->implementations(), Contains(" (dot): ") && Contains(" (softmax): own\n") &&
                                            Contains("\n3 operators, 0 reorders of images") &&
                                            !Contains("not run yet"));
}

TEST_CASE("plan report: kernels are not known before a phase has run", "[graph]") {
  Symbol x = sym.var("x");
  CachedGraph graph(sym.sin(x), {"x"}, {.exact = true}, "net");
  NDArray a = nd.ones({3});
  a.attach_grad();
  const NDArray* arrays[] = {&a};
  std::vector<NDArray> outputs = autograd::record([&] { return graph.call(arrays, std::source_location::current()); });
  outputs[0].wait_to_read();
  const IntrusivePtr<PlanReport> report = graph.report();
  CHECK_THAT(report->implementations(), Contains(" (sin): own\n") && Contains("): not run yet\n"));
  outputs[0].backward();
  a.grad().wait_to_read();
  CHECK_THAT(report->implementations(), !Contains("not run yet"));
}

}  // namespace plan_report_test
