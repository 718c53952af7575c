// The 34 nets by get_model: MXNet's names, shapes and outputs (tests/data/make_model_zoo_models.py); files both ways.
#include <fmt/format.h>

#include <boost/json.hpp>
#include <cstdlib>

#include "kaon/gluon/model_zoo/vision.h"
#include "kaon/gluon/summary.h"
#include "kaon/gluon/symbol_block.h"
#include "kaon/ops/ndarray_file.h"
#include "kaon/tests/gluon/hybrid/hybrid_support.h"
#include "kaon/tests/gluon/nn/model_zoo_support.h"
#include "kaon/tests/support/files.h"
#include "kaon/tests/support/skip.h"

namespace model_zoo_models_test {

using namespace kaon;
using namespace kaon::test;
using Catch::Matchers::Contains;
namespace vision = kaon::gluon::model_zoo::vision;

namespace {

struct Golden {
  int64_t size;
  std::vector<double> output;
  std::vector<std::string> parameters;  // "features.1: gamma beta 64"
};

Golden golden_of(const std::string& name) {
  static const boost::json::value all = boost::json::parse(bytes_of(data_file("model_zoo_models.json")));
  const auto& model = all.at(name).as_object();
  Golden g{.size = model.at("size").as_int64(), .output = {}, .parameters = {}};
  for (const auto& x : model.at("output").as_array()) g.output.push_back(x.to_number<double>());
  for (const auto& x : model.at("parameters").as_array()) g.parameters.emplace_back(x.as_string());
  return g;
}

// The lines of the golden file.
std::vector<std::string> lines_of(const Named& parameters) {
  std::vector<std::string> lines;
  std::string last_layer, last_shape;
  for (const auto& [path, p] : parameters) {
    const size_t dot = path.rfind('.');
    const std::string layer = path.substr(0, dot), own = path.substr(dot + 1);
    std::string shape;
    for (const int64_t d : p.shape()) shape += fmt::format(" {}", d);
    if (layer == last_layer && shape == last_shape) {
      lines.back().insert(lines.back().size() - shape.size(), " " + own);
    } else {
      lines.push_back(layer + ": " + own + shape);
    }
    last_layer = layer, last_shape = shape;
  }
  return lines;
}

void fill(const std::string& name, Named parameters) {
  for (size_t k = 0; k < parameters.size(); ++k) {
    auto& [path, p] = parameters[k];
    auto [low, high] = bounds(path, p.shape());
    if (path.ends_with(".gamma") && name.starts_with("resnet")) high = 1;
    p.set_data(formula(p.shape(), int(k), low, high));
  }
}

NDArray images(int64_t size) { return formula({2, 3, size, size}, -1, -1, 1); }

// Within `rtol` of the largest of `expected`.
void require_near(const NDArray& y, const std::vector<double>& expected, double rtol = 1e-4) {
  double largest = 0;
  for (const double v : expected) largest = std::max(largest, std::abs(v));
  require_close(y, expected, 0, rtol * largest);
}

// With the parameters of the formula, of shapes that follow from the images.
vision::Model filled(const std::string& name, int64_t size) {
  auto net = vision::get_model(name, {.classes = 10});
  gluon::summary(net, {2, 3, size, size});  // completes the shapes
  net.initialize(init::Zero());
  fill(name, dotted(*net.node()));
  return net;
}

void check_against_mxnet(const std::string& name, bool also_imperative = false) {
  INFO(name);
  const Golden golden = golden_of(name);
  auto net = filled(name, golden.size);
  REQUIRE(lines_of(dotted(*net.node())) == golden.parameters);
  const NDArray x = images(golden.size);
  if (also_imperative) require_near(net(x), golden.output);
  net.hybridize({.static_alloc = true, .static_shape = true});
  require_near(net(x), golden.output);
}

const std::vector<std::string> small_ones{"resnet18_v1", "resnet18_v2",   "alexnet",         "squeezenet1.1",
                                          "vgg11_bn",    "mobilenet0.25", "mobilenetv2_0.25"};
const std::vector<std::string> one_of_each_family{"resnet18_v1",   "resnet18_v2",     "resnet50_v2", "vgg11_bn",
                                                  "alexnet",       "densenet121",     "inceptionv3", "squeezenet1.0",
                                                  "mobilenet0.25", "mobilenetv2_0.25"};

}  // namespace

TEST_CASE("models: MXNet's names, shapes and outputs, imperative and hybridized", "[gluon][unsanitized]") {
  for (const std::string& name : small_ones) check_against_mxnet(name, true);
}

TEST_CASE("models: resnets have MXNet's names, shapes and outputs", "[gluon][slow]") {
  for (const char* name : {"resnet34_v1", "resnet50_v1", "resnet101_v1", "resnet152_v1", "resnet34_v2", "resnet50_v2",
                           "resnet101_v2", "resnet152_v2"})
    check_against_mxnet(name);
}

TEST_CASE("models: vggs have MXNet's names, shapes and outputs", "[gluon][slow]") {
  for (const char* name : {"vgg11", "vgg13", "vgg16", "vgg19", "vgg13_bn", "vgg16_bn", "vgg19_bn"})
    check_against_mxnet(name);
}

TEST_CASE("models: densenets have MXNet's names, shapes and outputs", "[gluon]") {
  for (const char* name : {"densenet121", "densenet161", "densenet169", "densenet201"}) check_against_mxnet(name);
}

TEST_CASE("models: inception, squeezenet and mobilenets have MXNet's names, shapes and outputs", "[gluon]") {
  for (const char* name : {"inceptionv3", "squeezenet1.0", "mobilenet0.5", "mobilenet0.75", "mobilenet1.0",
                           "mobilenetv2_0.5", "mobilenetv2_0.75", "mobilenetv2_1.0"})
    check_against_mxnet(name);
}

TEST_CASE("models: every name has an entry in MXNet's file", "[gluon]") {
  CHECK(vision::model_names().size() == 34);
  for (const std::string& name : vision::model_names()) CHECK_NOTHROW(golden_of(name));
}

TEST_CASE("models: exact plans have the bits of imperative calls, in training too", "[gluon]") {
  for (const char* name : {"mobilenet0.25", "mobilenetv2_0.25"}) {
    INFO(name);
    auto net = filled(name, 32);
    NDArray x = formula({2, 3, 32, 32}, -1, -1, 1);
    x.attach_grad();
    const NDArray y = net(x);
    const auto trained = forward_backward(net, x, true);
    fill(name, dotted(*net.node()));  // training has moved the statistics
    net.hybridize({.exact = true});
    CHECK(same_bits(net(x), y));
    CHECK(forward_backward(net, x, true) == trained);
  }
}

TEST_CASE("models: the same bits for any number of threads", "[gluon]") {
  std::vector<std::vector<double>> all;
  for (const int threads : {0, 1, 2}) {
    Engine engine({.threads = threads});
    EngineScope scope(engine);
    for (const bool hybridized : {false, true}) {
      std::vector<double> outputs;
      for (const char* name : {"squeezenet1.0", "densenet121"}) {
        auto net = filled(name, 221);
        net.hybridize(hybridized, {.exact = true});
        const auto y = values(net(images(221)));
        outputs.insert(outputs.end(), y.begin(), y.end());
      }
      all.push_back(outputs);
    }
  }
  for (const auto& outputs : all) CHECK(outputs == all[0]);
}

TEST_CASE("models: saved and loaded, exported and imported, with another head", "[gluon]") {
  ScratchFolder folder;
  auto net = filled("squeezenet1.1", 221);
  const NDArray x = images(221);
  net.hybridize();
  const NDArray y = net(x);
  net.save_parameters(folder / "net.params");
  auto same = vision::squeezenet1_1({.classes = 10});
  same.load_parameters(folder / "net.params");  // shapes and values come from the file
  same.hybridize();
  CHECK(same_bits(same(x), y));
  net.export_model((folder / "net").string());
  auto back = gluon::SymbolBlock::imports(folder / "net-symbol.json", {"data"}, folder / "net-0000.params");
  require_near(back(x), values(y), 1e-5);
  CHECK_THROWS_AS(vision::squeezenet1_1({.classes = 11}).load_parameters(folder / "net.params"), ShapeError);
  CHECK_THROWS_AS(vision::squeezenet1_0({.classes = 10}).load_parameters(folder / "net.params"), Error);

  auto other = filled("mobilenet0.25", 32);
  other.replace_child("output", other.output, nn::Dense(3));
  other.output.initialize();
  CHECK(other(nd.zeros({1, 3, 32, 32})).shape() == Shape(1, 3));
}

TEST_CASE("models: options, dtypes, no images and one", "[gluon]") {
  auto thumbnail = vision::resnet18_v2({.classes = 4, .thumbnail = true});
  thumbnail.initialize();
  CHECK(thumbnail(nd.zeros({1, 3, 8, 8})).shape() == Shape(1, 4));
  CHECK(fmt::format("{}", vision::densenet121({.dropout = 0.1})).find("dropout") != std::string::npos);
  CHECK(gluon::summary(vision::get_model("VGG16"), {1, 3, 224, 224}).find("(1, 1000)") != std::string::npos);
  for (const char* name : {"mobilenet0.25", "mobilenetv2_0.25", "resnet18_v2"}) {
    for (const bool hybridized : {false, true}) {
      INFO(name << (hybridized ? " hybridized" : " imperative"));
      auto net = filled(name, 32);
      net.hybridize(hybridized);
      CHECK(net(nd.zeros({0, 3, 32, 32})).shape() == Shape(0, 10));
      const NDArray x = formula({2, 3, 32, 32}, -1, -1, 1);
      const auto both = values(net(x));
      require_near(net(x.slice(0, 1)), {both.begin(), both.begin() + 10});
      for (const DType dtype : {DType::float64, DType::float16}) {
        net.cast(dtype);
        const NDArray y = net(x.astype(dtype));
        CHECK(y.dtype() == dtype);
        require_near(y, both, dtype == DType::float64 ? 1e-4 : 0.06);
      }
    }
  }
}

TEST_CASE("models: what there is not is refused by name", "[gluon]") {
  CHECK_THROWS_WITH(vision::get_model("resnet19_v1"), Contains("'resnet19_v1'") && Contains("resnet18_v1, ") &&
                                                          Contains("vgg19_bn") && Contains("mobilenetv2_0.25"));
  CHECK_THROWS_WITH(vision::get_model(""), Contains("no model ''"));
  CHECK_THROWS_WITH(vision::get_model("alexnet", {.pretrained = true}),
                    Contains("alexnet") && Contains("pretrained") && Contains("load_parameters"));
  CHECK_THROWS_WITH(vision::vgg11({.thumbnail = true}), Contains("vgg11") && Contains("thumbnail"));
  CHECK_THROWS_WITH(vision::resnet18_v2({.dropout = 0.1}), Contains("resnet18_v2") && Contains("dropout"));
  for (const std::string& name : vision::model_names())
    CHECK_THROWS_AS(vision::get_model(name, {.classes = 0}), ValueError);
  CHECK_THROWS_AS(vision::densenet121({.dropout = 1.5}), ValueError);
}

TEST_CASE("models: images that are too small for the last pooling are refused", "[gluon]") {
  const std::pair<const char*, int64_t> smallest[] = {{"densenet121", 221},   {"squeezenet1.0", 213},
                                                      {"squeezenet1.1", 209}, {"inceptionv3", 299},
                                                      {"alexnet", 63},        {"vgg11", 32}};
  for (const auto& [name, size] : smallest) {
    INFO(name);
    CHECK(gluon::summary(vision::get_model(name, {.classes = 7}), {1, 3, size, size}).find("(1, 7)") !=
          std::string::npos);
    CHECK_THROWS_AS(gluon::summary(vision::get_model(name), {1, 3, size - 1, size - 1}), ShapeError);
  }
}

// Needs MXNet: choose the interpreter with KAON_MXNET_PYTHON.
TEST_CASE("models: MXNet reads our parameters and we read its files", "[gluon][mxnet]") {
  const char* python = std::getenv("KAON_MXNET_PYTHON");
  for (const std::string& name : one_of_each_family) {
    INFO(name);
    ScratchFolder folder;
    const int64_t size = golden_of(name).size;
    auto net = filled(name, size);
    net.hybridize();
    const NDArray x = images(size);
    const auto ours = values(net(x));
    net.save_parameters(folder / "ours.params");
    nd_file::save(folder / "input.nd", {{"", x}});
    const std::string theirs = (folder / "theirs").string();
    const std::string command =
        fmt::format("{} {} {} {} {} {} {} 2>/dev/null", python ? python : "python3",
                    data_file("run_model_zoo_with_mxnet.py").string(), name, (folder / "ours.params").string(),
                    (folder / "input.nd").string(), (folder / "output.nd").string(), theirs);
    const int status = std::system(command.c_str());
    if (WEXITSTATUS(status) == 77 || WEXITSTATUS(status) == 127) {
      skip("MXNet cannot be imported by " + std::string(python ? python : "python3"));
      return;
    }
    REQUIRE(status == 0);
    require_near(nd_file::load(folder / "output.nd").at(0).second, ours);
    auto imported = gluon::SymbolBlock::imports(theirs + "-symbol.json", {"data"}, theirs + "-0000.params");
    require_near(imported(x), ours);
    auto again = vision::get_model(name, {.classes = 10});
    again.load_parameters(theirs + ".params");
    again.hybridize();
    CHECK(same_bits(again(x), net(x)));
  }
}

}  // namespace model_zoo_models_test
