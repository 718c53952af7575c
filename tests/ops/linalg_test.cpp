// Linear algebra where random matrices do not come: singular matrices, NaN, equal eigenvalues, nothing at all, memory
// that begins anywhere.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <limits>

#include "kaon/graph/autograd.h"
#include "kaon/ops/functions.h"

namespace linalg_test {

using namespace kaon;

namespace {

constexpr float nan_ = std::numeric_limits<float>::quiet_NaN();
using Floats = std::vector<float>;

Floats values(const NDArray& x) { return x.asvector<float>(); }

// The gradient of the sum of f(x).
Floats gradient(NDArray x, const std::function<NDArray(const NDArray&)>& f) {
  x.attach_grad();
  const NDArray y = autograd::record([&] { return nd.sum(f(x)); });
  y.backward();
  return values(x.grad());
}

bool all_nan(const NDArray& x) {
  for (float v : values(x)) {
    if (!std::isnan(v)) return false;
  }
  return true;
}
bool all_finite(const Floats& x) {
  for (float v : x) {
    if (!std::isfinite(v)) return false;
  }
  return true;
}

}  // namespace

TEST_CASE("linear algebra: a singular matrix has determinant 0, with a gradient of 0", "[ops]") {
  const NDArray a = nd.array({1, 2, 2, 4, 2, 0, 0, 3}, {2, 2, 2});
  CHECK(values(nd.linalg_det(a)) == Floats{0, 6});
  CHECK(gradient(a, [](const NDArray& x) { return nd.linalg_det(x); }) == Floats{0, 0, 0, 0, 3, 0, 0, 2});
  const auto parts = nd.linalg_slogdet(a);
  CHECK(values(parts[0]) == Floats{0, 1});
  CHECK(values(parts[1])[0] == -std::numeric_limits<float>::infinity());
  const Floats slopes = gradient(a, [](const NDArray& x) { return nd.linalg_slogdet(x)[1]; });
  CHECK(Floats(slopes.begin(), slopes.begin() + 4) == Floats{0, 0, 0, 0});
  CHECK(slopes[4] == 0.5f);
}

TEST_CASE("linear algebra: the determinant of nothing is 1", "[ops]") {
  CHECK(values(nd.linalg_det(nd.zeros({2, 0, 0}))) == Floats{1, 1});
  const auto parts = nd.linalg_slogdet(nd.zeros({1, 0, 0}));
  CHECK(values(parts[0]) == Floats{1});
  CHECK(values(parts[1]) == Floats{0});
}

TEST_CASE("linear algebra: NaN goes through, and only through its own matrix", "[ops]") {
  const NDArray a = nd.array({nan_, 1, 1, 2, 2, 1, 1, 2}, {2, 2, 2});
  const auto first = [](const NDArray& x) { return nd.slice_axis(x, 0, 0, 1); };
  const auto second = [](const NDArray& x) { return nd.slice_axis(x, 0, 1, 2); };
  CHECK(std::isnan(values(nd.linalg_potrf(a))[0]));
  for (const NDArray& y : {nd.linalg_inverse(a), nd.linalg_det(a), nd.linalg_slogdet(a)[0], nd.linalg_syevd(a)[0],
                           nd.linalg_syevd(a)[1], nd.linalg_svd(a)[0], nd.linalg_svd(a)[1], nd.linalg_svd(a)[2]}) {
    CHECK(all_nan(first(y)));
    CHECK(all_finite(values(second(y))));
  }
}

TEST_CASE("linear algebra: gradients stay finite where eigenvalues or singular values are equal", "[ops]") {
  const NDArray identity = nd.eye(3);
  CHECK(all_finite(gradient(identity, [](const NDArray& x) { return nd.linalg_syevd(x)[0]; })));
  CHECK(all_finite(gradient(identity, [](const NDArray& x) { return nd.linalg_svd(x)[0]; })));
  CHECK(gradient(identity, [](const NDArray& x) { return nd.linalg_syevd(x)[1]; }) ==
        Floats{1, 0, 0, 0, 1, 0, 0, 0, 1});
}

TEST_CASE("linear algebra: singular values of a matrix without full rank", "[ops]") {
  const NDArray a = nd.array({1, 2, 3, 2, 4, 6}, {2, 3});
  const auto parts = nd.linalg_svd(a);
  const Floats l = values(parts[1]);
  CHECK(l[0] == Approx(std::sqrt(70)));
  CHECK(std::abs(l[1]) < 1e-6);
  const NDArray turned = nd.linalg_gemm2(parts[2], parts[2], {.transpose_b = true});
  CHECK(values(turned)[0] == Approx(1));
  CHECK(values(turned)[3] == Approx(1));
  CHECK(std::abs(values(turned)[1]) < 1e-6);
  for (float v : values(nd.linalg_svd(nd.zeros({2, 3}))[1])) CHECK(v == 0);
}

TEST_CASE("linear algebra: only the triangle that is named is read", "[ops]") {
  const NDArray junk = nd.array({2, nan_, 1, 4}, {2, 2}), b = nd.array({2, 4}, {2, 1});
  CHECK(values(nd.linalg_trsm(junk, b)) == Floats{1, 0.75f});
  CHECK(values(nd.linalg_trmm(junk, b)) == Floats{4, 18});
  CHECK(all_finite(values(nd.linalg_potri(junk))));
  CHECK(all_finite(values(nd.linalg_potrf(nd.array({4, nan_, 1, 3}, {2, 2})))));
  CHECK(all_finite(values(nd.linalg_syevd(nd.array({4, nan_, 1, 3}, {2, 2}))[0])));
}

TEST_CASE("linear algebra: many products in one einsum, in the order that keeps them small", "[ops]") {
  const NDArray x = nd.ones({200, 200}), v = nd.ones({200});
  CHECK(values(nd.einsum("ij,jk,kl,l->i", std::array{x, x, x, v}))[7] == 8e6f);
}

TEST_CASE("linear algebra: a matrix-vector product has the same bits wherever the matrix begins in memory", "[ops]") {
  for (int64_t columns : {16, 250, 256, 264, 512}) {
    const NDArray x = nd.random_normal({1, columns});
    for (int64_t rows : {3, 4, 9}) {
      CAPTURE(columns, rows);
      const Floats w = values(nd.random_normal({rows, columns}));
      Floats first;
      for (size_t offset = 0; offset < 17; ++offset) {
        Floats memory(w.size() + offset,
                      nan_);  // the program's memory ends with the matrix: no lane may be read behind
        std::copy(w.begin(), w.end(), memory.begin() + int64_t(offset));
        const NDArray matrix = NDArray::from_blob(memory.data() + offset, {rows, columns});
        const Floats y = values(nd.dot(x, matrix, {.transpose_b = true}));
        if (offset == 0) first = y;
        REQUIRE(y == first);
      }
    }
  }
}

}  // namespace linalg_test
