// Running a Program as a net: calls in several modes, with gradients, as a user makes them.
#pragma once

#include "kaon/gluon/block.h"
#include "kaon/tests/support/programs/program.h"
#include "kaon/tests/support/row_run.h"

namespace kaon::test {

struct Outcome {
  Hosts outputs;    // then the first gradients, where there are second ones
  Hosts gradients;  // of data, then of parameters; those that nothing arrives at are empty
  Hosts states;
  std::string error;  // what was thrown
};

// How the arrays that operators give are changed, where a net is not hybridized.
struct Noise {
  double rounding = 0;    // relative to each element; 0: no noise
  bool winograd = false;  // convolutions that Winograd's algorithm may take: each element by up to its bound as well
};
// May HybridizeOptions::winograd compute this call by Winograd's algorithm?
bool may_be_winograd(const ProgramNode& call);

// A program as a block. A handle.
struct ProgramNet : gluon::HybridBlock<ProgramNet> {
  // Parameters have their values.
  explicit ProgramNet(const Program& program, Noise noise = {});

  const std::shared_ptr<const Program> program;
  const std::vector<gluon::Parameter> parameters;  // and states, in the order of the program's
  const Noise noise;

  // From the data, one to four arrays.
  std::vector<NDArray> call(const std::vector<NDArray>& data) const;

  template <class A>
  std::vector<A> run(std::vector<A> data);
  auto hybrid_forward(auto, auto a) { return run(std::vector{a}); }
  auto hybrid_forward(auto, auto a, auto b) { return run(std::vector{a, b}); }
  auto hybrid_forward(auto, auto a, auto b, auto c) { return run(std::vector{a, b, c}); }
  auto hybrid_forward(auto, auto a, auto b, auto c, auto d) { return run(std::vector{a, b, c, d}); }
};

// The data of a call.
std::vector<NDArray> data_of(const Program& program, int64_t rows, uint64_t call);
// Values that weigh the elements of a result, for gradients: not round.
NDArray weights_like(const NDArray& result);

// Each element of each floating result times 1 + noise * (a number from -1 to 1), others for each result.
void disturb(std::vector<NDArray>& results, double noise, uint64_t& seed);

// One call of the net and what follows it. `call` chooses the data and the random numbers.
Outcome run_phase(const ProgramNet& net, Phase phase, int64_t rows, uint64_t call);

}  // namespace kaon::test
