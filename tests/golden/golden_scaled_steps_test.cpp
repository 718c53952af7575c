// Steps with gradients clipped by their global norm and losses in a scale, beside PyTorch: data/scaled_steps.json,
// which make_scaled_steps.py has written. Some gradients are not finite; some steps sum those of several batches.
#include <boost/json.hpp>
#include <catch2/catch.hpp>
#include <cmath>
#include <fstream>
#include <map>
#include <sstream>

#include "kaon/gluon/block.h"
#include "kaon/gluon/training_step.h"
#include "kaon/gluon/util/amp.h"
#include "kaon/graph/autograd.h"
#include "kaon/ops/functions.h"
#include "kaon/tests/golden/golden_file.h"

namespace golden_scaled_steps_test {

using namespace kaon;
using namespace kaon::test;
namespace json = boost::json;

namespace {

const std::map<std::string, Shape> shapes{{"a", {5}}, {"b", {3, 2}}};

// The gradients of its sum are its inputs.
struct Given : gluon::HybridBlock<Given> {
  gluon::Parameter a = param("a", shapes.at("a")), b = param("b", shapes.at("b"));
  auto hybrid_forward(auto F, auto x, auto y) {
    return F.sum(F(a) * x.reshape({5})).reshape({1}) + F.sum(F(b) * y).reshape({1});
  }
};

NDArray array_of(const json::value& list, const Shape& shape) {
  std::vector<double> values;
  for (const auto& v : list.as_array()) {
    values.push_back(v.is_string() ? std::stod(std::string(v.as_string())) : v.to_number<double>());
  }
  return nd.array(values, shape);
}

optimizer::Optimizer rule_of(const json::value& c) {
  if (c.at("optimizer").as_string() == "sgd") return optimizer::SGD({.learning_rate = 0.1, .momentum = 0.9});
  return optimizer::AdamW({.learning_rate = 0.05, .wd = 0.1});
}

enum class Way { imperative, unscaled, hybridized, in_step, mixed };

void check(const json::value& c, Way way, int threads) {
  INFO(json::serialize(c.at("optimizer"))
       << " clip " << json::serialize(c.at("clip")) << " batches " << json::serialize(c.at("batches")) << " way "
       << int(way) << ", " << threads << " threads");
  Engine engine({.threads = threads});
  EngineScope scope(engine);
  const bool scaled = c.at("scaled").as_bool();
  Given net;
  net.initialize();
  for (const auto& p : net.collect_params()) {
    const int64_t n = p.shape().size();
    std::vector<double> values;
    for (int64_t i = 0; i < n; ++i) values.push_back(-1 + 2.0 * double(i) / double(n - 1));
    p.set_data(nd.array(values, p.shape()));
  }
  const int64_t batches = c.at("batches").as_int64();
  if (batches > 1) {
    for (auto p : net.collect_params()) p.set_grad_req(GradReq::add);
  }
  if (way == Way::hybridized) net.hybridize();
  gluon::Trainer trainer(net.collect_params(), rule_of(c), {.clip_global_norm = c.at("clip").to_number<double>()});
  if (scaled) amp::init_trainer(trainer, {.init_scale = 1024, .scale_window = 3});
  gluon::TrainingStep step([net](auto x, auto y) { return net(x, y); }, trainer);
  step.set_batch_size(batches);
  for (const json::value& s : c.at("steps").as_array()) {
    const json::array& given = s.at("gradients").as_array();
    REQUIRE(int64_t(given.size()) == batches);
    for (const json::value& g : given) {
      const bool is_last = &g == &given.back();
      const NDArray x = array_of(g.at("a"), shapes.at("a")).reshape({1, 5}), y = array_of(g.at("b"), shapes.at("b"));
      const bool steps = way == Way::in_step || (way == Way::mixed && !is_last);
      if (steps && is_last) step(x, y);
      if (steps && !is_last) step.accumulate(x, y);
      if (steps) continue;
      autograd::record([&] {
        const NDArray loss = net(x, y);
        return scaled ? amp::scale_loss(loss, trainer) : loss;
      }).backward();
    }
    if (way != Way::in_step) {
      if (way == Way::unscaled && scaled) amp::unscale(trainer);
      trainer.step(batches);
    }
    if (batches > 1) net.collect_params().zero_grad();
    for (const auto& [name, shape] : shapes) {
      const std::vector<double> got = net.collect_params().get(name).data().asvector<double>();
      const std::vector<double> expected = array_of(s.at("weights").at(name), shape).asvector<double>();
      for (size_t i = 0; i < got.size(); ++i) CHECK(std::abs(got[i] - expected[i]) < 1e-5);
    }
    if (scaled) CHECK(trainer.loss_scale().asscalar<double>() == s.at("scale").to_number<double>());
  }
}

}  // namespace

TEST_CASE("golden: clipped steps with losses in a scale", "[golden]") {
  std::ifstream file(golden_dir() / "scaled_steps.json");
  std::stringstream text;
  text << file.rdbuf();
  const json::value golden = json::parse(text.str());
  REQUIRE(golden.at("cases").as_array().size() == 14);
  for (const json::value& c : golden.at("cases").as_array()) {
    for (Way way : {Way::imperative, Way::unscaled, Way::hybridized, Way::in_step, Way::mixed})
      check(c, way, int(way) % 3);
  }
}

}  // namespace golden_scaled_steps_test
