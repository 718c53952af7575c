// Program: a hybridizable program as data: what the generator makes, the checks run and the shrinker makes smaller.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "kaon/ops/operator/op_attributes.h"
#include "kaon/ops/shape.h"

namespace kaon::test {

using namespace ops;

struct Program;

enum class Role : uint8_t {
  data,       // given with each call; a gradient is asked for where it is floating
  constant,   // written into the program
  parameter,  // learned
  state       // updated by operators: running statistics
};

// Where a variable's values come from: uniform in [low, high), rounded down to multiples of `step` unless that is 0; or
// the listed ones, over and over.
struct Range {
  double low = -1.5, high = 1.5, step = 0;
  std::vector<double> values{};
};

// One output of a node.
struct Ref {
  uint32_t node = 0, output = 0;
  friend bool operator==(const Ref&, const Ref&) = default;
};

enum class Kind : uint8_t { variable, call, foreach, while_loop, cond };

struct ProgramNode {
  Kind kind = Kind::variable;
  // A variable's.
  Role role = Role::data;
  Range range{};
  uint64_t seed = 0;
  bool batched = false;  // axis 0 is the number of rows of a call
  // An operator's.
  const OpDef* def = nullptr;
  Attributes attrs{};
  bool is_derivative = true;  // what the operator gives as its gradient
  std::vector<Ref> inputs{};
  // Control flow. The variables of a body are, in order: rows of the data, states, and what it uses of the program
  // around it. foreach and while_loop: {body}, whose heads are the outputs and then the states; {body, condition}.
  // cond: {then, otherwise}, and input 0 is the predicate.
  std::vector<std::shared_ptr<const Program>> bodies{};
  uint32_t num_data = 0, num_states = 0;
  int64_t iterations = 0;  // while_loop: the most
  // Of the first call's shapes.
  std::vector<TensorMeta> outputs{};
};

// How a program is called.
enum class Phase : uint8_t {
  predict,         // outputs
  train,           // recorded while training, backward
  record,          // recorded while predicting, backward
  second,          // gradients with create_graph, and backward of these, while predicting
  second_training  // while training
};
const char* name_of(Phase phase);

// Nodes in the order in which they run.
struct Program {
  uint64_t seed = 0;
  std::vector<ProgramNode> nodes{};
  std::vector<Ref> heads{};
  std::vector<int64_t> rows{0};  // of the data; 0: as they are. For each, all phases.
  std::vector<Phase> phases{};
  // Heads that no gradient arrives at, by bit; others from call to call if they take turns.
  uint32_t unused = 0;
  bool takes_turns = false;

  const TensorMeta& meta(Ref r) const { return nodes[r.node].outputs[r.output]; }
  size_t num_calls() const;  // operators and control flow, those in bodies included
};

// The heads that no gradient arrives at in the call with this number.
uint32_t unused_in(const Program& program, uint64_t call);
// The numbers of the variables with this role.
std::vector<uint32_t> variables(const Program& program, Role role);
// The values of a variable in the call with this number and these rows.
std::vector<double> values_of(const ProgramNode& variable, const Shape& shape, uint64_t call);
Shape shape_in_call(const ProgramNode& variable, int64_t rows);
// Without what no head needs. The first data variable stays; in a body, all of them.
Program pruned(const Program& program, bool is_body = false);
// With float64 for every floating dtype.
Program widened(const Program& program);
// Calls visit(def) for every operator, those in bodies included.
void each_call(const Program& program, FunctionRef<void(const ProgramNode&)> visit);

}  // namespace kaon::test
