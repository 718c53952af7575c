// Programs as C++ source, made smaller, and in processes of their own. The sources in tests/printed are what is printed
// for the program here; they are built as they stand and run as tests.
#include <catch2/catch.hpp>
#include <csignal>
#include <cstdlib>
#include <fstream>

#include "kaon/tests/support/files.h"
#include "kaon/tests/support/isolated.h"
#include "kaon/tests/support/programs/program_builder.h"
#include "kaon/tests/support/programs/program_check.h"
#include "kaon/tests/support/programs/program_shrink.h"
#include "kaon/tests/support/programs/program_source.h"

namespace program_source_test {

using namespace kaon;
using namespace kaon::engine;
using namespace kaon::test;

namespace {

const Facts no_facts{Rows{}};

std::shared_ptr<const Program> shared(Program p) { return std::make_shared<const Program>(std::move(p)); }

Program body(const std::vector<Shape>& inputs, FunctionRef<std::vector<Ref>(ProgramBuilder&)> heads) {
  ProgramBuilder b(3, no_facts, true);
  for (const Shape& s : inputs) b.input(nd.ones(s));
  return b.finish(heads(b));
}

// Every kind of node, role and attribute.
Program sample() {
  Engine engine({.threads = 0});
  EngineScope scope(engine);
  ProgramBuilder b(7, no_facts);
  const Ref x = b.variable(Role::data, {2, 6, 4}, {}, DType::float32, true);
  const Ref indices = b.variable(Role::data, {3}, {0, 6, 1}, DType::int32);
  const Ref gamma = b.variable(Role::parameter, {6}, {0.5, 1.5});
  const Ref mean = b.variable(Role::state, {6}), var = b.variable(Role::state, {6}, {0.5, 1.5});
  const Ref listed = b.variable(Role::constant, {2, 2}, {-5, 5, 0, {1, -0.0, 2.5}});
  const Ref normal = b.call(op::BatchNorm{.momentum = 0.5, .fix_gamma = false}, {x, gamma, gamma, mean, var});
  const Ref active = b.call(op::Activation{.act_type = ActivationType::softrelu}, {normal});
  const Ref taken = b.call(op::Take{.axis = 1, .mode = IndexMode::wrap}, {active, indices});
  const Ref cut = b.call(op::Slice{.begin = {std::nullopt, 1}, .end = {std::nullopt, std::nullopt}}, {taken});
  const Ref sum = b.call(op::Sum{.axis = {-1, 1}, .keepdims = true}, {cut});
  const Ref kept = b.call(op::MaximumScalar{.scalar = -0.0}, {sum});
  const Ref wide = b.call(op::Cast{.dtype = DType::float64}, {kept});
  ProgramNode split;
  split.kind = Kind::call;
  split.def = &op::SliceChannel::def;
  const op::SliceChannel halves{.num_outputs = 2, .axis = 1};
  split.attrs = Attributes(op::SliceChannel::def, &halves);
  split.inputs = {active};
  const std::vector<Ref> parts = b.add(split);
  const Ref joined = b.call(op::Concat{.dim = 2, .num_args = 2}, {parts[1], parts[0]});
  const Ref ones = b.call(op::Ones{.shape = {2, 1}}, {});
  const Ref product = b.call(op::BroadcastMul{}, {listed, ones});
  const Ref drop = b.call(op::Dropout{.p = 0.25}, {joined});
  const Ref state = b.variable(Role::constant, {3, 8}), counter = b.variable(Role::constant, {1}, {0, 0, 1});
  ProgramNode loop;
  loop.kind = Kind::foreach;
  loop.inputs = {drop, state, gamma};
  loop.num_data = loop.num_states = 1;
  loop.bodies = {shared(body({{3, 8}, {3, 8}, {6}}, [](ProgramBuilder& f) {
    const Ref next = f.call(op::Tanh{}, {f.call(op::BroadcastAdd{}, {Ref{0, 0}, Ref{1, 0}})});
    return std::vector{f.call(op::BroadcastMul{}, {next, f.call(op::Mean{}, {Ref{2, 0}})}), next};
  }))};
  const std::vector<Ref> looped = b.add(loop);
  ProgramNode repeat;
  repeat.kind = Kind::while_loop;
  repeat.inputs = {counter, looped[1]};
  repeat.num_states = 2;
  repeat.iterations = 3;
  repeat.bodies = {
      shared(
          body({{1}, {3, 8}},
               [](ProgramBuilder& f) {
                 const Ref next = f.call(op::Sin{}, {Ref{1, 0}});
                 return std::vector{f.call(op::Sum{}, {next}), f.call(op::PlusScalar{.scalar = 1}, {Ref{0, 0}}), next};
               })),
      shared(body({{1}, {3, 8}}, [](ProgramBuilder& f) {
        return std::vector{f.call(op::LesserScalar{.scalar = 2}, {Ref{0, 0}})};
      }))};
  const std::vector<Ref> repeated = b.add(repeat);
  ProgramNode branch;
  branch.kind = Kind::cond;
  branch.inputs = {b.call(op::Mean{}, {x}), looped[1]};
  branch.bodies = {shared(body({{3, 8}},
                               [](ProgramBuilder& f) {
                                 return std::vector{f.call(op::Relu{}, {Ref{0, 0}})};
                               })),
                   shared(body({{3, 8}}, [](ProgramBuilder& f) {
                     return std::vector{f.call(op::Cos{}, {Ref{0, 0}})};
                   }))};
  Program p = b.finish({wide, product, looped[0], repeated[0], repeated[2], b.add(branch)[0]});
  p.phases = {test::Phase::predict, test::Phase::train, test::Phase::record};
  return p;
}

// Without what gradients of gradients do not go through.
Program without_loops() {
  Program p = sample();
  p.heads = {p.heads[0], p.heads[1]};
  p = pruned(p);
  p.phases = {test::Phase::second, test::Phase::second_training};
  return p;
}

void check_printed(const std::string& name, const Program& p, Way way) {
  CHECK(Checker(p).check(way) == "");
  const fs::path file = fs::path(KAON_DATA_DIR).parent_path() / "tests/printed" / (name + ".cpp");
  const std::string text = source_of(p, way, "an example");
  if (std::getenv("KAON_WRITE_PRINTED")) std::ofstream(file) << text;
  CHECK(bytes_of(file) == text);
}

}  // namespace

TEST_CASE("program source: what tests/printed has is what is printed", "[programs]") {
  check_printed("calls", sample(), Way::exact);
  check_printed("second_gradients", without_loops(), Way::plain);
  check_printed("training_step", without_loops(), Way::training_step);
  check_printed("second_derivative", without_loops(), Way::second_derivative);
}

TEST_CASE("program shrinking: what fails for one reason keeps that reason alone", "[programs]") {
  Engine engine({.threads = 0});
  EngineScope scope(engine);
  auto has = [](const Program& p, const OpDef& def) {
    bool found = false;
    each_call(p, [&](const ProgramNode& n) { found = found || (n.kind == Kind::call && n.def == &def); });
    return found;
  };
  const Program p = sample();
  const Program one = shrunk(p, [&](const Program& q) { return has(q, op::Take::def); });
  CHECK(one.num_calls() == 1);
  CHECK(one.heads.size() == 1);
  CHECK(one.phases.size() == 1);
  CHECK(one.meta(one.heads[0]).shape.size() == 1);
  const Program inside = shrunk(p, [&](const Program& q) { return has(q, op::Sin::def); });
  CHECK(inside.num_calls() <= 3);  // the loop around it, and what counts its turns
  const Program two = shrunk(p, [&](const Program& q) { return has(q, op::Sum::def) && has(q, op::BatchNorm::def); });
  CHECK(two.num_calls() == 2);
  Program again = two;
  CHECK(retype(again));
}

TEST_CASE("isolated: results, crashes, exceptions and endless loops come back as text", "[programs]") {
  const std::string large(200'000, 'x');
  CHECK(isolated([&] { return large; }) == large);
  CHECK(isolated([]() -> std::string {
          std::raise(SIGKILL);
          return "";
        }) == "crashed: Killed");
  CHECK(isolated([]() -> std::string { throw std::runtime_error("why"); }) == "crashed: thrown: why");
  CHECK(isolated(
            []() -> std::string {
              for (;;) std::raise(SIGCONT);
            },
            1) == "crashed: Alarm clock");
}

}  // namespace program_source_test
