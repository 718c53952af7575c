// PlanOptions: what a plan is made for, and what it may do.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "kaon/graph/ir/gradient.h"
#include "kaon/graph/memory/plan_arenas.h"

namespace kaon::graph {

class GradientProgram;

struct PlanOptions {
  Device device{};
  bool training = false;
  bool exact = false;                      // the imperative kernels
  bool winograd = false;                   // convolutions by Winograd's algorithm where it pays
  IntrusivePtr<PlanArenas> arenas{};       // null: the plan makes its own
  bool keep_arenas = false;                // else their memory is given back to the storage after each use
  bool parallel_regions = true;            // independent branches run in parallel, if the engine has threads for them
  bool padded = false;                     // made by pad_rows(): the first input is the number of rows of a call
  std::function<std::string()> history{};  // the graph after each pass, for dump(); null: not known
  std::shared_ptr<GradientProgram> gradients{};  // the backward as a program, for gradients that are recorded
  std::vector<bool> heads{};                     // by output: does the backward take a gradient there? Empty: each
  std::vector<bool> copied{};                    // by input: inputs_updated_in_copies(); empty: none
  std::vector<std::string> refusals{};           // by output: why it has no gradient; empty: each has one
  // By input: which gradients arrive; empty where none is taken. For each that does so sometimes, whether it has
  // arrived follows the gradients among the results.
  std::vector<Arrives> arrives{};
  std::vector<bool> recorded{};  // by output: recorded_outputs(); empty: each is, or none
  std::vector<bool> own{};       // by output: own_gradients(); empty: none
  int verify = 0;  // the number of calls, with their backwards, that are compared with the imperative run of `program`
  std::shared_ptr<const Graph> program{};  // passes::program(), before the passes
  std::optional<size_t> num_data{};        // the inputs after these are parameters; unset: not known
  std::vector<uint32_t> groups{};          // of the last outputs, one group each: Update::groups
  std::vector<uint32_t> read_groups{};     // by input: Update::read_groups
};

}  // namespace kaon::graph
