// Operators of the program whose inputs and outputs depend on their attributes.
#include <catch2/catch.hpp>

#include "kaon/ops/custom/kernels/custom_family.h"
#include "kaon/ops/functions.h"
#include "kaon/ops/op_def.h"

namespace custom_family_test {

using namespace kaon;
using namespace kaon::ops;

namespace {

// Sums its inputs, as many as the attribute `inputs` says, and gives the sum `outputs` times.
CustomFamily sums(int* asked, double factor) {
  const auto number = [](const CustomAttributes& a, const char* name) {
    const auto at = a.find(name);
    return at == a.end() ? 1 : std::stoi(at->second);
  };
  return {.signature =
              [=](const CustomAttributes& a) {
                ++*asked;
                CustomSignature s{.inputs = {}, .outputs = {}};
                for (int i = 0; i < number(a, "inputs"); ++i) s.inputs.push_back("term" + std::to_string(i));
                for (int i = 0; i < number(a, "outputs"); ++i) s.outputs.push_back("sum" + std::to_string(i));
                return s;
              },
          .compose =
              [=](const CustomAttributes& a, ComposeContext& c) {
                NDArray sum = c.input(0) * factor;
                for (int i = 1; i < c.num_inputs(); ++i) sum = sum + c.input(i);
                for (int i = 0; i < number(a, "outputs"); ++i) c.set(i, sum * (i + 1));
              },
          .infer =
              [=](const CustomAttributes& a, InferContext& c) {
                for (int i = 1; i < c.num_inputs(); ++i) c.expect_input(i, c.shape(0), c.dtype(0));
                for (int i = 0; i < number(a, "outputs"); ++i) c.set_output(i, c.shape(0), c.dtype(0));
              }};
}

op::Custom custom(const char* op_type, const CustomAttributes& attributes) {
  return {.op_type = {op_type}, .attributes = {engine::intern(custom_text(attributes))}};
}

std::vector<NDArray> call(const op::Custom& op, const std::vector<NDArray>& inputs) {
  std::vector<const NDArray*> given;
  for (const NDArray& x : inputs) given.push_back(&x);
  std::vector<NDArray> outputs{size_t(op.num_outputs())};
  NDArray::apply(op::Custom::def, &op, given, outputs, std::source_location::current(), {});
  return outputs;
}

}  // namespace

TEST_CASE("custom family: inputs and outputs follow from attributes, and are asked for once", "[custom]") {
  int asked = 0;
  register_custom_family("family_sums", sums(&asked, 1));
  const op::Custom one = custom("family_sums", {}), two = custom("family_sums", {{"inputs", "2"}, {"outputs", "3"}});
  CHECK(op::Custom::def.num_inputs(&one) == 1);
  CHECK(op::Custom::def.num_inputs(&two) == 2);
  CHECK(two.num_outputs() == 3);
  CHECK(custom_signature(two).inputs == std::vector<std::string>{"term0", "term1"});
  CHECK(custom_signature(two).outputs[2] == "sum2");
  const NDArray x = nd.array({1, 2}), y = nd.array({10, 20});
  CHECK(call(two, {x, y})[2].asvector<float>() == std::vector<float>{33, 66});
  CHECK(call(one, {x})[0].asvector<float>() == std::vector<float>{1, 2});
  CHECK(asked == 2);
  CHECK_THROWS_WITH(call(two, {x}), Catch::Matchers::Contains("takes 2 inputs with these attributes, got 1"));
  CHECK_THROWS_AS(call(two, {x, nd.zeros({3})}), ShapeError);
  // the shapes of inputs after the first may follow from it; those that are updated come last
  CHECK((op::Custom::def.traits_of(&two).infers & 3) == 2);
  CHECK(op::Custom::def.traits_of(&two).mutates == 0);
}

TEST_CASE("custom family: a later one takes the place of an earlier one", "[custom]") {
  int asked = 0;
  register_custom_family("family_replaced", sums(&asked, 1));
  const op::Custom op = custom("family_replaced", {});
  CHECK(call(op, {nd.array({3})})[0].asscalar<float>() == 3);
  register_custom_family("family_replaced", sums(&asked, 5));
  CHECK(call(op, {nd.array({3})})[0].asscalar<float>() == 15);
  CHECK_THROWS_AS(register_custom_family("", sums(&asked, 1)), ValueError);
  CHECK_THROWS_AS(register_custom_family("family_empty", {}), ValueError);
  CHECK_THROWS_AS(custom_signature(custom("family_of_nobody", {})), ValueError);
}

}  // namespace custom_family_test
