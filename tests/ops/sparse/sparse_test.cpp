// Sparse arrays: their functions, updates and files beside MXNet's (tests/data/make_sparse.py), and what has none
// there.
#include "kaon/ops/sparse/sparse.h"

#include <catch2/catch.hpp>

#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <random>
#include <sstream>
#include <string>
#include <vector>

#include "kaon/engine/engine.h"
#include "kaon/engine/error.h"
#include "kaon/graph/autograd.h"
#include "kaon/graph/sparse_gradient.h"
#include "kaon/ops/checks.h"
#include "kaon/ops/functions.h"
#include "kaon/tests/support/files.h"

namespace sparse_test {

using namespace kaon;
using namespace kaon::test;
using Catch::Matchers::Contains;
using sparse::CSRNDArray;
using sparse::RowSparseNDArray;

namespace {

void require_same(const NDArray& got, const NDArray& expected, double bound = 0) {
  REQUIRE(got.shape() == expected.shape());
  const std::vector<double> a = got.asvector<double>(), b = expected.asvector<double>();
  for (size_t i = 0; i < a.size(); ++i) {
    INFO("element " << i << ": " << a[i] << ", expected " << b[i]);
    REQUIRE(std::abs(a[i] - b[i]) <= bound * (1 + std::abs(b[i])));
  }
}
void require_same(const RowSparseNDArray& got, const RowSparseNDArray& expected) {
  REQUIRE(got.shape() == expected.shape());
  require_same(got.indices(), expected.indices());
  require_same(got.data(), expected.data());
}
void require_same(const CSRNDArray& got, const CSRNDArray& expected) {
  REQUIRE(got.shape() == expected.shape());
  require_same(got.indptr(), expected.indptr());
  require_same(got.indices(), expected.indices());
  require_same(got.data(), expected.data());
}

// A case of the file. Results of updates differ by rounding; all others have few bits.
struct Case {
  std::map<std::string, sparse::AnyArray> parts;
  template <class T = NDArray>
  const T& part(const std::string& name) const {
    return std::get<T>(parts.at(name));
  }
  const NDArray& dense(int i) const { return part(std::to_string(i)); }
  const RowSparseNDArray& rows(int i) const { return part<RowSparseNDArray>(std::to_string(i)); }
  const CSRNDArray& csr(int i) const { return part<CSRNDArray>(std::to_string(i)); }
  std::vector<int64_t> attrs() const { return part("attrs").asvector<int64_t>(); }
  template <class T = NDArray>
  void expect(const T& got, int i = 0) const {
    require_same(got, part<T>("out" + std::to_string(i)));
  }
  void expect_updated(std::initializer_list<NDArray> arrays) const {
    int i = 0;
    for (const NDArray& a : arrays) require_same(a, part("out" + std::to_string(i++)), 2e-6);
  }
};

// A copy that an update may change.
NDArray own(const NDArray& a) { return a.copy(); }

constexpr double lr = 0.125, wd = 0.25, rescale = 0.5, clip = 1;

using Check = std::function<void(const Case&)>;

const std::map<std::string, Check>& update_checks() {
  static const std::map<std::string, Check> checks = {
      {"sgd_update",
       [](const Case& c) {
         const NDArray w = own(c.dense(1));
         sparse::sgd_update(
             w, c.rows(0),
             {.lr = lr, .wd = wd, .rescale_grad = rescale, .clip_gradient = clip, .lazy_update = c.attrs()[0] != 0});
         c.expect_updated({w});
       }},
      {"sgd_mom_update",
       [](const Case& c) {
         const NDArray w = own(c.dense(1)), m = own(c.dense(2));
         sparse::sgd_mom_update(w, c.rows(0), m,
                                {.lr = lr,
                                 .momentum = 0.5,
                                 .wd = wd,
                                 .rescale_grad = rescale,
                                 .clip_gradient = clip,
                                 .lazy_update = c.attrs()[0] != 0});
         c.expect_updated({w, m});
       }},
      {"adam_update",
       [](const Case& c) {
         const NDArray w = own(c.dense(1)), m = own(c.dense(2)), v = own(c.dense(3));
         op::AdamUpdate op;
         op.lr = lr, op.wd = wd, op.rescale_grad = rescale, op.clip_gradient = clip;
         op.lazy_update = c.attrs()[0] != 0;
         sparse::adam_update(w, c.rows(0), m, v, op);
         c.expect_updated({w, m, v});
       }},
      {"ftrl_update",
       [](const Case& c) {
         const NDArray w = own(c.dense(1)), z = own(c.dense(2)), n = own(c.dense(3));
         op::FtrlUpdate op;
         op.lr = lr, op.wd = wd, op.rescale_grad = rescale, op.clip_gradient = clip;
         sparse::ftrl_update(w, c.rows(0), z, n, op);
         c.expect_updated({w, z, n});
       }},
      {"adagrad_update",
       [](const Case& c) {
         const NDArray w = own(c.dense(1)), h = own(c.dense(2));
         sparse::adagrad_update(w, c.rows(0), h, {.lr = lr, .rescale_grad = rescale, .clip_gradient = clip});
         c.expect_updated({w, h});
       }},
      {"group_adagrad_update",
       [](const Case& c) {
         const NDArray w = own(c.dense(1)), h = own(c.dense(2));
         sparse::group_adagrad_update(w, c.rows(0), h, {.lr = lr, .rescale_grad = rescale, .clip_gradient = clip});
         c.expect_updated({w, h});
       }},
  };
  return checks;
}

const std::map<std::string, Check>& function_checks() {
  static const std::map<std::string, Check> checks = {
      {"cast_row_sparse",
       [](const Case& c) {
         const auto rows = sparse::cast_storage<RowSparseNDArray>(c.dense(0));
         c.expect(rows), require_same(rows.todense(), c.dense(0));
       }},
      {"cast_csr",
       [](const Case& c) {
         const auto csr = sparse::cast_storage<CSRNDArray>(c.dense(0));
         c.expect(csr), require_same(csr.todense(), c.dense(0));
       }},
      {"dot",
       [](const Case& c) {
         c.expect(sparse::dot(c.csr(0), c.dense(1)));
         c.expect(sparse::dot(c.csr(0), c.dense(1).transpose(), {.transpose_b = true}));
       }},
      {"dot_transposed",
       [](const Case& c) {
         c.expect(sparse::dot(c.csr(0), c.dense(1), {.transpose_a = true}));
         c.expect(sparse::dot<RowSparseNDArray>(c.csr(0), c.dense(1), {.transpose_a = true}), 1);
       }},
      {"dot_gradient",
       [](const Case& c) {
         NDArray b = own(c.dense(1));
         b.attach_grad();
         autograd::record([&] { return sparse::dot(c.csr(0), b); }).backward(c.dense(2));
         c.expect(b.grad());
       }},
      {"retain", [](const Case& c) { c.expect(sparse::retain(c.rows(0), c.dense(1))); }},
      {"add_row_sparse", [](const Case& c) { c.expect(sparse::elemwise_add(c.rows(0), c.rows(1))); }},
      {"add_csr",
       [](const Case& c) {  // MXNet stores no sums that cancel, and columns in descending order in some rows
         require_same(sparse::elemwise_add(c.csr(0), c.csr(1)).todense(), c.part<CSRNDArray>("out0").todense());
       }},
      {"times", [](const Case& c) { c.expect(c.rows(0) * 1.5), c.expect(c.csr(1) * 1.5, 1); }},
      {"square_sum", [](const Case& c) { c.expect(sparse::square_sum(c.rows(0), int(c.attrs()[0]))); }},
      {"getnnz",
       [](const Case& c) {
         c.expect(sparse::getnnz(c.csr(0), c.parts.count("attrs") ? std::optional(int(c.attrs()[0])) : std::nullopt));
       }},
      {"where", [](const Case& c) { c.expect(sparse::where(c.csr(0), c.dense(1), c.dense(2))); }},
      {"slice", [](const Case& c) { c.expect(c.csr(0).slice(c.attrs()[0], c.attrs()[1])); }},
      {"embedding",
       [](const Case& c) {
         const NDArray w = own(c.dense(0));
         autograd::attach_row_sparse_grad(w);
         const op::Embedding op{.input_dim = w.shape()[0], .output_dim = w.shape()[1], .sparse_grad = true};
         const NDArray out = autograd::record([&] { return nd.Embedding(c.dense(1), w, op); });
         c.expect(out);
         out.backward(c.dense(2));
         c.expect(autograd::row_sparse_grad(w), 1);
       }},
  };
  return checks;
}

NDArray index(const std::vector<int64_t>& values) {
  return nd.array(values, Shape(values.size()), {.dtype = DType::int64});
}

RowSparseNDArray rows_of(std::initializer_list<int64_t> indices, int64_t rows = 4) {
  const int64_t n = int64_t(indices.size());
  const NDArray data = n ? nd.arange(1, double(2 * n + 1)).reshape({n, 2}) : nd.zeros({0, 2});
  return {data, index(indices), {rows, 2}};
}

}  // namespace

TEST_CASE("sparse arrays: functions and updates give what MXNet's give", "[sparse]") {
  for (const int threads : {0, 1, 2}) {
    Engine engine({.threads = threads});
    EngineScope scope(engine);
    std::map<std::string, std::map<std::string, Case>> cases;  // by function and number
    for (const auto& [name, array] : sparse::load(data_file("sparse.nd"))) {
      const size_t a = name.find('/'), b = name.rfind('/');
      cases[name.substr(a + 1, b - a - 1)][name.substr(0, a)].parts.emplace(name.substr(b + 1), array);
    }
    CHECK(cases.size() == function_checks().size() + update_checks().size());
    for (const auto& [function, numbered] : cases) {
      const auto& checks = update_checks().count(function) ? update_checks() : function_checks();
      for (const auto& [number, c] : numbered) {
        INFO(function << ", case " << number << ", " << threads << " threads");
        checks.at(function)(c);
      }
    }
    engine.wait_all();
  }
}

TEST_CASE("sparse arrays: products have the same bits for any number of threads", "[sparse]") {
  std::mt19937 random(7);
  std::vector<float> values(300 * 200), right(300 * 70);
  for (float& v : values) v = random() % 10 < 2 ? float(random()) / 1e9f : 0;
  for (float& v : right) v = float(random()) / 1e9f;
  std::vector<std::vector<float>> found[2];
  for (const int threads : {0, 1, 2}) {
    Engine engine({.threads = threads});
    EngineScope scope(engine);
    const NDArray a = nd.array(values, {300, 200}), b = nd.array(right, {300, 70});
    const auto csr = sparse::cast_storage<CSRNDArray>(a);
    found[0].push_back(sparse::dot(csr, b.slice(0, 200)).asvector<float>());
    found[1].push_back(sparse::dot(csr, b, {.transpose_a = true}).asvector<float>());
    require_same(sparse::dot(csr, b, {.transpose_a = true}), nd.dot(a.transpose(), b), 1e-5);
  }
  for (const auto& f : found) CHECK((f[0] == f[1] && f[1] == f[2]));
}

TEST_CASE("sparse arrays: every dtype, and dimensions of 0", "[sparse]") {
  for (const DType t : {DType::float32, DType::float64, DType::float16, DType::bfloat16, DType::int8, DType::uint8,
                        DType::int32, DType::int64}) {
    INFO(name_of(t));
    const NDArray x = nd.array({0, 2, 0, 1, 0, 3}, {3, 2}, {.dtype = t}),
                  b = nd.array({1, 2, 3, 4}, {2, 2}, {.dtype = t});
    const auto csr = sparse::cast_storage<CSRNDArray>(x);
    require_same(csr.todense(), x);
    require_same(sparse::dot(csr, b), nd.array({6, 8, 3, 4, 9, 12}, {3, 2}));
    require_same(sparse::cast_storage<RowSparseNDArray>(x).todense(), x);
  }
  for (const Shape& shape : {Shape(0, 3), Shape(3, 0), Shape(0, 0)}) {
    INFO(shape.str());
    const NDArray x = nd.zeros(shape);
    const auto csr = sparse::cast_storage<CSRNDArray>(x);
    require_same(csr.todense(), x);
    require_same(sparse::cast_storage<RowSparseNDArray>(x).todense(), x);
    require_same(sparse::zeros<RowSparseNDArray>(shape).todense(), x);
    require_same(sparse::zeros<CSRNDArray>(shape).todense(), x);
    require_same(sparse::dot(csr, nd.ones({shape[1], 2})), nd.zeros({shape[0], 2}));
    require_same(sparse::elemwise_add(csr, csr).todense(), x);
  }
  const auto cube = sparse::cast_storage<RowSparseNDArray>(nd.array({0, 0, 0, 0, 1, 2, 3, 4}, {2, 2, 2}));
  CHECK(cube.data().shape() == Shape(1, 2, 2));
  require_same(sparse::cast_storage<RowSparseNDArray>(nd.array({0, 5})).indices(), nd.array({1}));
  const float nan = std::numeric_limits<float>::quiet_NaN();
  CHECK(sparse::cast_storage<CSRNDArray>(nd.array({nan, -0.0f}, {1, 2})).indices().asvector<int>() == std::vector{0});
}

TEST_CASE("sparse arrays: elements stored twice add up, rows in any order", "[sparse]") {
  const CSRNDArray twice(nd.array({1, 2, 4}), index({2, 0, 2}), index({0, 3}), {1, 3});
  require_same(twice.todense(), nd.array({2, 0, 5}, {1, 3}));
  require_same(sparse::dot(twice, nd.array({1, 10, 100}, {3, 1})), nd.array({502}, {1, 1}));
  require_same(sparse::elemwise_add(twice, twice).data(), nd.array({4, 10}));
  require_same(sparse::getnnz(twice, 0), nd.array({1, 0, 2}));
  require_same(rows_of({3, 1}).todense(), nd.array({0, 0, 3, 4, 0, 0, 1, 2}, {4, 2}));
  require_same(sparse::sum_rows(nd.array({1, 2, 3}, {3, 1}), index({2, 0, 2}), {4, 1}).todense(),
               nd.array({2, 0, 4, 0}, {4, 1}));
  require_same(twice[-1].todense(), twice.todense());
  const RowSparseNDArray a = rows_of({0}), copied = a.copy();
  NDArray data = a.data();
  data += 1;
  require_same(copied.data(), nd.array({1, 2}, {1, 2}));
  require_same(a.as_in_context(cpu()).data(), nd.array({2, 3}, {1, 2}));
}

TEST_CASE("sparse arrays: gradients flow through conversions", "[sparse]") {
  NDArray x = nd.array({0, 2, 0, 3}, {2, 2});
  x.attach_grad();
  autograd::record([&] { return sparse::cast_storage<CSRNDArray>(x).todense() * 3; }).backward();
  require_same(x.grad(), nd.array({0, 3, 0, 3}, {2, 2}));
  NDArray data = nd.ones({1});
  data.attach_grad();
  const NDArray at = index({0});
  const CSRNDArray a(data, at, index({0, 1}), {1, 1});
  const NDArray product = autograd::record([&] { return sparse::dot(a, nd.ones({1, 1})); });
  CHECK_THROWS_WITH(product.backward(), Contains("no gradient flows to the elements that a csr matrix stores"));
}

TEST_CASE("sparse arrays: Embedding gives the rows that it has read", "[sparse]") {
  const NDArray w = nd.arange(8).reshape({4, 2});
  autograd::attach_row_sparse_grad(w);
  CHECK(autograd::has_row_sparse_grad(w));
  CHECK_FALSE(w.grad().defined());
  CHECK(autograd::row_sparse_grad(w).indices().size() == 0);
  const op::Embedding op{.input_dim = 4, .output_dim = 2, .sparse_grad = true};
  const auto look_up = [&](const NDArray& ids) { return nd.Embedding(ids, w, op); };
  const auto gradient = [&] { return autograd::row_sparse_grad(w); };

  SECTION("ids are truncated and clipped, whatever their dtype") {
    const double nan = std::numeric_limits<double>::quiet_NaN();
    autograd::record([&] { return look_up(nd.array({-1.0, 7.0, 1.7, -0.5, 1e30, -1e30, nan, 1.0})); }).backward();
    CHECK(gradient().indices().asvector<int>() == std::vector{0, 1, 3});
    require_same(gradient().data(), nd.array({4, 4, 2, 2, 2, 2}, {3, 2}));
    for (const DType t : {DType::int8, DType::uint8, DType::int32, DType::int64, DType::uint64}) {
      autograd::record([&] { return look_up(nd.array({100, 2}, {1, 2}, {.dtype = t})); }).backward();
      CHECK(gradient().indices().asvector<int>() == std::vector{2, 3});
    }
    const NDArray most = nd.array(std::vector<uint64_t>{UINT64_MAX}, {.dtype = DType::uint64});
    autograd::record([&] { return look_up(most); }).backward();
    CHECK(gradient().indices().asvector<int>() == std::vector{3});
  }
  SECTION("calls of one backward add up, another backward overwrites") {
    const NDArray ids = nd.array({1, 3}), other = nd.array({3, 0});
    autograd::record([&] { return look_up(ids) + look_up(other) * 2; }).backward();
    CHECK(gradient().indices().asvector<int>() == std::vector{0, 1, 3});
    require_same(gradient().data(), nd.array({2, 2, 1, 1, 3, 3}, {3, 2}));
    autograd::record([&] { return look_up(ids); }).backward();
    CHECK(gradient().indices().asvector<int>() == std::vector{1, 3});
  }
  SECTION("grad_req add keeps what was there") {
    autograd::attach_row_sparse_grad(w, GradReq::add);
    for (int i = 0; i < 2; ++i) autograd::record([&] { return look_up(nd.array({1})); }).backward();
    require_same(gradient().data(), nd.array({2, 2}, {1, 2}));
  }
  SECTION("what is written to ids and head gradient afterwards does not count") {
    NDArray ids = nd.array({1, 2}), head = nd.ones({2, 2});
    autograd::record([&] { return look_up(ids); }).backward(head);
    ids.assign(0), head.assign(9);
    CHECK(gradient().indices().asvector<int>() == std::vector{1, 2});
    require_same(gradient().data(), nd.ones({2, 2}));
  }
  SECTION("no ids") {
    autograd::record([&] { return look_up(nd.zeros({0, 3})); }).backward();
    CHECK(gradient().indices().size() == 0);
  }
  SECTION("dense gradients are refused, and nothing is stored then") {
    NDArray x = nd.ones({4, 2});
    x.attach_grad();
    const NDArray out = autograd::record([&] { return look_up(nd.array({1})).sum() + (w * x).sum(); });
    CHECK_THROWS_WITH(out.backward(), Contains("a dense gradient has arrived at an array (4, 2)"));
    require_same(x.grad(), nd.zeros({4, 2}));
    CHECK(gradient().indices().size() == 0);
  }
  SECTION("asked for by name it is dense, and so it is for a weight with a dense one") {
    const NDArray out = autograd::record([&] { return look_up(nd.array({1})); });
    require_same(autograd::grad(std::span(&out, 1), std::span(&w, 1))[0], nd.array({0, 0, 1, 1, 0, 0, 0, 0}, {4, 2}));
    NDArray dense = nd.ones({4, 2});
    dense.attach_grad();
    autograd::record([&] { return nd.Embedding(nd.array({1}), dense, op); }).backward();
    require_same(dense.grad(), nd.array({0, 0, 1, 1, 0, 0, 0, 0}, {4, 2}));
  }
}

TEST_CASE("sparse arrays: files of both storages, and damaged ones", "[sparse]") {
  for (const char* name : {"row_sparse.nd", "csr.nd"}) {
    INFO(name);
    ScratchFolder folder;
    const fs::path copy = folder / "copy.nd";
    const sparse::NamedAnyArrays arrays = sparse::load(data_file(name));
    sparse::save(copy, arrays);
    const std::string bytes = bytes_of(data_file(name));
    if (name == std::string("csr.nd")) CHECK(bytes_of(copy) == bytes);  // the other one has a count of 0 beside it
    const sparse::NamedAnyArrays again = sparse::load(copy);
    if (const auto* rows = std::get_if<RowSparseNDArray>(&again[0].second)) {
      require_same(*rows, std::get<RowSparseNDArray>(arrays[0].second));
    }
    const NDArray expected = nd.arange(1, 9).reshape({4, 2});
    if (const auto* rows = std::get_if<RowSparseNDArray>(&arrays[0].second)) require_same(rows->todense(), expected);
    if (const auto* csr = std::get_if<CSRNDArray>(&arrays[0].second)) require_same(csr->todense(), expected);
    std::mt19937 random(3);
    for (int i = 0; i < 300; ++i) {
      std::ofstream(copy, std::ios::binary) << mutate(bytes, random);
      try {
        for (const auto& [n, array] : sparse::load(copy)) {
          if (const auto* csr = std::get_if<CSRNDArray>(&array)) {
            if (csr->shape()[1] < 1000) sparse::dot(*csr, nd.ones({csr->shape()[1], 1}, {.dtype = csr->dtype()}));
          }
        }
        Engine::current().wait_all();
      } catch (const Error&) {
      }
    }
  }
}

TEST_CASE("sparse arrays print as MXNet's", "[sparse]") {
  std::ostringstream out;
  out << rows_of({1}) << sparse::zeros<CSRNDArray>({2, 3}) << RowSparseNDArray();
  CHECK(out.str() == "\n<RowSparseNDArray 4x2 @cpu(0)>\n<CSRNDArray 2x3 @cpu(0)><RowSparseNDArray none>");
}

TEST_CASE("sparse arrays: set_checks looks at the contents", "[sparse]") {
  const Checks before = checks();
  set_checks({.indices = true});
  CHECK_THROWS_WITH(rows_of({1, 1}), Contains("indices must differ and lie in [0, 4)"));
  CHECK_THROWS_AS(rows_of({1, 4}), IndexError);
  const NDArray at = index({3});
  CHECK_THROWS_WITH(CSRNDArray(nd.ones({1}), at, index({0, 1}), Shape(1, 3)),
                    Contains("indptr must rise from 0 to 1 and indices lie in [0, 3)"));
  set_checks(before);
  const NDArray ends = index({0, 1});
  CHECK_THROWS_AS(sparse::dot(CSRNDArray(nd.ones({1}), at, ends, Shape(1, 3)), nd.ones({3, 1})).wait_to_read(),
                  IndexError);
}

}  // namespace sparse_test
