// The pieces of code of docs/guide.md, a case for each section. A test of the pages compares them: change both.
#include <kaon/gluon/data/text.h>
#include <kaon/gluon/estimator/estimator.h>
#include <kaon/gluon/estimator/handlers.h>
#include <kaon/gluon/model_zoo/gpt.h>
#include <kaon/gluon/model_zoo/vision.h>
#include <kaon/gluon/util/amp.h>
#include <kaon/gluon/util/array_lists.h>
#include <kaon/gluon/util/checkpoint.h>
#include <kaon/graph/sparse_gradient.h>
#include <kaon/kaon.h>
#include <kaon/ops/op_def.h>

#include <catch2/catch.hpp>
#include <cmath>

#include "kaon/tests/support/files.h"

namespace guide_test {

using namespace kaon;
namespace data = kaon::gluon::data;
namespace nn = kaon::gluon::nn;
namespace rnn = kaon::gluon::rnn;
namespace model_zoo = kaon::gluon::model_zoo;

TEST_CASE("guide: arrays", "[docs]") {
  NDArray a = nd.array({{1, 2, 3}, {4, 5, 6}});
  NDArray b = nd.array(std::vector<int>{7, 8}, {2, 1}, {.dtype = DType::int32});  // values, shape, options
  CHECK(a.shape() == Shape(2, 3));
  CHECK(a.dtype() == DType::float32);  // unless the options say otherwise
  CHECK(nd.sum(a, {.axis = {1}}).asvector<float>() == std::vector<float>{6, 15});
  CHECK((a > 2).sum().asscalar<float>() == 4);  // a comparison gives 0 and 1 in the dtype of its arrays
  CHECK_THROWS_AS(a + b, TypeError);            // write a + b.astype(DType::float32)
  NDArray same = a, copy = a.copy(), row = a[1];
  row += 10;  // in place: a has changed
  a[0].assign(nd.array({7, 8, 9}));
  a.slice_assign({0, 0}, {2, 1}, -1);  // a[0:2, 0:1] = -1
  CHECK(same.asvector<float>() == std::vector<float>{-1, 8, 9, -1, 15, 16});
  CHECK(copy.asvector<float>() == std::vector<float>{1, 2, 3, 4, 5, 6});

  NDArray counts = nd.array({1, 2}, {2}, {.dtype = DType::int32}), means = nd.array({0.5, 1.5});
  CHECK_THROWS_AS(counts * means, TypeError);
  NDArray product = promote_types([&] { return counts * means; });
  CHECK(product.dtype() == DType::float32);
  CHECK(result_type(DType::uint8, DType::int8) == DType::int16);
  CHECK(nd._npi_add(counts, means).dtype() == DType::float32);  // NumPy's names promote everywhere, as in mx.np

  // What the text says of views, of what converts, and of printing.
  CHECK(a.asvector<float>() == same.asvector<float>());
  NDArray c = nd.zeros({2, 3}, {.dtype = DType::float64});
  CHECK(b.asvector<int>() == std::vector<int>{7, 8});
  for (NDArray shares : {a.slice(0, 1), a.reshape({6}), a.as_in_context(cpu()), a.detach()}) shares += 1;
  CHECK(a.asvector<float>() == std::vector<float>{3, 12, 13, 2, 18, 19});
  for (NDArray apart : {nd.slice(a, {0}, {1}), nd.reshape(a, {6}), a.astype(DType::float32), a + 0}) apart += 1;
  CHECK(a.asvector<float>() == std::vector<float>{3, 12, 13, 2, 18, 19});
  NDArray learned = nd.ones({2, 3});
  learned.attach_grad();
  autograd::record([&] {
    NDArray shares = a[1], part = learned[1];
    shares -= 1;
    CHECK_THROWS_AS(part += 1, StateError);  // a copy, through which gradients are recorded
    return part;
  });
  CHECK(a.asvector<float>() == std::vector<float>{3, 12, 13, 1, 17, 18});
  CHECK_THROWS_AS(a += c, TypeError);
  CHECK_NOTHROW(a.assign(c));
  CHECK(to_string(b) == "[[7]\n [8]]\n<NDArray 2x1 @cpu(0)>");
  CHECK(fmt::format("{}", b) == to_string(b));

  random::seed(7);
  NDArray first = nd.random_normal({2, 3}, {.scale = 0.1});
  random::seed(7);
  CHECK(nd.random_normal({2, 3}, {.scale = 0.1}).asvector<float>() == first.asvector<float>());
}

TEST_CASE("guide: parts and memory", "[docs]") {
  NDArray m = nd.arange(12).reshape({3, 4});
  CHECK(m(1, 2).asscalar<float>() == 6);
  CHECK(m(range(), range(0, 4, 2)).shape() == Shape(3, 2));  // m[:, 0:4:2]
  CHECK(m(ellipsis, newaxis, -1).asvector<float>() == std::vector<float>{3, 7, 11});
  CHECK(m[{2, 0}].shape() == Shape(2, 4));                                   // rows 2 and 0
  CHECK(m(mask(m > 8)).asvector<float>() == std::vector<float>{9, 10, 11});  // waits: the shape depends on values
  m.at(mask(m > 8)) = 0;
  m.at(range(), 0) += nd.array({10, 20, 30});
  CHECK(m(range(), 0).asvector<float>() == std::vector<float>{10, 24, 38});
  std::vector<float> memory{1, 2, 3, 4};
  NDArray over = NDArray::from_blob(memory.data(), {2, 2});  // no copy
  over += 1;
  CHECK(over.data<const float>()[3] == 5);  // waits
  CHECK(memory == std::vector<float>{2, 3, 4, 5});
}

TEST_CASE("guide: gradients", "[docs]") {
  NDArray x = nd.array({1, 2, 3});
  x.attach_grad();  // a gradient of zeros
  NDArray y = autograd::record([&] { return x * x; });
  y.backward();  // of the sum of y
  CHECK(x.grad().asvector<float>() == std::vector<float>{2, 4, 6});
  x.attach_grad(GradReq::add);  // from now on each backward() adds to the gradient
  for (int i = 0; i < 2; ++i) autograd::record([&] { return x * x; }).backward();
  CHECK(x.grad().asvector<float>() == std::vector<float>{4, 8, 12});
  x.grad().assign(0);  // before the next sum
  NDArray mine = nd.zeros({3});
  x.attach_grad(GradReq::write, mine);  // backward() writes to an array of the program's
  autograd::record([&] { return x * 3; }).backward();
  CHECK(mine.asvector<float>() == std::vector<float>{3, 3, 3});
  x.attach_grad();
  NDArray z = autograd::record([&] {
    NDArray factor = autograd::pause([&] { return x * 2; });  // not recorded: a constant
    return x * factor + nd.stop_gradient(x * x);              // of the second term no gradient arrives at x
  });
  NDArray second = autograd::record([&] {
    NDArray first = autograd::grad(x * x * x, x, true);  // create_graph: 3 x^2, recorded itself
    return autograd::grad(first, x);
  });
  CHECK(second.asvector<float>() == std::vector<float>{6, 12, 18});  // 6 x

  z.backward();
  CHECK(x.grad().asvector<float>() == std::vector<float>{2, 4, 6});
  x.attach_grad();
  autograd::record([&] { return x * x.detach(); }).backward();
  CHECK(x.grad().asvector<float>() == std::vector<float>{1, 2, 3});
  CHECK_THROWS_AS(y.backward(), StateError);
  {
    NDArray kept;
    x.attach_grad();
    kept = autograd::record([&] { return x * x; });
    kept.backward(nd.array({1, 0, 1}), true);
    CHECK(x.grad().asvector<float>() == std::vector<float>{2, 0, 6});
    kept.backward();
    CHECK(x.grad().asvector<float>() == std::vector<float>{2, 4, 6});
  }

  autograd::record([&] {
    CHECK(autograd::is_training());
    NDArray recorded = x * 2;
    CHECK_THROWS_AS(recorded += 1, StateError);
    CHECK_THROWS_AS(x += 1, StateError);
    return recorded;
  });
  autograd::record([&] { CHECK(!autograd::is_training()); }, false);
}

namespace {

struct ScaledNet : gluon::HybridBlock<ScaledNet> {
  nn::Dense hidden = child("hidden", nn::Dense(16, {.activation = "relu"}));
  nn::Dense output;
  gluon::Parameter scale = param("scale", {1}, {.init = init::One()});
  explicit ScaledNet(int64_t classes) : output(child("output", nn::Dense(classes))) {}
  auto hybrid_forward(auto F, auto x) { return output(hidden(x)) * F(scale); }
};

struct Tied : gluon::HybridBlock<Tied> {
  nn::Embedding embed = child("embed", nn::Embedding(1000, 32));
  nn::Dense head = child("head", nn::Dense(1000, {.flatten = false}));
  gluon::Parameter scale = constant("scale", nd.array({0.5}));
  Tied() { head.share_parameters(embed); }  // the `weight`; `bias` has no counterpart
  auto hybrid_forward(auto F, auto x) { return head(embed(x) * F(scale)); }
};

struct Flow : gluon::HybridBlock<Flow> {
  auto hybrid_forward(auto F, auto x) {
    // foreach(body, data, states): body(row, states) gives pair(outputs, states)
    auto add = [](auto row, auto sum) { return std::pair(sum + row, sum + row); };
    auto sums = contrib::foreach (add, x, F.zeros({2})).first;
    // while_loop(condition, func, variables, max_iterations): func(variables) gives pair(outputs, variables)
    auto is_small = [&](auto v) { return F.sum(v) < 100; };
    auto twice = [](auto v) { return std::pair(v, 2 * v); };
    auto grown = contrib::while_loop(is_small, twice, sums, 8).second;
    // cond(predicate, then, otherwise)
    return contrib::cond(
        F.sum(x) > 0, [&] { return grown; }, [&] { return -sums; });
  }
};

}  // namespace

TEST_CASE("guide: blocks", "[docs]") {
  ScaledNet net(3);
  net.initialize(init::Xavier());                    // the parameters that have no initializer of their own
  CHECK(net.hidden.weight.shape() == Shape(16, 0));  // 0: not known yet
  NDArray y = net(nd.ones({2, 8}));
  CHECK(net.collect_params().get("hidden_weight").shape() == Shape(16, 8));
  for (const gluon::Parameter& p : net.collect_params()) fmt::print("{} {}\n", p.name(), p.shape().str());
  net.hybridize({.static_alloc = true, .verify = 1});
  CHECK(nd.norm(net(nd.ones({2, 8})) - y).asscalar<float>() < 1e-5);

  CHECK(y.shape() == Shape(2, 3));
  CHECK(net.collect_params(".*weight").size() == 2);
  CHECK(net.collect_params().size() == 5);
  CHECK(net.collect_params().get("scale").data().asscalar<float>() == 1);
  ScaledNet handle = net;
  CHECK(handle.scale == net.scale);
  nn::HybridSequential row(nn::Dense(4), ScaledNet(2));
  CHECK(row.collect_params().contains("dense0_weight"));
  CHECK(row.collect_params().contains("hybridblock0_hidden_weight"));

  Tied tied;
  tied.initialize();
  CHECK(tied(nd.ones({2, 5})).shape() == Shape(2, 5, 1000));
  CHECK(tied.collect_params().size() == 3);

  Flow flow;
  NDArray x = nd.array({{1, 2}, {3, 4}});
  CHECK(flow(x).asvector<float>() == std::vector<float>{8, 16, 32, 48});
  flow.hybridize();
  CHECK(flow(x).asvector<float>() == std::vector<float>{8, 16, 32, 48});
  CHECK(flow(-x).asvector<float>() == std::vector<float>{1, 2, 4, 6});  // the same plan
}

namespace {

struct SignUpdate {  // w <- w - lr (sign(gradient) + wd w), for each weight
  static constexpr OpTraits traits{
      .name = "sign_update", .variadic = true, .mutates = 1, .mutates_period = 2, .in_mxnet = false};
  static constexpr void fields(auto) {}
  static const OpDef def;
  void infer(InferContext& c) const {
    for (int i = 0; i < c.num_inputs(); ++i) {
      if (c.dtype(i) != DType::float32) c.fail_dtype("expected float32");
    }
    c.set_output({0}, DType::float32);  // empty: fails when the update does
  }
};

void run_cpu(const SignUpdate&, KernelContext& c) {
  const int n = c.num_inputs() / 2;              // weight, gradient, weight, gradient, ..., rates
  const float* rates = c.in(2 * n).as<float>();  // n learning rates, n weight decays
  for (int i = 0; i < n; ++i) {
    float* w = c.in(2 * i).as<float>();
    const float* g = c.in(2 * i + 1).as<float>();
    for (int64_t k = 0; k < c.in(2 * i).size(); ++k) {
      w[k] -= rates[i] * (float(g[k] > 0) - float(g[k] < 0) + rates[n + i] * w[k]);
    }
  }
}
constinit const OpDef SignUpdate::def = make_op_def<SignUpdate>();

struct LogCosh : gluon::HybridBlock<LogCosh> {
  auto hybrid_forward(auto F, auto pred, auto label) {
    auto error = pred - F.reshape_like(label, pred);
    return F.mean(F.logaddexp(error, -error) - std::log(2), {.axis = {0}, .exclude = true});  // over all axes but 0
  }
};

struct SignRule : optimizer::Rule {
  int num_states() const override { return 0; }  // arrays to keep for each weight, as momentum
  NDArray update(std::span<const NDArray* const> arrays, const optimizer::StepOptions&,
                 const std::source_location& site) const override {
    NDArray done;
    const SignUpdate op;
    NDArray::apply(SignUpdate::def, &op, arrays, {&done, 1}, site, {});
    return done;
  }
};
struct SignSGD : optimizer::Optimizer {
  explicit SignSGD(double lr) : Optimizer(std::make_unique<SignRule>(), {.learning_rate = lr}) {}
};

}  // namespace

TEST_CASE("guide: sequences", "[docs]") {
  rnn::LSTM lstm(16, {.num_layers = 2, .layout = rnn::Layout::NTC, .bidirectional = true});
  lstm.initialize(init::Xavier());
  NDArray x = nd.random_normal({4, 10, 8});         // four sequences of ten steps
  CHECK(lstm(x).shape() == Shape(4, 10, 32));       // of both directions
  auto [y, states] = lstm(x, lstm.begin_state(4));  // the states after the last step, to go on with
  CHECK(states[0].shape() == Shape(4, 4, 16));      // of layers and directions, for each sequence
  auto stack = lstm.unfuse();                       // the same as cells, which share the parameters
  auto [z, last] = stack.unroll(10, x);
  CHECK(nd.norm(z - y).asscalar<float>() < 1e-4);
  rnn::LSTMCell cell(16);
  cell.initialize(init::Xavier());
  auto [h, next] = cell(x.slice(0, 4).reshape({40, 8}), cell.begin_state(40));  // one step
  NDArray lengths = nd.array({10, 3, 7, 1});
  auto [ended, at_end] = cell.unroll(10, x, {}, rnn::Layout::NTC, lengths);  // 0 after the end of each sequence
  CHECK(at_end[0][3].asvector<float>() == ended[3][0].asvector<float>());
}

namespace {

Task<void> train_digits(data::DataLoader train, data::DataLoader validation) {
  nn::HybridSequential net(nn::Dense(32, {.activation = "relu"}), nn::Dense(10));
  net.initialize(init::Xavier());
  gluon::Trainer trainer(net.collect_params(), optimizer::Adam());
  gluon::Estimator estimator(net, gluon::loss::SoftmaxCrossEntropyLoss(), trainer, {metric::Accuracy()});
  auto checkpoints = std::make_shared<gluon::CheckpointHandler>("checkpoints");
  estimator.add_handler(std::make_shared<gluon::ValidationHandler>(validation));
  estimator.add_handler(std::make_shared<gluon::LoggingHandler>());
  estimator.add_handler(std::make_shared<gluon::EarlyStoppingHandler>(estimator.val_loss()));
  estimator.add_handler(checkpoints);
  checkpoints->resume(estimator);  // of an earlier run, if there is one
  co_await estimator.fit(train, {.epochs = 3});
}

}  // namespace

TEST_CASE("guide: training", "[docs]") {
  test::ScratchFolder folder;
  std::filesystem::current_path(folder / "");
  random::seed(1);
  NDArray x = nd.random_normal({64, 4}), label = nd.sum(x, {.axis = {1}}) > 0;
  nn::HybridSequential net(nn::Dense(16, {.activation = "relu"}), nn::Dense(2));
  net.initialize(init::Xavier());
  {
    gluon::loss::SoftmaxCrossEntropyLoss loss_fn;
    gluon::Trainer trainer(net.collect_params(), optimizer::SGD({.learning_rate = 0.5, .momentum = 0.9}));
    metric::Accuracy accuracy;
    for (int i = 0; i < 50; ++i) {
      NDArray scores;
      NDArray loss = autograd::record([&] { return loss_fn(scores = net(x), label); });  // one for each sample
      loss.backward();
      trainer.step(64);  // divides the gradients by the batch size
      accuracy.update(label, scores);
    }
    CHECK(accuracy.get().second > 0.9);  // get() blocks; in a coroutine: co_await accuracy.value()

    gluon::loss::SoftmaxCrossEntropyLoss weighted({.label_smoothing = 0.1, .ignore_label = -1}, nd.array({1, 2}));
    NDArray some = weighted(net(x), label);  // with a weight for each class; labels of -1 have no loss
    auto figures = metric::create(std::vector<std::string>{"acc", "f1", "auc"});
    figures.add(metric::CustomMetric([](const NDArray&, const NDArray& pred) { return nd.max(pred); }, "largest"));
    figures.update(label, nd.softmax(net(x)));  // waits for nothing, whatever the metrics are
    for (auto [name, value] : figures.get_name_value()) fmt::print("{} {:.3f}\n", name, value);
    figures.reset_local();  // get_global() still has all batches
    CHECK(some.shape() == Shape(64));
    CHECK(figures.get_global().second[0] > 0.9);

    gluon::TrainingStep step(net, loss_fn, trainer);
    NDArray loss = step(x, label);  // one for each sample, before the update
    CHECK(loss.shape() == Shape(64));
    CHECK(trainer.steps() == 51);

    gluon::TrainingStep one_update(net, loss_fn, trainer);
    net.collect_params().set_grad_req(GradReq::add);
    autograd::record([&] { return loss_fn(net(x), label); }).backward();
    one_update.accumulate(x, label);  // as the line above, planned
    one_update.set_batch_size(3 * 64);
    one_update(x, label);  // adds its own, and updates: trainer.step(3 * 64)
    net.collect_params().zero_grad();
    net.collect_params().set_grad_req(GradReq::write);
    CHECK(trainer.steps() == 52);

    gluon::Trainer clipped(net.collect_params(), optimizer::AdamW(), {.clip_global_norm = 1.0});
    amp::init_trainer(clipped);  // for float16: losses in a scale that finds itself
    net.hybridize();
    net(x);
    auto mixed = amp::convert_hybrid_block(net);  // products in float16
    auto scaled = autograd::record([&] { return amp::scale_loss(loss_fn(mixed(x), label), clipped); });
    scaled.backward();
    clipped.step(64);  // changes nothing, and lowers the scale, where a gradient is not finite
    gluon::save_checkpoint("last.params", net, clipped, {{"epoch", nd.array({3.0})}});
    NamedArrays more = gluon::load_checkpoint("last.params", net, clipped);  // in another process: with the same bits
    CHECK(more[0].second.asscalar<int>() == 3);
    CHECK(clipped.steps() == 1);

    const std::vector<Device> devices{cpu(0), cpu(1)};
    nn::Dense shared(2);
    shared.initialize(init::Xavier(), devices);
    gluon::Trainer both(shared.collect_params(), optimizer::SGD());
    auto parts = gluon::split_and_load(x, devices), labels = gluon::split_and_load(label, devices);
    for (size_t i = 0; i < devices.size(); ++i) {
      autograd::record([&] { return loss_fn(shared(parts[i]), labels[i]); }).backward();
    }
    both.step(64);
    CHECK(shared.weight.list_data().size() == 2);
    const data::Dataset points(20, [](int64_t i) { return data::Sample(float(i), int(i % 10)); });
    const data::DataLoader few(points, {.batch_size = 5});
    sync_wait(train_digits(few, few));
    CHECK(std::filesystem::exists("checkpoints/model-0001.params"));
    std::filesystem::current_path(std::filesystem::temp_directory_path());
  }
  {
    auto schedule = lr_scheduler::CosineScheduler({.max_update = 1000, .base_lr = 0.1, .warmup_steps = 100});
    auto own = lr_scheduler::CustomScheduler([](int64_t update) { return 0.1 / double(update); });  // from 1 on
    auto eye = init::Custom([](NDArray& w) { w.assign(nd.eye(w.shape()[0], {.M = w.shape()[1]})); });
    nn::Dense layer(4, {.weight_initializer = eye});
    auto adam = optimizer::Adam({.wd = 1e-4, .clip_gradient = 5, .lr_scheduler = schedule});
    layer.collect_params(".*bias").set_wd_mult(0);  // weights decay, biases do not

    CHECK(own(4) == 0.025);
    gluon::Trainer trainer(layer.collect_params(), adam);
    CHECK(schedule(100) == Approx(0.1));
    CHECK(schedule(1000) == Approx(0).margin(1e-9));
    layer.initialize();
    CHECK(layer(x).asvector<float>() == x.asvector<float>());
    CHECK_THROWS_AS(trainer.set_learning_rate(1), StateError);
    autograd::record([&] { return layer(x); }).backward();
    for (const gluon::Parameter& p : layer.collect_params()) p.grad() *= 0.5;
    CHECK(layer.bias.grad().asvector<float>() == std::vector<float>(4, 32));
    trainer.step(64);
    CHECK(trainer.learning_rate() == Approx(0.001));
  }
  nn::Dense line(1);
  line.initialize(init::Zero());
  line(x);
  gluon::Trainer trainer(line.collect_params(), SignSGD(0.125));
  const NDArray target = nd.sum(x, {.axis = {1}});
  {
    LogCosh loss_fn;
    NDArray loss = autograd::record([&] { return loss_fn(line(x), target); });
    loss.backward();
    trainer.step(64);
    CHECK(line.weight.data().asvector<float>() == std::vector<float>(4, 0.125));
    loss_fn.hybridize();
    CHECK(loss_fn(nd.array({1}), nd.array({1})).asscalar<float>() == Approx(0).margin(1e-6));
  }
  {
    gluon::TrainingStep step(line, LogCosh(), trainer);
    step(x, target);
    CHECK(line.weight.data().asvector<float>() == std::vector<float>(4, 0.25));
  }
  {
    NDArray broken = nd.take(x, nd.full({64}, 100), {.mode = IndexMode::raise});
    NDArray loss = autograd::record([&] { return LogCosh()(line(broken), target); });
    loss.backward();
    trainer.step(64);
    CHECK_THROWS_AS(nd.waitall(), AggregateError);
    CHECK(line.weight.data().asvector<float>() == std::vector<float>(4, 0.25));
    CHECK_THROWS_AS(trainer.step(64), IndexError);
  }
}

namespace {

using namespace kaon::gluon::data;

struct Numbers : DatasetSource {
  int64_t size() const override { return 10; }
  Sample get(int64_t i) const override { return Sample(float(i)); }
};

Task<double> train(nn::HybridSequential net) {
  Dataset squares(10, [](int64_t i) { return Sample(float(i), float(i * i)); });  // data, label
  auto scale = [](HostTensor x) { return HostTensor({1}, std::vector{*x.as<float>() / 10}); };
  DataLoader loader(squares.transform_first(scale), {.batch_size = 4, .shuffle = true, .seed = 1});
  gluon::Trainer trainer(net.collect_params(), optimizer::Adam({.learning_rate = 0.05}));
  gluon::TrainingStep step(net, gluon::loss::L2Loss(), trainer);
  metric::Loss mean_loss;
  auto batches = loader.batches();  // of 4, 4 and 2 samples: one epoch
  while (auto batch = co_await batches.next()) mean_loss.update(NDArray(), step(batch->data, batch->label));
  co_return co_await mean_loss.value();
}

}  // namespace

TEST_CASE("guide: sparse arrays", "[docs]") {
  NDArray x = nd.array({{0, 2, 0}, {0, 0, 0}, {1, 0, 3}});
  auto csr = sparse::cast_storage<sparse::CSRNDArray>(x);  // waits for x: how much is stored depends on it
  NDArray y = sparse::dot(csr, nd.ones({3, 4}));
  auto rows = sparse::cast_storage<sparse::RowSparseNDArray>(x);  // rows 0 and 2
  CHECK(sparse::elemwise_add(rows, rows * 2).todense().asvector<float>() == (x * 3).asvector<float>());
  nn::Embedding table(1000, 8, {.sparse_grad = true});
  table.initialize();
  gluon::Trainer table_trainer(table.collect_params(), optimizer::Adam({.lazy_update = true}));
  autograd::record([&] { return table(nd.array({7, 3, 7})); }).backward();
  CHECK(table.weight.row_sparse_grad().indices().asvector<int>() == std::vector<int>{3, 7});
  table_trainer.step(3);  // changes these two rows, and their means

  CHECK(y.asvector<float>() == std::vector<float>{2, 2, 2, 2, 0, 0, 0, 0, 4, 4, 4, 4});
  CHECK(rows.indices().asvector<int>() == std::vector<int>{0, 2});
}

TEST_CASE("guide: data", "[docs]") {
  nn::HybridSequential net(nn::Dense(8, {.activation = "tanh"}), nn::Dense(1));
  net.initialize(init::Xavier());
  CHECK(sync_wait(train(net)) > 0);
  DataLoader loader(Numbers(), {.batch_size = 4});
  int64_t samples = 0;
  for (Batch& batch : loader.sync()) samples += batch.size();
  CHECK(samples == 10);
  CHECK(loader.size() == 3);
  CHECK(loader.next_epoch() == 1);
  ArrayDataset rows(nd.arange(6).reshape({3, 2}), nd.array({0, 1, 2}));
  CHECK(rows.get(1).data.as<float>()[1] == 3);

  SimpleDataset texts(std::vector<std::string>{"one", "three", "fourteen", "six"}, [](const std::string& text) {
    std::vector<int32_t> codes(text.begin(), text.end());
    return std::tuple(HostTensor(Shape(int64_t(codes.size())), codes), int(text.size()), 1.0f);
  });
  Dataset named = texts.named({"codes", "length", "weight"});
  batchify::Tuple padded(batchify::Pad({.pad_val = -1}), batchify::Stack(), batchify::Stack());
  BucketSampler buckets({3, 5, 8, 3}, 2, {.num_buckets = 2, .shuffle = true});
  for (Batch& batch : DataLoader(named, buckets, {}, padded).sync()) {
    CHECK(batch["codes"].shape()[0] == batch["length"].shape()[0]);
  }
  const std::filesystem::path root = KAON_DATA_DIR "/mnist-10k";
  namespace transforms = vision::transforms;
  transforms::Compose augment({transforms::RandomResizedCrop(24), transforms::RandomFlipLeftRight(),
                               transforms::RandomColorJitter(0.4, 0.4, 0.4), transforms::ToTensor(),
                               transforms::Normalize({0.5f}, {0.25f})});
  vision::MNIST digits(root);
  DataLoader augmented(digits.transform_first(augment), {.batch_size = 32, .shuffle = true, .skip_corrupt = true});
  for (Batch& batch : augmented.sync()) {
    CHECK(batch.data.shape() == Shape(32, 1, 24, 24));
    break;
  }
  const std::filesystem::path folder = test::data_file("wikitext");
  text::WikiText2 train(folder, {.seq_len = 5});
  text::WikiText2 validation(folder, {.segment = "validation", .vocab = train.vocabulary(), .seq_len = 5});
  Sample words = train.get(0);  // int32 (5,): words.label[i] comes after words.data[i]
  CHECK(train.vocabulary().to_token(words.label.as<int32_t>()[0]) == "A");
  CHECK(validation.size() == 2);
}

namespace {

struct Sum : gluon::HybridBlock<Sum> {
  auto hybrid_forward(auto, auto a, auto b) { return a + b; }
};

}  // namespace

TEST_CASE("guide: files", "[docs]") {
  test::ScratchFolder folder;
  std::filesystem::current_path(folder / "");
  auto make_net = [] { return nn::HybridSequential(nn::Dense(8, {.activation = "tanh"}), nn::Dense(1)); };
  NDArray x = nd.ones({2, 3});
  nn::HybridSequential net = make_net();
  net.initialize(init::Xavier());
  auto sgd = optimizer::SGD({.learning_rate = 0.05, .momentum = 0.9});
  gluon::Trainer trainer(net.collect_params(), sgd);
  autograd::record([&] { return net(x); }).backward();
  trainer.step(2);

  CHECK_THROWS_AS(net.export_model("net", 7), StateError);
  net.hybridize();
  CHECK_THROWS_AS(net.export_model("net", 7), StateError);  // hybridized, but not called since

  net.save_parameters("net.params");
  trainer.save_states("net.states");
  nn::HybridSequential other = make_net();
  other.load_parameters("net.params");  // instead of initialize()
  gluon::Trainer continued(other.collect_params(), sgd);
  continued.load_states("net.states");
  net.hybridize();
  NDArray y = net(x);          // export_model writes what this call has traced
  net.export_model("net", 7);  // net-symbol.json, net-0007.params
  auto model = gluon::SymbolBlock::imports("net-symbol.json", {"data"}, "net-0007.params");
  CHECK(model(x).asvector<float>() == y.asvector<float>());

  CHECK(continued.steps() == 1);
  CHECK(nd.norm(other(x) - y).asscalar<float>() < 1e-5);
  Sum sum;
  sum.hybridize();
  sum(x, x);
  sum.export_model("sum");
  auto two = gluon::SymbolBlock::imports("sum-symbol.json", {"data0", "data1"}, "sum-0000.params");
  CHECK(two.forward({x, x})[0].asvector<float>() == std::vector<float>(6, 2));

  nd_file::save("arrays.nd", {{"x", x}});
  CHECK(nd_file::load("arrays.nd")[0].first == "x");
  std::filesystem::current_path(std::filesystem::temp_directory_path());
}

TEST_CASE("guide: model zoo", "[docs]") {
  test::ScratchFolder folder;
  std::filesystem::current_path(folder / "");

  auto net = model_zoo::vision::get_model("mobilenet0.25", {.classes = 10});
  net.initialize(init::Xavier());
  net.hybridize();
  CHECK(net(nd.zeros({1, 3, 64, 64})).shape() == Shape(1, 10));
  net.save_parameters("mobilenet.params");  // MXNet's names: its load_parameters reads the file
  auto same = model_zoo::vision::mobilenet0_25({.classes = 10});
  same.load_parameters("mobilenet.params");                 // such a file, or one that MXNet has written
  same.replace_child("output", same.output, nn::Dense(3));  // for other classes
  same.output.initialize(init::Xavier());
  same.features.collect_params().set_grad_req(GradReq::null);  // train the new layer alone

  CHECK(model_zoo::vision::model_names().size() == 34);
  NDArray loss = autograd::record([&] { return same(nd.ones({2, 3, 64, 64})).sum(); });
  loss.backward();
  CHECK(same.output.collect_params("output_weight")[0].grad().shape() == Shape(3, 256));
  std::filesystem::current_path(std::filesystem::temp_directory_path());
}

TEST_CASE("guide: language models", "[docs]") {
  model_zoo::text::GPT gpt({.vocab_size = 50, .context = 32, .units = 16, .num_layers = 2, .num_heads = 2});
  gpt.initialize(init::Normal(0.1));
  gpt.hybridize();
  NDArray tokens = nd.array({{7, 3, 9}});
  CHECK(gpt(tokens).shape() == Shape(1, 3, 50));                          // scores of the next token
  NDArray written = gpt.generate(tokens, 20, {.temperature = 0.8});       // with a cache of keys and values
  auto [scores, cache] = gpt(tokens, gpt.begin_cache(1), nd.array({0}));  // the same by hand, step by step
  std::tie(scores, cache) = gpt(nd.slice_axis(nd.argmax(scores, {.axis = 2}), 1, 2, 3), cache, nd.array({3}));
  CHECK(written.shape() == Shape(1, 23));
  CHECK(scores.shape() == Shape(1, 1, 50));

  nn::TransformerDecoderCell decoder(16, 32, 2);
  decoder.initialize(init::Normal(0.1));
  NDArray memory = nd.ones({1, 5, 16}), x = nd.ones({1, 1, 16});  // what an encoder gave, and a first step
  std::vector<NDArray> steps = decoder.begin_cache(memory, 20);   // for up to 20 steps
  std::tie(x, steps) = decoder(x, steps, nd.array({0}));          // the second step, if x is what comes next
  std::tie(x, steps) = decoder(x, steps, nd.array({1}));
  CHECK(x.shape() == Shape(1, 1, 16));
}

TEST_CASE("guide: engine", "[docs]") {
  Engine::process_default();
  CHECK_THROWS_AS(Engine::set_default_options({.threads = 4}), StateError);  // too late: the engine exists
  Engine serial({.threads = 0});
  NDArray x;
  {
    EngineScope scope(serial);
    x = nd.ones({2});
  }
  NDArray y = x + 1;
  CHECK(&y.engine() == &serial);
  CHECK_THROWS_AS(x + nd.ones({2}), DeviceError);  // an array of the default engine
}

namespace {

struct Cube {  // y = scale x^3
  double scale = 1;
  static constexpr OpTraits traits{.name = "cube", .in_mxnet = false};
  static constexpr void fields(auto field) { field("scale", &Cube::scale); }
  static const OpDef def;
  void infer(InferContext& c) const {  // checks inputs, gives the outputs' shapes and dtypes
    if (c.dtype() != DType::float32) c.fail_dtype("expected float32");
    c.set_output(c.shape(0), c.dtype());
  }
  void grad(GradContext& g) const {  // written in operators
    if (g.wants(0)) g.set(0, g.head() * 3 * scale * nd.square(g.input(0)));
  }
};
void run_cpu(const Cube& op, KernelContext& c) {
  const float* x = c.in(0).as<float>();
  float* y = c.out().as<float>();
  for (int64_t i = 0; i < c.out().size(); ++i) y[i] = float(op.scale) * x[i] * x[i] * x[i];
}
constinit const OpDef Cube::def = make_op_def<Cube>();

struct CubeNet : gluon::HybridBlock<CubeNet> {
  auto hybrid_forward(auto F, auto x) { return F.call(Cube{.scale = 2}, x); }
};

}  // namespace

TEST_CASE("guide: operators", "[docs]") {
  NDArray x = nd.array({1, 2});
  x.attach_grad();
  CubeNet net;
  net.hybridize({.verify = 1});
  NDArray y = autograd::record([&] { return net(x); });
  y.backward();
  CHECK(y.asvector<float>() == std::vector<float>{2, 16});
  CHECK(x.grad().asvector<float>() == std::vector<float>{6, 24});
  CHECK_THROWS_AS(nd.call(Cube{}, nd.zeros({2}, {.dtype = DType::int32})), TypeError);
  CHECK_THROWS_AS(net.export_model("cube"), ValueError);
}

TEST_CASE("guide: operators that files name", "[docs]") {
  NDArray x = nd.array({1, 2});
  x.attach_grad();
  // clang-format off
  register_custom_operator("swish", {.compose = [](const CustomAttributes& attributes, ComposeContext& c) {
    const auto beta = attributes.find("beta");
    const double scale = beta == attributes.end() ? 1 : std::stod(beta->second);
    c.set(c.input() * nd.sigmoid(scale * c.input()));
  }});
  NDArray y = nd.Custom(x, "swish", {{"beta", "2"}});
  // clang-format on
  const auto swish = [](double v) { return v / (1 + std::exp(-2 * v)); };
  CHECK(y.asvector<float>()[1] == Approx(swish(2)));
  autograd::record([&] { return nd.Custom(x, "swish", {{"beta", "2"}}); }).backward();
  CHECK(x.grad().asvector<float>()[0] == Approx((swish(1.001) - swish(0.999)) / 0.002).epsilon(1e-3));

  const std::string json = sym.Custom(sym.var("data"), "swish", {{"beta", "2"}}).tojson();
  CHECK_THAT(json, Catch::Matchers::Contains("\"op_type\": \"swish\"") && Catch::Matchers::Contains("\"beta\": \"2\""));
  gluon::SymbolBlock net(Symbol::load_json(json), {"data"});
  CHECK(net(x).asvector<float>() == y.asvector<float>());
  net.hybridize({.verify = 1});
  CHECK(net(x).asvector<float>() == y.asvector<float>());

  std::string other = json;
  other.replace(other.find("swish"), 5, "mish?");
  CHECK_THROWS_WITH(Symbol::load_json(other), Catch::Matchers::Contains("op_type 'mish?' is not registered") &&
                                                  Catch::Matchers::Contains("swish"));
  CHECK_THROWS_AS(register_custom_operator("swish", {.compose = [](const CustomAttributes&, ComposeContext&) {}}),
                  ValueError);
  CHECK_THROWS_AS(register_custom_operator("nothing", {}), ValueError);
}

}  // namespace guide_test
