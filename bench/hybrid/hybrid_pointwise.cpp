// Chains of 20 pointwise operations: imperative, hybridized, as one loop by hand, and one read and one write of memory.
// On 1,000 floats, where the call counts, and on 10,000,000, where memory does. And a + b of 10,000,000 floats.
#include "kaon/bench/hybrid/hybrid_parts.h"
#include "kaon/ops/array/array_node.h"
#include "kaon/ops/math/tile.h"

namespace kaon::bench {

using namespace ops;
namespace {

constexpr int steps = 20;
constexpr int64_t few = 1000, many = 10'000'000;

// +, *, relu in turn: with numbers, or with arrays of their own (14 of them).
struct Numbers : gluon::HybridBlock<Numbers> {
  auto hybrid_forward(auto F, auto x) {
    for (int k = 0; k < steps; ++k) x = k % 3 == 0 ? x + 0.125 : k % 3 == 1 ? x * 0.75 : F.relu(x);
    return x;
  }
};
struct Arrays : gluon::HybridBlock<Arrays> {
  using Parameters = std::vector<gluon::Parameter>;
  const Parameters factors = [this] {
    Parameters p;
    for (int k = 0; k < steps; ++k) {
      if (k % 3 != 2) p.push_back(param("factor" + std::to_string(k), {few}));
    }
    return p;
  }();
  auto hybrid_forward(auto F, auto x) {
    for (int k = 0, next = 0; k < steps; ++k) {
      if (k % 3 == 2) {
        x = F.relu(x);
      } else {
        auto a = F(factors[size_t(next++)]);
        x = k % 3 == 0 ? x + a : x * a;
      }
    }
    return x;
  }
};

#if defined(__x86_64__)
#define KAON_CLONES __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define KAON_CLONES
#endif
constexpr int64_t block = 128;  // elements in registers
using Vector = float __attribute__((vector_size(64), aligned(4)));
constexpr int vectors = block * sizeof(float) / sizeof(Vector);

// The whole chain in registers, written out. `a`: what to add and multiply with, or nothing.
template <bool with_arrays>
[[gnu::always_inline]] inline void chain_by_hand(const float* x, const float* const* a, float* y, int64_t n) {
  for (int64_t i = 0; i < n; i += block) {
    float rest[block];
    const float* from = x + i;
    float* to = y + i;
    if (n - i < block) from = std::copy(from, x + n, rest) - (n - i), to = rest;  // the arrays go on a little further
    Vector r[vectors];
    for (int v = 0; v < vectors; ++v) r[v] = reinterpret_cast<const Vector*>(from)[v];
#pragma GCC unroll 20
    for (int k = 0; k < steps; ++k) {
      for (int v = 0; v < vectors; ++v) {
        Vector m = k % 3 == 0 ? Vector{} + 0.125f : Vector{} + 0.75f;
        if (with_arrays && k % 3 != 2) m = reinterpret_cast<const Vector*>(a[k - k / 3] + i)[v];
        r[v] = k % 3 == 0 ? r[v] + m : k % 3 == 1 ? r[v] * m : r[v] > 0 ? r[v] : Vector{};
      }
    }
    for (int v = 0; v < vectors; ++v) reinterpret_cast<Vector*>(to)[v] = r[v];
    if (to == rest) std::copy_n(rest, n - i, y + i);
  }
}
KAON_CLONES void numbers_by_hand(const float* x, float* y, int64_t n) { chain_by_hand<false>(x, nullptr, y, n); }
KAON_CLONES void arrays_by_hand(const float* x, const float* const* a, float* y, int64_t n) {
  chain_by_hand<true>(x, a, y, n);
}
KAON_CLONES void sum_by_hand(const float* a, const float* b, float* y, int64_t n) {
  float part[block];
  for (int64_t i = 0; i < n; i += block) {
    const int64_t m = std::min(block, n - i);
    for (int64_t j = 0; j < m; ++j) part[j] = a[i + j] + b[i + j];
    stream_copy(y + i, part, size_t(m));
  }
  stream_flush();
}

// Seconds of body(begin, end) over [0, n), a share for each thread.
template <class F>
double shared(int threads, int64_t n, const F& body) {
  return seconds([&] {
    std::vector<std::thread> others;
    const int64_t share = (n / threads + 63) / 64 * 64;
    for (int t = 1; t < threads; ++t) others.emplace_back([&, t] { body(t * share, std::min(n, (t + 1) * share)); });
    body(0, std::min(n, share));
    for (std::thread& o : others) o.join();
  });
}

template <class Net>
Net make(bool hybridized) {
  Net net;
  net.initialize(init::Constant(0.9));
  if (hybridized) net.hybridize({.static_alloc = true, .static_shape = true});
  return net;
}

void small(const std::string& t) {
  constexpr int calls = 20000;
  const NDArray x = nd.random_normal({few});
  const Numbers imperative = make<Numbers>(false), hybrid = make<Numbers>(true);
  const Arrays arrays_imperative = make<Arrays>(false), arrays_hybrid = make<Arrays>(true);
  std::vector<float> in(few, 0.5f), out(few);
  std::vector<std::vector<float>> factors(14, std::vector<float>(few + block, 0.9f));
  std::vector<const float*> pointers;
  for (auto& f : factors) pointers.push_back(f.data());
  auto us = [](double s) { return s * 1e6; };
  auto r = interleave(
      7, {[&] { return us(seconds_per_loop(calls, [&] { std::copy(in.begin(), in.end(), out.begin()); })); },
          [&] { return us(seconds_per_loop(calls, [&] { numbers_by_hand(in.data(), out.data(), few); })); },
          [&] { return us(seconds_per_call(imperative, x, calls / 20)); },
          [&] { return us(seconds_per_call(hybrid, x, calls)); },
          [&] {
            return us(seconds_per_loop(calls, [&] { arrays_by_hand(in.data(), pointers.data(), out.data(), few); }));
          },
          [&] { return us(seconds_per_call(arrays_imperative, x, calls / 20)); },
          [&] { return us(seconds_per_call(arrays_hybrid, x, calls)); }});
  print("copy_1k" + t, r[0], "us");
  print("chain20_1k_by_hand" + t, r[1], "us", "copy_1k", r[0]);
  print("chain20_1k_imperative" + t, r[2], "us", "chain20_1k_by_hand", r[1]);
  print("chain20_1k_hybridized" + t, r[3], "us", {{"chain20_1k_by_hand", r[1]}, {"chain20_1k_imperative", r[2]}}, 0.6);
  print("chain20_1k_arrays_by_hand" + t, r[4], "us", "copy_1k", r[0]);
  print("chain20_1k_arrays_imperative" + t, r[5], "us", "chain20_1k_arrays_by_hand", r[4]);
  print("chain20_1k_arrays_hybridized" + t, r[6], "us",
        {{"chain20_1k_arrays_by_hand", r[4]}, {"chain20_1k_arrays_imperative", r[5]}}, 0.6);
}

void large(int threads, const std::string& t) {
  constexpr int calls = 5;
  const NDArray x = nd.random_normal({many}), z = nd.random_normal({many});
  const Numbers imperative = make<Numbers>(false), hybrid = make<Numbers>(true);
  NDArray y = nd.zeros({many});
  nd.waitall();
  const auto floats = [](const NDArray& array) { return static_cast<float*>(array.node().data()); };
  const float *a = floats(x), *b = floats(z);
  float* out = floats(y);
  auto ms = [](double s) { return s * 1e3; };
  auto share = [&](auto&& body) {
    return [&, body] { return ms(seconds_per_loop(calls, [&] { shared(threads, many, body); })); };
  };
  auto r = interleave(
      7,
      {share([&](int64_t i, int64_t end) { stream_copy(out + i, a + i, size_t(end - i)), stream_flush(); }),
       share([&](int64_t i, int64_t end) { numbers_by_hand(a + i, out + i, end - i); }),
       [&] { return ms(seconds_per_call(imperative, x, 1)); }, [&] { return ms(seconds_per_call(hybrid, x, calls)); },
       [&] { return ms(seconds_per_call(hybrid, x, calls, Wait::each)); }});
  print("read_and_write_10m" + t, r[0], "ms");
  print("chain20_10m_by_hand" + t, r[1], "ms", "read_and_write_10m", r[0]);
  print("chain20_10m_imperative" + t, r[2], "ms", "read_and_write_10m", r[0]);
  print("chain20_10m_hybridized" + t, r[3], "ms",
        {{"read_and_write_10m", r[0]}, {"chain20_10m_by_hand", r[1]}, {"chain20_10m_imperative", r[2]}},
        1.2 * r[0].median);
  // The result before is gone when the next is made: as in the loop by hand, one array is written again and again.
  print("chain20_10m_hybridized_each_waited_for" + t, r[4], "ms", "read_and_write_10m", r[0], 1.2 * r[0].median);

  auto gb = [](double seconds) { return 12e-9 * double(many) / seconds; };
  const auto by_hand = share([&](int64_t i, int64_t end) { sum_by_hand(a + i, b + i, out + i, end - i); });
  const auto sum = [&](const NDArray& left) { return left + z; };
  auto sums =
      interleave(9, {[&] { return gb(by_hand() / per_ms); }, [&] { return gb(seconds_per_call(sum, x, calls)); },
                     [&] { return gb(seconds_per_call(sum, x, calls, Wait::each)); }});
  print("add_10m_by_hand" + t, sums[0], "GB/s");
  print("add_10m_imperative" + t, sums[1], "GB/s", "add_10m_by_hand", sums[0], 60);
  print("add_10m_imperative_each_waited_for" + t, sums[2], "GB/s", "add_10m_by_hand", sums[0]);
}

}  // namespace

void pointwise(int threads) {
  small(on_threads(threads));
  large(threads, on_threads(threads));
}

}  // namespace kaon::bench
