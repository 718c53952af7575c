// Rows of the operators that create arrays.
#include <algorithm>
#include <cmath>

#include "kaon/tests/ops/table/op_table.h"

namespace kaon::test {
namespace {

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
  for (DType t : all_dtypes) {
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

}  // namespace

Rows init_rows() {
  Rows rows;
  fill_rows(rows);
  return rows;
}

}  // namespace kaon::test
