// Rows of Fourier transforms, count sketches, sequences of events, and operators of the program.
#include <cmath>
#include <mutex>
#include <numbers>

#include "kaon/engine/base/process_wide.h"
#include "kaon/ops/functions.h"
#include "kaon/tests/ops/table/op_table.h"

namespace kaon::test {
namespace {

// Calls visit(position of a row without the last axis) for each.
template <class Visit>
void each_row(const Shape& shape, const Visit& visit) {
  each(without(shape, shape.ndim() - 1), visit);
}
Shape at(const Shape& row, int64_t column) { return inserted(row, row.ndim(), column); }

Reference transform(int64_t n) {
  return [=](const Hosts& in) {
    Host out = zeros(with(in[0].shape, in[0].shape.ndim() - 1, 2 * n));
    each_row(in[0].shape, [&](const Shape& row) {
      for (int64_t k = 0; k < n; ++k) {
        for (int64_t j = 0; j < n; ++j) {
          const double angle = -2 * std::numbers::pi * double(j * k % n) / double(n), x = in[0].at(at(row, j));
          out.at(at(row, 2 * k)) += x * std::cos(angle), out.at(at(row, 2 * k + 1)) += x * std::sin(angle);
        }
      }
    });
    return out;
  };
}

Reference back(int64_t n) {
  return [=](const Hosts& in) {
    Host out = zeros(with(in[0].shape, in[0].shape.ndim() - 1, n));
    each_row(in[0].shape, [&](const Shape& row) {
      for (int64_t j = 0; j < n; ++j) {
        for (int64_t k = 0; k < n; ++k) {
          const double angle = 2 * std::numbers::pi * double(j * k % n) / double(n);
          out.at(at(row, j)) +=
              in[0].at(at(row, 2 * k)) * std::cos(angle) - in[0].at(at(row, 2 * k + 1)) * std::sin(angle);
        }
      }
    });
    return out;
  };
}

void fourier_rows(Rows& rows) {
  const RowOptions options{.loosen = 16, .loosen_gradient = 32};
  for (const Shape& shape : {Shape(3, 8), Shape(2, 3, 5), Shape(1, 1), Shape(1, 7), Shape(2, 12), Shape(13),
                             Shape(0, 4), Shape(2, 0), Shape(1, 2, 1, 6)}) {
    const int64_t n = shape.back();
    rows.emplace_back(op::Fft{}, std::vector{in(shape)}, transform(n), options);
    rows.emplace_back(op::Ifft{}, std::vector{in(with(shape, shape.ndim() - 1, 2 * n))}, back(n), options);
  }
  rows.emplace_back(op::Fft{.compute_size = 2}, std::vector{in({5, 4})}, transform(4), options);
  rows.emplace_back(op::Ifft{.compute_size = 2}, std::vector{in({5, 4})}, back(2), options);
  rows.emplace_back(op::Fft{.compute_size = 0}, std::vector{in({5, 4})}, Reference(), RowOptions{.refused = true});
  rows.emplace_back(op::Ifft{.compute_size = 0}, std::vector{in({5, 4})}, Reference(), RowOptions{.refused = true});
}

void sketch_rows(Rows& rows) {
  const auto add = [&](const op::CountSketch& op, const Shape& data, const Shape& columns, std::vector<double> h) {
    Input places = index(columns, std::move(h));
    rows.emplace_back(
        op, std::vector{in(data), places, constant(in(columns))},
        [=](const Hosts& in) {
          Host out = zeros(with(data, data.ndim() - 1, op.out_dim));
          each(data, [&](const Shape& p) {
            const size_t i = size_t(p.back());
            out.at(with(p, p.ndim() - 1, int64_t(in[1][i]))) += in[0].at(p) * in[2][i];
          });
          return out;
        },
        RowOptions{.loosen = 4});
  };
  add({.out_dim = 3}, {2, 5}, {5}, {0, 2, 2, 1, 0}), add({.out_dim = 4}, {1, 3}, {1, 3}, {3, 3, 0});
  add({.out_dim = 1, .processing_batch_size = 2}, {3, 2, 2}, {2}, {0, 0}), add({.out_dim = 2}, {0, 2}, {2}, {1, 0});
  add({.out_dim = 7}, {3}, {3}, {6, 0, 2});
  rows.emplace_back(op::CountSketch{}, std::vector{in({2, 3}), in({3}), in({3})}, Reference(),
                    RowOptions{.refused = true});
}

// The likelihood and the state, by the definition: sums over all earlier events.
Hosts hawkes(const Hosts& in, int64_t n, int64_t k, int64_t t) {
  Host likelihood = zeros(Shape(n)), state = zeros({n, k});
  for (int64_t i = 0; i < n; ++i) {
    std::vector<double> times;
    std::vector<int64_t> kinds;
    double now = 0, &total = likelihood.at(Shape(i));
    const auto sum = [&](int64_t m, double until) {
      double s = in[3].at({i, m}) * std::exp(-in[2][size_t(m)] * until);
      for (size_t e = 0; e < times.size(); ++e) {
        if (kinds[e] == m) s += std::exp(-in[2][size_t(m)] * (until - times[e]));
      }
      return s;
    };
    for (int64_t j = 0; j < t && double(j) < in[6][size_t(i)]; ++j) {
      const int64_t m = int64_t(in[5].at({i, j}));
      now += in[4].at({i, j});
      total += std::log(in[0].at({i, m}) + in[1][size_t(m)] * in[2][size_t(m)] * sum(m, now));
      times.push_back(now), kinds.push_back(m);
    }
    const double end = in[7][size_t(i)];
    for (int64_t m = 0; m < k; ++m) {
      const double a = in[1][size_t(m)], b = in[2][size_t(m)];
      total -= in[0].at({i, m}) * end + a * in[3].at({i, m}) * (1 - std::exp(-b * end));
      for (size_t e = 0; e < times.size(); ++e) {
        if (kinds[e] == m) total -= a * (1 - std::exp(-b * (end - times[e])));
      }
      state.at({i, m}) = sum(m, end);
    }
  }
  return {likelihood, state};
}

void hawkes_rows(Rows& rows) {
  const auto add = [&](int64_t n, int64_t k, int64_t t) {
    std::vector<double> lengths, ends;
    for (int64_t i = 0; i < n; ++i)
      lengths.push_back(double(std::max<int64_t>(0, t - i))), ends.push_back(4. * double(t) + 1);
    const std::vector<Input> inputs{in({n, k}, Fill::positive),           in(Shape(k), Fill::positive),
                                    in(Shape(k), Fill::positive),         constant(in({n, k}, Fill::positive)),
                                    constant(in({n, t}, Fill::positive)), index({n, t}, 0, double(k), DType::int32),
                                    constant(in(Shape(n), lengths)),      constant(in(Shape(n), ends))};
    RowOptions options{.dtypes = dtype_bit(DType::float32) | dtype_bit(DType::float64), .loosen = 16};
    const auto derivatives = [=](const Hosts& in) {
      Hosts d;
      for (size_t which : {0, 1, 2}) {
        Host by = zeros({n, k});
        each({n, k}, [&](const Shape& p) {
          const auto total = [&](double step) {
            Hosts moved = in;
            moved[which].values[which == 0 ? size_t(p[0] * k + p[1]) : size_t(p[1])] += step;
            return hawkes(moved, n, k, t)[0][size_t(p[0])];
          };
          const double h = 1e-4;
          by.at(p) = (8 * (total(h) - total(-h)) - (total(2 * h) - total(-2 * h))) / (12 * h);
        });
        d.push_back(by);
      }
      return d;
    };
    options.gradient = [=](const Hosts& in, const Hosts& heads) {
      Hosts d = derivatives(in), out{zeros({n, k}), zeros(Shape(k)), zeros(Shape(k))};
      each({n, k}, [&](const Shape& p) {
        const double head = heads[0][size_t(p[0])];
        out[0].at(p) = d[0].at(p) * head;
        for (size_t which : {1, 2}) out[which].values[size_t(p[1])] += d[which].at(p) * head;
      });
      return out;
    };
    options.loosen_gradient = 64;
    rows.emplace_back(
        op::HawkesLL{}, inputs, [=](const Hosts& in) { return hawkes(in, n, k, t); }, options);
    options.gradient = nullptr;
    options.loosen = 64, options.tolerance = 1e-7;
    std::vector<Input> fixed = inputs;
    for (Input& i : fixed) i.differentiable = false;
    rows.emplace_back(op::BackwardHawkesLL{}, fixed, derivatives, options);
  };
  add(3, 2, 5), add(1, 3, 7), add(2, 1, 1), add(0, 2, 3), add(2, 3, 0);
}

// x scale + y, and where `twice` is set, that twice.
void register_scaled_sum() {
  register_custom_operator("scaled_sum", {.inputs = {"x", "y"},
                                          .compose =
                                              [](const CustomAttributes& a, ComposeContext& c) {
                                                const auto scale = a.find("scale");
                                                const NDArray y =
                                                    c.input(0) * (scale == a.end() ? 2 : std::stod(scale->second)) +
                                                    c.input(1);
                                                c.set(a.contains("twice") ? y + y : y);
                                              },
                                          .infer =
                                              [](const CustomAttributes&, InferContext& c) {
                                                c.expect_floating();
                                                c.expect_shape(1, c.shape(0));
                                                c.expect_same_dtype();
                                                c.set_output(c.shape(0), c.dtype());
                                              }});
  register_custom_operator("halves", {.outputs = 2,
                                      .compose =
                                          [](const CustomAttributes&, ComposeContext& c) {
                                            const std::vector<NDArray> parts = nd.split(c.input(), 2, {.axis = 0});
                                            for (int i : {0, 1}) c.set(i, parts[size_t(i)]);
                                          },
                                      .infer =
                                          [](const CustomAttributes&, InferContext& c) {
                                            c.expect_ndim_at_least(0, 1);
                                            Shape half = c.shape(0);
                                            if (half[0] % 2 != 0)
                                              c.fail("needs an even number of rows, got " + half.str());
                                            half[0] /= 2;
                                            for (int i : {0, 1}) c.set_output(i, half, c.dtype());
                                          }});
}

void custom_rows(Rows& rows) {
  static std::once_flag once;
  std::call_once(once, register_scaled_sum);
  const auto sum = [&](CustomAttributes attributes, double scale, double times, const Shape& shape) {
    rows.emplace_back(
        op::Custom{{"scaled_sum"}, {engine::intern(custom_text(attributes))}}, std::vector{in(shape), in(shape)},
        [=](const Hosts& in) {
          Host out = in[0];
          for (size_t i = 0; i < out.values.size(); ++i) {
            out.values[i] = times * (in[0][i] * scale + in[1][i]);
          }
          return out;
        },
        RowOptions{.loosen = 4});
  };
  sum({}, 2, 1, {3, 5}), sum({{"scale", "0.5"}}, 0.5, 1, {1, 7}),
      sum({{"scale", "0.5"}, {"twice", "yes"}}, 0.5, 2, {2});
  sum({}, 2, 1, {0, 4}), sum({}, 2, 1, Shape());
  rows.emplace_back(
      op::Custom{.op_type = {"halves"}}, std::vector{in({6, 3})},
      [](const Hosts& in) {
        const auto half = [&](int64_t from) {
          return generate({3, 3}, [&](const Shape& p) { return in[0].at(with(p, 0, p[0] + from)); });
        };
        return Hosts{half(0), half(3)};
      },
      RowOptions{.dtypes = every_dtype, .tried = numbers});
  rows.emplace_back(op::Custom{.op_type = {"no such"}}, std::vector{in({2})}, Reference(), RowOptions{.refused = true});
}

}  // namespace

Rows signal_rows() {
  Rows rows;
  fourier_rows(rows);
  sketch_rows(rows);
  hawkes_rows(rows);
  custom_rows(rows);
  return rows;
}

}  // namespace kaon::test
