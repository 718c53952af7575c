// Attention beyond the test table: many blocks of keys, memory that grows with the length alone, a cache of keys and
// values, what is excluded, and second derivatives.
#include <catch2/catch.hpp>
#include <cmath>
#include <limits>

#include "kaon/engine/storage.h"
#include "kaon/graph/autograd.h"
#include "kaon/ops/functions.h"
#include "kaon/ops/random_state.h"

namespace attention_test {

using namespace kaon;
using namespace kaon::graph;

namespace {

constexpr double inf = std::numeric_limits<double>::infinity(), nan_ = std::numeric_limits<double>::quiet_NaN();
using Doubles = std::vector<double>;

struct Given {
  NDArray query, key, value, mask, length;
  NDArray factors{};  // of the weights, where some are dropped
};

// The same by an array of all scores.
NDArray composed(const Given& g, const op::ScaledDotProductAttention& op) {
  const Shape q = g.query.shape(), k = g.key.shape();
  const int group = int(q[1] / k[1]);
  const auto flat = [](const NDArray& x) { return nd.reshape(x, {-3, 0, 0}); };
  const NDArray key = nd.repeat(g.key, group, 1), value = nd.repeat(g.value, group, 1);
  NDArray scores = nd.batch_dot(flat(g.query), flat(key), {.transpose_b = true});
  scores = nd.reshape(scores, {q[0], q[1], q[2], k[2]}) * op.scale.value_or(1 / std::sqrt(double(q[3])));
  if (op.use_mask) scores = nd.broadcast_add(scores, g.mask);
  Doubles seen;
  for (int64_t b = 0; b < q[0]; ++b) {
    const int64_t length = op.use_valid_length ? int64_t(g.length.asvector<double>()[size_t(b)]) : k[2];
    for (int64_t i = 0; i < q[2]; ++i) {
      for (int64_t j = 0; j < k[2]; ++j) {
        bool sees = j < length;
        if (op.causal == CausalMask::upper_left) sees = sees && j <= i;
        if (op.causal == CausalMask::lower_right) sees = sees && j <= i + length - q[2];
        seen.push_back(sees ? 0 : -1e30);
      }
    }
  }
  scores = nd.broadcast_add(scores, nd.array(seen, {q[0], 1, q[2], k[2]}, {.dtype = scores.dtype()}));
  NDArray weights = nd.reshape(nd.softmax(scores), {-3, 0, 0});
  if (g.factors.defined()) weights = weights * nd.cast(g.factors, weights.dtype());
  return nd.reshape(nd.batch_dot(weights, flat(value)), {q[0], q[1], q[2], g.value.shape()[3]});
}

NDArray fused(const Given& g, const op::ScaledDotProductAttention& op) {
  if (op.use_mask && op.use_valid_length) {
    return nd.scaled_dot_product_attention(g.query, g.key, g.value, g.mask, g.length, op);
  }
  if (op.use_mask) return nd.scaled_dot_product_attention(g.query, g.key, g.value, g.mask, op);
  if (op.use_valid_length) return nd.scaled_dot_product_attention(g.query, g.key, g.value, g.length, op);
  return nd.scaled_dot_product_attention(g.query, g.key, g.value, op);
}

// The result and the gradients in this dtype.
template <class F>
std::vector<Doubles> outcome(const Given& given, DType t, const op::ScaledDotProductAttention& op, F f) {
  Given g{nd.cast(given.query, t), nd.cast(given.key, t), nd.cast(given.value, t), {}, given.length, given.factors};
  std::vector<NDArray> wanted{g.query, g.key, g.value};
  if (op.use_mask) wanted.push_back(g.mask = nd.cast(given.mask, t));
  for (NDArray& x : wanted) x.attach_grad();
  const NDArray y = autograd::record([&] { return f(g, op); });
  y.backward(nd.cast(nd.reshape(nd.sin(nd.arange(double(y.size()))), y.shape()), t));
  std::vector<Doubles> all{y.asvector<double>()};
  for (const NDArray& x : wanted) all.push_back(x.grad().asvector<double>());
  return all;
}

double distance(const Doubles& a, const Doubles& b) {
  REQUIRE(a.size() == b.size());
  double most = 0, largest = 1e-30;
  for (size_t i = 0; i < a.size(); ++i) {
    if (!std::isfinite(a[i])) return inf;
    most = std::max(most, std::abs(a[i] - b[i])), largest = std::max(largest, std::abs(b[i]));
  }
  return most / largest;
}

Given random_given(const Shape& query, int64_t kv_heads, int64_t m, int64_t value_dim) {
  return {nd.random_normal(query), nd.random_normal({query[0], kv_heads, m, query[3]}),
          nd.random_normal({query[0], kv_heads, m, value_dim}), nd.random_normal({query[1], query[2], m}),
          nd.full(Shape(query[0]), double(m / 2 + 1))};
}

}  // namespace

TEST_CASE("attention: blocks of keys and tiles of queries give what an array of all scores gives") {
  random::seed(3);
  struct Case {
    Shape query;
    int64_t kv_heads, m, value_dim;
  };
  for (const Case& c :
       {Case{{1, 2, 61, 17}, 1, 431, 35}, Case{{2, 2, 5, 64}, 2, 200, 64}, Case{{1, 1, 149, 8}, 1, 97, 3},
        Case{{1, 2, 3, 9}, 2, 4500, 70}, Case{{1, 4, 200, 32}, 2, 1100, 32}}) {
    const Given given = random_given(c.query, c.kv_heads, c.m, c.value_dim);
    for (CausalMask causal : {CausalMask::none, CausalMask::upper_left, CausalMask::lower_right}) {
      if (causal == CausalMask::lower_right && c.m < c.query[2]) continue;  // queries that see nothing
      for (bool masked : {false, true}) {
        op::ScaledDotProductAttention op{.causal = causal, .use_mask = masked, .use_valid_length = masked};
        if (masked && causal == CausalMask::lower_right && c.m / 2 < c.query[2]) op.use_valid_length = false;
        const std::vector<Doubles> want = outcome(given, DType::float64, op, composed);
        for (DType t : {DType::float64, DType::float32, DType::bfloat16, DType::float16}) {
          const double bound = t == DType::float64 ? 1e-12 : t == DType::float32 ? 4e-6 : 0.03;
          const std::vector<Doubles> got = outcome(given, t, op, fused);
          for (size_t k = 0; k < want.size(); ++k) {
            INFO(c.query.str() << " keys " << c.m << " causal " << int(causal) << " mask " << masked << " "
                               << name_of(t) << " array " << k);
            CHECK(distance(got[k], want[k]) < bound);
          }
        }
      }
    }
  }
}

TEST_CASE("attention: dropped weights, their share, and gradients through the others") {
  struct Case {
    Shape query;
    int64_t kv_heads, m, value_dim;
  };
  for (const Case& c :
       {Case{{1, 2, 61, 17}, 1, 431, 35}, Case{{2, 2, 5, 64}, 2, 203, 64}, Case{{1, 2, 3, 9}, 2, 4501, 7}}) {
    random::seed(3);
    Given given = random_given(c.query, c.kv_heads, c.m, c.value_dim);
    for (CausalMask causal : {CausalMask::none, CausalMask::lower_right}) {
      const op::ScaledDotProductAttention op{.causal = causal, .dropout = 0.3};
      const auto seeded = [&](const Given& g, const op::ScaledDotProductAttention& o) {
        random::seed(11);
        return fused(g, o);
      };
      // one value for each key shows the weights: those of a call with dropout, by those of one without
      std::vector<NDArray> shown;
      for (double p : {0.3, 0.0}) {
        Given all = given;
        all.value = nd.broadcast_to(nd.reshape(nd.eye(c.m), {1, 1, c.m, c.m}), {c.query[0], c.kv_heads, c.m, c.m});
        shown.push_back(autograd::train_mode([&] { return seeded(all, {.causal = causal, .dropout = p}); }));
      }
      const NDArray seen = shown[1] > 0;
      const NDArray kept = nd.cast(shown[0] > 0, DType::float64) / 0.7;
      CHECK(distance((shown[1].astype(DType::float64) * kept).asvector<double>(), shown[0].asvector<double>()) < 1e-5);
      CHECK((kept > 0).astype(DType::float64).sum().asscalar<double>() /
                seen.astype(DType::float64).sum().asscalar<double>() ==
            Approx(0.7).margin(0.03));
      given.factors = nd.reshape(kept, {-3, 0, 0});
      const std::vector<Doubles> want = outcome(given, DType::float64, op, composed);
      for (DType t : {DType::float64, DType::float32, DType::bfloat16}) {
        const double bound = t == DType::float64 ? 1e-12 : t == DType::float32 ? 4e-6 : 0.03;
        const std::vector<Doubles> got = outcome(given, t, op, seeded);
        for (size_t k = 0; k < want.size(); ++k) {
          INFO(c.query.str() << " keys " << c.m << " causal " << int(causal) << " " << name_of(t) << " array " << k);
          CHECK(distance(got[k], want[k]) < bound);
        }
      }
      std::vector<Doubles> first;
      for (int threads : {0, 1, 2}) {
        Engine engine({.threads = threads});
        EngineScope scope(engine);
        random::seed(5);
        const Given again = random_given(c.query, c.kv_heads, c.m, c.value_dim);
        const std::vector<Doubles> got = outcome(again, DType::float32, op, seeded);
        if (threads == 0) first = got;
        CHECK(got == first);
      }
      // nothing is dropped outside of training, and by a backward of such a call neither
      NDArray query = given.query.copy();
      query.attach_grad();
      const auto gradient = [&](double p) {
        const auto y = autograd::record(
            [&] {
              return nd.scaled_dot_product_attention(query, given.key, given.value, {.causal = causal, .dropout = p});
            },
            false);
        y.backward();
        return std::pair(y.asvector<double>(), query.grad().asvector<double>());
      };
      CHECK(gradient(0.3) == gradient(0));
    }
  }
}

TEST_CASE("attention: a fourth array is the mask, or the lengths where these are asked for") {
  const NDArray x = nd.reshape(nd.arange(8), {2, 1, 4, 1}) / 8;
  const NDArray lengths = nd.array({2, 4}), mask = nd.reshape(nd.arange(4), {1, 4}) < nd.reshape(lengths, {2, 1, 1, 1});
  const Doubles masked = nd.scaled_dot_product_attention(x, x, x, nd.cast(mask, DType::boolean)).asvector<double>();
  const NDArray by_length = nd.scaled_dot_product_attention(x, x, x, lengths, {.use_valid_length = true});
  CHECK(distance(masked, by_length.asvector<double>()) < 1e-6);
}

TEST_CASE("attention: a mask that is added has no gradient where weights are dropped") {
  const NDArray x = nd.ones({1, 1, 2, 2});
  NDArray mask = nd.zeros({2, 2});
  mask.attach_grad();
  const NDArray y = autograd::record(
      [&] { return nd.scaled_dot_product_attention(x, x, x, mask, {.use_mask = true, .dropout = 0.5}); });
  CHECK_THROWS_WITH(y.backward(), Catch::Matchers::Contains("has no gradient where dropout is above 0"));
}

TEST_CASE("attention: memory grows with the length, not with its square", "[unsanitized]") {
  const int64_t n = 4096;  // all scores would be 64 MiB
  const Given g = random_given({1, 1, n, 16}, 1, n, 16);
  NDArray x = g.query;
  x.attach_grad();
  nd.waitall();
  Storage& storage = Storage::cpu();
  storage.set_limit(storage.stats().live + (size_t(16) << 20));
  for (CausalMask causal : {CausalMask::none, CausalMask::lower_right}) {
    CHECK_NOTHROW([&] {
      autograd::record([&] {
        return nd.scaled_dot_product_attention(x, x, g.value, {.causal = causal, .dropout = 0.1});
      }).backward();
      nd.waitall();
    }());
  }
  storage.set_limit(0);
}

TEST_CASE("attention: steps that come one after the other, by way of a cache, see what they see together") {
  const Given g = random_given({2, 4, 9, 8}, 2, 9, 6);
  const NDArray together =
      nd.scaled_dot_product_attention(g.query, g.key, g.value, {.causal = CausalMask::lower_right});
  const int64_t capacity = 300;
  const NDArray keys = nd.full({2, 2, capacity, 8}, nan_), values = nd.full({2, 2, capacity, 6}, inf);
  std::vector<NDArray> parts;
  const int64_t ends[] = {5, 6, 7, 9};  // a prompt, and then steps
  for (int64_t begin = 0; int64_t end : ends) {
    nd.cache_append(keys, nd.slice_axis(g.key, 2, begin, end), nd.array({double(begin)}));
    nd.cache_append(values, nd.slice_axis(g.value, 2, begin, end), nd.array({double(begin), double(begin)}));
    parts.push_back(nd.scaled_dot_product_attention(nd.slice_axis(g.query, 2, begin, end), keys, values,
                                                    nd.full({2}, double(end), {.dtype = DType::int32}),
                                                    {.causal = CausalMask::lower_right, .use_valid_length = true}));
    begin = end;
  }
  const NDArray apart = nd.concat({.dim = 2}, parts[0], parts[1], parts[2], parts[3]);
  CHECK(distance(apart.asvector<double>(), together.asvector<double>()) < 1e-6);
}

TEST_CASE("attention: a step outside of a cache fails it, and what reads it") {
  for (double position : {3.0, -4.0, 1e30, nan_}) {
    const NDArray cache = nd.zeros({2, 1, 4, 1});
    nd.cache_append(cache, nd.ones({2, 1, 2, 1}), nd.array({0, position}));
    const NDArray seen = nd.scaled_dot_product_attention(cache, cache, cache);
    for (const NDArray& a : {cache, seen}) {
      CHECK_THROWS_WITH(a.wait_to_read(), Catch::Matchers::Contains("[cache_append]") &&
                                              Catch::Matchers::Contains("outside") &&
                                              Catch::Matchers::Contains("2 new steps fit into a cache of 4"));
    }
    nd.waitall();  // each failure has been thrown
  }
}

TEST_CASE("attention: what a query may not look at does not matter, and NaN that it sees does") {
  for (int64_t n : {2, 30}) {
    const Given g = random_given({1, 1, n, 4}, 1, n, 3);
    const NDArray want = nd.scaled_dot_product_attention(g.query, g.key, g.value, {.causal = CausalMask::upper_left});
    NDArray key = g.key.copy(), value = g.value.copy();
    key.slice_assign({0, 0, n - 1, 0}, {1, 1, n, 4}, nan_);
    value.slice_assign({0, 0, n - 1, 0}, {1, 1, n, 3}, inf);
    const Doubles got =
        nd.scaled_dot_product_attention(g.query, key, value, {.causal = CausalMask::upper_left}).asvector<double>();
    const Doubles expected = want.asvector<double>();
    for (size_t i = 0; i < got.size(); ++i) {
      if (i < got.size() - 3) CHECK(got[i] == expected[i]);
      if (i >= got.size() - 3) CHECK(std::isnan(got[i]));
    }
  }
}

TEST_CASE("attention: scores far apart and infinite ones") {
  const NDArray value = nd.array({1, 2, 3}, {1, 1, 3, 1});
  const auto attend = [&](double q, const Doubles& k) {
    NDArray query = nd.array({q}, {1, 1, 1, 1}), key = nd.array(k, {1, 1, 3, 1});
    query.attach_grad();
    const NDArray y = autograd::record([&] { return nd.scaled_dot_product_attention(query, key, value); });
    y.backward();
    return std::pair(double(y.asscalar<float>()), double(query.grad().asscalar<float>()));
  };
  CHECK(attend(1, {0, 1e30, 0}) == std::pair(2.0, 0.0));
  CHECK(attend(1, {-1e30, -1e30, -1e38}) == std::pair(1.5, 0.0));
  CHECK(attend(1, {-inf, 0, -inf}).first == 2);
  CHECK(attend(1, {-inf, -inf, -inf}).first == 0);
  CHECK(std::isnan(attend(1, {0, inf, 0}).first));
}

TEST_CASE("attention: a second derivative is refused") {
  NDArray x = nd.ones({1, 1, 2, 2});
  x.attach_grad();
  CHECK_THROWS_AS(autograd::record([&] {
                    const NDArray y = nd.scaled_dot_product_attention(x, x, x);
                    return autograd::grad(y, x, true);
                  }).backward(),
                  StateError);
}

TEST_CASE("attention: rotary positions leave products of pairs as far apart as they are") {
  const NDArray x = nd.random_normal({1, 1, 1, 8}), y = nd.random_normal({1, 1, 1, 8});
  const auto product = [&](double a, double b, bool interleaved) {
    return (nd.rotary_embedding(x, {.offset = a, .interleaved = interleaved}) *
            nd.rotary_embedding(y, {.offset = b, .interleaved = interleaved}))
        .sum()
        .asscalar<double>();
  };
  for (bool interleaved : {false, true}) {
    CHECK(product(7, 3, interleaved) == Approx(product(104, 100, interleaved)).epsilon(1e-4));
    const NDArray back = nd.rotary_embedding(nd.rotary_embedding(x, {.offset = 9, .interleaved = interleaved}),
                                             {.offset = 9, .interleaved = interleaved, .inverse = true});
    CHECK(distance(back.asvector<double>(), x.asvector<double>()) < 1e-6);
  }
  const NDArray far = nd.ones({1, 5000, 2});  // runs of positions stay exact
  const Doubles turned = nd.rotary_embedding(nd.cast(far, DType::float64)).asvector<double>();
  CHECK(turned[2 * 4999] == Approx(std::cos(4999) - std::sin(4999)).epsilon(1e-11));
}

}  // namespace attention_test
