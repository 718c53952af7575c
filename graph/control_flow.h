// Control flow for arrays and Symbols alike: foreach, while_loop, cond. On arrays they are loops that call operators;
// in a trace each becomes one node, which runs its body in every call of the plan, as often as the values say.
#pragma once

#include <utility>
#include <vector>

#include "kaon/engine/api.h"
#include "kaon/graph/symbol.h"

namespace KAON_API kaon {
namespace contrib {
namespace detail {

template <class A>
concept Array = std::same_as<A, NDArray> || std::same_as<A, Symbol>;

// One array, or a list of them.
template <class T>
struct Kind;
template <Array A>
struct Kind<A> {
  using type = A;
  static std::vector<A> list(const A& a) { return {a}; }
  static A pack(std::vector<A> arrays) { return std::move(arrays[0]); }
};
template <Array A>
struct Kind<std::vector<A>> {
  using type = A;
  static std::vector<A> list(std::vector<A> arrays) { return arrays; }
  static std::vector<A> pack(std::vector<A> arrays) { return arrays; }
};
template <class T>
concept ArrayOrList = requires {
  typename Kind<T>::type;
};
template <ArrayOrList T>
using array_of = typename Kind<T>::type;

// Whether this thread traces the body, condition or branch of one of these: what such code keeps outside of its results
// is no value of the program around it.
KAON_API bool is_tracing_body();

template <class A>
struct Step {
  std::vector<A> outputs, states;
};
template <class A>
using StepFn = engine::FunctionRef<Step<A>(std::vector<A> rows, std::vector<A> states)>;
template <class A>
using ConditionFn = engine::FunctionRef<A(std::vector<A> states)>;
template <class A>
using BranchFn = engine::FunctionRef<std::vector<A>()>;

template <class A>
struct Foreach {
  const std::vector<A>& data;
  const std::vector<A>& states;
  StepFn<A> body;
  const std::source_location& site;
};
KAON_API Step<NDArray> run(const Foreach<NDArray>& loop);
KAON_API Step<Symbol> run(const Foreach<Symbol>& loop);

template <class A>
struct While {
  ConditionFn<A> condition;
  StepFn<A> body;
  const std::vector<A>& states;
  int64_t max_iterations;
  const std::source_location& site;
};
KAON_API Step<NDArray> run(const While<NDArray>& loop);
KAON_API Step<Symbol> run(const While<Symbol>& loop);

template <class A>
struct Cond {
  const A& predicate;
  BranchFn<A> then, otherwise;
  const std::source_location& site;
};
KAON_API std::vector<NDArray> run(const Cond<NDArray>& cond);
KAON_API std::vector<Symbol> run(const Cond<Symbol>& cond);

// The result of a body: pair(outputs, states).
template <class Result>
using outputs_of = std::remove_cvref_t<decltype(std::get<0>(std::declval<Result&>()))>;
template <class Result>
using states_of = std::remove_cvref_t<decltype(std::get<1>(std::declval<Result&>()))>;

template <class Out, class States, class Result>
Step<array_of<Out>> step_of(const Result& result) {
  static_assert(std::same_as<states_of<const Result>, States>,
                "the body returns pair(outputs, states): one array where the loop began with one, else a list of them");
  return {Kind<Out>::list(std::get<0>(result)), Kind<States>::list(std::get<1>(result))};
}
template <class Out, class States, class A>
std::pair<Out, States> results(Step<A> all) {
  return {Kind<Out>::pack(std::move(all.outputs)), Kind<States>::pack(std::move(all.states))};
}

}  // namespace detail

// Calls body(row, states) for the rows of `data` along axis 0, one after the other; it returns pair(outputs, states).
// Returns the outputs of all iterations, stacked along a new axis 0, and the last states. `data`, `states` and the
// outputs are arrays or vectors of arrays; several data have one length, the rows of a 1-D array have shape (1). States
// keep their shapes and dtypes. Arrays that the body captures get gradients; in a trace those of a loop arrive as one
// sum, so an array that is also used outside gets them added in another order. Without rows the outputs have shape (0,
// ...) and the states are the first ones. Random numbers come from a stream of the loop's own. Throws ShapeError,
// TypeError, ValueError; in a trace also for operators that update arrays. Blocks as operators do.
template <detail::ArrayOrList Data, detail::ArrayOrList States, class Body>
auto foreach (Body&& body, const Data& data, const States& states,
              std::source_location site = std::source_location::current()) {
  using namespace detail;
  using A = array_of<Data>;
  static_assert(std::same_as<A, array_of<States>>, "data and states are both NDArrays or both Symbols");
  using Out = outputs_of<decltype(body(data, states))>;
  const std::vector<A> rows = Kind<Data>::list(data), first = Kind<States>::list(states);
  auto step = [&](std::vector<A> row, std::vector<A> now) {
    return step_of<Out, States>(body(Kind<Data>::pack(std::move(row)), Kind<States>::pack(std::move(now))));
  };
  return results<Out, States>(run(Foreach<A>{rows, first, step, site}));
}

// While condition(vars), an array of one element, is not 0, and at most max_iterations times: calls func(vars), which
// returns pair(outputs, vars). Returns the outputs stacked along a new axis 0 of length max_iterations, 0 where no
// iteration was made, and the last variables. On arrays each iteration reads one value, which blocks. Else as foreach.
template <detail::ArrayOrList Vars, class Condition, class Func>
auto while_loop(Condition&& condition, Func&& func, const Vars& loop_vars, int64_t max_iterations,
                std::source_location site = std::source_location::current()) {
  using namespace detail;
  using A = array_of<Vars>;
  using Out = outputs_of<decltype(func(loop_vars))>;
  const std::vector<A> first = Kind<Vars>::list(loop_vars);
  auto holds = [&](std::vector<A> now) -> A { return condition(Kind<Vars>::pack(std::move(now))); };
  auto step = [&](std::vector<A>, std::vector<A> now) {
    return step_of<Out, Vars>(func(Kind<Vars>::pack(std::move(now))));
  };
  return results<Out, Vars>(run(While<A>{holds, step, first, max_iterations, site}));
}

// then() where the predicate, an array of one element, is not 0, else otherwise(): arrays or vectors of arrays, of the
// same shapes and dtypes from both. On arrays the predicate is read, which blocks, and the other branch does not run.
template <detail::Array A, class Then, class Otherwise>
auto cond(const A& predicate, Then&& then, Otherwise&& otherwise,
          std::source_location site = std::source_location::current()) {
  using namespace detail;
  using Result = std::remove_cvref_t<std::invoke_result_t<Then&>>;
  static_assert(std::same_as<Result, std::remove_cvref_t<std::invoke_result_t<Otherwise&>>>,
                "both branches return an array, or both a vector of arrays");
  static_assert(std::same_as<A, array_of<Result>>, "the branches return arrays of the predicate's kind");
  auto taken = [&] { return Kind<Result>::list(then()); };
  auto other = [&] { return Kind<Result>::list(otherwise()); };
  return Kind<Result>::pack(run(Cond<A>{predicate, taken, other, site}));
}

}  // namespace contrib
}  // namespace kaon
