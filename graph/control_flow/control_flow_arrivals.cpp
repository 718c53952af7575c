// What of a loop or a branch depends on what, before it runs.
#include "kaon/graph/control_flow/control_flow_ops.h"
#include "kaon/graph/control_flow/rounds.h"

namespace kaon::graph {

std::vector<bool> wanted_values(const ControlFlow& p, std::vector<bool> wanted, std::span<const TensorMeta> metas) {
  wanted.resize(size_t(p.num_values()));
  for (int j = p.num_data; p.is_loop() && j < p.num_data + p.num_states; ++j) {
    wanted[size_t(j)] = is_floating(metas[size_t(j)].dtype);  // for earlier iterations
  }
  return wanted;
}

std::vector<bool> own_values(const ControlFlow& p, std::vector<bool> own) {
  if (!p.is_own && std::ranges::find(own, true) == own.end()) return {};
  own.resize(size_t(p.num_values()));
  for (int j = p.num_data; p.is_loop() && j < p.num_data + p.num_states; ++j) own[size_t(j)] = true;
  return own;
}

Sequence<Arrivals> find_rounds(const ControlFlow& p, const Arrivals& first, int64_t most,
                               FunctionRef<Arrivals(const Arrivals&)> visit) {
  return sequence_of(first, most, [&](Arrivals heads) {
    const Arrivals arrives = visit(heads);
    std::copy_n(arrives.begin() + p.num_data, p.num_states, heads.begin() + p.num_outputs);
    return heads;
  });
}

int64_t most_iterations(const ControlFlow& p, const Shape& first) {
  return p.kind == ControlKind::foreach ? first[0] : p.max_iterations;
}

std::vector<bool> sums_of(const ControlFlow& p, const std::vector<bool>& wanted, bool adds) {
  if (!adds) return {};
  std::vector<bool> sums = wanted;
  std::fill_n(sums.begin(), p.num_data + p.num_states, false);
  return sums;
}

namespace {

// What is the case in every run of `all`, else sometimes.
Arrives in_all(std::span<const Arrives> all) {
  const bool alike = std::all_of(all.begin(), all.end(), [&](Arrives a) { return a == all[0]; });
  return alike ? all[0] : Arrives::sometimes;
}

}  // namespace

std::vector<Arrives> find_arrivals(const ControlFlow& p, const std::vector<Arrives>& heads,
                                   const std::vector<bool>& wanted, const std::vector<bool>& own,
                                   std::span<const TensorMeta> inputs) {
  const std::vector<TensorMeta> metas = p.iteration(inputs);
  const std::vector<bool> values = wanted_values(p, wanted, metas);
  auto arrives_through = [&](size_t graph, const Arrivals& at_results) {
    GradientForm form{.heads = at_results, .own = own_values(p, own)};
    try {
      with_gradient(p.inferred(graph, metas), values, form);
    } catch (const StateError&) {  // an operator without a gradient, which is an error when this graph's gradient runs
      form.arrives.clear();
      for (bool w : values) form.arrives.push_back(w ? Arrives::always : Arrives::never);
    }
    return form.arrives;
  };
  Arrivals all(inputs.size(), Arrives::never);
  auto set = [&](size_t i, std::initializer_list<Arrives> cases) {
    all[i] = wanted[i] ? in_all(cases) : Arrives::never;
  };
  if (!p.is_loop()) {
    const Arrivals then = arrives_through(0, heads), otherwise = arrives_through(1, heads);
    for (size_t i = 0; i < values.size(); ++i) set(i, {then[i], otherwise[i]});
    return all;
  }
  const int64_t most = most_iterations(p, inputs[0].shape);
  std::vector<Arrivals> by_round;
  const Sequence<Arrivals> rounds = find_rounds(p, heads, most, [&](const Arrivals& at_results) {
    by_round.push_back(arrives_through(0, at_results));
    return by_round.back();
  });
  const bool is_counted = p.kind == ControlKind::foreach;  // else there may be any number of iterations up to `most`
  for (size_t i = 0; i < values.size(); ++i) {
    const bool is_state = i >= size_t(p.num_data) && i < size_t(p.num_data + p.num_states);
    if (is_state) {  // what the first iteration has computed; without one, what arrives at the last state
      Arrives now = heads[size_t(p.num_outputs) + i - size_t(p.num_data)];
      if (is_counted && most > 0) now = by_round[rounds.index(most - 1)][i];
      set(i, {now});
      for (const Arrivals& round : by_round) {
        if (!is_counted) set(i, {all[i], round[i]});
      }
    } else {  // the sum over the iterations
      Arrives sum = Arrives::never;
      for (const Arrivals& round : by_round) sum = std::max(sum, round[i]);
      is_counted ? set(i, {sum}) : set(i, {sum, Arrives::never});
    }
  }
  return all;
}

std::vector<bool> results_from(const ControlFlow& p, std::span<const TensorMeta> inputs, std::vector<bool> from) {
  const std::vector<TensorMeta> metas = p.iteration(inputs);
  from.resize(metas.size());
  auto add = [](std::vector<bool>& all, const std::vector<bool>& more) {
    for (size_t i = 0; i < all.size(); ++i) all[i] = all[i] || more[i];
  };
  if (!p.is_loop()) {
    std::vector<bool> results = recorded_outputs(p.inferred(0, metas), from);
    add(results, recorded_outputs(p.inferred(1, metas), from));
    return results;
  }
  const Graph body = p.inferred(0, metas);
  const int64_t most = most_iterations(p, inputs[0].shape);
  std::vector<bool> results(size_t(p.num_results()), false);
  const auto states = [&](std::vector<bool> before) {
    std::copy_n(before.begin(), p.num_states, from.begin() + p.num_data);
    std::vector<bool> after = recorded_outputs(body, from);
    for (int i = 0; i < p.num_outputs; ++i) results[size_t(i)] = results[size_t(i)] || after[size_t(i)];
    after.erase(after.begin(), after.begin() + p.num_outputs);
    after.resize(size_t(p.num_states));  // nothing is differentiated through kept results
    return after;
  };
  const std::vector<bool> first(from.begin() + p.num_data, from.begin() + p.num_data + p.num_states);
  // by number of iterations
  const Sequence<std::vector<bool>> after = sequence_of(first, most, states);
  std::vector<bool> last = first;
  if (p.kind == ControlKind::foreach && most > 0) {
    last = states(after.values[after.index(most - 1)]);
  } else {
    for (const std::vector<bool>& value : after.values) {
      add(last, value);
      add(last, states(value));
    }
  }
  std::copy(last.begin(), last.end(), results.begin() + p.num_outputs);
  return results;
}

}  // namespace kaon::graph
