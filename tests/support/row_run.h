// One run of a row of the test table, forward or backward, with its values as doubles on the host.
#pragma once

#include "kaon/graph/autograd.h"
#include "kaon/graph/symbol.h"
#include "kaon/tests/support/check_op.h"

namespace kaon::test {

// The operator, or a plan of it.
using Call = engine::FunctionRef<std::vector<NDArray>(const std::vector<NDArray>&)>;

NDArray make_array(const Host& h, Device device = Device());
std::vector<NDArray> make_arrays(const Hosts& hosts, Device device = Device());
Host read(const NDArray& a);
Hosts read_all(const std::vector<NDArray>& arrays);

// The inputs as they are once stored in dtype `t`: the same at any call, others for another seed.
Hosts make_inputs(const Row& row, DType t, uint64_t seed = 0);
// The operator as a Symbol of variables x0, x1, ...
struct RowSymbol {
  Symbol symbol;
  std::vector<std::string> names;
};
RowSymbol symbol_of(const Row& row);
// Head gradients for such outputs: not round, and the same at any call.
Hosts make_heads(const std::vector<TensorMeta>& outputs);
// What the reference says the results are, as dtype `t` stores them.
Hosts expected(const Row& row, const Hosts& inputs, DType t);

// Calls the operator. `visible`: only the outputs that a caller sees.
std::vector<NDArray> call(const Row& row, const std::vector<NDArray>& inputs, bool visible);
// Calls in the row's mode, with the random numbers from the first on.
std::vector<NDArray> in_mode(const Row& row, bool record, const std::vector<NDArray>& arrays, Call call);
// All outputs, then the inputs that were updated. Throws when another input has changed.
Hosts run(const Row& row, const Hosts& inputs, Device device = Device());

struct Gradients {
  Hosts outputs;  // visible ones
  Hosts inputs;   // the gradients; empty where none flows
};
bool wants_gradient(const Row& row, const Hosts& inputs, size_t i);
bool has_gradient(const Row& row, const Hosts& inputs);
Gradients backward(const Row& row, const Hosts& inputs, GradReq req, Call forward, Device device = Device());
Gradients backward(const Row& row, const Hosts& inputs, GradReq req = GradReq::write, Device device = Device());
// d(sum of heads * f(inputs)) / d(inputs), by central differences.
Hosts numeric_gradient(const Row& row, Hosts inputs, const Hosts& heads, engine::FunctionRef<Hosts(const Hosts&)> f);

// What one rounding to the dtype, after arithmetic in it or in float32, may change.
double tolerance(DType t);
double largest(const Host& h);  // finite magnitude
// Each returns the first difference, "" when there is none.
std::string compare(const std::string& what, const Host& got, const Host& want, double rtol, double atol);
std::string compare_bits(const std::string& what, const Hosts& got, const Hosts& want);
std::string compare_all(const std::string& what, const Hosts& got, const Hosts& want, double rtol, double atol);

}  // namespace kaon::test
