// What Convolution and FullyConnected take in: BatchNorm, sums, activations.
#include "kaon/graph/plan_ops/batch_norm_affine.h"
#include "kaon/ops/kernels/epilogue.h"
#include "kaon/tests/graph/passes/passes_support.h"

namespace passes_layers_test {

using namespace kaon;
using namespace kaon::graph;
using namespace kaon::test;
using Catch::Matchers::Contains;

namespace {

Graph all(Graph g, bool training) {
  g = passes::fold_batch_norm(std::move(g), training);
  g = passes::fuse_sum(std::move(g), training);
  return passes::fuse_activation(std::move(g), training);
}
Graph all(Graph g) { return all(std::move(g), false); }

// What became part of the only layer of a graph.
std::string fused(const Graph& g) {
  std::string text;
  for (const Node& n : g.nodes) {
    if (n.op == &op::Convolution::def) text += to_text(static_cast<const op::Convolution*>(n.attrs.get())->post_ops);
    if (n.op == &op::FullyConnected::def)
      text += to_text(static_cast<const op::FullyConnected*>(n.attrs.get())->post_ops);
  }
  return text;
}

// A layer, or two, with the parameters of a BatchNorm; r has the shape of the result.
const std::vector<std::string> names{"x", "w", "b", "gamma", "beta", "mean", "var", "r"};
struct Variables {
  Symbol x = sym.var("x"), w = sym.var("w"), b = sym.var("b"), gamma = sym.var("gamma"), beta = sym.var("beta"),
         mean = sym.var("mean"), var = sym.var("var"), r = sym.var("r");
  Symbol norm(const Symbol& y, op::BatchNorm op = {.fix_gamma = false}) const {
    return sym.BatchNorm(y, gamma, beta, mean, var, op);
  }
};

std::vector<NDArray> arrays(const Shape& x, const Shape& w, const Shape& result, DType t = DType::float32) {
  const Shape channels(w[0]);
  std::vector<NDArray> all{
      numbers(x, 1),        numbers(w, 2),        numbers(channels, 3),       numbers(channels, 4) + 2,
      numbers(channels, 5), numbers(channels, 6), numbers(channels, 7) + 1.5, numbers(result, 8)};
  for (NDArray& a : all) a = a.astype(t);
  return all;
}

struct Case {
  const char* what;
  op::Convolution op;
  Shape x, w, y;
  int channels() const { return is_channels_last(op.layout) ? -1 : 1; }  // the axis
};
const std::vector<Case>& convolutions() {
  static const std::vector<Case> cases{
      {"3x3", {.kernel = {3, 3}, .pad = {1, 1}, .num_filter = 6}, {2, 3, 7, 5}, {6, 3, 3, 3}, {2, 6, 7, 5}},
      {"1x1, 17 channels", {.kernel = {1, 1}, .num_filter = 17}, {3, 16, 4, 4}, {17, 16, 1, 1}, {3, 17, 4, 4}},
      {"strided", {.kernel = {3, 3}, .stride = {2, 2}, .num_filter = 32}, {1, 16, 9, 9}, {32, 16, 3, 3}, {1, 32, 4, 4}},
      {"groups", {.kernel = {3, 3}, .num_filter = 8, .num_group = 4}, {2, 8, 5, 5}, {8, 2, 3, 3}, {2, 8, 3, 3}},
      {"one axis", {.kernel = {3}, .num_filter = 5}, {2, 4, 9}, {5, 4, 3}, {2, 5, 7}},
      {"three axes", {.kernel = {2, 2, 2}, .num_filter = 4}, {2, 3, 4, 4, 4}, {4, 3, 2, 2, 2}, {2, 4, 3, 3, 3}},
      {"no images", {.kernel = {3, 3}, .num_filter = 4}, {0, 3, 5, 5}, {4, 3, 3, 3}, {0, 4, 3, 3}},
      {"many images",
       {.kernel = {3, 3}, .pad = {1, 1}, .num_filter = 64},
       {5, 64, 20, 20},
       {64, 64, 3, 3},
       {5, 64, 20, 20}},
      {"channels last",
       {.kernel = {3, 3}, .pad = {1, 1}, .num_filter = 17, .layout = ConvLayout::NHWC},
       {2, 7, 5, 16},
       {17, 3, 3, 16},
       {2, 7, 5, 17}},
      {"channels last, groups",
       {.kernel = {3, 3}, .num_filter = 8, .num_group = 4, .layout = ConvLayout::NHWC},
       {2, 5, 5, 8},
       {8, 3, 3, 2},
       {2, 3, 3, 8}},
      {"channels last, one axis",
       {.kernel = {3}, .num_filter = 5, .layout = ConvLayout::NWC},
       {2, 9, 4},
       {5, 3, 4},
       {2, 7, 5}},
      {"channels last, three axes",
       {.kernel = {2, 2, 2}, .num_filter = 4, .layout = ConvLayout::NDHWC},
       {2, 4, 4, 4, 3},
       {4, 2, 2, 2, 3},
       {2, 3, 3, 3, 4}},
  };
  return cases;
}

}  // namespace

TEST_CASE("post-ops: their text is read back; a call with it is refused") {
  for (bool scale : {false, true}) {
    for (bool addend : {false, true}) {
      for (FusedActivation a : {FusedActivation::none, FusedActivation::relu, FusedActivation::tanh}) {
        const PostOps f{scale, addend, a};
        PostOps back;
        CHECK(from_text(to_text(f), back));
        CHECK(back == f);
      }
    }
  }
  PostOps f;
  CHECK_FALSE(from_text("scale+scale", f));
  CHECK(to_text(PostOps{true, true, FusedActivation::relu}) == "scale+addend+relu");
  CHECK_THROWS_WITH(nd.FullyConnected(nd.ones({2, 3}), nd.ones({4, 3}),
                                      {.num_hidden = 4, .post_ops = {.activation = FusedActivation::relu}}),
                    Contains("[FullyConnected] __post_ops__"));
  CHECK_THROWS_WITH(
      nd.Convolution(nd.ones({1, 1, 3, 3}), nd.ones({1, 1, 3, 3}),
                     {.kernel = {3, 3}, .num_filter = 1, .post_ops = {.activation = FusedActivation::relu}}),
      Contains("[Convolution] __post_ops__"));
}

TEST_CASE("layers: Convolution, BatchNorm, sum and activation are one node", "[arithmetic]") {
  const Variables v;
  for (const Case& c : convolutions()) {
    for (DType t : {DType::float32, DType::float64, DType::float16}) {
      for (bool no_bias : {false, true}) {
        for (bool fix_gamma : {false, true}) {
          INFO(c.what << " " << name_of(t) << (no_bias ? ", no bias" : "") << (fix_gamma ? ", gamma fixed" : ""));
          Symbol conv = no_bias ? sym.Convolution(v.x, v.w, c.op) : sym.Convolution(v.x, v.w, v.b, c.op);
          Symbol norm = v.norm(conv, {.eps = 2e-3, .fix_gamma = fix_gamma, .axis = c.channels()});
          const std::vector<NDArray> inputs = arrays(c.x, c.w, c.y, t);
          auto check = [&](const Symbol& s, const char* expected) {
            Graph after = check_pass([](Graph g) { return all(g); }, traced(s, names, inputs), inputs);
            CHECK(fused(after) == expected);
            CHECK(operators(after) == 1 + count(after, "_batch_norm_affine"));
            for (const Node& n : after.nodes) {
              if (n.op != &op::BatchNormAffine::def) continue;
              CHECK(n.outputs[0].dtype == (t == DType::float64 ? t : DType::float32));
            }
          };
          check(norm, "scale");
          check(sym.relu(norm + v.r), "scale+addend+relu");
          if (fix_gamma) continue;  // no BatchNorm below
          check(sym.tanh(v.r + conv), "addend+tanh");
          check(sym.Activation(conv, {.act_type = ActivationType::sigmoid}), "sigmoid");
          check(sym.add_n(v.r, norm), "scale+addend");
        }
      }
    }
  }
}

TEST_CASE("layers: FullyConnected, BatchNorm, sum and activation are one node") {
  const Variables v;
  struct Size {
    Shape x;
    int hidden;
    bool flatten;
  };
  for (const Size& s :
       {Size{{4, 3}, 5, true}, Size{{1, 70}, 33, true}, Size{{2, 3, 4}, 7, false}, Size{{2, 3, 4}, 7, true},
        Size{{0, 3}, 2, true}, Size{{33, 64}, 1, true}, Size{{300, 130}, 260, true}, Size{{1, 5000}, 130, true}}) {
    for (DType t : {DType::float32, DType::float64, DType::bfloat16}) {
      for (bool no_bias : {false, true}) {
        INFO(s.x.str() << " to " << s.hidden << " " << name_of(t) << (no_bias ? ", no bias" : ""));
        const op::FullyConnected op{.num_hidden = s.hidden, .flatten = s.flatten};
        const int64_t inner = s.flatten ? s.x.product(1, s.x.ndim()) : s.x.back();
        Shape y = s.flatten ? Shape(s.x[0], s.hidden) : s.x;
        y[y.ndim() - 1] = s.hidden;
        Symbol dense = no_bias ? sym.FullyConnected(v.x, v.w, op) : sym.FullyConnected(v.x, v.w, v.b, op);
        Symbol norm = v.norm(dense, {.fix_gamma = false, .axis = s.flatten ? 1 : -1});
        std::vector<NDArray> inputs = arrays(s.x, Shape(s.hidden, inner), y, t);
        inputs[1] = (inputs[1] / std::sqrt(double(inner))).astype(t);
        auto check = [&](const Symbol& symbol, const char* expected) {
          Graph after = check_pass([](Graph g) { return all(g); }, traced(symbol, names, inputs), inputs);
          CHECK(fused(after) == expected);
        };
        check(norm, "scale");
        check(sym.sigmoid(norm + v.r), "scale+addend+sigmoid");
        check(sym.relu(v.r + dense), "addend+relu");
        check(sym.tanh(dense), "tanh");
      }
    }
  }
}

TEST_CASE("layers: NaN and infinities pass a fused activation as they pass it alone") {
  const Variables v;
  const float nan = std::numeric_limits<float>::quiet_NaN(), inf = std::numeric_limits<float>::infinity();
  std::vector<NDArray> inputs = arrays({1, 16, 4, 4}, {16, 16, 1, 1}, {1, 16, 4, 4});
  std::vector<float> values(size_t(inputs[7].size()), -1);
  values[0] = nan, values[1] = inf, values[2] = -inf, values[37] = nan;
  inputs[7] = nd.array(values, inputs[7].shape());
  Symbol conv = sym.Convolution(v.x, v.w, v.b, {.kernel = {1, 1}, .num_filter = 16});
  Graph before = traced(sym.relu(v.r + conv), names, inputs);
  const auto want = floats(evaluate(before, inputs)[0]), got = floats(evaluate(all(before), inputs)[0]);
  for (size_t i : {0, 37}) CHECK((std::isnan(want[i]) && std::isnan(got[i])));
  CHECK(got[1] == inf);
  CHECK(got[2] == 0);
  CHECK(std::count_if(got.begin(), got.end(), [](float x) { return std::isnan(x); }) == 2);
}

TEST_CASE("fold_batch_norm: only by moving statistics, along the channels, of what nobody else reads") {
  const Variables v;
  const std::vector<NDArray> inputs = arrays({2, 3, 4, 4}, {4, 3, 1, 1}, {2, 4, 4, 4});
  Symbol conv = sym.Convolution(v.x, v.w, v.b, {.kernel = {1, 1}, .num_filter = 4});
  auto left = [&](const Symbol& s, bool training = false) {
    Graph g = passes::fold_batch_norm(traced(s, names, inputs), training);
    g.validate();
    return count(g, "BatchNorm");
  };
  CHECK(left(v.norm(conv)) == 0);
  CHECK(left(v.norm(conv), true) == 1);
  CHECK(left(v.norm(conv, {.use_global_stats = true}), false) == 0);
  CHECK(left(v.norm(conv, {.axis = -3})) == 0);
  CHECK(left(v.norm(conv, {.axis = 2})) == 1);
  CHECK(left(v.norm(conv, {.axis = 3})) == 1);
  CHECK(left(Symbol::group({v.norm(conv), conv})) == 1);
  CHECK(left(v.norm(sym.relu(conv))) == 1);
  CHECK(left(v.norm(v.r)) == 1);
  auto again = [](Graph g) { return count(passes::fold_batch_norm(all(std::move(g)), false), "BatchNorm"); };
  CHECK(again(traced(v.norm(v.norm(conv)), names, inputs)) == 1);  // a layer takes in one
  CHECK(again(traced(v.norm(sym.relu(conv)), names, inputs)) == 1);
  Graph hidden = traced(v.norm(conv), names, inputs);
  hidden.outputs.push_back({hidden.outputs[0].node, 1});  // the mean
  CHECK(again(hidden) == 1);
  // what a gradient needs stays
  Graph recorded = with_gradient(traced(v.norm(conv), names, inputs), std::vector<bool>(8, true));
  Graph after = check_pass([](Graph g) { return all(g); }, recorded, inputs);
  CHECK(count(after, "BatchNorm") == 1);
}

TEST_CASE("fold_batch_norm: each run reads the parameters as they are") {
  const Variables v;
  Symbol conv = sym.Convolution(v.x, v.w, v.b, {.kernel = {3, 3}, .pad = {1, 1}, .num_filter = 16});
  Symbol program = sym.relu(v.norm(conv) + v.r);
  CachedGraph graph(program, names, {.static_alloc = true}, "block");
  CachedGraph exact(program, names, {.exact = true}, "block");
  std::vector<NDArray> inputs = arrays({2, 16, 6, 6}, {16, 16, 3, 3}, {2, 16, 6, 6});
  require_within_bounds(call(graph, inputs), call(exact, inputs), 1);
  for (size_t i = 1; i < 7; ++i) {
    INFO(names[i]);
    const NDArray before = call(graph, inputs)[0].copy();
    inputs[i] *= 1.25;
    auto got = call(graph, inputs);
    CHECK_FALSE(same_bits(got[0], before));
    require_within_bounds(got, call(exact, inputs), 1);
  }
  const Graph& g = graph.plan()->graph();
  CHECK(count(g, "BatchNorm") == 0);
  CHECK(fused(g) == "scale+addend+relu");
  CHECK(count(exact.plan()->graph(), "BatchNorm") == 1);
  CHECK(graph.stats().misses == 1);
}

TEST_CASE("fold_batch_norm: a recorded prediction and training in between keep their BatchNorm") {
  const Variables v;
  Symbol conv = sym.Convolution(v.x, v.w, v.b, {.kernel = {1, 1}, .num_filter = 4});
  CachedGraph graph(sym.relu(v.norm(conv)), {"x", "w", "b", "gamma", "beta", "mean", "var"}, {}, "norm");
  std::vector<NDArray> inputs = arrays({2, 3, 4, 4}, {4, 3, 1, 1}, {1});
  inputs.pop_back();
  inputs[1].attach_grad();
  auto imperative = [&] {
    NDArray y = nd.Convolution(inputs[0], inputs[1], inputs[2], {.kernel = {1, 1}, .num_filter = 4});
    return nd.relu(nd.BatchNorm(y, inputs[3], inputs[4], inputs[5], inputs[6], {.fix_gamma = false}));
  };
  require_within_bounds({call(graph, inputs)}, {imperative()}, 1);
  CHECK(count(graph.plan()->graph(), "BatchNorm") == 0);
  for (bool training : {false, true, false}) {
    std::vector<NDArray> statistics{inputs[5].copy(), inputs[6].copy()};
    auto run = [&](bool planned) {
      inputs[5].assign(statistics[0]);
      inputs[6].assign(statistics[1]);
      auto forward = [&] { return planned ? call(graph, inputs)[0] : imperative(); };
      NDArray y = training ? autograd::record(forward) : autograd::record(forward, false);
      y.backward();
      return std::vector{y, inputs[5].copy(), inputs[6].copy(), inputs[1].grad().copy()};
    };
    const auto want = run(false), got = run(true);
    require_within_bounds(got, want, 3);
    CHECK(same_bits(got[1], statistics[0]) == !training);
  }
}

TEST_CASE("dense_products: dot with the rows of a matrix is FullyConnected, bit for bit") {
  Symbol x = sym.var("x"), w = sym.var("w");
  auto dense = [&](const Symbol& s, const Shape& a, const Shape& b, DType t = DType::float32) {
    const std::vector<NDArray> inputs{numbers(a, 1).astype(t), numbers(b, 2).astype(t)};
    Graph before = traced(s, {"x", "w"}, inputs);
    check_pass(passes::dense_products, with_gradient(before, {true, true}), inputs, true);
    Graph after = check_pass(passes::dense_products, before, inputs, true);
    const size_t found = count(after, "FullyConnected");
    CHECK((after.str().find("no_bias=True, flatten=False") != std::string::npos) == (found == 1));
    return found;
  };
  Symbol rows = sym.dot(x, w, {.transpose_b = true});
  for (DType t : {DType::float32, DType::float64, DType::float16}) {
    CHECK(dense(rows, {4, 3}, {5, 3}, t) == 1);
    CHECK(dense(rows, {1, 3}, {5, 3}, t) == 1);
    CHECK(dense(rows, {3}, {5, 3}, t) == 1);
    CHECK(dense(rows, {2, 4, 3}, {5, 3}, t) == 1);
    CHECK(dense(rows, {0, 3}, {5, 3}, t) == 1);
    CHECK(dense(rows, {4, 3}, {0, 3}, t) == 1);
    CHECK(dense(rows, {4, 0}, {5, 0}, t) == 1);
  }
  CHECK(dense(rows, {4, 3}, {2, 5, 3}) == 0);
  CHECK(dense(rows, {4, 3}, {3}) == 0);
  CHECK(dense(sym.dot(x, w), {4, 3}, {3, 5}) == 0);
  CHECK(dense(sym.dot(x, w, {.transpose_a = true, .transpose_b = true}), {3, 4}, {5, 3}) == 0);
}

TEST_CASE("fuse_bias: one number per channel, where there is no bias") {
  const Variables v;
  Symbol conv = sym.Convolution(v.x, v.w, {.kernel = {3, 3}, .num_filter = 6});
  Symbol dense = sym.FullyConnected(v.x, v.w, {.num_hidden = 6, .flatten = false});
  Symbol biased = sym.FullyConnected(v.x, v.w, v.b, {.num_hidden = 6, .flatten = false});
  auto pass = [](Graph g) { return passes::fuse_bias(std::move(g), false); };
  // operators that are left, with r of this shape
  auto left = [&](const Symbol& s, const Shape& x, const Shape& w, const Shape& r) {
    const std::vector<NDArray> inputs = arrays(x, w, r);
    Graph before = traced(s, names, inputs);
    check_pass(pass, with_gradient(before, {true, true, false, false, false, false, false, true}), inputs);
    Graph after = check_pass(pass, before, inputs);
    return operators(after);
  };
  const Shape image(2, 3, 5, 5), window(6, 3, 3, 3), matrix(4, 5), weight(6, 5), cube(2, 4, 5);
  CHECK(left(sym.broadcast_add(conv, v.r), image, window, {1, 6, 1, 1}) == 1);
  CHECK(left(sym.relu(v.r + conv), image, window, {6, 1, 1}) == 2);
  CHECK(left(sym.broadcast_add(conv, v.r), image, window, {1, 1, 3, 1}) == 2);
  CHECK(left(sym.broadcast_add(conv, v.r), image, window, {2, 6, 1, 1}) == 2);
  CHECK(left(sym.broadcast_add(conv, v.r), image, window, {1, 1, 1, 1}) == 2);
  CHECK(left(sym.broadcast_add(conv, v.r), image, window, {3}) == 2);
  CHECK(left(dense + v.r, matrix, weight, {6}) == 1);
  CHECK(left(dense + v.r, matrix, weight, {1, 6}) == 1);
  CHECK(left(dense + v.r, cube, weight, {1, 1, 6}) == 1);
  CHECK(left(dense + v.r, cube, weight, {4, 6}) == 2);
  CHECK(left(dense + v.r, {1, 5}, weight, {3, 6}) == 2);  // the sum is larger
  CHECK(left(dense + v.r, {5}, weight, {6}) == 1);
  CHECK(left(biased + v.r, matrix, weight, {6}) == 2);
  CHECK(left(dense + v.r + v.r, matrix, weight, {6}) == 2);
  CHECK(left(Symbol::group({dense + v.r, dense}), matrix, weight, {6}) == 2);
  CHECK(left(v.r + sym.dot(v.x, v.w, {.transpose_b = true}), matrix, weight, {6}) == 2);  // before dense_products
}

TEST_CASE("layers: dot with the rows of a matrix, its bias, a sum and an activation are one node of a plan") {
  const Variables v;
  Symbol y = sym.tanh(sym.dot(v.x, v.w, {.transpose_b = true}) + v.b + v.r);
  CachedGraph graph(y, {"x", "w", "b", "r"}, {}, "dense");
  std::vector<NDArray> inputs = arrays({7, 5}, {6, 5}, {7, 6});
  inputs.erase(inputs.begin() + 3, inputs.begin() + 7);
  const NDArray want = nd.tanh(nd.dot(inputs[0], inputs[1], {.transpose_b = true}) + inputs[2] + inputs[3]);
  require_within_bounds(call(graph, inputs), {want}, 1);
  CHECK(operators(graph.plan()->graph()) == 1);
  CHECK(fused(graph.plan()->graph()) == "addend+tanh");
}

TEST_CASE("fuse_sum: the later of two layers takes the sum in; what broadcasts or is read twice does not") {
  const Variables v;
  const std::vector<NDArray> inputs = arrays({2, 4, 4, 4}, {4, 4, 1, 1}, {2, 4, 4, 4});
  const op::Convolution op{.kernel = {1, 1}, .num_filter = 4};
  Symbol first = sym.Convolution(v.x, v.w, v.b, op), second = sym.Convolution(sym.tanh(v.x), v.w, op);
  auto after = [&](const Symbol& s) {
    return check_pass([](Graph g) { return passes::fuse_sum(std::move(g), false); }, traced(s, names, inputs), inputs);
  };
  for (const Symbol& sum : {first + second, second + first}) {
    Graph g = after(sum);
    CHECK(fused(g) == "noneaddend");
    CHECK(static_cast<const op::Convolution*>(g.nodes.back().attrs.get())->no_bias);  // the second
  }
  CHECK(fused(after(first + v.x)) == "addend");
  CHECK(fused(after(first + sym.sigmoid(v.x))) == "addend");
  CHECK(fused(after(first + v.x + v.r)) == "addend");  // one of the two sums
  CHECK(fused(after(sym.add_n(first, v.x, v.r))) == "none");
  CHECK(fused(after(sym.broadcast_add(first, sym.reshape(v.b, {1, 4, 1, 1})))) == "none");
  CHECK(fused(after(first + first)) == "none");
  CHECK(fused(after(Symbol::group({first + v.x, first}))) == "none");
  CHECK(fused(after(first * v.x)) == "none");
  CHECK(fused(after(sym.relu(first) + v.x)) == "none");
  CHECK(fused(all(all(traced(sym.relu(first) + v.x, names, inputs)))) == "relu");
  CHECK(fused(all(all(traced(sym.tanh(sym.relu(first)), names, inputs)))) == "relu");
}

TEST_CASE("fuse_sum: a residual block and its gradients") {
  const Variables v;
  const op::Convolution op{.kernel = {3, 3}, .pad = {1, 1}, .num_filter = 16};
  Symbol h = sym.relu(sym.Convolution(v.x, v.w, v.b, op));
  Symbol y = sym.relu(sym.Convolution(h, v.w, v.b, op) + v.x);
  const std::vector<NDArray> inputs = arrays({3, 16, 5, 5}, {16, 16, 3, 3}, {1});
  Graph before = with_gradient(traced(y, names, inputs), {true, true, true, false, false, false, false, false});
  Graph after = check_pass([](Graph g) { return all(g, true); }, before, inputs, false, {.training = true});
  CHECK(fused(after) == "reluaddend+relu");
  check_pass([](Graph g) { return channels_last(all(std::move(g), true)); }, before, inputs, false, {.training = true});
}

TEST_CASE("fuse_sum: the result takes the addend's memory when nobody else needs it") {
  const Variables v;
  for (const Case& c : convolutions()) {
    for (DType t : {DType::float32, DType::float64, DType::float16}) {
      for (bool in_blocks : {false, true}) {
        if (in_blocks && (c.x.ndim() != 4 || t != DType::float32)) continue;
        INFO(c.what << " " << name_of(t) << (in_blocks ? ", channels last" : ""));
        Symbol addend = sym.exp(v.r);
        Symbol sum = sym.Convolution(v.x, v.w, v.b, c.op) + addend;
        const std::vector<NDArray> inputs = arrays(c.x, c.w, c.y, t);
        auto pass = [&](Graph g) {
          g = all(std::move(g));
          return in_blocks ? channels_last(std::move(g)) : g;
        };
        Graph after = check_pass(pass, traced(sum * 2, names, inputs), inputs);
        auto shares = [&](const Graph& g) {
          const MemoryPlan memory = plan_memory(g);
          memory.check(g);
          for (uint32_t i = 0; i < g.nodes.size(); ++i) {
            if (g.nodes[i].op == &op::Convolution::def) return memory.slots[i][0].root.node != i;
          }
          return false;
        };
        CHECK(shares(after));
        Graph kept = check_pass(pass, traced(Symbol::group({sum * 2, sym.tanh(addend)}), names, inputs), inputs);
        CHECK(shares(kept) == (count(kept, "_reorder") > 0));  // a copy in another layout may be taken over
      }
    }
  }
}

TEST_CASE("layers: a residual block with BatchNorm in both branches, planned, in every mode") {
  struct Parameters {
    std::vector<std::string> names{"x"};
    std::vector<NDArray> values;
  } p;
  p.values.push_back(numbers({2, 16, 8, 8}, 1));
  uint32_t seed = 10;
  auto add = [&](const std::string& name, const NDArray& value) {
    p.names.push_back(name);
    p.values.push_back(value);
  };
  for (const char* layer : {"c1", "c2", "s"}) {
    const std::string name = layer;
    add(name + "_w", numbers(name == "s"    ? Shape(32, 16, 1, 1)
                             : name == "c1" ? Shape(32, 16, 3, 3)
                                            : Shape(32, 32, 3, 3),
                             ++seed) *
                         0.2);
    add(name + "_gamma", numbers({32}, ++seed) + 1.5);
    add(name + "_beta", numbers({32}, ++seed));
    add(name + "_mean", numbers({32}, ++seed));
    add(name + "_var", numbers({32}, ++seed) + 1.5);
  }
  auto program = [](auto F, const auto& in) {
    auto layer = [&](const auto& x, size_t first, const op::Convolution& op) {
      return F.BatchNorm(F.Convolution(x, in[first], op), in[first + 1], in[first + 2], in[first + 3], in[first + 4],
                         {.fix_gamma = false});
    };
    auto h = F.relu(layer(in[0], 1, {.kernel = {3, 3}, .stride = {2, 2}, .pad = {1, 1}, .num_filter = 32}));
    auto y = layer(h, 6, {.kernel = {3, 3}, .pad = {1, 1}, .num_filter = 32});
    auto shortcut = layer(in[0], 11, {.kernel = {1, 1}, .stride = {2, 2}, .num_filter = 32});
    return F.relu(y + shortcut);
  };
  std::vector<Symbol> variables;
  for (const std::string& name : p.names) variables.push_back(sym.var(name));
  CachedGraph graph(program(sym, variables), p.names, {.static_alloc = true}, "block");
  CachedGraph exact(program(sym, variables), p.names, {.exact = true}, "block");
  for (int time = 0; time < 2; ++time) {
    const NDArray want = program(nd, p.values);
    CHECK(same_bits(call(exact, p.values)[0], want));
    require_within_bounds(call(graph, p.values), {want}, 1);
  }
  const Graph& g = graph.plan()->graph();
  CHECK(count(g, "BatchNorm") + count(g, "relu") + count(g, "broadcast_add") == 0);
  CHECK(count(g, "Convolution") == 3);
  for (size_t i : {1, 6, 11}) p.values[i].attach_grad();
  auto train = [&](auto&& forward) {
    std::vector<NDArray> result{autograd::record(forward)};
    result[0].backward();
    for (size_t i : {1, 6, 11}) result.push_back(p.values[i].grad().copy());
    return result;
  };
  const auto want = train([&] { return program(nd, p.values); });
  require_within_bounds(train([&] { return call(graph, p.values)[0]; }), want, 1);
  const auto bits = train([&] { return call(exact, p.values)[0]; });
  for (size_t i = 0; i < want.size(); ++i) CHECK(same_bits(bits[i], want[i]));
}

}  // namespace passes_layers_test
