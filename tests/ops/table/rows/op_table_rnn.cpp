// Rows of the test table: recurrent layers and CTC.
#include <algorithm>
#include <cmath>
#include <map>

#include "kaon/ops/nn/rnn/rnn.h"
#include "kaon/tests/ops/table/op_table.h"

namespace kaon::test {
namespace {

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

int64_t length_of(const Host* lengths, int64_t n, int64_t most) {
  return lengths ? std::clamp<int64_t>(int64_t(lengths->values[size_t(n)]), 0, most) : most;
}

// The recurrence, element by element: y, last and what is saved.
Hosts scanned(const op::RnnScan& op, const Host& gates, const Host& weight, const Host& state, const Host* bias,
              const Host* projection, const Host* lengths) {
  const int64_t steps = gates.shape[0], batch = gates.shape[1], result = weight.shape[1];
  const int64_t hidden = weight.shape[0] / gates_of(op.mode);
  Host y = zeros({steps, batch, result}), last = state;
  Host saved = zeros({steps, batch, saved_blocks(op.mode) * hidden});
  for (int64_t n = 0; n < batch; ++n) {
    for (int64_t i = 0; i < steps; ++i) {
      const int64_t t = op.reverse ? steps - 1 - i : i;
      const auto save = [&](int64_t block, int64_t j, double v) {
        if (saved.shape[2] > 0) saved.at({t, n, block * hidden + j}) = v;
      };
      if (t >= length_of(lengths, n, steps)) {
        for (int64_t j = 0; j < hidden && op.mode == RnnMode::lstm; ++j) save(4, j, last.at({n, result + j}));
        continue;
      }
      std::vector<double> h(size_t(hidden), 0), next;
      for (int64_t j = 0; j < hidden; ++j) {
        const auto x = [&](int64_t gate) { return gates.at({t, n, gate * hidden + j}); };
        const auto sum = [&](int64_t gate) {
          double total = bias ? bias->at(Shape(gate * hidden + j)) : 0;
          for (int64_t k = 0; k < result; ++k) total += weight.at({gate * hidden + j, k}) * last.at({n, k});
          return total;
        };
        double& out = h[size_t(j)];
        if (op.mode == RnnMode::lstm) {
          const double in = sigmoid(x(0) + sum(0)), forget = sigmoid(x(1) + sum(1)), value = std::tanh(x(2) + sum(2)),
                       open = sigmoid(x(3) + sum(3));
          double c = forget * last.at({n, result + j}) + in * value;
          if (op.clip_min)
            c = std::isnan(c) ? (op.clip_nan ? *op.clip_min : c) : std::clamp(c, *op.clip_min, *op.clip_max);
          save(0, j, in), save(1, j, forget), save(2, j, value), save(3, j, open), save(4, j, c);
          next.push_back(c);
          out = open * std::tanh(c);
        } else if (op.mode == RnnMode::gru) {
          const double reset = sigmoid(x(0) + sum(0)), update = sigmoid(x(1) + sum(1));
          const double value = std::tanh(x(2) + reset * sum(2));
          save(0, j, reset), save(1, j, update), save(2, j, value), save(3, j, sum(2));
          out = (1 - update) * value + update * last.at({n, j});
        } else {
          const double total = x(0) + sum(0);
          out = op.mode == RnnMode::rnn_tanh ? std::tanh(total) : std::max(total, 0.0);
        }
      }
      for (size_t j = 0; j < next.size(); ++j) last.at({n, result + int64_t(j)}) = next[j];
      for (int64_t k = 0; k < result; ++k) {
        double v = projection ? 0 : h[size_t(k)];
        for (int64_t j = 0; projection && j < hidden; ++j) v += projection->at({k, j}) * h[size_t(j)];
        last.at({n, k}) = y.at({t, n, k}) = v;
      }
    }
  }
  Hosts all{y, last};
  if (saved.shape[2] > 0) all.push_back(saved);
  return all;
}

struct Sizes {
  int64_t steps, batch, hidden, projection = 0;
  int64_t result() const { return projection > 0 ? projection : hidden; }
};

std::vector<double> some_lengths(int64_t steps, int64_t batch) {
  std::vector<double> values{2, 0, double(steps + 3), double(steps), 1, -1};
  values.resize(size_t(batch), 3);
  return values;
}

void scan(Rows& rows, op::RnnScan op, const Sizes& s) {
  op.projected = s.projection > 0;
  const int64_t columns = gates_of(op.mode) * s.hidden;
  std::vector<Input> inputs{in({s.steps, s.batch, columns}), in({columns, s.result()}, Fill::unit),
                            in({s.batch, s.result() + (op.mode == RnnMode::lstm ? s.hidden : 0)})};
  if (op.mode == RnnMode::gru) inputs.push_back(in(Shape(columns)));
  if (op.projected) inputs.push_back(in({s.projection, s.hidden}, Fill::unit));
  if (op.use_sequence_length) inputs.push_back(index(Shape(s.batch), some_lengths(s.steps, s.batch), DType::int32));
  rows.emplace_back(
      op, inputs,
      [=](const Hosts& in) {
        return scanned(op, in[0], in[1], in[2], op.mode == RnnMode::gru ? &in[3] : nullptr,
                       op.projected ? &in[3] : nullptr, op.use_sequence_length ? &in.back() : nullptr);
      },
      RowOptions{.loosen = 8, .loosen_gradient = 8});
}

// The gradient, step by step from the end, of whatever y and saved say the states and gates were.
Hosts scanned_back(const op::BackwardRnnScan& op, const Hosts& in) {
  const Host &head = in[0], &weight = in[2], &state = in[3], &y = in[4];
  const int64_t gates = gates_of(op.mode), hidden = weight.shape[0] / gates, result = weight.shape[1];
  const int64_t steps = y.shape[0], batch = y.shape[1];
  const Host* const saved = saved_blocks(op.mode) > 0 ? &in[5] : nullptr;
  const Host* const projection = op.projected ? &in[6] : nullptr;
  const Host* const lengths = op.use_sequence_length ? &in.back() : nullptr;
  Host d_gates = zeros({steps, batch, gates * hidden}), d_weight = zeros(weight.shape), d_state = in[1];
  Host d_bias = zeros(Shape(gates * hidden)), d_projection = zeros({result, hidden});
  for (int64_t n = 0; n < batch; ++n) {
    const int64_t length = length_of(lengths, n, steps);
    for (int64_t i = steps; i-- > 0;) {
      const int64_t t = op.reverse ? steps - 1 - i : i, before = op.reverse ? t + 1 : t - 1;
      if (t >= length) continue;
      const bool is_first = t == (op.reverse ? length - 1 : 0);
      const auto h_before = [&](int64_t k) { return is_first ? state.at({n, k}) : y.at({before, n, k}); };
      std::vector<double> d_h(size_t(hidden), 0), d_before(size_t(result), 0);
      for (int64_t k = 0; k < result; ++k) {
        const double d = head.at({t, n, k}) + d_state.at({n, k});
        if (!projection) d_h[size_t(k)] = d;
        for (int64_t j = 0; projection && j < hidden; ++j) {
          d_h[size_t(j)] += projection->at({k, j}) * d;
          d_projection.at({k, j}) +=
              d * saved->at({t, n, 3 * hidden + j}) * std::tanh(saved->at({t, n, 4 * hidden + j}));
        }
      }
      for (int64_t j = 0; j < hidden; ++j) {
        const auto kept = [&](int64_t block) { return saved->at({t, n, block * hidden + j}); };
        const double d = d_h[size_t(j)];
        std::vector<double> x(size_t(gates), 0);
        std::vector<double> sums;
        if (op.mode == RnnMode::lstm) {
          double& d_c = d_state.at({n, result + j});
          const bool none = op.reverse ? t == steps - 1 : t == 0;
          const double c = kept(4), squashed = std::tanh(c);
          const double c_before = none ? state.at({n, result + j}) : saved->at({before, n, 4 * hidden + j});
          double g = d_c + d * kept(3) * (1 - squashed * squashed);
          if (op.clip_min && (c <= *op.clip_min || c >= *op.clip_max)) g = 0;
          x = {g * kept(2) * kept(0) * (1 - kept(0)), g * c_before * kept(1) * (1 - kept(1)),
               g * kept(0) * (1 - kept(2) * kept(2)), d * squashed * kept(3) * (1 - kept(3))};
          d_c = g * kept(1);
          sums = x;
        } else if (op.mode == RnnMode::gru) {
          const double value = d * (1 - kept(1)) * (1 - kept(2) * kept(2));
          x = {value * kept(3) * kept(0) * (1 - kept(0)), d * (h_before(j) - kept(2)) * kept(1) * (1 - kept(1)), value};
          sums = {x[0], x[1], value * kept(0)};
          d_before[size_t(j)] += d * kept(1);
        } else {
          const double h = y.at({t, n, j});
          x[0] = op.mode == RnnMode::rnn_tanh ? d * (1 - h * h) : h > 0 ? d : 0;
          sums = x;
        }
        for (int64_t gate = 0; gate < gates; ++gate) {
          const int64_t row = gate * hidden + j;
          d_gates.at({t, n, row}) = x[size_t(gate)];
          d_bias.at(Shape(row)) += sums[size_t(gate)];
          for (int64_t k = 0; k < result; ++k) {
            d_weight.at({row, k}) += sums[size_t(gate)] * h_before(k);
            d_before[size_t(k)] += sums[size_t(gate)] * weight.at({row, k});
          }
        }
      }
      for (int64_t k = 0; k < result; ++k) d_state.at({n, k}) = d_before[size_t(k)];
    }
  }
  Hosts all{d_gates, d_weight, d_state};
  if (op.mode == RnnMode::gru) all.push_back(d_bias);
  if (projection) all.push_back(d_projection);
  return all;
}

void scan_back(Rows& rows, op::BackwardRnnScan op, const Sizes& s) {
  op.projected = s.projection > 0;
  const int64_t columns = gates_of(op.mode) * s.hidden;
  const Shape y(s.steps, s.batch, s.result());
  const Shape state(s.batch, s.result() + (op.mode == RnnMode::lstm ? s.hidden : 0));
  std::vector<Input> inputs{in(y), in(state), in({columns, s.result()}, Fill::unit), in(state), in(y)};
  if (saved_blocks(op.mode) > 0) {
    inputs.push_back(in({s.steps, s.batch, saved_blocks(op.mode) * s.hidden}, Fill::unit));
  }
  if (op.projected) inputs.push_back(in({s.projection, s.hidden}, Fill::unit));
  if (op.use_sequence_length) inputs.push_back(index(Shape(s.batch), some_lengths(s.steps, s.batch), DType::int64));
  for (Input& i : inputs) i.differentiable = false;
  rows.emplace_back(
      op, inputs, [=](const Hosts& in) { return scanned_back(op, in); }, RowOptions{.loosen = 16});
}

// --- RNN: layers of recurrences

Hosts layers(const op::RNN& op, const Hosts& in) {
  const Host& data = in[0];
  const bool has_cell = op.mode == RnnMode::lstm;
  const int64_t directions = op.bidirectional ? 2 : 1, rows = gates_of(op.mode) * op.state_size;
  const int64_t result = op.projection_size.value_or(op.state_size), cells = op.num_layers * directions;
  const Host* const lengths = op.use_sequence_length ? &in.back() : nullptr;
  size_t at = 0;
  const auto take = [&](const Shape& shape) {
    Host h = zeros(shape);
    std::copy_n(in[1].values.begin() + std::ptrdiff_t(at), h.values.size(), h.values.begin());
    at += h.values.size();
    return h;
  };
  std::vector<Hosts> arrays(size_t(cells), Hosts{});
  for (int64_t i = 0; i < cells; ++i) {
    const int64_t input = i < directions ? data.shape[2] : result * directions;
    arrays[size_t(i)] = {take({rows, input}), take({rows, result})};
    arrays[size_t(i)].push_back(op.projection_size ? take({result, op.state_size}) : Host());
  }
  for (Hosts& a : arrays) a.push_back(take(Shape(rows))), a.push_back(take(Shape(rows)));
  Host x = data, last_h = zeros({cells, data.shape[1], result}), last_c = zeros({cells, data.shape[1], op.state_size});
  for (int64_t layer = 0; layer < op.num_layers; ++layer) {
    Host wide = zeros({data.shape[0], data.shape[1], result * directions});
    for (int64_t direction = 0; direction < directions; ++direction) {
      const int64_t i = layer * directions + direction;
      const Hosts& a = arrays[size_t(i)];
      const Host gates = generate({data.shape[0], data.shape[1], rows}, [&](const Shape& p) {
        double sum = a[3].at(Shape(p[2])) + (op.mode == RnnMode::gru ? 0 : a[4].at(Shape(p[2])));
        for (int64_t k = 0; k < x.shape[2]; ++k) sum += a[0].at({p[2], k}) * x.at({p[0], p[1], k});
        return sum;
      });
      const Host state = generate({data.shape[1], result + (has_cell ? op.state_size : 0)}, [&](const Shape& p) {
        return p[1] < result ? in[2].at({i, p[0], p[1]}) : in[3].at({i, p[0], p[1] - result});
      });
      const Hosts both = scanned({.mode = op.mode,
                                  .reverse = direction == 1,
                                  .clip_min = op.lstm_state_clip_min,
                                  .clip_max = op.lstm_state_clip_max,
                                  .clip_nan = op.lstm_state_clip_nan},
                                 gates, a[1], state, op.mode == RnnMode::gru ? &a[4] : nullptr,
                                 op.projection_size ? &a[2] : nullptr, lengths);
      each(both[0].shape, [&](const Shape& p) { wide.at({p[0], p[1], direction * result + p[2]}) = both[0].at(p); });
      each(both[1].shape, [&](const Shape& p) {
        (p[1] < result ? last_h.at({i, p[0], p[1]}) : last_c.at({i, p[0], p[1] - result})) = both[1].at(p);
      });
    }
    x = wide;
  }
  if (!op.state_outputs) return {x};
  return has_cell ? Hosts{x, last_h, last_c} : Hosts{x, last_h};
}

void rnn(Rows& rows, const op::RNN& op, const Shape& data, bool training = false) {
  const int64_t directions = op.bidirectional ? 2 : 1, cells = op.num_layers * directions;
  const int64_t result = op.projection_size.value_or(op.state_size);
  const op::RnnParameters all{.mode = op.mode,
                              .input_size = data[2],
                              .state_size = op.state_size,
                              .num_layers = op.num_layers,
                              .bidirectional = op.bidirectional,
                              .projection_size = op.projection_size.value_or(0)};
  std::vector<Input> inputs{in(data), in(Shape(all.size()), Fill::unit), in({cells, data[1], result})};
  if (op.mode == RnnMode::lstm) inputs.push_back(in({cells, data[1], op.state_size}));
  if (op.use_sequence_length) inputs.push_back(index(Shape(data[1]), some_lengths(data[0], data[1]), DType::int32));
  RowOptions options{.loosen = 30, .loosen_gradient = 30, .training = training};
  if (training) {
    options.inspect = [](const Hosts&, const Hosts& outputs) -> std::string {
      const auto is_finite = [](double v) { return std::isfinite(v); };
      return std::all_of(outputs[0].values.begin(), outputs[0].values.end(), is_finite) ? "" : "not finite";
    };
  }
  rows.emplace_back(op, inputs, training ? Reference() : Reference([=](const Hosts& in) { return layers(op, in); }),
                    options);
}

void parameters(Rows& rows, const op::RnnParameters& op) {
  rows.emplace_back(
      op, std::vector{in(Shape(op.size()))},
      [=](const Hosts& in) {
        Hosts out;
        size_t at = 0;
        for (int i = 0; i < op.num_outputs(); ++i) {
          out.push_back(zeros(op.shape_of(i)));
          for (double& v : out.back().values) v = in[0].values[at++];
        }
        return out;
      },
      RowOptions{.infers = false});
}

void param_concat(Rows& rows, int dim, const std::vector<Shape>& shapes) {
  std::vector<Input> inputs;
  for (const Shape& s : shapes) inputs.push_back(in(s));
  rows.emplace_back(
      op::RnnParamConcat{.dim = dim, .num_args = int(shapes.size())}, inputs,
      [=](const Hosts& in) {
        Shape all = shapes[0];
        for (size_t i = 1; i < shapes.size(); ++i) all[dim] += shapes[i][dim];
        return generate(all, [&](const Shape& p) {
          Shape at = p;
          size_t i = 0;
          while (at[dim] >= shapes[i][dim]) at[dim] -= shapes[i++][dim];
          return in[i].at(at);
        });
      },
      RowOptions{.dtypes = every_dtype});
}

// --- CTC

// The labels of row n: until the padding, or label_lengths.
std::vector<int64_t> labels_of(const Host& label, int64_t n, bool first, const Host* counts) {
  std::vector<int64_t> out;
  for (int64_t i = 0; i < label.shape[1]; ++i) {
    const auto v = int64_t(label.at({n, i}));
    if (counts ? i >= int64_t(counts->values[size_t(n)]) : v == (first ? 0 : -1)) break;
    out.push_back(v);
  }
  return out;
}

// The probability of every sequence of labels, by going through all paths. `logs` (T, N, C).
double ctc_of(const Host& logs, int64_t n, int64_t steps, int64_t blank, const std::vector<int64_t>& labels) {
  // what was read so far, with the last class, and its probability
  std::map<std::pair<std::vector<int64_t>, int64_t>, double> now{{{{}, -1}, 1.0}};
  for (int64_t t = 0; t < steps; ++t) {
    std::map<std::pair<std::vector<int64_t>, int64_t>, double> next;
    for (const auto& [key, probability] : now) {
      for (int64_t k = 0; k < logs.shape[2]; ++k) {
        std::vector<int64_t> read = key.first;
        if (k != blank && k != key.second) read.push_back(k);
        next[{read, k}] += probability * std::exp(logs.at({t, n, k}));
      }
    }
    now = std::move(next);
  }
  double sum = 0;
  bool is_possible = false;
  for (const auto& [key, probability] : now) {
    if (key.first == labels) sum += probability, is_possible = true;
  }
  return is_possible && steps > 0 ? -std::log(sum) : 0;
}

Host ctc_losses(const Hosts& in, bool data_lengths, bool label_lengths, BlankLabel blank) {
  const Host& logs = in[0];
  const bool first = blank == BlankLabel::first;
  return generate(Shape(logs.shape[1]), [&](const Shape& p) {
    return ctc_of(logs, p[0], length_of(data_lengths ? &in[2] : nullptr, p[0], logs.shape[0]),
                  first ? 0 : logs.shape[2] - 1, labels_of(in[1], p[0], first, label_lengths ? &in.back() : nullptr));
  });
}

Host log_softmax(const Host& x) {
  return along(x, -1, [](std::vector<double>& v) {
    const double most = v.empty() ? 0 : *std::max_element(v.begin(), v.end());
    double sum = 0;
    for (double e : v) sum += std::exp(e - most);
    for (double& e : v) e -= most + std::log(sum);
  });
}

template <class Op>
void ctc(Rows& rows, Op op, const Shape& data, const Shape& label, const std::vector<double>& labels,
         const std::vector<double>& data_lengths = {}, const std::vector<double>& label_lengths = {}) {
  constexpr bool is_of_logs = std::is_same_v<Op, op::CtcLossOfLogs>;
  op.use_data_lengths = !data_lengths.empty(), op.use_label_lengths = !label_lengths.empty();
  std::vector<Input> inputs{in(data), index(label, labels)};
  if (op.use_data_lengths) inputs.push_back(index(Shape(data[1]), data_lengths, DType::int32));
  if (op.use_label_lengths) inputs.push_back(index(Shape(data[1]), label_lengths));
  RowOptions options{.loosen = 8, .loosen_gradient = 8};
  if (is_of_logs) options.dtypes = dtype_bit(DType::float32) | dtype_bit(DType::float64);
  rows.emplace_back(
      op, inputs,
      [=](const Hosts& given) {
        Hosts in = given;
        if (!is_of_logs) in[0] = log_softmax(in[0]);
        return ctc_losses(in, op.use_data_lengths, op.use_label_lengths, op.blank_label);
      },
      options);
}

template <class Op>
void ctc_rows(Rows& rows) {
  const Op last{.blank_label = BlankLabel::last};
  ctc(rows, Op{}, {4, 3, 3}, {3, 3}, {1, 2, 0, 2, 2, 0, 2, 0, 1});
  ctc(rows, Op{}, {5, 2, 3}, {2, 2}, {0, 1, 1, 1});
  ctc(rows, last, {4, 3, 3}, {3, 3}, {1, 0, -1, 1, 1, -1, -1, 0, 1});
  ctc(rows, Op{}, {3, 2, 3}, {2, 3}, {1, 1, 1, 1, 2, 1});  // the first row does not fit
  ctc(rows, Op{}, {5, 3, 3}, {3, 2}, {1, 2, 2, 2, 1, 0}, {3, 5, 9});
  ctc(rows, Op{}, {4, 3, 3}, {3, 2}, {1, 2, 2, 2, 1, 1}, {}, {2, 1, 0});
  ctc(rows, last, {4, 3, 4}, {3, 2}, {1, 2, 0, 2, 1, 0}, {4, 0, 2}, {2, 1, 7});
  ctc(rows, Op{}, {3, 1, 2}, {1, 1}, {1});
  ctc(rows, Op{}, {1, 1, 1}, {1, 1}, {0});
  ctc(rows, Op{}, {3, 0, 2}, {0, 1}, {});
}

}  // namespace

Rows rnn_rows() {
  Rows rows;
  for (RnnMode mode : {RnnMode::rnn_relu, RnnMode::rnn_tanh, RnnMode::lstm, RnnMode::gru}) {
    for (bool reverse : {false, true}) {
      scan(rows, {.mode = mode, .reverse = reverse}, {4, 3, 5});
      scan(rows, {.mode = mode, .reverse = reverse}, {3, 1, 2});
      scan(rows, {.mode = mode, .reverse = reverse, .use_sequence_length = true}, {4, 6, 3});
      scan_back(rows, {.mode = mode, .reverse = reverse}, {3, 2, 5});
      scan_back(rows, {.mode = mode, .reverse = reverse}, {3, 1, 1});
      scan_back(rows, {.mode = mode, .reverse = reverse, .use_sequence_length = true}, {4, 6, 3});
    }
    scan(rows, {.mode = mode}, {0, 3, 2}), scan(rows, {.mode = mode}, {2, 0, 3});
    scan_back(rows, {.mode = mode}, {0, 3, 2}), scan_back(rows, {.mode = mode}, {2, 0, 3});
    scan(rows, {.mode = mode}, {2, 2, 17}), scan_back(rows, {.mode = mode}, {2, 2, 17});
    rnn(rows, {.state_size = 3, .num_layers = 1, .mode = mode}, {3, 2, 2});
    rnn(rows, {.state_size = 2, .num_layers = 2, .bidirectional = true, .mode = mode, .state_outputs = true},
        {3, 2, 3});
    rnn(rows,
        {.state_size = 2,
         .num_layers = 2,
         .bidirectional = true,
         .mode = mode,
         .p = 0.5,
         .state_outputs = true,
         .use_sequence_length = true},
        {4, 5, 1});
    rnn(rows, {.state_size = 1, .num_layers = 1, .mode = mode, .state_outputs = true}, {1, 1, 1});
    rnn(rows, {.state_size = 2, .num_layers = 1, .mode = mode}, {2, 0, 3});
    parameters(rows, {.mode = mode, .input_size = 3, .state_size = 2, .num_layers = 2, .bidirectional = true});
  }
  for (bool reverse : {false, true}) {
    scan(rows, {.reverse = reverse}, {3, 2, 5, 3});
    scan(rows, {.reverse = reverse, .use_sequence_length = true}, {4, 5, 3, 2});
    scan_back(rows, {.reverse = reverse}, {3, 2, 5, 3});
    scan_back(rows, {.reverse = reverse, .use_sequence_length = true}, {4, 5, 3, 2});
    scan(rows, {.reverse = reverse, .clip_min = -0.2, .clip_max = 0.3, .clip_nan = true}, {4, 3, 5});
    scan_back(rows, {.reverse = reverse, .clip_min = -0.2, .clip_max = 0.3}, {4, 3, 5});
  }
  scan(rows, {}, {3, 1, 4, 3}), scan_back(rows, {}, {3, 1, 4, 3});
  rnn(rows, {.state_size = 3, .num_layers = 2, .bidirectional = true, .state_outputs = true, .projection_size = 2},
      {3, 2, 2});
  rnn(rows,
      {.state_size = 3,
       .num_layers = 1,
       .state_outputs = true,
       .lstm_state_clip_min = -0.2,
       .lstm_state_clip_max = 0.25,
       .lstm_state_clip_nan = true},
      {3, 2, 2});
  rnn(rows, {.state_size = 3, .num_layers = 2, .p = 0.5}, {3, 2, 2}, true);
  parameters(rows, {.input_size = 3, .state_size = 3, .num_layers = 1, .projection_size = 2});
  parameters(rows, {.input_size = 0, .state_size = 1});
  param_concat(rows, 0, {{3}, {1}, {5}});
  param_concat(rows, 1, {{2, 3}, {2, 1}});
  param_concat(rows, 0, {{0}, {3}});
  ctc_rows<op::CTCLoss>(rows);
  ctc_rows<op::CtcLossOfLogs>(rows);
  return rows;
}

}  // namespace kaon::test
