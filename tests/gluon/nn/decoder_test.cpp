// Causal attention, blocks that are normalised before each part, and the decoder of the transformer: the values of
// their formulae, made of the layers themselves, gradients in both modes, masks, dropout.
#include "kaon/gluon/nn/transformer.h"
#include "kaon/tests/gluon/hybrid/hybrid_support.h"

namespace decoder_test {

using namespace kaon;
using namespace kaon::test;
using Catch::Matchers::Contains;

namespace {

template <class B>
B made(B block) {
  block.initialize(init::Uniform(0.5));
  return block;
}

// 1 where step i of n may look at step j of m.
NDArray causal(int64_t n, int64_t m, CausalMask kind) {
  std::vector<float> mask;
  for (int64_t i = 0; i < n; ++i) {
    for (int64_t j = 0; j < m; ++j) mask.push_back(j <= i + (kind == CausalMask::lower_right ? m - n : 0));
  }
  return nd.array(mask, {1, n, m});
}

// A cell with the same parameters and other options.
nn::MultiHeadAttentionCell twin(const nn::MultiHeadAttentionCell& cell, const nn::MultiHeadAttentionOptions& options) {
  nn::MultiHeadAttentionCell other(6, 2, options);
  other.initialize();
  const auto from = cell.collect_params(), to = other.collect_params();
  for (size_t i = 0; i < from.size(); ++i) {
    gluon::Parameter p = to[i];
    p.set_data(from[i].data());
  }
  return other;
}

struct Decoder : gluon::HybridBlock<Decoder> {
  nn::TransformerDecoderCell cell;
  explicit Decoder(const nn::TransformerOptions& options)
      : cell(child("cell", nn::TransformerDecoderCell(6, 10, 2, options))) {}
  auto hybrid_forward(auto F, auto x) { return cell(x, F.reverse(x, 1) * 2); }
};

// An encoder and two decoder blocks: scores of the next token for each of those written so far.
struct Translator : gluon::HybridBlock<Translator> {
  explicit Translator(const nn::TransformerOptions& options)
      : embed(child("embed", nn::Embedding(9, 6))),
        encoder(child("encoder", nn::TransformerEncoderCell(6, 10, 2, options))),
        output(child("output", nn::Dense(9, {.flatten = false}))) {
    for (const char* name : {"first", "second"}) {
      decoders.push_back(child(name, nn::TransformerDecoderCell(6, 10, 2, options)));
    }
  }
  auto hybrid_forward(auto, auto tokens, auto memory, auto mask) {
    auto x = embed(tokens);
    for (const auto& d : decoders) x = d(x, memory, mask);
    return output(x);
  }
  template <class A>
  std::pair<A, std::vector<A>> hybrid_forward(auto, const A& tokens, const std::vector<A>& cache, const A& position,
                                              const A& mask) {
    std::vector<A> next;
    A x = embed(tokens);
    for (size_t i = 0; i < decoders.size(); ++i) {
      auto [y, written] =
          decoders[i](x, std::vector<A>(cache.begin() + long(4 * i), cache.begin() + long(4 * i + 4)), position, mask);
      x = y;
      next.insert(next.end(), written.begin(), written.end());
    }
    return {output(x), next};
  }
  NDArray generate(const NDArray& source, const NDArray& mask, int64_t count, bool use_cache) {
    const NDArray memory = encoder(embed(source), mask);
    std::vector<NDArray> cache, all{nd.zeros({source.shape()[0], 1})};
    for (const auto& d : decoders) {
      for (NDArray& a : d.begin_cache(memory, count)) cache.push_back(a);
    }
    for (int64_t i = 0; i < count; ++i) {
      NDArray scores;
      if (use_cache) {
        std::tie(scores, cache) = (*this)(all.back(), cache, nd.array({double(i)}), mask);
      } else {
        scores = (*this)(nd.concat(all, {.dim = 1}), memory, mask);
      }
      all.push_back(nd.argmax(nd.slice_axis(scores, 1, -1, std::nullopt), {.axis = 2}));
    }
    return nd.concat(all, {.dim = 1});
  }

  nn::Embedding embed;
  nn::TransformerEncoderCell encoder;
  std::vector<nn::TransformerDecoderCell> decoders;
  nn::Dense output;
};

}  // namespace

TEST_CASE("attention: causal, as a mask that says the same", "[gluon]") {
  for (CausalMask kind : {CausalMask::upper_left, CausalMask::lower_right}) {
    const auto plain = made(nn::MultiHeadAttentionCell(6, 2, {.in_units = 4}));
    const auto cell = twin(plain, {.causal = kind, .in_units = 4});
    auto dropping = twin(plain, {.dropout = 0.5, .causal = kind, .in_units = 4});
    for (auto [n, m] : {std::pair<int64_t, int64_t>{5, 5}, {1, 1}, {2, 5}, {1, 4}, {4, 2}}) {
      INFO(n << " queries, " << m << " keys");
      const NDArray query = numbers({2, n, 4}, 1), key = numbers({2, m, 4}, 2);
      const NDArray given = nd.greater(numbers({2, 1, m}, 3), -0.3), allowed = causal(n, m, kind);
      const auto expected = values(plain(query, key, key, nd.broadcast_mul(nd.ones({2, 1, 1}), allowed)));
      const auto masked = values(plain(query, key, key, nd.broadcast_mul(given, allowed)));
      for (bool hybridized : {false, true}) {
        dropping.hybridize(hybridized);
        gluon::Block(cell).hybridize(hybridized);
        require_close(cell(query, key, key), expected, 1e-4, 1e-5);
        require_close(cell(query, key, key, given), masked, 1e-4, 1e-5);
        require_close(dropping(query, key, key), expected, 1e-4, 1e-5);  // prediction drops nothing
        require_close(dropping(query, key, key, given), masked, 1e-4, 1e-5);
        require_close(dropping(query, key, key, given.astype(DType::uint8)), masked, 1e-4, 1e-5);
      }
    }
  }
}

TEST_CASE("transformer: what comes before does not see what comes after", "[gluon]") {
  for (bool pre_norm : {false, true}) {
    auto cell = made(nn::TransformerEncoderCell(6, 10, 2, {.pre_norm = pre_norm, .causal = CausalMask::upper_left}));
    const NDArray x = numbers({2, 5, 6});
    NDArray other = x.copy();
    other.slice_assign({0, 3, 0}, {2, 5, 6}, 7);
    const NDArray a = cell(x), b = cell(other);
    require_close(nd.slice_axis(b, 1, 0, 3), values(nd.slice_axis(a, 1, 0, 3)));
    CHECK(nd.norm(nd.slice_axis(b - a, 1, 3)).asscalar<float>() > 0.1);
  }
}

TEST_CASE("transformer: normalised before each part, by its layers", "[gluon]") {
  auto cell = made(nn::TransformerEncoderCell(6, 10, 2, {.pre_norm = true}));
  const NDArray x = numbers({3, 4, 6}), mask = nd.greater(numbers({3, 1, 4}, 5), -0.5);
  const auto ffn = [&](const NDArray& h) {
    return h + cell.ffn.ffn_2(cell.ffn.activation(cell.ffn.ffn_1(cell.ffn.layer_norm(h))));
  };
  const NDArray n = cell.layer_norm(x);
  require_close(cell(x), values(ffn(x + cell.proj(cell.attention_cell(n, n, n)))));
  require_close(cell(x, mask), values(ffn(x + cell.proj(cell.attention_cell(n, n, n, mask)))));
  check_hybrid(nn::TransformerEncoderCell(6, 10, 2, {.pre_norm = true, .causal = CausalMask::upper_left}), {3, 4, 6});
}

TEST_CASE("transformer: the decoder, by its layers", "[gluon]") {
  const NDArray x = numbers({3, 4, 6}), memory = numbers({3, 5, 8}, 2), mask = nd.greater(numbers({3, 1, 5}, 5), -0.5);
  for (bool pre_norm : {false, true}) {
    auto cell = made(nn::TransformerDecoderCell(6, 10, 2, {.pre_norm = pre_norm}));
    const auto allowed = nd.broadcast_mul(nd.ones({3, 1, 1}), causal(4, 4, CausalMask::upper_left));
    const auto expected = [&](const auto&... memory_mask) {
      NDArray n = pre_norm ? cell.layer_norm_in(x) : x;
      NDArray h = x + cell.proj_in(cell.attention_cell_in(n, n, n, allowed));
      if (!pre_norm) h = cell.layer_norm_in(h);
      n = pre_norm ? cell.layer_norm_inter(h) : h;
      h = h + cell.proj_inter(cell.attention_cell_inter(n, memory, memory, memory_mask...));
      return values(cell.ffn(pre_norm ? h : cell.layer_norm_inter(h)));
    };
    const auto y = values(cell(x, memory)), masked = values(cell(x, memory, mask));
    require_close(y, expected(), 1e-4, 1e-5);
    require_close(masked, expected(mask), 1e-4, 1e-5);
    cell.hybridize();
    require_close(cell(x, memory), y, 1e-4, 1e-5);
    require_close(cell(x, memory, mask), masked, 1e-4, 1e-5);
    check_hybrid(Decoder({.pre_norm = pre_norm}), {3, 4, 6});
  }
  auto cell = made(nn::TransformerDecoderCell(6, 10, 2));
  CHECK(cell(nd.zeros({0, 4, 6}), nd.zeros({0, 5, 8})).shape() == Shape(0, 4, 6));
  CHECK_THROWS_AS(cell(x, nd.ones({2, 5, 8})), ShapeError);  // another batch
  CHECK_THROWS_AS(cell(nd.ones({3, 4, 5}), memory), ShapeError);
  auto dropped = made(nn::TransformerDecoderCell(6, 10, 2, {.dropout = 1}));
  dropped(x, memory);
  require_close(autograd::train_mode([&] { return dropped(x, memory); }),
                values(dropped.ffn.layer_norm(dropped.layer_norm_inter(dropped.layer_norm_in(x)))));
}

TEST_CASE("transformer: the decoder's cache changes nothing but the time", "[gluon]") {
  for (int threads : {0, 1, 2}) {
    Engine engine({.threads = threads});
    EngineScope scope(engine);
    const NDArray x = numbers({3, 6, 6}), memory = numbers({3, 5, 8}, 2),
                  mask = nd.greater(numbers({3, 1, 5}, 5), -0.5);
    for (bool pre_norm : {false, true}) {
      auto cell = made(nn::TransformerDecoderCell(6, 10, 2, {.dropout = 0.3, .pre_norm = pre_norm}));
      for (int mode : {0, 1, 2}) {
        INFO(threads << " threads, pre_norm " << pre_norm << ", mode " << mode);
        cell.hybridize(mode > 0, {.exact = mode == 2});
        std::vector<NDArray> cache = cell.begin_cache(memory, 7), masked_cache = cache, parts, masked;
        REQUIRE(cache.size() == 4);
        CHECK(cache[0].shape() == Shape(3, 2, 7, 3));
        CHECK(cache[3].shape() == Shape(3, 2, 5, 3));
        int64_t begin = 0;
        for (int64_t end : {3, 4, 6}) {  // several steps at once, one, and several that are not the first
          const NDArray steps = nd.slice_axis(x, 1, begin, end), position = nd.array({double(begin)});
          std::tie(parts.emplace_back(), cache) = cell(steps, cache, position);
          std::tie(masked.emplace_back(), masked_cache) = cell(steps, masked_cache, position, mask);
          begin = end;
        }
        require_close(nd.concat(parts, {.dim = 1}), values(cell(x, memory)), 1e-4, 1e-5);
        require_close(nd.concat(masked, {.dim = 1}), values(cell(x, memory, mask)), 1e-4, 1e-5);
      }
    }
    auto net = made(Translator({.dropout = 0.2}));
    const NDArray source = nd.array({{1, 4, 8, 2, 3}, {7, 3, 5, 0, 0}}),
                  allowed = nd.array({1, 1, 1, 1, 1, 1, 1, 1, 0, 0}, {2, 1, 5});
    const NDArray expected = net.generate(source, allowed, 8, false);
    CHECK(expected.shape() == Shape(2, 9));
    for (int mode : {0, 1, 2}) {
      net.hybridize(mode > 0, {.exact = mode == 2});
      CHECK(same_bits(net.generate(source, allowed, 8, true), expected));
      CHECK(same_bits(net.generate(source, allowed, 8, false), expected));
    }
  }
}

TEST_CASE("transformer: the decoder's cache in other dtypes, of nothing, and what it refuses", "[gluon]") {
  for (DType dtype : {DType::float16, DType::float64}) {
    auto cell = made(nn::TransformerDecoderCell(6, 10, 2));
    const NDArray x = numbers({2, 3, 6}).astype(dtype), memory = numbers({2, 4, 6}, 2).astype(dtype);
    cell.cast(dtype);
    cell.hybridize();
    const auto [y, cache] = cell(x, cell.begin_cache(memory, 3), nd.array({0}));
    CHECK(y.dtype() == dtype);
    CHECK(cache[0].dtype() == dtype);
    CHECK(cache[2].dtype() == dtype);
    require_close(y.astype(DType::float64), values(cell(x, memory).astype(DType::float64)), 1e-2, 1e-2);
  }
  auto cell = made(nn::TransformerDecoderCell(6, 10, 2));
  const NDArray none = nd.zeros({0, 4, 6});
  CHECK(cell(nd.zeros({0, 1, 6}), cell.begin_cache(none, 3), nd.array({0})).first.shape() == Shape(0, 1, 6));
  CHECK_THROWS_WITH(cell(nd.zeros({1, 1, 6}), std::vector{none}, nd.array({0})), Contains("expected 4 arrays, got 1"));
  CHECK_THROWS_WITH(cell.begin_cache(nd.zeros({4, 6}), 3), Contains("(batch, length, units)") && Contains("(4, 6)"));
  CHECK_THROWS_AS(cell(nd.zeros({2, 1, 6}), cell.begin_cache(nd.zeros({1, 4, 6}), 3), nd.array({0})), ShapeError);
}

}  // namespace decoder_test
