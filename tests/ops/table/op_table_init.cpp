// Rows of the operators that create arrays or update parameters.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>

#include "kaon/tests/ops/table/op_table.h"

namespace kaon::test {
namespace {

constexpr DType every[] = {DType::float32, DType::float64, DType::float16, DType::bfloat16, DType::uint8,
                           DType::int8,    DType::int32,   DType::int64,   DType::boolean};

// An operator without inputs whose element at position p is f(p).
template <class T, class F>
void create(Rows& rows, const T& op, const Shape& shape, F f) {
  rows.emplace_back(op, std::vector<Input>{}, [=](const Hosts&) {
    Host out = generate(shape, f);
    out.dtype = op.dtype;
    return out;
  });
}

void fill_rows(Rows& rows) {
  for (DType t : every) {
    const bool truth = t == DType::boolean;
    for (const Shape& shape : {Shape(3, 5), Shape(1, 7), Shape(0, 4)}) {
      create(rows, op::Zeros{.shape = shape, .dtype = t}, shape, [](const Shape&) { return 0.0; });
      create(rows, op::Ones{.shape = shape, .dtype = t, .ctx = cpu(0)}, shape, [](const Shape&) { return 1.0; });
      create(rows, op::Full{.shape = shape, .value = 3, .dtype = t}, shape,
             [=](const Shape&) { return truth ? 1.0 : 3.0; });
    }
    auto number = [truth](double v) { return truth ? double(v != 0) : v; };
    create(rows, op::Arange{.start = 5, .dtype = t}, {5}, [=](const Shape& p) { return number(double(p[0])); });
    create(rows, op::Arange{.start = 1, .stop = 8, .step = 3, .repeat = 2, .dtype = t}, {6},
           [=](const Shape& p) { return number(1 + 3 * double(p[0] / 2)); });
    create(rows, op::Arange{.start = 4, .stop = 1, .step = -1, .dtype = t}, {3},
           [=](const Shape& p) { return number(4 - double(p[0])); });
    create(rows, op::Arange{.start = 3, .stop = 3, .dtype = t, .ctx = cpu(0)}, {0}, [](const Shape&) { return 0.0; });
    create(rows, op::Linspace{.start = 0, .stop = 8, .num = 5, .dtype = t}, {5},
           [=](const Shape& p) { return number(2 * double(p[0])); });
    create(rows, op::Linspace{.start = 0, .stop = 10, .num = 5, .endpoint = false, .dtype = t}, {5},
           [=](const Shape& p) { return number(2 * double(p[0])); });
    create(rows, op::Linspace{.start = 7, .stop = 9, .num = 1, .dtype = t, .ctx = cpu(0)}, {1},
           [=](const Shape&) { return number(7); });
    create(rows, op::Linspace{.start = 7, .stop = 9, .num = 0, .dtype = t}, {0}, [](const Shape&) { return 0.0; });
    for (int64_t k : {0, 1, -2}) {
      create(rows, op::Eye{.N = 3, .M = 5, .k = k, .dtype = t}, {3, 5},
             [=](const Shape& p) { return double(p[1] - p[0] == k); });
      create(rows, op::Eye{.N = 3, .k = k, .dtype = t, .ctx = cpu(0)}, {3, 3},
             [=](const Shape& p) { return double(p[1] - p[0] == k); });
    }
    create(rows, op::Arange{.start = 1, .dtype = t}, {1}, [](const Shape&) { return 0.0; });
    create(rows, op::Eye{.N = 1, .dtype = t}, {1, 1}, [](const Shape&) { return 1.0; });
    create(rows, op::Eye{.N = 0, .M = 4, .dtype = t}, {0, 4}, [](const Shape&) { return 0.0; });
  }
  create(rows, op::Full{.shape = {2, 3}, .value = -1.5, .ctx = cpu(0)}, {2, 3}, [](const Shape&) { return -1.5; });
  create(rows, op::Zeros{.shape = {7}, .ctx = cpu(0)}, {7}, [](const Shape&) { return 0.0; });
  create(rows, op::Arange{.start = 0.5, .stop = 2, .step = 0.25}, {6},
         [](const Shape& p) { return 0.5 + 0.25 * double(p[0]); });
  for (const op::Arange& op : {op::Arange{.start = 0, .stop = 3, .step = 0.5, .dtype = DType::int32},
                               op::Arange{.start = 0.5, .stop = 3, .dtype = DType::uint8}}) {
    rows.emplace_back(op, std::vector<Input>{}, Reference(), RowOptions{.refused = true});
  }
  rows.emplace_back(op::Arange{.start = 5, .infer_range = true}, std::vector<Input>{}, Reference(),
                    RowOptions{.refused = true});
}

double clipped(double g, double rescale, double clip) {
  g *= rescale;
  return clip >= 0 ? std::clamp(g, -clip, clip) : g;
}

// One tensor of each update: arrays are weight, gradient and states; they become the new ones.
void sgd(double lr, double momentum, double wd, double rescale, double clip, std::vector<Host*> arrays) {
  for (size_t i = 0; i < arrays[0]->values.size(); ++i) {
    double& w = arrays[0]->values[i];
    const double g = clipped(arrays[1]->values[i], rescale, clip);
    if (arrays.size() == 2) {
      w = (1 - lr * wd) * w - lr * g;
    } else {
      double& m = arrays[2]->values[i];
      m = momentum * m - lr * wd * w - lr * g;
      w += m;
    }
  }
}

void adam(double lr, const op::MultiAdamUpdate& op, double wd, std::vector<Host*> a) {
  for (size_t i = 0; i < a[0]->values.size(); ++i) {
    double &w = a[0]->values[i], &mean = a[2]->values[i], &var = a[3]->values[i];
    const double scaled = op.rescale_grad * a[1]->values[i] + wd * w,
                 g = op.clip_gradient >= 0 ? std::clamp(scaled, -op.clip_gradient, op.clip_gradient) : scaled;
    mean = op.beta1 * mean + (1 - op.beta1) * g;
    var = op.beta2 * var + (1 - op.beta2) * g * g;
    w -= lr * mean / (std::sqrt(var) + op.epsilon);
  }
}

std::vector<Input> tensors(const std::vector<Shape>& shapes, int period, bool rates) {
  std::vector<Input> inputs;
  for (const Shape& s : shapes) {
    for (int k = 0; k < period; ++k) inputs.push_back(in(s, k == 3 ? Fill::positive : Fill::normal));
  }
  if (rates) {
    std::vector<double> values;
    for (size_t i = 0; i < 2 * shapes.size(); ++i)
      values.push_back(i < shapes.size() ? 0.125 * double(i + 1) : 0.0625 * double(i));
    inputs.push_back(index({int64_t(values.size())}, values));
  }
  return inputs;
}

// The empty output of one over many tensors, then the inputs that the operator updates, after update(first array of a
// tensor, lr, wd).
template <class F>
auto updated(int period, uint32_t mutates, F update) {
  return [=](Hosts in) {
    const size_t n = in.size() / size_t(period);
    const bool rates = in.size() % size_t(period) == 1;
    for (size_t t = 0; t < n; ++t) {
      std::vector<Host*> arrays;
      for (int k = 0; k < period; ++k) arrays.push_back(&in[t * size_t(period) + size_t(k)]);
      update(arrays, rates ? in.back()[t] : 0, rates ? in.back()[n + t] : 0);
    }
    Hosts out;
    if (rates) out.push_back({{0}, {}, DType::float32});
    for (size_t i = 0; i < n * size_t(period); ++i) {
      if (mutates >> (i % size_t(period)) & 1) out.push_back({in[i].shape, in[i].values});
    }
    return out;
  };
}

void update_rows(Rows& rows) {
  const RowOptions loose{.loosen = 8};
  for (const Shape& shape : {Shape(3, 5), Shape(1, 7), Shape(0, 4), Shape(33)}) {
    for (const op::SGDUpdate& op :
         {op::SGDUpdate{.lr = 0.5},
          op::SGDUpdate{.lr = 0.25, .wd = 0.125, .rescale_grad = 0.5, .clip_gradient = 0.25, .lazy_update = false}}) {
      rows.emplace_back(
          op, tensors({shape}, 2, false),
          updated(2, 1, [op](auto a, double, double) { sgd(op.lr, 0, op.wd, op.rescale_grad, op.clip_gradient, a); }),
          loose);
    }
    for (const op::SGDMomUpdate& op : {op::SGDMomUpdate{.lr = 0.5}, op::SGDMomUpdate{.lr = 0.25,
                                                                    .momentum = 0.75,
                                                                    .wd = 0.125,
                                                                    .rescale_grad = 0.5,
                                                                    .clip_gradient = 0.25,
                                                                    .lazy_update = false}}) {
      rows.emplace_back(op, tensors({shape}, 3, false),
                        updated(3, 5,
                                [op](auto a, double, double) {
                                  sgd(op.lr, op.momentum, op.wd, op.rescale_grad, op.clip_gradient, a);
                                }),
                        loose);
    }
    for (const op::AdamUpdate& op : {op::AdamUpdate{.lr = 0.125}, op::AdamUpdate{.lr = 0.25,
                                                                  .beta1 = 0.5,
                                                                  .beta2 = 0.75,
                                                                  .epsilon = 0.125,
                                                                  .wd = 0.125,
                                                                  .rescale_grad = 0.5,
                                                                  .clip_gradient = 0.25,
                                                                  .lazy_update = false}}) {
      const op::MultiAdamUpdate rule{op.beta1, op.beta2, op.epsilon, op.rescale_grad, op.clip_gradient};
      rows.emplace_back(op, tensors({shape}, 4, false),
                        updated(4, 13, [=](auto a, double, double) { adam(op.lr, rule, op.wd, a); }), loose);
    }
  }
  const std::vector<std::vector<Shape>> lists{{{3, 5}, {1, 7}, {0, 4}, {33}}, {{1}}, {}};
  for (const std::vector<Shape>& list : lists) {
    for (const op::MultiSGDUpdate& op :
         {op::MultiSGDUpdate{}, op::MultiSGDUpdate{.rescale_grad = 0.5, .clip_gradient = 0.25}}) {
      rows.emplace_back(
          op, tensors(list, 2, true),
          updated(2, 1, [op](auto a, double lr, double wd) { sgd(lr, 0, wd, op.rescale_grad, op.clip_gradient, a); }),
          loose);
    }
    for (const op::MultiSGDMomUpdate& op :
         {op::MultiSGDMomUpdate{},
          op::MultiSGDMomUpdate{.momentum = 0.75, .rescale_grad = 0.5, .clip_gradient = 0.25}}) {
      rows.emplace_back(op, tensors(list, 3, true),
                        updated(3, 5,
                                [op](auto a, double lr, double wd) {
                                  sgd(lr, op.momentum, wd, op.rescale_grad, op.clip_gradient, a);
                                }),
                        loose);
    }
    for (const op::MultiAdamUpdate& op :
         {op::MultiAdamUpdate{},
          op::MultiAdamUpdate{
              .beta1 = 0.5, .beta2 = 0.75, .epsilon = 0.125, .rescale_grad = 0.5, .clip_gradient = 0.25}}) {
      rows.emplace_back(op, tensors(list, 4, true),
                        updated(4, 13, [op](auto a, double lr, double wd) { adam(lr, op, wd, a); }), loose);
    }
  }
  auto finite = [](const Hosts& in) {
    bool all = true;
    for (const Host& h : in)
      all = all && std::all_of(h.values.begin(), h.values.end(), [](double v) { return std::isfinite(v); });
    return Host{{1}, {double(all)}, DType::float32};
  };
  rows.emplace_back(op::AllFinite{}, std::vector{in({3, 5}), in({1, 7}), in({0, 4})}, finite);
  rows.emplace_back(op::AllFinite{}, std::vector{in({3}, {1, INFINITY, 2})}, finite);
  rows.emplace_back(op::AllFinite{}, std::vector{in(Shape(), {NAN})}, finite);
  rows.emplace_back(op::AllFinite{}, std::vector{in({3, 5}), in({3}, {1, NAN, 2}), in({2})}, finite);
}

}  // namespace

Rows init_rows() {
  Rows rows;
  fill_rows(rows);
  return rows;
}

Rows optim_rows() {
  Rows rows;
  update_rows(rows);
  return rows;
}

}  // namespace kaon::test

using namespace kaon::test;

TEST_CASE("op table: creation of arrays", "[op_table]") { check_ops(init_rows()); }
TEST_CASE("op table: optimizer updates", "[op_table]") { check_ops(optim_rows()); }
