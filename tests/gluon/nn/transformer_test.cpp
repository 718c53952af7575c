// Attention and the transformer's encoder block: values, gradients, masks, both modes, files.
#include "kaon/gluon/nn/transformer.h"

#include "kaon/gluon/summary.h"
#include "kaon/gluon/symbol_block.h"
#include "kaon/tests/gluon/hybrid/hybrid_support.h"
#include "kaon/tests/support/files.h"

namespace transformer_test {

using namespace kaon;
using namespace kaon::test;
using Catch::Matchers::Contains;

namespace {

using Matrix = std::vector<std::vector<double>>;

Matrix rows_of(const NDArray& x, int64_t sample) {
  const int64_t rows = x.shape()[1], columns = x.shape()[2];
  auto v = values(x[sample]);
  Matrix m;
  for (int64_t i = 0; i < rows; ++i) m.emplace_back(v.begin() + i * columns, v.begin() + (i + 1) * columns);
  return m;
}

// x W^T + b
Matrix project(const Matrix& x, const nn::Dense& dense) {
  auto w = values(dense.weight.data());
  auto b = dense.bias.defined() ? values(dense.bias.data()) : std::vector<double>(size_t(dense.weight.shape()[0]));
  Matrix y;
  for (const auto& row : x) {
    y.push_back(b);
    for (size_t j = 0; j < b.size(); ++j) {
      for (size_t k = 0; k < row.size(); ++k) y.back()[j] += row[k] * w[j * row.size() + k];
    }
  }
  return y;
}

void normalize(std::vector<double>& row, const nn::LayerNorm& norm) {
  double mean = 0, var = 0;
  for (double v : row) mean += v / double(row.size());
  for (double v : row) var += (v - mean) * (v - mean) / double(row.size());
  auto gamma = values(norm.gamma.data()), beta = values(norm.beta.data());
  for (size_t i = 0; i < row.size(); ++i) row[i] = gamma[i] * (row[i] - mean) / std::sqrt(var + 1e-5) + beta[i];
}

// One sample of the attention as the formula says it; mask(i, j): may query i look at j?
template <class Mask>
Matrix attention(const nn::MultiHeadAttentionCell& cell, int heads, const Matrix& query, const Matrix& key,
                 const Matrix& value, Mask mask) {
  Matrix q = project(query, cell.proj_query), k = project(key, cell.proj_key), v = project(value, cell.proj_value);
  const size_t units = size_t(cell.proj_query.weight.shape()[0]), width = units / size_t(heads);
  Matrix y(q.size(), std::vector<double>(units));
  for (size_t h = 0; h < units; h += width) {
    for (size_t i = 0; i < q.size(); ++i) {
      std::vector<double> weights(k.size());
      double sum = 0;
      for (size_t j = 0; j < k.size(); ++j) {
        double score = 0;
        for (size_t d = h; d < h + width; ++d) score += q[i][d] * k[j][d];
        weights[j] = mask(i, j) ? std::exp(score / std::sqrt(double(width))) : 0;
        sum += weights[j];
      }
      for (size_t j = 0; j < k.size() && sum > 0; ++j) {
        for (size_t d = h; d < h + width; ++d) y[i][d] += weights[j] / sum * v[j][d];
      }
    }
  }
  return y;
}

Matrix encoder(const nn::TransformerEncoderCell& cell, int heads, const Matrix& x, int64_t valid) {
  Matrix h = project(
      attention(cell.attention_cell, heads, x, x, x, [&](size_t, size_t j) { return j < size_t(valid); }), cell.proj);
  for (size_t i = 0; i < h.size(); ++i) {
    for (size_t j = 0; j < h[i].size(); ++j) h[i][j] += x[i][j];
    normalize(h[i], cell.layer_norm);
  }
  Matrix inside = project(h, cell.ffn.ffn_1);
  for (auto& row : inside) {
    for (double& v : row) v *= 0.5 * (1 + std::erf(v / std::sqrt(2.0)));
  }
  Matrix y = project(inside, cell.ffn.ffn_2);
  for (size_t i = 0; i < y.size(); ++i) {
    for (size_t j = 0; j < y[i].size(); ++j) y[i][j] += h[i][j];
    normalize(y[i], cell.ffn.layer_norm);
  }
  return y;
}

void require_sample(const NDArray& y, int64_t sample, const Matrix& expected) {
  std::vector<double> flat;
  for (const auto& row : expected) flat.insert(flat.end(), row.begin(), row.end());
  require_close(y[sample], flat, 1e-4, 1e-5);
}

// Every parameter a little off its initial value: gammas that are 1 and biases that are 0 hide mistakes.
template <class B>
B stirred(B block, uint32_t seed = 7) {
  random::seed(seed);
  block.initialize(init::Xavier());
  for (gluon::Parameter p : block.collect_params()) {
    p.set_data(p.data() + (numbers(p.shape(), ++seed) * 0.3).astype(p.dtype()));
  }
  return block;
}

nn::TransformerEncoderCell small_encoder(double dropout = 0) {
  return nn::TransformerEncoderCell(6, 10, 2, {.dropout = dropout});
}

struct MaskedEncoder : gluon::HybridBlock<MaskedEncoder> {
  nn::TransformerEncoderCell cell;
  explicit MaskedEncoder(double dropout = 0) : cell(child("cell", small_encoder(dropout))) {}
  auto hybrid_forward(auto F, auto x, auto valid_length) { return cell(x, nn::valid_length_mask(F, x, valid_length)); }
};

}  // namespace

TEST_CASE("attention: the values of its formula, with and without a mask", "[gluon]") {
  for (int heads : {1, 2, 3}) {
    nn::MultiHeadAttentionCell cell(6, heads, {.use_bias = heads != 2});
    cell.initialize(init::Xavier());
    NDArray query = numbers({2, 3, 4}, 1), key = numbers({2, 5, 7}, 2), value = numbers({2, 5, 2}, 3);
    cell(query, key, value);  // completes parameters
    cell = stirred(cell);
    NDArray mask = nd.greater(numbers({2, 3, 5}, 4), 0);
    mask.slice_assign({0, 1, 0}, {1, 2, 5}, 0);  // one query that may look nowhere
    for (bool hybridized : {false, true}) {
      INFO(heads << (hybridized ? " heads, hybridized" : " heads, imperative"));
      cell.hybridize(hybridized);
      NDArray y = cell(query, key, value), masked = cell(query, key, value, mask);
      REQUIRE(y.shape() == Shape(2, 3, 6));
      for (int64_t n : {0, 1}) {
        Matrix q = rows_of(query, n), k = rows_of(key, n), v = rows_of(value, n), allowed = rows_of(mask, n);
        require_sample(y, n, attention(cell, heads, q, k, v, [](size_t, size_t) { return true; }));
        require_sample(masked, n, attention(cell, heads, q, k, v, [&](size_t i, size_t j) { return allowed[i][j]; }));
      }
      require_close(masked[0].slice(1, 2), std::vector<double>(6));
    }
  }
}

TEST_CASE("attention: a mask of whole steps, from valid lengths", "[gluon]") {
  NDArray x = numbers({3, 4, 2});
  for (DType dtype : {DType::float32, DType::int32}) {
    NDArray mask = nn::valid_length_mask(nd, x, nd.array({0, 3, 9}).astype(dtype));
    CHECK(mask.shape() == Shape(3, 1, 4));
    require_close(mask, {0, 0, 0, 0, 1, 1, 1, 0, 1, 1, 1, 1});
  }
  CHECK(nn::valid_length_mask(nd, nd.zeros({0, 4, 2}), nd.zeros({0})).shape() == Shape(0, 1, 4));
  CHECK_THROWS_AS(nn::valid_length_mask(nd, x, nd.array({1, 2})), ShapeError);
}

TEST_CASE("attention: data and mask of every dtype", "[gluon]") {
  nn::MultiHeadAttentionCell cell(4, 2);
  cell.initialize(init::Xavier());
  NDArray x = numbers({2, 5, 4}), mask = nn::valid_length_mask(nd, x, nd.array({2, 5}));
  auto expected = values(cell(x, x, x, mask));
  for (DType dtype : {DType::float64, DType::float16, DType::bfloat16}) {
    nn::MultiHeadAttentionCell other(4, 2);
    other.initialize(init::Xavier());
    other(x, x, x);
    for (size_t i = 0; i < 6; ++i) {
      gluon::Parameter p = other.collect_params()[i];
      p.set_data(cell.collect_params()[i].data());
    }
    other.cast(dtype);
    NDArray z = x.astype(dtype);
    for (bool hybridized : {false, true}) {
      other.hybridize(hybridized);
      for (DType of_mask : {dtype, DType::float32, DType::uint8, DType::boolean}) {
        NDArray y = other(z, z, z, mask.astype(of_mask));
        REQUIRE(y.dtype() == dtype);
        require_close(y, expected, 0.02, dtype == DType::float64 ? 1e-5 : 0.02);
        y = other(z, z, z, nd.zeros_like(mask).astype(of_mask));
        require_close(y, std::vector<double>(40), 0, 0);
      }
    }
  }
}

TEST_CASE("attention: what does not fit is refused", "[gluon]") {
  CHECK_THROWS_WITH(nn::MultiHeadAttentionCell(6, 4), Contains("num_heads must divide units, got 4 and 6"));
  CHECK_THROWS_AS(nn::MultiHeadAttentionCell(6, 0), ValueError);
  CHECK_THROWS_AS(nn::MultiHeadAttentionCell(0, 1), ValueError);
  CHECK_THROWS_AS(nn::MultiHeadAttentionCell(6, 2, {.dropout = 2}), ValueError);
  for (bool hybridized : {false, true}) {
    nn::MultiHeadAttentionCell cell(6, 2, {.in_units = 4});
    cell.initialize();
    cell.hybridize(hybridized);
    NDArray one = nd.ones({2, 1, 4}), x = nd.ones({2, 3, 4});
    CHECK_THROWS_AS(cell(x, nd.ones({2, 3, 5}), x), ShapeError);                   // another width
    CHECK_THROWS_AS(cell(x, nd.ones({2, 2, 4}), x), ShapeError);                   // keys and values differ in number
    CHECK_THROWS_AS(cell(x, nd.ones({1, 3, 4}), nd.ones({1, 3, 4})), ShapeError);  // another batch
    CHECK_THROWS_AS(cell(x, x, x, nd.ones({2, 3, 2})), ShapeError);                // a mask of other lengths
    CHECK_THROWS_AS(cell(one, x, x, nd.ones({2, 5, 3})), ShapeError);              // more rows than queries
    CHECK_THROWS_AS(cell(x, x, x, nd.ones({3, 3, 3})), ShapeError);
    CHECK_THROWS_AS(cell(x, x, x, nd.ones({2, 3})), ShapeError);  // two heads, not two samples
    CHECK_THROWS_AS(cell(x, x, x, nd.ones({2, 3, 3, 2})), ShapeError);
    CHECK_THROWS_AS(cell(nd.ones({3, 4}), x, x), ShapeError);
  }
  nn::TransformerEncoderCell encoder(4, 8, 2);
  encoder.initialize();
  CHECK_THROWS_AS(encoder(nd.ones({2, 3, 1})), ShapeError);  // the sum would broadcast it
  CHECK_THROWS_AS(encoder(nd.ones({2, 3, 5})), ShapeError);
}

TEST_CASE("transformer: the values of its formula for every shape and mode", "[gluon]") {
  MaskedEncoder net = stirred(MaskedEncoder());
  for (bool hybridized : {false, true}) {
    net.hybridize(hybridized, {.static_alloc = hybridized, .static_shape = hybridized});
    for (const Shape& shape : {Shape(3, 5, 6), Shape(1, 7, 6), Shape(2, 1, 6), Shape(3, 5, 6)}) {
      INFO(shape.str() << (hybridized ? " hybridized" : " imperative"));
      NDArray x = numbers(shape, 9);
      std::vector<double> lengths;
      for (int64_t n = 0; n < shape[0]; ++n) lengths.push_back(double((n * 3 + 2) % (shape[1] + 1)));
      NDArray y = net(x, nd.array(lengths, {shape[0]})), all = net.cell(x);
      REQUIRE(y.shape() == shape);
      for (int64_t n = 0; n < shape[0]; ++n) {
        require_sample(y, n, encoder(net.cell, 2, rows_of(x, n), int64_t(lengths[size_t(n)])));
        require_sample(all, n, encoder(net.cell, 2, rows_of(x, n), shape[1]));
      }
    }
  }
}

TEST_CASE("transformer: gradients are the numeric ones", "[gluon]") {
  for (const Shape& shape : {Shape(2, 3, 4), Shape(1, 1, 4)}) {
    for (bool hybridized : {false, true}) {
      INFO(shape.str() << (hybridized ? " hybridized" : " imperative"));
      nn::TransformerEncoderCell cell = stirred(nn::TransformerEncoderCell(4, 6, 2));
      cell.cast(DType::float64);
      cell.hybridize(hybridized);
      NDArray x = numbers(shape).astype(DType::float64), weights = numbers(shape, 2).astype(DType::float64);
      NDArray mask = nd.ones({shape[0], shape[1], shape[1]}, {.dtype = DType::float64});
      mask.slice_assign({0, 0, 0}, {1, 1, 1}, shape[1] > 1 ? 0 : 1);
      auto loss = [&] { return (cell(x, mask) * weights).sum().asscalar<double>(); };
      x.attach_grad();
      NDArray y = autograd::record([&] { return cell(x, mask); });
      y.backward(weights);
      auto check = [&](NDArray array, const std::vector<double>& gradient) {
        auto v = values(array);
        for (size_t i = 0; i < v.size(); ++i) {
          const double step = 1e-5, at = v[i];
          v[i] = at + step;
          array.assign(nd.array(v, array.shape(), {.dtype = DType::float64}));
          const double up = loss();
          v[i] = at - step;
          array.assign(nd.array(v, array.shape(), {.dtype = DType::float64}));
          const double numeric = (up - loss()) / (2 * step);
          v[i] = at;
          array.assign(nd.array(v, array.shape(), {.dtype = DType::float64}));
          INFO("element " << i);
          REQUIRE(gradient[i] == Approx(numeric).epsilon(1e-6).margin(1e-8));
        }
      };
      check(x, values(x.grad()));
      for (const gluon::Parameter& p : cell.collect_params()) {
        INFO(p.name());
        check(p.data(), values(p.grad()));
      }
    }
  }
}

namespace {

enum class Run { imperative, exact, fast };

// Outputs and gradients of three training steps with dropout, and a prediction.
std::vector<std::vector<double>> outcome(const Shape& shape, Run run) {
  MaskedEncoder net = stirred(MaskedEncoder(0.3));
  if (run != Run::imperative) net.hybridize({.static_alloc = true, .static_shape = true, .exact = run == Run::exact});
  random::seed(11);
  NDArray x = numbers(shape, 3), lengths = nd.full({shape[0]}, double((shape[1] + 1) / 2));
  x.attach_grad();
  std::vector<std::vector<double>> all;
  for (int step = 0; step < 3; ++step) {
    NDArray y = autograd::record([&] { return net(x, lengths); });
    y.backward(numbers(shape, 5));
    all.push_back(values(y));
    all.push_back(values(x.grad()));
    for (const gluon::Parameter& p : net.collect_params()) {
      all.push_back(values(p.grad()));
      nd.sgd_update(p.data(), p.grad(), {.lr = 0.01});
    }
  }
  all.push_back(values(net(x, lengths)));
  return all;
}

}  // namespace

TEST_CASE("transformer: training with dropout hybridized equals imperative, bit for bit when exact", "[gluon]") {
  for (const Shape& shape : {Shape(4, 6, 6), Shape(1, 5, 6), Shape(3, 1, 6)}) {
    INFO(shape.str());
    auto expected = outcome(shape, Run::imperative);
    const bool same = outcome(shape, Run::exact) == expected;
    REQUIRE(same);
    auto fast = outcome(shape, Run::fast);
    for (size_t i = 0; i < fast.size(); ++i) require_close(fast[i], expected[i], 1e-3, 1e-5);
  }
}

TEST_CASE("transformer: dropout on the attention weights and before both sums", "[gluon]") {
  for (bool hybridized : {false, true}) {
    nn::MultiHeadAttentionCell attention = stirred(nn::MultiHeadAttentionCell(6, 3, {.dropout = 1, .in_units = 6}));
    nn::TransformerEncoderCell cell = stirred(small_encoder(1));  // which leaves x and the normalisations
    attention.hybridize(hybridized);
    cell.hybridize(hybridized);
    NDArray x = numbers({2, 4, 6});
    require_close(autograd::train_mode([&] { return attention(x, x, x); }), std::vector<double>(48), 0, 0);
    require_close(autograd::train_mode([&] { return cell(x); }), values(cell.ffn.layer_norm(cell.layer_norm(x))));
  }
}

TEST_CASE("transformer: a batch of zero and sequences of zero steps", "[gluon]") {
  for (bool hybridized : {false, true}) {
    for (const Shape& shape : {Shape(0, 5, 6), Shape(2, 0, 6), Shape(0, 0, 6)}) {
      INFO(shape.str() << (hybridized ? " hybridized" : " imperative"));
      MaskedEncoder net = stirred(MaskedEncoder(0.1));
      net.hybridize(hybridized);
      NDArray x = nd.zeros(shape), lengths = nd.zeros({shape[0]});
      x.attach_grad();
      CHECK(net(x, lengths).shape() == shape);
      CHECK(net.cell(x).shape() == shape);
      autograd::record([&] { return net(x, lengths); }).backward();
      CHECK(x.grad().shape() == shape);
      for (const gluon::Parameter& p : net.collect_params()) CHECK(nd.norm(p.grad()).asscalar<float>() == 0);
    }
  }
}

TEST_CASE("transformer: names, options and activations", "[gluon]") {
  auto net = small_encoder();
  std::vector<std::string> names;
  for (const auto& p : net.collect_params()) names.push_back(p.name());
  CHECK(names == std::vector<std::string>{"attention_cell_proj_query_weight", "attention_cell_proj_query_bias",
                                          "attention_cell_proj_key_weight", "attention_cell_proj_key_bias",
                                          "attention_cell_proj_value_weight", "attention_cell_proj_value_bias",
                                          "proj_weight", "proj_bias", "layer_norm_gamma", "layer_norm_beta",
                                          "ffn_ffn_1_weight", "ffn_ffn_1_bias", "ffn_ffn_2_weight", "ffn_ffn_2_bias",
                                          "ffn_layer_norm_gamma", "ffn_layer_norm_beta"});
  for (const auto& p : net.collect_params()) CHECK(p.shape().size() > 0);  // known without a call
  nn::PositionwiseFFN ffn(3, 5, {.activation = "relu", .layer_norm_eps = 1, .bias_initializer = init::Constant(-2)});
  ffn.initialize(init::One());
  // relu(3 - 2) five times, summed, less 2, and the input
  NDArray y = ffn(nd.ones({1, 1, 3}));
  require_close(y, {0, 0, 0});
  y = ffn(nd.array({0, 1, 2}, {1, 1, 3}));
  const double s = std::sqrt(2.0 / 3 + 1);
  require_close(y, {-1 / s, 0, 1 / s});
  CHECK(gluon::summary(small_encoder(), {2, 3, 6}).find("transformerencodercell") != std::string::npos);
}

TEST_CASE("transformer: saved, loaded, exported, imported and cast", "[gluon]") {
  ScratchFolder folder;
  MaskedEncoder net = stirred(MaskedEncoder(0.1));
  NDArray x = numbers({2, 4, 6}), lengths = nd.array({3, 4});
  NDArray y = net(x, lengths);
  net.save_parameters(folder / "encoder.params");
  MaskedEncoder same(0.1);
  same.load_parameters(folder / "encoder.params");
  CHECK(same_bits(same(x, lengths), y));
  same.hybridize();
  same(x, lengths);
  same.export_model((folder / "encoder").string());
  auto back =
      gluon::SymbolBlock::imports(folder / "encoder-symbol.json", {"data0", "data1"}, folder / "encoder-0000.params");
  require_close(back.forward({x, lengths})[0], values(y), 1e-5, 1e-5);
  for (DType dtype : {DType::float64, DType::bfloat16, DType::float16}) {
    net.cast(dtype);
    for (bool hybridized : {false, true}) {
      net.hybridize(hybridized);
      NDArray z = net(x.astype(dtype), lengths);
      CHECK(z.dtype() == dtype);
      require_close(z, values(y), 0.05, dtype == DType::float64 ? 1e-5 : 0.05);
    }
  }
}

TEST_CASE("transformer: without dropout of its weights attention is one operator, which files say in MXNet's",
          "[gluon]") {
  ScratchFolder folder;
  for (DType dtype : {DType::float32, DType::float16}) {
    MaskedEncoder net = stirred(MaskedEncoder());
    net.cast(dtype);
    net.hybridize();
    NDArray x = numbers({2, 4, 6}).astype(dtype), lengths = nd.array({0, 3});
    const NDArray y = net(x, lengths);
    net.export_model((folder / "encoder").string());
    const std::string file = bytes_of(folder / "encoder-symbol.json");
    CHECK_THAT(file, Contains("batch_dot") && !Contains("\"scaled_dot_product_attention\""));
    auto back =
        gluon::SymbolBlock::imports(folder / "encoder-symbol.json", {"data0", "data1"}, folder / "encoder-0000.params");
    const double bound = dtype == DType::float32 ? 1e-5 : 0.02;
    require_close(back.forward({x, lengths})[0], values(y), bound, bound);
    // of any batch and length
    x = numbers({3, 7, 6}, 5).astype(dtype), lengths = nd.array({7, 1, 2});
    require_close(back.forward({x, lengths})[0], values(net(x, lengths)), bound, bound);
  }
}

}  // namespace transformer_test
