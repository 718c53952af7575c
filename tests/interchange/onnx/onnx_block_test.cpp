// ONNX models as blocks: shapes, values that programs depend on, training, and the way to other files and back.
#include <catch2/catch.hpp>

#include <filesystem>
#include <random>

#include "kaon/gluon/model_zoo/vision.h"
#include "kaon/interchange/onnx.h"
#include "kaon/kaon.h"

namespace onnx_block_test {

using namespace kaon;
namespace fs = std::filesystem;
namespace nn = kaon::gluon::nn;

namespace {

struct Folder {
  fs::path path = fs::temp_directory_path() / ("kaon_onnx_block_" + std::to_string(std::random_device()()));
  Folder() { fs::create_directories(path); }
  ~Folder() { fs::remove_all(path); }
};

fs::path sample(const std::string& name) { return fs::path(KAON_TEST_DATA_DIR) / "onnx" / name / "model.onnx"; }

double largest_difference(const NDArray& a, const NDArray& b) {
  return nd.max(nd.abs(a - b)).asscalar<double>() / std::max(1e-6, nd.max(nd.abs(b)).asscalar<double>());
}

struct Net : gluon::HybridBlock<Net> {
  nn::Conv2D conv = child("conv", nn::Conv2D(8, {.kernel_size = 3, .padding = 1}));
  nn::BatchNorm norm = child("norm", nn::BatchNorm());
  nn::MaxPool2D pool = child("pool", nn::MaxPool2D());
  nn::Dense last = child("last", nn::Dense(5));
  auto hybrid_forward(auto F, auto x) { return last(pool(F.relu(norm(conv(x))))); }
};

struct Around : gluon::HybridBlock<Around> {
  gluon::SymbolBlock inner;
  explicit Around(gluon::SymbolBlock b) : inner(child("inner", b)) {}
  auto hybrid_forward(auto F, auto x) { return F.relu(inner(x)); }
};

}  // namespace

TEST_CASE("onnx block: a net that is written and read back gives the same, also for other batches") {
  Folder folder;
  Net net;
  net.initialize(init::Xavier());
  net.hybridize();
  const NDArray x = nd.random_normal({2, 3, 8, 8});
  const NDArray y = net(x);
  onnx::save(net, folder.path / "net.onnx", {.batch_name = "n"});
  onnx::Block back = onnx::load(folder.path / "net.onnx");
  CHECK_THROWS_AS(back.plan(), StateError);
  CHECK(largest_difference(back(x), y) < 1e-5);
  CHECK(back.plan()->dump().find("(FullyConnected)") != std::string::npos);
  const NDArray more = nd.random_normal({5, 3, 8, 8});
  CHECK(largest_difference(back(more), net(more)) < 1e-5);
  back.hybridize(false);
  CHECK(largest_difference(back(more), net(more)) < 1e-5);
  CHECK(back.collect_params().size() == net.collect_params().size());
}

TEST_CASE("onnx block: it trains, and changed parameters count at the next call") {
  Folder folder;
  Net net;
  net.initialize(init::Xavier());
  net.hybridize();
  const NDArray x = nd.random_normal({4, 3, 8, 8}), label = nd.array({0, 1, 2, 3});
  net(x);
  onnx::save(net, folder.path / "net.onnx");
  onnx::Block back = onnx::load(folder.path / "net.onnx");
  gluon::Trainer trainer(back.collect_params(), optimizer::SGD({.learning_rate = 0.1}));
  gluon::loss::SoftmaxCrossEntropyLoss loss_fn;
  std::vector<float> losses;
  for (int i = 0; i < 8; ++i) {
    NDArray loss = autograd::record([&] { return loss_fn(back(x), label); });
    loss.backward();
    trainer.step(4);
    losses.push_back(loss.mean().asscalar<float>());
  }
  CHECK(losses.back() < losses.front() / 2);
}

TEST_CASE("onnx block: specialized, it is a SymbolBlock, which MXNet's files take") {
  Folder folder;
  Net net;
  net.initialize(init::Xavier());
  net.hybridize();
  const NDArray x = nd.random_normal({2, 3, 8, 8});
  const NDArray y = net(x);
  onnx::save(net, folder.path / "net.onnx");
  gluon::SymbolBlock block = onnx::load_block(folder.path / "net.onnx");
  CHECK(largest_difference(block(x), y) < 1e-5);
  CHECK(block.program().list_arguments().size() == 7);
  CHECK_THROWS_WITH(block(nd.zeros({3, 3, 8, 8})), Catch::Contains("holds for the shape (2, 3, 8, 8) alone"));
  CHECK_THROWS_AS(block(nd.zeros({2, 3, 8, 8}, {.dtype = DType::float64})), TypeError);
  block.hybridize();
  block(x);
  CHECK_THROWS_AS(block.export_model((folder.path / "exported").string()), StateError);
  block.export_model((folder.path / "exported").string(), 0, {.fixed_shapes = true});
  const std::string input = onnx::load(folder.path / "net.onnx").inputs().at(0).name;
  gluon::SymbolBlock imported =
      gluon::SymbolBlock::imports(folder.path / "exported-symbol.json", {input}, folder.path / "exported-0000.params");
  CHECK(largest_difference(imported(x), y) < 1e-5);
  Around around(block);
  around.hybridize();
  CHECK(largest_difference(around(x), nd.relu(y)) < 1e-5);
}

TEST_CASE("onnx block: specialized, it takes other sizes where the program is the same for them") {
  Folder folder;
  Net net;
  net.initialize(init::Xavier());
  net.hybridize();
  net(nd.random_normal({2, 3, 8, 8}));
  onnx::save(net, folder.path / "net.onnx", {.batch_name = "n"});
  gluon::SymbolBlock block = onnx::load_block(folder.path / "net.onnx", {{2, 3, 8, 8}});
  const NDArray more = nd.random_normal({5, 3, 8, 8});
  CHECK(largest_difference(block(more), net(more)) < 1e-5);
  CHECK_THROWS_WITH(block(nd.zeros({2, 3, 9, 8})), Catch::Contains("(-1, 3, 8, 8)"));
  CHECK_THROWS_AS(onnx::load(folder.path / "net.onnx").specialize({{2, 3, 9, 8}}), ShapeError);
  block.export_model((folder.path / "exported").string());

  const Symbol x = sym.var("x", {2, 4});
  onnx::save(sym.reshape(x, {-3}), {{"x", {Shape(2, 4), DType::float32}}}, {}, folder.path / "flat.onnx",
             {.batch_name = "n"});
  CHECK(onnx::load_block(folder.path / "flat.onnx", {{2, 4}})(nd.zeros({3, 4})).shape() == Shape(12));
}

// Two arrays of it.
struct Both : gluon::HybridBlock<Both> {
  auto hybrid_forward(auto F, auto x) { return std::pair(x + 1.0, F.relu(x)); }
};

TEST_CASE("onnx block: loaded nets are parts of containers, of nets that are hybridized and of training steps") {
  Folder folder;
  Net net;
  net.initialize(init::Xavier());
  net.hybridize();
  const NDArray x = nd.random_normal({4, 3, 8, 8}), label = nd.array({0, 1, 2, 3});
  net(x);
  onnx::save(net, folder.path / "net.onnx", {.batch_name = "n"});
  onnx::Block back = onnx::load(folder.path / "net.onnx");
  nn::HybridSequential first(onnx::load(folder.path / "net.onnx"), nn::Activation("relu"));  // its child is hybridized
  CHECK(largest_difference(first(x), nd.relu(net(x))) < 1e-5);
  for (const bool is_hybridized : {false, true}) {
    CAPTURE(is_hybridized);
    nn::HybridSequential all(back, nn::Activation("relu"), nn::Dense(2));
    all.initialize(init::Xavier());
    all.hybridize(is_hybridized);
    for (const int64_t rows : {4, 2, 4}) {
      const NDArray part = x.slice(0, rows), y = all(part);
      CHECK(largest_difference(y, all[2](nd.relu(net(part)))) < 1e-5);
    }
    nn::HybridSequential symbols(onnx::load_block(folder.path / "net.onnx", {x.shape()}), nn::Activation("relu"));
    symbols.hybridize(is_hybridized);
    CHECK(largest_difference(symbols(x), nd.relu(net(x))) < 1e-5);

    Both two;
    two.hybridize();
    two(x);
    onnx::save(two, folder.path / "two.onnx");
    onnx::Block two_back = onnx::load(folder.path / "two.onnx");
    nn::HybridSequential lists(onnx::load_block(folder.path / "two.onnx"));
    lists.hybridize(is_hybridized);
    const std::vector<NDArray> ys = lists(std::vector{x});
    REQUIRE(ys.size() == 2);
    CHECK(largest_difference(ys[1], nd.relu(x)) == 0);
    CHECK_THROWS_WITH(lists(x), Catch::Contains("gives 2 arrays"));
    CHECK_THROWS_WITH(two_back(x), Catch::Contains("2 outputs"));
    CHECK_THROWS_WITH(two_back(sym.var("x", x.shape())), Catch::Contains("2 outputs"));
  }
  nn::HybridSequential twice(nn::Dense(3 * 8 * 8), nn::HybridLambda([](auto F, auto y) {
                               return F.reshape(y, {0, 3, 8, 8});
                             }),
                             onnx::load(folder.path / "net.onnx"), onnx::load(folder.path / "net.onnx"));
  CHECK(twice.collect_params().size() == 2 + 2 * net.collect_params().size());
  CHECK_THROWS_AS(back(sym.var("x")), TraceError);  // of no known shape
  CHECK_THROWS_AS(back(sym.var("x", {2, 4, 8, 8})), ShapeError);
  CHECK_THROWS_AS(back.compose_on({}), ValueError);

  // the same steps as those of its own net
  gluon::loss::SoftmaxCrossEntropyLoss loss_fn;
  std::vector<NDArray> losses;
  const auto train = [&](auto model) {
    gluon::Trainer trainer(model.collect_params(), optimizer::SGD({.learning_rate = 0.1}));
    gluon::TrainingStep step(model, loss_fn, trainer);
    NDArray loss;
    for (int i = 0; i < 3; ++i) loss = step(x, label);
    losses.push_back(loss);
  };
  train(back);
  train(net);
  CHECK(largest_difference(losses[0], losses[1]) < 1e-4);
}

TEST_CASE("onnx block: written again it is the same model with the values of now") {
  Folder folder;
  Net net;
  net.initialize(init::Xavier());
  net.hybridize();
  const NDArray x = nd.random_normal({4, 3, 8, 8}), label = nd.array({0, 1, 2, 3});
  net(x);
  onnx::save(net, folder.path / "net.onnx", {.opset = 18, .batch_name = "n"});
  onnx::Block back = onnx::load(folder.path / "net.onnx");
  gluon::Trainer trainer(back.collect_params(), optimizer::SGD({.learning_rate = 0.1}));
  autograd::record([&] { return gluon::loss::SoftmaxCrossEntropyLoss()(back(x), label); }).backward();
  trainer.step(4);
  onnx::save(back, folder.path / "net.onnx");  // over the file that it came from
  onnx::Block again = onnx::load(folder.path / "net.onnx");
  const NDArray more = nd.random_normal({7, 3, 8, 8});
  CHECK(largest_difference(again(more), back(more)) == 0);
  CHECK(largest_difference(again(more), net(more)) > 1e-4);
  CHECK(again.inputs().at(0).name == back.inputs().at(0).name);
  CHECK(again.inputs().at(0).dim_names.at(0) == "n");
  CHECK(again.outputs().at(0).name == back.outputs().at(0).name);
  CHECK(again.summary().opsets == std::map<std::string, int64_t>{{"", 18}});
  onnx::save(back, folder.path / "net.onnx", {.opset = 18, .max_file_bytes = 0, .min_external_bytes = 1});
  CHECK(largest_difference(onnx::load(folder.path / "net.onnx")(more), back(more)) == 0);
  onnx::save(onnx::load(folder.path / "net.onnx"), folder.path / "one.onnx");  // from two files
  CHECK(largest_difference(onnx::load(folder.path / "one.onnx")(more), back(more)) == 0);
  CHECK_THROWS_WITH(onnx::save(back, folder.path / "no.onnx", {.opset = 17}),
                    Catch::Contains("its own opset, 18, not"));
  CHECK_THROWS_WITH(onnx::save(back, folder.path / "no.onnx", {.batch_name = "m"}),
                    Catch::Contains("names of its own dimensions"));
  back.cast(DType::float16);
  CHECK_THROWS_AS(onnx::save(back, folder.path / "no.onnx"), TypeError);
  CHECK_FALSE(fs::exists(folder.path / "no.onnx"));
}

TEST_CASE("onnx block: a program holds for the values that it depends on", "[onnx]") {
  // Reshape takes the new shape as an input of the model
  onnx::Block block = onnx::load(sample("node/test_reshape_allowzero_reordered"));
  const NDArray x = nd.zeros({0, 3, 4});
  const auto with = [&](std::vector<int64_t> shape) { return block.forward({x, nd.array(shape)})[0].shape(); };
  CHECK(with({3, 4, 0}) == Shape(3, 4, 0));
  CHECK(with({2, 0, 7}) == Shape(2, 0, 7));
  CHECK(with({3, 4, 0}) == Shape(3, 4, 0));
  CHECK_THROWS_AS(with({5, 1, 2}), ShapeError);
}

TEST_CASE("onnx block: under the policy bucket one program does for every batch", "[onnx]") {
  Folder folder;
  Net net;
  net.initialize(init::Xavier());
  net.hybridize();
  net(nd.random_normal({2, 3, 8, 8}));
  onnx::save(net, folder.path / "net.onnx", {.batch_name = "n"});
  onnx::Block back = onnx::load(folder.path / "net.onnx");
  back.hybridize({.policy = PlanPolicy::bucket});
  for (const int64_t rows : {3, 1, 7, 8, 5, 3}) {
    CAPTURE(rows);
    const NDArray x = nd.random_normal({rows, 3, 8, 8}), y = back(x);
    CHECK(y.shape() == Shape(rows, 5));
    CHECK(largest_difference(y, net(x)) < 1e-5);
  }
  // a call that is recorded has a plan of its own
  const NDArray x = nd.random_normal({3, 3, 8, 8});
  autograd::record([&] { return back(x).sum(); }).backward();
  const NDArray y = back(x);  // with BatchNorm's new statistics
  back.hybridize(false);
  CHECK(largest_difference(y, back(x)) < 1e-5);

  const Symbol data = sym.var("x", {2, 4});
  onnx::save(sym.sum(data, {.axis = Shape(0)}), {{"x", {Shape(2, 4), DType::float32}}}, {}, folder.path / "sum.onnx",
             {.batch_name = "n"});
  onnx::Block sums = onnx::load(folder.path / "sum.onnx");
  sums.hybridize({.policy = PlanPolicy::bucket});
  CHECK_THROWS_AS(sums(nd.ones({3, 4})), ShapeError);
  onnx::Block reshapes = onnx::load(sample("node/test_reshape_allowzero_reordered"));
  reshapes.hybridize({.policy = PlanPolicy::bucket});
  const std::vector<int64_t> to{3, 4, 0};
  CHECK_THROWS_AS(reshapes.forward({nd.zeros({0, 3, 4}), nd.array(to)}), Error);
}

TEST_CASE("onnx block: as constants it gives the same, and has no parameters") {
  Folder folder;
  Net net;
  net.initialize(init::Xavier());
  net.hybridize();
  const NDArray x = nd.random_normal({2, 3, 8, 8}), y = net(x);
  onnx::save(net, folder.path / "net.onnx");
  onnx::Block constants = onnx::load(folder.path / "net.onnx", {.trainable = false});
  CHECK(constants.collect_params().size() == 0);
  for (int i = 0; i < 3; ++i) CHECK(largest_difference(constants(x), y) < 1e-5);
}

TEST_CASE("onnx block: nets of the model zoo survive the way through a file") {
  Folder folder;
  const NDArray x = nd.random_normal({1, 3, 64, 64});
  for (const char* name : {"resnet18_v1", "resnet18_v2", "mobilenet0.25", "mobilenetv2_0.25"}) {
    CAPTURE(name);
    auto net = gluon::model_zoo::vision::get_model(name);
    net.initialize(init::Xavier());
    net.hybridize();
    const NDArray y = net(x);
    onnx::save(net, folder.path / "zoo.onnx");
    onnx::Block back = onnx::load(folder.path / "zoo.onnx");
    CHECK(largest_difference(back(x), y) < 1e-4);
  }
}

TEST_CASE("onnx block: what is not written is named") {
  Folder folder;
  const Symbol x = sym.var("x", {2, 3});
  CHECK_THROWS_WITH(onnx::save(sym.gamma(x), {{"x", {Shape(2, 3), DType::float32}}}, {}, folder.path / "g.onnx"),
                    Catch::Contains("the operator gamma is not written"));
  CHECK_THROWS_WITH(
      onnx::save(sym.relu(x), {{"x", {Shape(2, 3), DType::float32}}}, {}, folder.path / "g.onnx", {.opset = 3}),
      Catch::Contains("opset 3 is not written"));
  CHECK_FALSE(fs::exists(folder.path / "g.onnx"));
}

}  // namespace onnx_block_test
