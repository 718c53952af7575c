// Recurrent layers and attention: the result alone, and with all gradients ("training").
#include "kaon/bench/operators/operators_parts.h"
#include "kaon/graph/autograd.h"

namespace kaon::bench {
namespace {

// One layer of 256 units over 100 steps of 256 numbers.
void add_lstm(Cases& cases, int64_t batch) {
  constexpr int64_t steps = 100, units = 256;
  const op::RnnParameters sizes{.mode = RnnMode::lstm, .input_size = units, .state_size = units};
  const op::RNN layer{.state_size = units, .num_layers = 1, .mode = RnnMode::lstm};
  const NDArray x = between(-1, 1, {steps, batch, units}), weights = between(-0.06, 0.06, {sizes.size()}),
                state = nd.zeros({1, batch, units}), cell = nd.zeros({1, batch, units}),
                head = between(-1, 1, {steps, batch, units});
  cases.push_back({fmt::format("lstm_batch_{}", batch), [=] { nd.RNN(x, weights, state, cell, layer); }});
  NDArray data = nd._copy(x), variable = nd._copy(weights);
  data.attach_grad(), variable.attach_grad();
  cases.push_back({fmt::format("lstm_batch_{}_training", batch), [=] {
                     autograd::record([&] { return nd.RNN(data, variable, state, cell, layer); }).backward(head);
                   }});
}

// 8 heads of 64 numbers.
void add_attention(Cases& cases, int64_t length) {
  const Shape shape(1, 8, length, 64);
  const NDArray query = between(-1, 1, shape), key = between(-1, 1, shape), value = between(-1, 1, shape),
                head = between(-1, 1, shape);
  cases.push_back({fmt::format("attention_{}", length), [=] { nd.scaled_dot_product_attention(query, key, value); }});
  NDArray q = nd._copy(query), k = nd._copy(key), v = nd._copy(value);
  q.attach_grad(), k.attach_grad(), v.attach_grad();
  cases.push_back({fmt::format("attention_{}_training", length),
                   [=] { autograd::record([&] { return nd.scaled_dot_product_attention(q, k, v); }).backward(head); }});
}

}  // namespace

Cases sequences(int64_t n) {
  Cases cases;
  if (n < 1'000'000) {
    add_lstm(cases, 1);
    add_attention(cases, 128);
  } else {
    add_lstm(cases, 32);
    add_attention(cases, 1024);
    add_attention(cases, 4096);
  }
  return cases;
}

}  // namespace kaon::bench
