// What must hold for every program: all ways to run it agree, and its gradients are derivatives.
#pragma once

#include <map>

#include "kaon/graph/hybrid/cached_graph.h"
#include "kaon/tests/support/programs/program_run.h"

namespace kaon::test {

using namespace graph;

enum class Way : uint8_t {
  plain,               // hybridized, within the bounds of graph/plan/difference.h
  exact,               // bit for bit
  other_threads,       // imperative on 2 threads, bit for bit
  static_two_threads,  // the bits of `plain`, as the next two
  mirror,
  no_branches,
  verify,
  verify_exact,
  winograd,       // first gradients too, within what its bounds for each convolution make of them
  bucket,         // predictions of programs that it takes
  training_step,  // five steps
  training_step_exact,
  training_step_winograd,
  derivative,         // against numeric ones in float64
  second_derivative,  // gradients of gradients likewise
};
inline constexpr int num_ways = 15;
const char* name_of(Way way);

// The options of a way; nothing where the net is not hybridized.
std::optional<HybridizeOptions> options_of(Way way);
int threads_of(Way way);

// Is a program called like this in this way? A trained program has other states when it is not.
bool is_called(Way way, Phase phase);

// May HybridizeOptions::winograd compute any call of the program by Winograd's algorithm?
bool has_winograd(const Program& program);

// A trace refuses an operator without a gradient where some run of a branch or a while loop would send one through it,
// the imperative run where this one does.
bool is_refused_for_a_run(const Program& program, std::string_view error);

// Runs one program in several ways and keeps what they share. One thread.
class Checker {
 public:
  explicit Checker(const Program& program) : program_(program) {}

  // What is wrong, "" when nothing is.
  std::string check(Way way);

 private:
  using Outcomes = std::vector<Outcome>;  // by rows and phase
  Outcomes run(Way way, const std::vector<Phase>& phases, Noise noise = {}) const;
  const Outcomes& kept(Way way);
  std::string compare(const Outcomes& got, const Outcomes& want, Way way, size_t at);
  std::string compare_arrays(const char* what, const Hosts& got, const Hosts& want, bool gradients, Way way, size_t at);
  // How far the imperative results move at most when each operator's results change by some roundings, and those of
  // Winograd's algorithm by up to its bound.
  double spread(size_t outcome, int list, size_t array, bool winograd = false);
  bool is_sensitive(size_t outcome);

  const Program& program_;
  std::map<Way, Outcomes> kept_;
  std::vector<Outcomes> disturbed_[2];  // with Winograd's algorithm?
};

// What of a program a loss is made of: the floating results that have elements. Random numbers that nothing needs are
// not drawn in a trace.
Program training_part(const Program& program);

// The checks that are no comparison of phases.
std::string check_training_step(const Program& program, Way way);
std::string check_derivative(const Program& program, bool second);

}  // namespace kaon::test
