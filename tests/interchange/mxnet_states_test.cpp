// States that MXNet's Trainer wrote: one more step here gives what it gives there.
#include "kaon/interchange/mxnet_states.h"

#include "kaon/tests/gluon/support.h"
#include "kaon/tests/interchange/support.h"

namespace mxnet_states_test {

using namespace kaon;
using namespace kaon::test;
using Catch::Matchers::Contains;
namespace nn = kaon::gluon::nn;

namespace {

fs::path states_file(const std::string& name) { return foreign_file("states/" + name); }

optimizer::Optimizer optimizer_of(const std::string& name, bool half) {
  if (name == "sgd") return optimizer::SGD({.learning_rate = 0.5, .momentum = 0.9, .multi_precision = half});
  if (name == "nag") return optimizer::NAG({.learning_rate = 0.5, .momentum = 0.9});
  if (name == "adam") return optimizer::Adam({.learning_rate = 0.5, .multi_precision = half});
  if (name == "rmsprop") return optimizer::RMSProp({.learning_rate = 0.5, .centered = true});
  if (name == "adagrad") return optimizer::AdaGrad({.learning_rate = 0.5});
  if (name == "adadelta") return optimizer::AdaDelta();
  if (name == "ftrl") return optimizer::Ftrl({.learning_rate = 0.5});
  if (name == "adamax") return optimizer::Adamax({.learning_rate = 0.5});
  if (name == "ftml") return optimizer::FTML({.learning_rate = 0.5});
  if (name == "signum") return optimizer::Signum({.learning_rate = 0.5});
  if (name == "dcasgd") return optimizer::DCASGD({.learning_rate = 0.5});
  FAIL("no optimizer is called " << name);
  return optimizer::SGD();
}

// The script's gradient of a parameter at step k.
NDArray gradient(const gluon::Parameter& p, int k) {
  std::vector<double> values(size_t(p.shape().size()), 0.0);
  for (size_t i = 0; i < values.size(); ++i) values[i] = (double(int64_t(i) * 3 % 7) - 3 + k) / 8;
  return NDArray::from(values.data(), values.size(), p.shape(), p.dtype());
}

struct Net {
  nn::Dense dense{2, {.in_units = 3}};
  gluon::Trainer trainer;
  Net(const std::string& optimizer, DType dtype)
      : trainer(dense.collect_params(), optimizer_of(optimizer, dtype == DType::float16)) {
    dense.initialize();
    dense.cast(dtype);
    for (const auto& [name, array] :
         nd_file::load(states_file(optimizer + "_" + to_string(dtype) + "_before.params"))) {
      for (const auto& p : dense.collect_params()) {
        if (p.name().ends_with(name.substr(name.rfind('_')))) p.set_data(array);
      }
    }
  }
  void step(int k) {
    for (const auto& p : dense.collect_params()) {
      autograd::record([&] { return (p.data() * gradient(p, k)).sum(); }).backward();
    }
    trainer.step(1);
  }
};

}  // namespace

TEST_CASE("mxnet states: the next step is MXNet's", "[interchange]") {
  struct Row {
    const char* name;
    DType dtype;
  };
  for (const auto& [name, dtype] :
       {Row{"sgd", DType::float32}, Row{"sgd", DType::float16}, Row{"nag", DType::float32}, Row{"adam", DType::float32},
        Row{"adam", DType::float16}, Row{"rmsprop", DType::float32}, Row{"adagrad", DType::float32},
        Row{"adadelta", DType::float32}, Row{"ftrl", DType::float32}, Row{"adamax", DType::float32},
        Row{"ftml", DType::float32}, Row{"signum", DType::float32}, Row{"dcasgd", DType::float32}}) {
    INFO(name << " " << to_string(dtype));
    const std::string prefix = std::string(name) + "_" + to_string(dtype);
    Net net(name, dtype);
    gluon::load_mxnet_states(net.trainer, states_file(prefix + ".states"));
    CHECK(net.trainer.steps() == 2);
    net.step(2);
    for (const auto& [parameter, array] : nd_file::load(states_file(prefix + "_after.params"))) {
      for (const auto& p : net.dense.collect_params()) {
        if (!p.name().ends_with(parameter.substr(parameter.rfind('_')))) continue;
        INFO(parameter);
        require_close(p.data(), values(array), dtype == DType::float16 ? 2e-3 : 2e-6, 1e-6);
      }
    }
  }
}

TEST_CASE("mxnet states: files that do not fit are refused, and nothing is changed", "[interchange]") {
  Net net("adam", DType::float32);
  const auto refused = [&](const fs::path& file, const gluon::MxnetStatesOptions& options = {}) {
    try {
      gluon::load_mxnet_states(net.trainer, file, options);
    } catch (const Error& e) {
      return std::string(e.what());
    }
    return std::string("nothing was thrown");
  };
  CHECK_THAT(refused(states_file("sgd_float32.states")), Contains("has the states of SGD"));
  CHECK_THAT(refused(foreign_file("evil.states")), Contains("system', which only running code could make"));
  CHECK_FALSE(fs::exists("kaon_was_here"));
  CHECK_THAT(refused(foreign_file("stored.npz")), Contains("at byte"));
  CHECK_THAT(refused(states_file("adam_float32.states"), {.order = {"x"}}), Contains("got 'x'"));
  const auto names = net.dense.collect_params();
  CHECK_THAT(refused(states_file("adam_float32.states"), {.order = {names[0].name(), names[1].name()}}),
             Contains("has shape"));
  CHECK(net.trainer.steps() == 0);
  check_broken(
      bytes_of(states_file("adam_float32.states")),
      [&](std::string_view bytes) {
        try {
          net.trainer.set_states(gluon::read_mxnet_states(net.trainer, bytes), "bytes");
        } catch (const ValueError&) {
        } catch (const ShapeError&) {
        } catch (const TypeError&) {
        }
      },
      1500);
}

}  // namespace mxnet_states_test
