// Random programs: every way to run one gives what the imperative run gives. A program that fails is made small and
// printed as C++ source. To look at one: KAON_PROGRAM_SEED=7 kaon_ops_tests "random programs: those asked for".
#include <fmt/format.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdlib>
#include <set>

#include "kaon/ops/operator/registry.h"
#include "kaon/tests/ops/table/op_table.h"
#include "kaon/tests/support/isolated.h"
#include "kaon/tests/support/programs/program_check.h"
#include "kaon/tests/support/programs/program_generator.h"
#include "kaon/tests/support/programs/program_shrink.h"
#include "kaon/tests/support/programs/program_source.h"

namespace random_programs_test {

using namespace kaon;
using namespace kaon::ops;
using namespace kaon::test;

namespace {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr uint64_t part = 15;
#else
constexpr uint64_t part = 300;
#endif
constexpr uint64_t num_parts = 10, num_programs = num_parts * 300;

const Facts& facts() {
  static const Rows rows = all_rows();
  static const Facts all(rows);
  return all;
}

enum class Tier { some_ways, all_ways };

// In the first tier each program runs in the two most important ways and in a third of the others.
bool is_tried(const Program& p, Way way, Tier tier) {
  return tier == Tier::all_ways || way == Way::plain || way == Way::exact ||
         Dice(p.seed * uint64_t(num_ways) + uint64_t(way)).chance(0.33);
}

// Errors, crashes and wrong numbers are shrunk to one of their kind.
std::string kind_of(const std::string& wrong) {
  if (wrong.rfind("crashed", 0) == 0) return wrong;
  for (const char* mark : {"got a result", "expected a result", "VerifyError", "[verify]"}) {
    if (wrong.find(mark) != wrong.npos) return mark;
  }
  return wrong.empty() ? "" : "numbers";
}

std::string smallest_source(const Program& program, Way way, const std::string& wrong) {
  auto check = [&](const Program& p) { return isolated([&] { return Checker(p).check(way); }); };
  const Program small = shrunk(program, [&](const Program& p) { return kind_of(check(p)) == kind_of(wrong); });
  return source_of(small, way, check(small));
}

std::string unless_thrown(Checker& checker, Way way) {
  try {
    return checker.check(way);
  } catch (const std::exception& e) {
    return std::string("thrown: ") + e.what();
  }
}

void check_programs(uint64_t first, uint64_t count, Tier tier) {
  int failures = 0;
  for (uint64_t seed = first; seed < first + count && failures < 3; ++seed) {
    INFO("KAON_PROGRAM_SEED=" << seed);
    const Program p = random_program(seed, facts());
    Checker checker(p);
    for (int w = 0; w < num_ways; ++w) {
      if (!is_tried(p, Way(w), tier)) continue;
      const std::string wrong = unless_thrown(checker, Way(w));
      if (wrong.empty()) continue;
      FAIL_CHECK(name_of(Way(w)) << ": " << wrong << "\n" << smallest_source(p, Way(w), wrong));
      ++failures;
      break;
    }
  }
}

}  // namespace

// Cases of their own, for ctest to run side by side.
#define KAON_PROGRAMS(n)                                                                                    \
  TEST_CASE("random programs: part " #n " of 10: every way to run them agrees", "[programs][arithmetic]") { \
    check_programs((n - 1) * 300 + 1, part, Tier::some_ways);                                               \
  }
#define KAON_MORE_PROGRAMS(n)                                                               \
  TEST_CASE("random programs: 5,000 of 100,000, part " #n ": every way to run them agrees", \
            "[programs][arithmetic][slow]") {                                               \
    check_programs(1'000'001 + (n - 1) * 5000, 5000, Tier::all_ways);                       \
  }
KAON_PROGRAMS(1)
KAON_PROGRAMS(2)
KAON_PROGRAMS(3)
KAON_PROGRAMS(4)
KAON_PROGRAMS(5)
KAON_PROGRAMS(6)
KAON_PROGRAMS(7)
KAON_PROGRAMS(8)
KAON_PROGRAMS(9)
KAON_PROGRAMS(10)
KAON_MORE_PROGRAMS(1)
KAON_MORE_PROGRAMS(2)
KAON_MORE_PROGRAMS(3)
KAON_MORE_PROGRAMS(4)
KAON_MORE_PROGRAMS(5)
KAON_MORE_PROGRAMS(6)
KAON_MORE_PROGRAMS(7)
KAON_MORE_PROGRAMS(8)
KAON_MORE_PROGRAMS(9)
KAON_MORE_PROGRAMS(10)
KAON_MORE_PROGRAMS(11)
KAON_MORE_PROGRAMS(12)
KAON_MORE_PROGRAMS(13)
KAON_MORE_PROGRAMS(14)
KAON_MORE_PROGRAMS(15)
KAON_MORE_PROGRAMS(16)
KAON_MORE_PROGRAMS(17)
KAON_MORE_PROGRAMS(18)
KAON_MORE_PROGRAMS(19)
KAON_MORE_PROGRAMS(20)

// What no program contains, and why.
static const std::set<std::string> exempt{
    // update one array in place and give nothing that a program could return; TrainingStep has those over many
    "cache_append", "sgd_update", "sgd_mom_update", "adam_update", "mp_sgd_update", "mp_sgd_mom_update",
    "nag_mom_update", "mp_nag_mom_update", "signsgd_update", "signum_update", "rmsprop_update", "rmspropalex_update",
    "ftrl_update", "ftml_update", "_adamw_update", "_mp_adamw_update", "_sparse_adagrad_update",
    "_contrib_group_adagrad_update", "lamb_update_phase2", "mp_lamb_update_phase2", "multi_sgd_update",
    "multi_mp_sgd_update", "multi_sgd_mom_update", "multi_mp_sgd_mom_update", "preloaded_multi_sgd_update",
    "preloaded_multi_mp_sgd_update", "preloaded_multi_sgd_mom_update", "preloaded_multi_mp_sgd_mom_update",
    "_multi_adamw_update", "_multi_mp_adamw_update", "_multi_lamb_update", "_multi_mp_lamb_update", "reset_arrays",
    // gradients of gradients are refused in plans alone
    "IdentityAttachKLSparseReg", "lamb_update_phase1", "mp_lamb_update_phase1",
    // of arrays with ranges, which programs hardly ever make together
    "_contrib_quantized_conv", "_contrib_quantized_fully_connected", "_sg_mkldnn_conv",
    // parts of a Trainer's step: reached by training_step
    "_kaon_multi_update2", "_kaon_multi_update3", "_kaon_multi_update4", "_kaon_multi_update5", "_kaon_multi_update6",
    "_kaon_gradient_factor", "_kaon_loss_scale", "_kaon_multi_add"};

TEST_CASE("random programs: every operator is reached", "[programs][arithmetic]") {
  std::map<std::string, int> uses;
  std::map<std::string, int> traits;
  const auto all_are_reached = [&] {
    return std::ranges::all_of(all_op_defs(), [&](const OpDef* def) {
      const std::string name(def->name());
      return uses[name] > 0 || exempt.count(name) > 0;
    });
  };
  // One compiler's programs are not another's, since they evaluate arguments in other orders: what is drawn seldom may
  // come late.
  for (uint64_t seed = 1; seed <= num_programs || (seed <= 5 * num_programs && !all_are_reached()); ++seed) {
    const Program p = random_program(seed, facts());
    traits["several heads"] += p.heads.size() > 1;
    traits["other rows"] += p.rows.size() > 1;
    bool over = false, loops = false;
    for (const ProgramNode& n : p.nodes) {
      loops = loops || !n.bodies.empty();
      if (n.kind != Kind::call || (n.def != &op::Sum::def && n.def != &op::Mean::def)) continue;
      const ProgramNode& in = p.nodes[n.inputs[0].node];
      over = over || (in.kind == Kind::call && (in.def == &op::Sum::def || in.def == &op::Mean::def));
    }
    traits["reductions of reductions"] += over;
    traits["control flow"] += loops;
    traits["parameters"] += !variables(p, Role::parameter).empty();
    each_call(p, [&](const ProgramNode& n) {
      if (n.kind == Kind::call) ++uses[std::string(n.def->name())];
    });
  }
  for (const OpDef* def : all_op_defs()) {
    const std::string name(def->name());
    INFO(name);
    CHECK((uses[name] > 0 || exempt.count(name) > 0));
  }
  for (const auto& [what, n] : traits) {
    INFO(what);
    CHECK(n >= 60);
  }
}

// From KAON_PROGRAM_SEED on, KAON_PROGRAM_COUNT of them, each in a process of its own. KAON_PROGRAM_SOURCE=0: without
// making them small.
TEST_CASE("random programs: those asked for", "[.program]") {
  auto number = [](const char* name, uint64_t otherwise) {
    const char* text = std::getenv(name);
    return text ? std::strtoull(text, nullptr, 10) : otherwise;
  };
  const uint64_t first = number("KAON_PROGRAM_SEED", 1), count = number("KAON_PROGRAM_COUNT", 1);
  for (uint64_t seed = first; seed < first + count; ++seed) {
    const std::string made = isolated([&] { return random_program(seed, facts()), std::string(); });
    CHECK(made == "");
    if (!made.empty()) continue;
    const Program p = random_program(seed, facts());
    // all ways in one process, and again in one each when something is wrong there
    const std::string any = isolated([&] {
      Checker checker(p);
      std::string all;
      for (int w = 0; w < num_ways; ++w) all += unless_thrown(checker, Way(w));
      return all;
    });
    for (int w = 0; w < num_ways && !any.empty(); ++w) {
      const std::string wrong = isolated([&] { return Checker(p).check(Way(w)); });
      if (wrong.empty()) continue;
      fmt::print("{}: {}: {}\n", seed, name_of(Way(w)), wrong);
      if (number("KAON_PROGRAM_SOURCE", 1) != 0) fmt::print("{}\n", smallest_source(p, Way(w), wrong));
      std::fflush(stdout);
      CHECK(wrong == "");
    }
  }
}

}  // namespace random_programs_test
