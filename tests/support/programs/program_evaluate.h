// Running a Program on arrays or Symbols: what a user would have written into hybrid_forward.
#pragma once

#include "kaon/graph/control_flow.h"
#include "kaon/tests/support/programs/program.h"

namespace kaon::test {

inline NDArray make_variable(const ProgramNode& n, int64_t rows, uint64_t call) {
  const Shape shape = shape_in_call(n, rows);
  const std::vector<double> values = values_of(n, shape, call);
  return NDArray::from(values.data(), values.size(), shape, n.outputs[0].dtype);
}

template <class A>
using Values = std::vector<std::vector<A>>;  // by node and output
// What a call's results, from these inputs, go through: it may disturb them. Not for Symbols.
template <class A>
using Disturb = engine::FunctionRef<void(const ProgramNode&, const std::vector<A>& inputs, std::vector<A>& results)>;

template <class A>
class Evaluation {
 public:
  explicit Evaluation(const Program& program, std::optional<Disturb<A>> disturb = {})
      : program_(program), disturb_(disturb) {}

  // The heads, from the variables that are no constants, in their order.
  std::vector<A> run(std::span<const A> variables) {
    Values<A> values;
    size_t next = 0;
    for (const ProgramNode& n : program_.nodes) {
      if (n.kind != Kind::variable) {
        values.push_back(call(n, inputs_of(n, values)));
      } else if (n.role == Role::constant) {
        values.push_back({A::from_values(make_variable(n, 0, 0), "")});
      } else {
        values.push_back({variables[next++]});
      }
    }
    std::vector<A> heads;
    for (Ref r : program_.heads) heads.push_back(values[r.node][r.output]);
    return heads;
  }

  std::vector<A> call(const ProgramNode& n, const std::vector<A>& in) {
    std::vector<A> out = results(n, in);
    if (disturb_) (*disturb_)(n, in, out);
    return out;
  }

 private:
  std::vector<A> results(const ProgramNode& n, const std::vector<A>& in) {
    switch (n.kind) {
      case Kind::foreach: return foreach (n, in);
      case Kind::while_loop: return while_loop(n, in);
      case Kind::cond: return cond(n, in);
      default: break;
    }
    std::vector<const A*> pointers;
    for (const A& a : in) pointers.push_back(&a);
    std::vector<A> out{size_t(n.def->visible_outputs(n.attrs.get()))};
    A::apply(*n.def, n.attrs.get(), pointers, out, std::source_location::current(), "");
    return out;
  }
  static std::vector<A> inputs_of(const ProgramNode& n, const Values<A>& values) {
    std::vector<A> in;
    for (Ref r : n.inputs) in.push_back(values[r.node][r.output]);
    return in;
  }
  static std::vector<A> slice(const std::vector<A>& all, size_t first, size_t count) {
    return {all.begin() + ptrdiff_t(first), all.begin() + ptrdiff_t(first + count)};
  }
  std::vector<A> body(const Program& program, std::initializer_list<std::vector<A>> parts) {
    std::vector<A> all;
    for (const auto& p : parts) all.insert(all.end(), p.begin(), p.end());
    return Evaluation(program, disturb_).run(all);
  }

  using Lists = std::pair<std::vector<A>, std::vector<A>>;
  static std::vector<A> joined(Lists all) {
    all.first.insert(all.first.end(), all.second.begin(), all.second.end());
    return all.first;
  }
  Lists parted(const ProgramNode& n, const std::vector<A>& heads) {
    const size_t outputs = heads.size() - n.num_states;
    return {slice(heads, 0, outputs), slice(heads, outputs, n.num_states)};
  }

  std::vector<A> foreach (const ProgramNode& n, const std::vector<A>& in) {
    const std::vector<A> outer = slice(in, n.num_data + n.num_states, in.size() - n.num_data - n.num_states);
    return joined(contrib::foreach (
        [&](std::vector<A> rows, std::vector<A> states) {
          return parted(n, body(*n.bodies[0], {rows, states, outer}));
        },
        slice(in, 0, n.num_data), slice(in, n.num_data, n.num_states)));
  }
  std::vector<A> while_loop(const ProgramNode& n, const std::vector<A>& in) {
    const std::vector<A> outer = slice(in, n.num_states, in.size() - n.num_states);
    return joined(contrib::while_loop(
        [&](std::vector<A> states) {
          return body(*n.bodies[1], {states, outer})[0];
        },
        [&](std::vector<A> states) {
          return parted(n, body(*n.bodies[0], {states, outer}));
        },
        slice(in, 0, n.num_states), n.iterations));
  }
  std::vector<A> cond(const ProgramNode& n, const std::vector<A>& in) {
    const std::vector<A> outer = slice(in, 1, in.size() - 1);
    return contrib::cond(
        in[0], [&] { return body(*n.bodies[0], {outer}); }, [&] { return body(*n.bodies[1], {outer}); });
  }

  const Program& program_;
  std::optional<Disturb<A>> disturb_;
};

}  // namespace kaon::test
