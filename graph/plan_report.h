// PlanReport: what a hybridized block or a training step does in a call: its graph, kernels and memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "kaon/engine/api.h"
#include "kaon/engine/intrusive_ptr.h"

namespace KAON_API kaon {

namespace graph {
class ExecutionPlan;
}

// net.plan() and step.plan() make one. Keeps the plan, and shows it as it is when it is asked; it neither runs anything
// nor waits for operations. Thread safety: any thread.
class PlanReport : public engine::RefCounted<PlanReport> {
 public:
  explicit PlanReport(engine::IntrusivePtr<graph::ExecutionPlan> plan);
  ~PlanReport();
  PlanReport(const PlanReport&) = delete;
  PlanReport& operator=(const PlanReport&) = delete;

  // The graph before and after each pass, then implementations() and memory(). Runs the passes again, and throws what
  // they throw.
  std::string dump() const;
  // A line for each operator: the kernel that it runs and the layout in which that works, known after the first run.
  // Then how many images are copied from one layout into another in a run.
  std::string implementations() const;
  // A line for each value in the arena, then peak and saving.
  std::string memory() const;
  // The same as a picture for a file .svg: node numbers across, bytes up.
  std::string svg() const;

  // The memory of one run, apart from inputs, outputs and parameters.
  size_t arena_bytes() const;
  // Such memories made so far, by this plan and the others of its net: as many as runs could overlap.
  size_t num_arenas() const;
  // On a GPU: runs that were launched as one CUDA graph.
  uint64_t graph_launches() const;

 private:
  engine::IntrusivePtr<graph::ExecutionPlan> plan_;
};

}  // namespace kaon
