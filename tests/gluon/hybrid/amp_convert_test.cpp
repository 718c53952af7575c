// Nets converted to mixed precision: what they compute, and that training them trains the net.
#include "kaon/gluon/loss.h"
#include "kaon/gluon/nn/nn.h"
#include "kaon/gluon/training_step.h"
#include "kaon/gluon/util/amp.h"
#include "kaon/graph/control_flow.h"
#include "kaon/tests/gluon/hybrid/hybrid_support.h"
#include "kaon/tests/support/files.h"

namespace amp_convert_test {

using namespace kaon;
using namespace kaon::test;
using Catch::Matchers::Contains;
namespace nn = kaon::gluon::nn;

namespace {

nn::HybridSequential images() {
  nn::HybridSequential net(nn::Conv2D(4, {.kernel_size = {3, 3}}), nn::BatchNorm(), nn::Activation("relu"),
                           nn::GlobalAvgPool2D(), nn::Flatten(), nn::Dense(6, {.activation = "tanh"}), nn::LayerNorm(),
                           nn::Dense(3));
  random::seed(3);
  net.initialize(init::Xavier());
  net.hybridize();
  net(numbers({2, 3, 8, 8}, 1));
  return net;
}

double largest_difference(const NDArray& a, const NDArray& b) {
  return nd.max(nd.abs(a.astype(DType::float32) - b.astype(DType::float32))).asvector<double>()[0];
}

struct Loop : gluon::HybridBlock<Loop> {
  nn::Dense first = child("first", nn::Dense(4, {.flatten = false})), step = child("step", nn::Dense(4));
  auto hybrid_forward(auto F, auto x, auto state) {
    using A = decltype(x);
    return contrib::foreach (
               [&](const A& row, const A& s) {
                 const A next = F.tanh(row + step(s));
                 return std::pair(next, next);
               },
               first(x), state)
        .first;
  }
};

}  // namespace

TEST_CASE("amp: a converted net computes as the net, near the rounding of 16 bits", "[gluon]") {
  for (int threads : {0, 2}) {
    Engine engine({.threads = threads});
    EngineScope scope(engine);
    const auto net = images();
    for (DType dtype : {DType::float16, DType::bfloat16}) {
      const double bound = dtype == DType::float16 ? 5e-3 : 4e-2;
      for (bool cast : {false, true}) {
        auto mixed = amp::convert_hybrid_block(net, {.target_dtype = dtype, .cast_optional_params = cast});
        for (bool exact : {false, true}) {
          INFO(threads << " threads, " << name_of(dtype) << (cast ? ", cast" : "") << (exact ? ", exact" : ""));
          mixed.hybridize({.exact = exact});
          for (int64_t batch : {0, 1, 5}) {
            const NDArray x = numbers({batch, 3, 8, 8}, 2), y = mixed(x);
            CHECK(y.dtype() == dtype);
            CHECK(y.shape() == Shape(batch, 3));
            if (batch > 0) CHECK(largest_difference(y, net(x)) < bound);
          }
        }
        for (const gluon::Parameter& p : mixed.collect_params()) {
          INFO(p.name());
          const bool is_product =
              p.name().find("conv") != std::string::npos || p.name().find("dense") != std::string::npos;
          CHECK(p.dtype() == (cast && is_product ? dtype : DType::float32));
        }
      }
    }
  }
}

TEST_CASE("amp: training a converted net trains the net, in a loop and in a TrainingStep", "[gluon]") {
  const NDArray x = numbers({16, 3, 8, 8}, 4),
                labels = nd.array(std::vector<float>{0, 1, 2, 0, 1, 2, 0, 1, 2, 0, 1, 2, 0, 1, 2, 0});
  const gluon::loss::SoftmaxCrossEntropyLoss loss_fn;
  const auto train = [&](bool in_step) {
    const auto net = images();
    auto mixed = amp::convert_hybrid_block(net);
    gluon::Trainer trainer(mixed.collect_params(), optimizer::Adam({.learning_rate = 0.02}));
    amp::init_trainer(trainer, {.init_scale = 1024});
    gluon::TrainingStep step([&](auto data, auto label) { return loss_fn(mixed(data), label); }, trainer);
    std::vector<double> losses;
    for (int i = 0; i < 40; ++i) {
      if (in_step) {
        losses.push_back(step(x, labels).mean().asvector<double>()[0]);
      } else {
        NDArray loss;
        autograd::record([&] { return amp::scale_loss(loss = loss_fn(mixed(x), labels), trainer); }).backward();
        losses.push_back(loss.mean().asvector<double>()[0]);
        trainer.step(16);
      }
    }
    CHECK(losses.back() < 0.6 * losses.front());
    // The net has the weights, float32.
    for (const gluon::Parameter& p : net.collect_params()) CHECK(p.dtype() == DType::float32);
    CHECK(largest_difference(net(x), mixed(x)) < 0.1);
    return losses;
  };
  const std::vector<double> by_hand = train(false), in_step = train(true);
  for (size_t i = 0; i < 5; ++i) CHECK(in_step[i] == Approx(by_hand[i]).epsilon(0.01));
}

TEST_CASE("amp: gradients of a converted net are those of the net, near the rounding of 16 bits", "[gluon]") {
  const auto net = images();
  auto mixed = amp::convert_hybrid_block(net);
  const NDArray x = numbers({4, 3, 8, 8}, 5), head = numbers({4, 3}, 6);
  const auto gradients = [&](const auto& run) {
    autograd::record([&] { return (run(x).astype(DType::float32) * head).sum(); }).backward();
    std::vector<NDArray> all;
    for (const gluon::Parameter& p : net.collect_params()) {
      if (p.grad_req() != GradReq::null) all.push_back(p.grad().copy());
    }
    return all;
  };
  const auto expected = gradients(net), got = gradients(mixed);
  REQUIRE(got.size() == expected.size());
  for (size_t i = 0; i < got.size(); ++i) {
    INFO(i);
    CHECK(got[i].dtype() == DType::float32);
    const double scale = nd.max(nd.abs(expected[i])).asvector<double>()[0];
    CHECK(largest_difference(got[i], expected[i]) < 0.02 * scale + 1e-3);
  }
}

TEST_CASE("amp: a converted net is exported and read again", "[gluon]") {
  const auto net = images();
  auto mixed = amp::convert_hybrid_block(net, {.cast_optional_params = true});
  const NDArray x = numbers({2, 3, 8, 8}, 7), expected = mixed(x);
  ScratchFolder folder;
  mixed.export_model((folder / "mixed").string());
  auto read = gluon::SymbolBlock::imports(folder / "mixed-symbol.json", {"data"}, folder / "mixed-0000.params");
  CHECK(same_bits(read(x), expected));
}

TEST_CASE("amp: a loop in a converted net stays float32, beside products in 16 bits", "[gluon]") {
  Loop net;
  net.initialize(init::Xavier());
  net.hybridize();
  const NDArray x = numbers({3, 2, 5}, 1), state = numbers({2, 4}, 2), expected = net(x, state);
  const auto mixed = amp::convert_hybrid_block(net);
  const NDArray y = mixed.forward({x, state})[0];
  CHECK(y.dtype() == DType::float32);
  const double off = largest_difference(y, expected);
  CHECK(off < 5e-3);
  CHECK(off > 0);  // the first layer has 16 bits
}

TEST_CASE("amp: what cannot be converted is said", "[gluon]") {
  nn::Dense dense(2);
  dense.initialize();
  CHECK_THROWS_WITH(amp::convert_hybrid_block(dense),
                    Contains("[convert_hybrid_block]") && Contains("run the net once"));
  const auto net = images();
  const auto refuses = [&](const amp::ConvertOptions& o, const char* what) {
    CHECK_THROWS_WITH(amp::convert_hybrid_block(net, o), Contains("[convert_symbol]") && Contains(what));
  };
  refuses({.target_dtype = DType::float32}, "float16 or bfloat16, got float32");
  refuses({.fp32_ops = std::vector<std::string>{"no_such_operator"}}, "'no_such_operator'");
  refuses({.fp32_ops = std::vector<std::string>{"Convolution"}}, "'Convolution' is in two lists");
  refuses({.conditional_fp32_ops = std::vector<amp::ConditionalOp>{{"softmax", "axis", {"1"}}}},
          "'softmax' is in two lists");
  refuses({.excluded_sym_names = {"no_such_node"}}, "no node 'no_such_node'");
  CHECK_NOTHROW(amp::convert_symbol(sym.var("x")));  // all names in the lists are operators
}

}  // namespace amp_convert_test
