// Recurrent layers. What Kaon's recurrence is the same as runs by it; other activations, peepholes and bounds are
// steps.
#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "kaon/interchange/onnx/convert/families.h"
#include "kaon/interchange/onnx/operators/helpers.h"
#include "kaon/interchange/onnx/operators/recurrent.h"

namespace kaon::onnx::convert {

namespace {

enum class Cell { rnn, gru, lstm };
constexpr int gates_of(Cell cell) { return cell == Cell::rnn ? 1 : cell == Cell::gru ? 3 : 4; }

// An activation with its own numbers alpha and beta.
struct Activation {
  std::string name;
  double alpha = 0, beta = 0;
  Symbol operator()(const Call& c, const Symbol& x) const {
    if (name == "sigmoid") return sym.sigmoid(x);
    if (name == "tanh") return sym.tanh(x);
    if (name == "relu") return sym.relu(x);
    if (name == "affine") return x * alpha + beta;
    if (name == "leakyrelu") return sym.LeakyReLU(x, {.act_type = LeakyType::leaky, .slope = alpha});
    if (name == "thresholdedrelu") return sym.threshold(x, {.threshold = alpha, .value = 0});
    if (name == "scaledtanh") return sym.tanh(x * beta) * alpha;
    if (name == "hardsigmoid") return sym.hard_sigmoid(x, {.alpha = alpha, .beta = beta});
    if (name == "elu") return sym.LeakyReLU(x, {.act_type = LeakyType::elu, .slope = alpha});
    if (name == "softsign") return sym.softsign(x);
    if (name == "softplus") return sym.softrelu(x);
    c.fail_supported("the activation " + name);
  }
};

std::vector<Activation> activations_of(const Call& c, int directions, const std::vector<std::string>& otherwise) {
  std::vector<std::string> names = c.texts("activations");
  if (names.empty()) {
    for (int d = 0; d < directions; ++d) names.insert(names.end(), otherwise.begin(), otherwise.end());
  }
  if (names.size() != size_t(directions) * otherwise.size()) c.fail(fmt::format("{} activations", names.size()));
  const std::vector<double> alphas = c.reals("activation_alpha"), betas = c.reals("activation_beta");
  std::vector<Activation> all;
  size_t alpha = 0, beta = 0;
  for (std::string& name : names) {
    for (char& ch : name) ch = char(std::tolower(static_cast<unsigned char>(ch)));
    Activation a{name, 0, 0};
    const auto next = [](const std::vector<double>& given, size_t& at, double otherwise) {
      return at < given.size() ? given[at++] : otherwise;
    };
    if (name == "leakyrelu") a.alpha = next(alphas, alpha, 0.01);
    if (name == "thresholdedrelu" || name == "elu") a.alpha = next(alphas, alpha, 1);
    if (name == "affine" || name == "scaledtanh")
      a.alpha = next(alphas, alpha, 1), a.beta = next(betas, beta, name == "affine" ? 0 : 1);
    if (name == "hardsigmoid") a.alpha = next(alphas, alpha, 0.2), a.beta = next(betas, beta, 0.5);
    all.push_back(a);
  }
  return all;
}

// One direction: x (steps, batch, inputs), w (gates H, inputs), r (gates H, H), biases (gates H), states (batch, H).
struct Direction {
  Symbol x, w, r, bias_w, bias_r, h, c, peepholes, lengths;  // the last three may be undefined
  bool reverse = false;
  std::vector<Activation> activations;
  std::function<Symbol(const Symbol&)> factor{};  // what the product with r takes of a state, where it is not the state
};

struct Result {
  Symbol steps, h, c;  // (steps, batch, H), (batch, H)
};

// The blocks of rows in another order.
Symbol reordered(const Symbol& x, const std::vector<int>& order, int64_t size) {
  std::vector<Symbol> parts;
  for (int b : order) parts.push_back(slice_along(x, 0, b * size, (b + 1) * size));
  return concatenated(parts, 0);
}

Result scan(Cell cell, const Direction& d, int64_t size) {
  // ONNX's gates: lstm i o f c, gru z r h; Kaon's: i f g o and r z n
  const std::vector<int> order = cell == Cell::lstm  ? std::vector{0, 2, 3, 1}
                                 : cell == Cell::gru ? std::vector{1, 0, 2}
                                                     : std::vector{0};
  const auto in_order = [&](const Symbol& s) { return reordered(s, order, size); };
  const Shape& xs = shape_of(d.x);
  const Symbol bias = cell == Cell::gru ? d.bias_w : d.bias_w + d.bias_r;
  const int64_t width = gates_of(cell) * size;
  Symbol gates = sym.FullyConnected(reshaped(d.x, Shape(xs[0] * xs[1], xs[2])), in_order(d.w), in_order(bias),
                                    {.num_hidden = int(width)});
  gates = reshaped(gates, Shape(xs[0], xs[1], width));
  const Symbol weight = in_order(d.r);
  const Symbol state = cell == Cell::lstm ? concatenated({d.h, d.c}, 1) : d.h;
  std::vector<const Symbol*> arrays{&gates, &weight, &state};
  const Symbol bias_r = cell == Cell::gru ? in_order(d.bias_r) : Symbol();
  if (cell == Cell::gru) arrays.push_back(&bias_r);
  const Symbol lengths = d.lengths;
  if (lengths.defined()) arrays.push_back(&lengths);
  const RnnMode mode = cell == Cell::lstm                ? RnnMode::lstm
                       : cell == Cell::gru               ? RnnMode::gru
                       : d.activations[0].name == "relu" ? RnnMode::rnn_relu
                                                         : RnnMode::rnn_tanh;
  const std::vector<Symbol> both =
      sym._rnn_scan(arrays, {.mode = mode, .reverse = d.reverse, .use_sequence_length = lengths.defined()});
  Result result{both[0], both[1], {}};
  if (lengths.defined()) result.steps = sym.SequenceMask(both[0], lengths, {});
  if (cell == Cell::lstm) {
    result.h = slice_along(both[1], 1, 0, size);
    result.c = slice_along(both[1], 1, size, 2 * size);
  }
  return result;
}

Result steps(const Call& c, Cell cell, const Direction& d, int64_t size) {
  const int64_t count = shape_of(d.x)[0], batch = shape_of(d.x)[1], inputs = shape_of(d.x)[2];
  const double clip = c.real("clip", 0);
  const bool before_reset = c.integer("linear_before_reset", 0) != 0, couples = c.integer("input_forget", 0) != 0;
  const auto bounded = [&](const Symbol& s) { return clip > 0 ? sym.clip(s, -clip, clip) : s; };
  const auto gate = [&](const Symbol& all, int i) { return slice_along(all, 1, i * size, (i + 1) * size); };
  const auto rows = [&](const Symbol& s, int i) { return slice_along(s, 0, i * size, (i + 1) * size); };
  const auto times = [&](const Symbol& x, const Symbol& w) {
    return sym.FullyConnected(x, w, {.num_hidden = int(shape_of(w)[0])});
  };
  Symbol h = d.h, cell_state = d.c, before = d.h;  // the result before: zeros where a sequence has ended
  std::vector<Symbol> results(static_cast<size_t>(count));
  const auto& f = d.activations;
  for (int64_t k = 0; k < count; ++k) {
    const int64_t t = d.reverse ? count - 1 - k : k;
    const Symbol x = reshaped(slice_along(d.x, 0, t, t + 1), Shape(batch, inputs));
    const Symbol wx = sym.broadcast_add(times(x, d.w), d.bias_w);
    Symbol next, next_cell = cell_state;
    if (cell == Cell::rnn) {
      next = f[0](c, bounded(wx + sym.broadcast_add(times(h, d.r), d.bias_r)));
    } else if (cell == Cell::gru) {
      const Symbol zr =
          sym.broadcast_add(times(h, slice_along(d.r, 0, 0, 2 * size)), slice_along(d.bias_r, 0, 0, 2 * size));
      const Symbol z = f[0](c, bounded(gate(wx, 0) + gate(zr, 0))), r = f[0](c, bounded(gate(wx, 1) + gate(zr, 1)));
      const Symbol u = rows(d.r, 2), b = rows(d.bias_r, 2);
      const Symbol inner = before_reset ? r * sym.broadcast_add(times(h, u), b) : sym.broadcast_add(times(r * h, u), b);
      const Symbol n = f[1](c, bounded(gate(wx, 2) + inner));
      next = (1 - z) * n + z * h;
    } else {
      const Symbol all = wx + sym.broadcast_add(times(d.factor ? d.factor(before) : h, d.r), d.bias_r);
      const auto peep = [&](const Symbol& g, int i, const Symbol& state) {
        return d.peepholes.defined() ? g + sym.broadcast_mul(state, rows(d.peepholes, i)) : g;
      };
      const Symbol i = f[0](c, bounded(peep(gate(all, 0), 0, cell_state)));
      const Symbol forget = couples ? 1 - i : f[0](c, bounded(peep(gate(all, 2), 2, cell_state)));
      next_cell = forget * cell_state + i * f[1](c, bounded(gate(all, 3)));
      const Symbol o = f[0](c, bounded(peep(gate(all, 1), 1, next_cell)));
      next = o * f[2](c, next_cell);
    }
    if (d.lengths.defined()) {  // steps that a sequence does not have leave the state as it is
      const Symbol has = reshaped(cast(d.lengths, DType::float32), Shape(batch, 1)) > double(t);
      const auto chosen = [&](const Symbol& a, const Symbol& b) { return sym.broadcast_where(has, a, b); };
      results[size_t(t)] = chosen(next, sym.zeros_like(next));
      h = chosen(next, h);
      if (cell == Cell::lstm) cell_state = chosen(next_cell, cell_state);
    } else {
      results[size_t(t)] = h = next;
      cell_state = next_cell;
    }
    before = results[size_t(t)];
  }
  if (results.empty()) return {full(Shape(0, batch, size), 0, dtype_of(h)), h, cell_state};
  return {sym.stack(std::span<const Symbol>(results)), h, cell_state};
}

// Zeros in the steps that no sequence has.
Symbol within_longest(const Symbol& x, const Symbol& lengths) {
  const Symbol longest = sym.broadcast_to(sym.max(lengths, {.axis = {0}, .keepdims = true}), Shape(shape_of(x)[1]));
  return sym.SequenceMask(x, longest, {});
}

template <Cell K>
void recurrent(Call& c, const LstmProducts* products) {
  const std::string direction = c.text("direction", "forward");
  const int directions = direction == "bidirectional" ? 2 : 1;
  const bool batch_first = c.integer("layout", 0) != 0;
  const Symbol x = batch_first ? transposed(c.x(0), {1, 0, 2}) : c.x(0);
  const int64_t batch = shape_of(x)[1], size = products ? products->size : c.shape(2).back(),
                width = gates_of(K) * size;
  const DType dtype = c.dtype();
  const std::vector<std::string> usual = K == Cell::lstm  ? std::vector<std::string>{"Sigmoid", "Tanh", "Tanh"}
                                         : K == Cell::gru ? std::vector<std::string>{"Sigmoid", "Tanh"}
                                                          : std::vector<std::string>{"Tanh"};
  const std::vector<Activation> activations = activations_of(c, directions, usual);
  const int cell_input = 6, peephole_input = 7;
  bool direct = c.real("clip", 0) == 0 && c.integer("input_forget", 0) == 0 &&
                !(K == Cell::lstm && c.has(peephole_input)) &&
                (K != Cell::gru || c.integer("linear_before_reset", 0) != 0) && is_floating(dtype) && !products;
  for (size_t i = 0; i < activations.size(); ++i) {
    std::string expected = usual[i % usual.size()];
    for (char& ch : expected) ch = char(std::tolower(static_cast<unsigned char>(ch)));
    direct &= activations[i].name == expected || (K == Cell::rnn && activations[i].name == "relu");
  }
  Symbol lengths;
  if (c.has(4)) {
    lengths = c.x(4);
    if (c.input(4).is_constant()) {  // all of them whole
      const std::vector<int64_t> known = c.integers(4);
      if (std::ranges::all_of(known, [&](int64_t n) { return n == shape_of(x)[0]; })) lengths = Symbol();
    }
  }
  const auto part = [&](int i, int d) {
    const Shape& s = c.shape(i);
    return reshaped(slice_along(c.x(i), 0, d, d + 1), from(s, 1));
  };
  const auto state = [&](int i, int d) {
    if (!c.has(i)) return full(Shape(batch, size), 0, dtype);
    const Symbol s = batch_first ? transposed(c.x(i), {1, 0, 2}) : c.x(i);
    return reshaped(slice_along(s, 0, d, d + 1), Shape(batch, size));
  };
  const Symbol factors = !products           ? x
                         : lengths.defined() ? products->factor(within_longest(x, lengths))
                                             : products->factor(x);
  std::vector<Symbol> ys, hs, cs;
  for (int d = 0; d < directions; ++d) {
    Direction one{.x = factors,
                  .w = products ? products->w(d) : part(1, d),
                  .r = products ? products->r(d) : part(2, d),
                  .bias_w = {},
                  .bias_r = {},
                  .h = state(5, d),
                  .c = {},
                  .peepholes = {},
                  .lengths = lengths,
                  .reverse = d == 1 || direction == "reverse",
                  .activations = {}};
    if (products) one.factor = products->factor;
    const Symbol bias = c.has(3) ? part(3, d) : full(Shape(2 * width), 0, dtype);
    one.bias_w = slice_along(bias, 0, 0, width);
    one.bias_r = slice_along(bias, 0, width, 2 * width);
    if (K == Cell::lstm) one.c = state(cell_input, d);
    if (K == Cell::lstm && c.has(peephole_input)) one.peepholes = part(peephole_input, d);
    one.activations.assign(activations.begin() + d * ptrdiff_t(usual.size()),
                           activations.begin() + (d + 1) * ptrdiff_t(usual.size()));
    // levels are those of steps from the end of each sequence, not of the same time
    const bool turns = products && one.reverse && lengths.defined();
    if (turns) one.x = sym.SequenceReverse(one.x, lengths, {}), one.reverse = false;
    const Result result = direct ? scan(K, one, size) : steps(c, K, one, size);
    ys.push_back(turns ? sym.SequenceReverse(result.steps, lengths, {}) : result.steps);
    hs.push_back(result.h);
    cs.push_back(result.c);
  }
  // (steps, directions, batch, H) and (directions, batch, H), or with the batch first
  const auto stacked = [&](const std::vector<Symbol>& parts, int axis) {
    return sym.stack(std::span<const Symbol>(parts), {.axis = axis});
  };
  Symbol y = stacked(ys, 1);
  if (batch_first) y = transposed(y, {2, 0, 1, 3});
  c.set(0, y);
  c.set(1, stacked(hs, batch_first ? 1 : 0));
  if (K == Cell::lstm) c.set(2, stacked(cs, batch_first ? 1 : 0));
}

constexpr Row recurrent_table[] = {
    {"RNN", [](Call& c) { recurrent<Cell::rnn>(c, nullptr); }},
    {"GRU", [](Call& c) { recurrent<Cell::gru>(c, nullptr); }},
    {"LSTM", [](Call& c) { recurrent<Cell::lstm>(c, nullptr); }},
};

}  // namespace

void lstm(Call& c, const LstmProducts& products) { recurrent<Cell::lstm>(c, &products); }

std::span<const Row> recurrent_rows() { return recurrent_table; }

}  // namespace kaon::onnx::convert
