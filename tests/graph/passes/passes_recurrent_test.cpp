// Parameters of recurrent layers that are put together and taken apart again.
#include "kaon/tests/graph/passes/passes_support.h"

namespace passes_recurrent_test {

using namespace kaon;
using namespace kaon::test;

namespace {

Graph separate(Graph g) { return passes::dead_code(passes::separate_rnn_parameters(std::move(g), false), false); }

const std::vector<std::string> names{"x", "h", "w", "u", "b", "c"};

// A layer of width 3 over x (2, 2, 4).
std::vector<NDArray> inputs() {
  return {numbers({2, 2, 4}, 1), numbers({1, 2, 3}, 2), numbers({9, 4}, 3),
          numbers({9, 3}, 4),    numbers({9}, 5),       numbers({9}, 6)};
}

Symbol layer(const std::vector<Symbol>& parameters) {
  return sym.RNN(sym.var("x"), sym._rnn_param_concat(parameters, {.dim = 0}), sym.var("h"),
                 {.state_size = 3, .num_layers = 1, .mode = RnnMode::gru});
}

Symbol flat(const char* name) { return sym.reshape(sym.var(name), {-1}); }

}  // namespace

TEST_CASE("separate_rnn_parameters: a layer reads the arrays themselves, and their gradients are not sliced") {
  const Graph g = traced(layer({flat("w"), flat("u"), flat("b"), sym.var("c")}), names, inputs());
  CHECK(count(g, "_rnn_parameters") == 1);
  const Graph now = check_pass(separate, g, inputs());
  CHECK(count(now, "_rnn_parameters") + count(now, "Concat") + count(now, "Reshape") == 0);
  CHECK(count(now, "_reshape_to") == 1);  // of the state
  const Graph backward = check_pass(separate, with_gradient(g, std::vector<bool>(6, true)), inputs());
  CHECK(count(backward, "_rnn_parameters") == 0);
  const Graph before = with_gradient(separate(g), std::vector<bool>(6, true));
  CHECK(count(before, "Concat") + count(before, "SliceChannel") + count(before, "slice_axis") == 0);
}

TEST_CASE("separate_rnn_parameters: arrays of other sizes stay together") {
  // Two arrays for W, and one for both biases: as many as before, with other borders.
  auto some = inputs();
  some[2] = numbers({3, 4}, 3), some[3] = numbers({6, 4}, 4), some[4] = numbers({9, 3}, 5), some[5] = numbers({18}, 6);
  const Graph g = traced(layer({flat("w"), flat("u"), flat("b"), sym.var("c")}), names, some);
  CHECK(count(check_pass(separate, g, some), "_rnn_parameters") == 1);
}

TEST_CASE("separate_rnn_parameters: parts that are no reshaped arrays become views") {
  const Graph g = traced(layer({flat("w"), sym.relu(flat("u")), flat("b"), sym.var("c")}), names, inputs());
  const Graph now = check_pass(separate, g, inputs());
  CHECK(count(now, "_rnn_parameters") + count(now, "Concat") == 0);
  CHECK(count(now, "_reshape_to") == 2);
}

}  // namespace passes_recurrent_test
