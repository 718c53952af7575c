#include "kaon/gluon/util/checkpoint.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <string_view>

#include "kaon/gluon/internal/parameter_files.h"
#include "kaon/ops/random_state.h"

namespace kaon::gluon {
namespace {

// What names begin with.
constexpr std::string_view of_net = "net:", of_trainer = "trainer:", of_program = "program:";
constexpr const char* random_name = "random";

void add(NamedArrays& all, std::string_view kind, const NamedArrays& some) {
  for (const auto& [name, array] : some) all.emplace_back(std::string(kind) + name, array);
}

NamedArrays named(const NamedArrays& all, std::string_view kind) {
  NamedArrays some;
  for (const auto& [name, array] : all) {
    if (name.starts_with(kind)) some.emplace_back(name.substr(kind.size()), array);
  }
  return some;
}

// Each parameter of the trainer must be one of the net's, or its value an array of the program's by its name: else
// training would go on without it.
void check_trainer(const detail::NamedParameters& parameters, const Trainer& trainer, const NamedArrays& more,
                   const char* caller) {
  for (const Parameter& p : trainer.parameters()) {
    if (std::ranges::any_of(parameters, [&](const auto& own) { return own.second == p; })) continue;
    if (std::ranges::find(more, p.name(), &NamedArrays::value_type::first) != more.end()) continue;
    throw ValueError(
        fmt::format("[{}] the trainer changes {}, which is no parameter of the net: give the net that the trainer "
                    "trains, or an array of this name beside it",
                    caller, p.name()));
  }
}

}  // namespace

void save_checkpoint(const std::filesystem::path& file, const Block& net, const Trainer& trainer,
                     const NamedArrays& more) {
  const detail::NamedParameters parameters = detail::structural_parameters(net);
  detail::check_unique(parameters, "save_checkpoint");
  check_trainer(parameters, trainer, more, "save_checkpoint");
  NamedArrays all;
  for (const auto& [name, p] : parameters) all.emplace_back(std::string(of_net) + name, p.reduced());
  add(all, of_trainer, trainer.states());
  for (size_t i = 0; i < more.size(); ++i) {
    if (std::any_of(more.begin(), more.begin() + ptrdiff_t(i), [&](const auto& m) { return m.first == more[i].first; }))
      throw ValueError(fmt::format("[save_checkpoint] two arrays are named '{}'", more[i].first));
  }
  add(all, of_program, more);
  const ops::RandomKey random = random::get_state();
  const std::vector<int64_t> state{std::bit_cast<int64_t>(random.seed), std::bit_cast<int64_t>(random.offset)};
  all.emplace_back(random_name, nd.array(state, {2}, {.dtype = DType::int64, .device = cpu()}));
  nd_file::save(file, all);
}

NamedArrays load_checkpoint(const std::filesystem::path& file, Block& net, Trainer& trainer) {
  const NamedArrays all = nd_file::load(file);
  const auto random = std::ranges::find(all, random_name, &NamedArrays::value_type::first);
  if (random == all.end() || random->second.shape() != Shape(2) || random->second.dtype() != DType::int64) {
    throw ValueError(fmt::format("[load_checkpoint] {} is no checkpoint: it has no '{}', int64 of shape (2,)",
                                 file.string(), random_name));
  }
  const detail::NamedParameters parameters = detail::structural_parameters(net);
  check_trainer(parameters, trainer, named(all, of_program), "load_checkpoint");
  const detail::ChosenValues values =
      detail::choose_values(parameters, named(all, of_net), file, "load_checkpoint", {});
  trainer.set_states(named(all, of_trainer), file.string());
  detail::set_values(values);
  const std::vector<int64_t> state = random->second.asvector<int64_t>();
  random::set_state({.seed = std::bit_cast<uint64_t>(state[0]), .offset = std::bit_cast<uint64_t>(state[1])});
  return named(all, of_program);
}

}  // namespace kaon::gluon
