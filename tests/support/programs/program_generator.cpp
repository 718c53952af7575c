#include "kaon/tests/support/programs/program_generator.h"

#include <algorithm>

#include "kaon/tests/support/programs/program_evaluate.h"
#include "kaon/tests/support/programs/program_steps.h"

namespace kaon::test {
namespace {

// How likely each step is, in percent.
struct Mix {
  int pointwise, reduction, motif, again, movement, layer, any_row, control_flow;
};

using Step = void (*)(ProgramBuilder&);

Step pick_step(Dice& dice, const Mix& m) {
  int64_t at = dice.below(100);
  const std::pair<int, Step> steps[] = {{m.pointwise, steps::pointwise}, {m.reduction, steps::reduction},
                                        {m.motif, steps::motif},         {m.again, steps::again},
                                        {m.movement, steps::movement},   {m.layer, steps::layer},
                                        {m.any_row, steps::any_row},     {m.control_flow, steps::control_flow}};
  for (const auto& [share, step] : steps) {
    if (at < share) return step;
    at -= share;
  }
  return steps::pointwise;
}

Mix pick_mix(Dice& dice) {
  const int64_t u = dice.below(100);
  if (u < 35) return {40, 17, 22, 6, 8, 7, 0, 0};   // what fuses
  if (u < 60) return {20, 8, 12, 4, 12, 44, 0, 0};  // layers
  if (u < 90) return {10, 6, 6, 4, 6, 3, 65, 0};    // every operator
  return {20, 8, 12, 4, 10, 10, 6, 30};             // control flow
}

Shape data_shape(Dice& dice, int64_t rows) {
  switch (dice.below(6)) {
    case 0: return {rows, dice.pick({1, 3, 5, 8, 16, 33, 64})};
    case 1: return {rows, dice.pick({129, 130, 200, 301})};
    case 2: return {rows, dice.pick({2, 3, 8}), dice.pick({4, 7, 16})};
    case 3:
    case 4: return {rows, dice.pick({1, 2, 4, 8}), dice.pick({4, 5, 8}), dice.pick({4, 6, 7})};
    default: return {rows * dice.pick({1, 3, 5, 67})};
  }
}

// Most of what nothing reads, and some of what other operators read too.
std::vector<Ref> pick_heads(ProgramBuilder& b) {
  const Program& p = b.program();
  std::vector<std::vector<bool>> read;
  for (const ProgramNode& n : p.nodes) read.emplace_back(n.outputs.size(), false);
  for (const ProgramNode& n : p.nodes) {
    for (Ref r : n.inputs) read[r.node][r.output] = true;
  }
  const std::vector<Ref> all(b.pool().begin(), b.pool().end());
  std::vector<Ref> heads{all.back()};
  for (Ref r : all) {
    const bool is_new = std::find(heads.begin(), heads.end(), r) == heads.end();
    if (is_new && heads.size() < 6 && b.dice.chance(read[r.node][r.output] ? 0.06 : 0.75)) heads.push_back(r);
  }
  if (b.dice.chance(0.04)) heads.push_back(heads[0]);
  return heads;
}

// Bodies that may not run say nothing about other shapes.
bool runs_with(const Program& program, int64_t rows) {
  for (const ProgramNode& n : program.nodes) {
    if (n.kind == Kind::while_loop || n.kind == Kind::cond) return false;
  }
  try {
    std::vector<NDArray> in;
    for (const ProgramNode& n : program.nodes) {
      if (n.kind == Kind::variable && n.role != Role::constant) in.push_back(make_variable(n, rows, 0));
    }
    for (const NDArray& y : Evaluation<NDArray>(program).run(in)) y.wait_to_read();
    return true;
  } catch (const Error&) {
    return false;
  }
}

}  // namespace

Program random_program(uint64_t seed, const Facts& facts) {
  Engine engine({.threads = 0});
  EngineScope scope(engine);
  ProgramBuilder b(seed, facts);
  const Mix mix = pick_mix(b.dice);
  b.keeps_rows = mix.any_row == 0 && mix.control_flow == 0 && b.dice.chance(0.5);
  const int64_t rows = b.dice.pick({1, 2, 3, 4, 6, 8});
  for (int64_t n = b.dice.chance(0.7) ? 1 : 2; n > 0; --n) {
    const Range range = b.dice.chance(0.15) ? Range{-2, 2, 0.5} : Range{};
    b.offer(b.variable(Role::data, data_shape(b.dice, rows), range, DType::float32, true));
  }
  const int64_t wanted = b.dice.pick({1, 2, 3, 4, 5, 6, 8, 12});
  int64_t done = 0;
  for (int tries = 0; done < wanted && tries < 60; ++tries) done += b.attempt(pick_step(b.dice, mix));
  Program p = b.finish(pick_heads(b));
  if (b.dice.chance(0.6)) {
    const int64_t other = rows + b.dice.pick({-1, 1, 2, 3});
    if (other > 0 && runs_with(p, other)) p.rows.push_back(other);
  }
  p.phases = {Phase::predict, Phase::train, Phase::predict};
  if (b.dice.chance(0.4)) p.phases.push_back(Phase::record);
  if (b.dice.chance(0.5)) p.phases.push_back(Phase::second);
  if (b.dice.chance(0.3)) p.phases.push_back(Phase::second_training);
  if (p.heads.size() > 1 && b.dice.chance(0.4)) {
    p.unused = uint32_t(b.dice.between(1, 63));
    p.takes_turns = b.dice.chance(0.3);
  }
  return p;
}

}  // namespace kaon::test
