#include "kaon/gluon/nn/nn.h"
#include "kaon/gluon/rnn/rnn.h"
#include "kaon/graph/autograd.h"
#include "kaon/graph/control_flow.h"
#include "kaon/ops/random_state.h"
#include "kaon/tests/gluon/rnn/everything.h"
#include "kaon/tests/gluon/support.h"
#include "kaon/tests/support/files.h"

namespace recurrent_cell_test {

using namespace kaon;
using namespace kaon::test;
namespace rnn = kaon::gluon::rnn;
using rnn::Layout;

namespace {

// A cell along a sequence, unrolled or as a loop.
template <class C>
struct Along : gluon::HybridBlock<Along<C>> {
  Along(const C& c, int64_t n, bool loops = false) : cell(this->child("cell", c)), length(n), is_loop(loops) {}
  auto hybrid_forward(auto, auto x, const auto& states) {
    if (is_loop) return contrib::foreach ([&](auto row, auto now) { return cell(row, now); }, x, states);
    return cell.unroll(length, x, states, Layout::TNC);
  }
  C cell;
  const int64_t length;
  const bool is_loop;
};

// A loop for sequences of any length, with or without their ends.
template <class C>
struct Dynamic : gluon::HybridBlock<Dynamic<C>> {
  Dynamic(const C& c, const rnn::DynamicUnrollOptions& o) : cell(this->child("cell", c)), options(o) {}
  auto hybrid_forward(auto, auto x, const auto& states) { return rnn::dynamic_unroll(cell, x, states, options); }
  auto hybrid_forward(auto, auto x, const auto& states, auto lengths) {
    return rnn::dynamic_unroll(cell, x, states, options, lengths);
  }
  C cell;
  rnn::DynamicUnrollOptions options;
};

// One step, with what a block passes to a cell.
template <class C>
struct OneStep : gluon::HybridBlock<OneStep<C>> {
  explicit OneStep(const C& c) : cell(this->child("cell", c)) {}
  auto hybrid_forward(auto, auto x, const auto& states) { return cell(x, states); }
  C cell;
};

template <class B>
std::vector<std::vector<double>> run(const B& net, const NDArray& data, const List& first) {
  return everything(net, data, first, [&](const NDArray& x, const List& states) { return net(x, states); });
}

List states_for(const auto& cell, int64_t batch) {
  List states;
  for (const auto& s : cell.state_info(batch)) states.push_back(nd.random_normal(s.shape));
  return states;
}

rnn::HybridSequentialRNNCell stack(const auto&... cells) {
  rnn::HybridSequentialRNNCell s;
  s.add(cells...);
  return s;
}

// An array in place of a list of states does not compile: it would be read as a list of its rows.
static_assert(std::invocable<const rnn::LSTMCell&, const NDArray&, const List&>);
static_assert(!std::invocable<const rnn::LSTMCell&, const NDArray&, const NDArray&>);

}  // namespace

TEST_CASE("recurrent cells: a step by hand", "[gluon]") {
  rnn::RNNCell cell(1);
  cell.initialize(init::One());
  auto [y, states] = cell(nd.array({{0.5}}), {nd.array({{0.25}})});
  require_close(y, {std::tanh(0.75)});
  require_close(states[0], {std::tanh(0.75)});
  rnn::GRUCell gru(1);
  gru.initialize(init::One());
  const auto s = [](double v) { return 1 / (1 + std::exp(-v)); };
  const double r = s(0.75), n = std::tanh(0.5 + r * 0.25);
  require_close(gru(nd.array({{0.5}}), {nd.array({{0.25}})}).first, {(1 - r) * n + r * 0.25});
  rnn::LSTMCell lstm(1);
  lstm.initialize(init::One());
  auto [h, both] = lstm(nd.array({{0.5}}), {nd.array({{0.25}}), nd.array({{2.0}})});
  const double c = s(0.75) * 2 + s(0.75) * std::tanh(0.75);
  require_close(h, {s(0.75) * std::tanh(c)});
  require_close(both[1], {c});
}

TEST_CASE("recurrent cells: parameters are shared, and have MXNet's names", "[gluon]") {
  rnn::LSTMCell cell(2, {.input_size = 3});
  rnn::LSTMCell same(2, {.input_size = 3}, {cell.i2h_weight, cell.h2h_weight, cell.i2h_bias, cell.h2h_bias});
  cell.initialize(init::Uniform(0.5));
  const NDArray x = nd.random_normal({2, 3});
  const List states = states_for(cell, 2);
  CHECK(values(same(x, states).first) == values(cell(x, states).first));
  CHECK(same.collect_params()[0].name() == "i2h_weight");
  rnn::HybridSequentialRNNCell outer = stack(same, rnn::ResidualCell(rnn::GRUCell(2)));
  std::vector<std::string> names;
  for (const auto& p : outer.collect_params()) names.push_back(p.name());
  CHECK(names[0] == "i2h_weight");  // the owner names it
  CHECK(names[4] == "residual0_base_cell_i2h_weight");
  CHECK(outer.size() == 2);
  CHECK(outer[-1].class_name() == "residual");
  CHECK_THROWS_AS(outer[2], IndexError);
}

TEST_CASE("recurrent cells: sequences as arrays and lists, in both layouts", "[gluon]") {
  auto cell = stack(rnn::LSTMCell(3), rnn::DropoutCell(0.5), rnn::ResidualCell(rnn::GRUCell(3)),
                    rnn::BidirectionalCell(rnn::RNNCell(2), rnn::RNNCell(2)));
  cell.initialize(init::Uniform(0.5));
  const NDArray x = nd.random_normal({2, 4, 3});  // batch first
  const List states = states_for(cell, 2);
  const NDArray lengths = nd.array({3, 1});
  for (bool with_lengths : {false, true}) {
    std::optional<NDArray> valid;
    if (with_lengths) valid = lengths;
    auto [expected, last] = cell.unroll(4, x, states, Layout::NTC, valid);
    CHECK(expected.shape() == Shape(2, 4, 4));
    auto [turned, last_of_turned] = cell.unroll(4, nd.swapaxes(x, 0, 1), states, Layout::TNC, valid);
    CHECK(values(nd.swapaxes(turned, 0, 1)) == values(expected));
    const List steps = nd.split(x, 4, {.axis = 1, .squeeze_axis = true});
    auto [listed, last_of_list] = cell.unroll(4, steps, states, Layout::NTC, valid);
    CHECK(values(listed) == values(expected));
    auto [out_steps, last_of_steps] = cell.unroll_steps(4, x, states, Layout::NTC, valid);
    REQUIRE(out_steps.size() == 4);
    CHECK(values(nd.stack({.axis = 1}, out_steps[0], out_steps[1], out_steps[2], out_steps[3])) == values(expected));
    for (size_t i = 0; i < last.size(); ++i) {
      CHECK(values(last_of_turned[i]) == values(last[i]));
      CHECK(values(last_of_list[i]) == values(last[i]));
      CHECK(values(last_of_steps[i]) == values(last[i]));
    }
  }
}

TEST_CASE("recurrent cells: each sequence ends where it does when it is alone", "[gluon]") {
  rnn::BidirectionalCell cell(rnn::LSTMCell(3), rnn::GRUCell(2));
  cell.initialize(init::Uniform(0.5));
  const NDArray x = nd.random_normal({3, 4, 2});
  auto [y, states] = cell.unroll(4, x, {}, Layout::NTC, nd.array({2, 4, 0}));
  for (int64_t i : {0, 1}) {
    const int64_t n = i == 0 ? 2 : 4;
    auto [own, own_states] = cell.unroll(n, nd.slice(x, {i, 0}, {i + 1, n}));
    require_close(nd.slice(y, {i, 0}, {i + 1, n}), values(own));
    for (size_t k = 0; k < states.size(); ++k) require_close(states[k][i], values(own_states[k]));
  }
  require_close(nd.slice(y, {0, 2}, {1, 4}), std::vector<double>(10));
  require_close(y[2], std::vector<double>(20));  // no step: the states are the first ones
  for (const NDArray& s : states) require_close(s[2], std::vector<double>(size_t(s.shape()[1])));
}

TEST_CASE("recurrent cells: steps, plans of steps, an unrolled plan and a loop agree", "[gluon]") {
  const NDArray x = nd.random_normal({4, 2, 3});
  const auto check = [&](auto cell) {
    INFO(cell.class_name());
    cell.initialize(init::Uniform(0.5));
    const List states = states_for(cell, 2);
    Along unrolled(cell, 4), loop(cell, 4, true);
    unrolled(x, states);
    const auto expected = run(unrolled, x, states);
    require_all_close(run(loop, x, states), expected);
    cell.hybridize();
    require_all_close(run(unrolled, x, states), expected);
    unrolled.hybridize({.static_alloc = true, .static_shape = true});
    require_all_close(run(unrolled, x, states), expected);
    loop.hybridize();
    require_all_close(run(loop, x, states), expected);
  };
  check(rnn::RNNCell(3));
  check(rnn::LSTMCell(3));
  check(rnn::GRUCell(3));
  check(rnn::LSTMPCell(4, 3));
  check(rnn::ResidualCell(rnn::GRUCell(3)));
  check(stack(rnn::LSTMCell(4), rnn::GRUCell(3)));
  rnn::SequentialRNNCell plain;
  plain.add(rnn::LSTMCell(4), rnn::GRUCell(3));
  check(plain);
}

TEST_CASE("recurrent cells: a loop for sequences of any length is what unroll gives", "[gluon]") {
  for (Layout layout : {Layout::TNC, Layout::NTC}) {
    auto cell = stack(rnn::LSTMCell(4), rnn::GRUCell(3));
    cell.initialize(init::Uniform(0.5));
    Dynamic net(cell, {.layout = layout});
    const NDArray lengths = nd.array({2, 0, 4});
    for (int64_t length : {5, 2, 1}) {
      const NDArray x = nd.random_normal(layout == Layout::TNC ? Shape(length, 3, 2) : Shape(3, length, 2));
      const List states = states_for(cell, 3);
      const auto [plain, plain_last] = cell.unroll(length, x, states, layout);
      const auto [ended, ended_last] = cell.unroll(length, x, states, layout, lengths);
      for (bool active : {false, true}) {
        net.hybridize(active);
        auto [y, last] = net(x, states);
        require_close(y, values(plain));
        for (size_t i = 0; i < last.size(); ++i) require_close(last[i], values(plain_last[i]));
        auto [z, last_of_z] = net(x, states, lengths);
        require_close(z, values(ended));
        for (size_t i = 0; i < last.size(); ++i) require_close(last_of_z[i], values(ended_last[i]));
      }
    }
  }
  auto cell = rnn::RNNCell(30);
  cell.initialize(init::Uniform(0.5));
  Dynamic dropping(cell, {.drop_outputs = 0.5});
  const NDArray x = nd.ones({3, 2, 4});
  dropping(x, cell.begin_state(2));
  for (bool active : {false, true}) {
    dropping.hybridize(active);
    autograd::record([&] {
      const auto v = values(dropping(x, cell.begin_state(2)).first);
      size_t zeros = 0;
      for (size_t i = 0; i < 60; ++i) {
        zeros += v[i] == 0;
        CHECK((v[i] == 0) == (v[i + 60] == 0));
        CHECK((v[i] == 0) == (v[i + 120] == 0));
      }
      CHECK((zeros > 10 && zeros < 50));
    });
  }
}

TEST_CASE("recurrent cells: convolutional ones in both modes, with channels first and last", "[gluon]") {
  const auto check = [&](auto cell, Shape shape) {
    INFO(cell.class_name() << shape.str());
    cell.initialize(init::Uniform(0.5));
    const NDArray x = nd.random_normal(shape);
    const List states = states_for(cell, shape[1]);
    Along unrolled(cell, shape[0]), loop(cell, shape[0], true);
    const auto expected = run(unrolled, x, states);
    CHECK(states[0].shape() == unrolled(x, states).second[0].shape());
    require_all_close(run(loop, x, states), expected, 1e-4);
    unrolled.hybridize();
    require_all_close(run(unrolled, x, states), expected, 1e-4);
    unrolled(x, List());  // zeros of the inputs' batch
  };
  const rnn::ConvCellOptions options{.i2h_kernel = 3, .h2h_kernel = 3, .i2h_pad = 1};
  check(rnn::Conv1DLSTMCell({2, 5}, 3, options), {2, 2, 2, 5});
  check(rnn::Conv2DGRUCell({2, 4, 5}, 3, options), {2, 2, 2, 4, 5});
  check(rnn::Conv3DRNNCell({2, 3, 4, 3}, 2, options), {2, 1, 2, 3, 4, 3});

  rnn::ConvCellOptions last = options;
  last.conv_layout = ConvLayout::NHWC;
  rnn::Conv2DLSTMCell first_cell({2, 4, 5}, 3, options), last_cell({4, 5, 2}, 3, last);
  CHECK(last_cell.state_info(7)[1].shape == Shape(7, 4, 5, 3));
  CHECK(last_cell.state_info()[0].layout == "NHWC");
  first_cell.initialize(init::Uniform(0.5));
  last_cell.initialize();
  last_cell.i2h_weight.set_data(nd.transpose(first_cell.i2h_weight.data(), {0, 2, 3, 1}));
  last_cell.h2h_weight.set_data(nd.transpose(first_cell.h2h_weight.data(), {0, 2, 3, 1}));
  const NDArray x = nd.random_normal({2, 3, 2, 4, 5});
  require_close(nd.transpose(last_cell.unroll(3, nd.transpose(x, {0, 1, 3, 4, 2})).first, {0, 1, 4, 2, 3}),
                values(first_cell.unroll(3, x).first), 1e-4, 1e-5);
}

TEST_CASE("recurrent cells: zero states follow the batch, in one plan", "[gluon][traces]") {
  const auto check = [](auto net) {
    net.initialize();
    const NDArray x = nd.random_normal({4, 3, 2});
    auto [y, states] = net(x, List());
    net.hybridize();
    auto [same, same_states] = net(x, List());
    require_close(same, values(y));
    CHECK(net(nd.zeros({4, 5, 2}), List()).first.shape()[1] == 5);
    CHECK(net(nd.zeros({4, 0, 2}), List()).first.shape()[1] == 0);
  };
  check(Along(rnn::LSTMCell(3), 4));
  check(Along(stack(rnn::GRUCell(3), rnn::RNNCell(2)), 4));
}

TEST_CASE("recurrent cells: zoneout keeps elements of the step before", "[gluon]") {
  for (bool whole : {false, true}) {
    rnn::ZoneoutCell cell(rnn::RNNCell(50), {.zoneout_outputs = 0.5, .zoneout_states = 0.25});
    cell.initialize(init::Uniform(0.1));
    Along net(cell, 3);
    const NDArray x = nd.random_normal({3, 4, 2});
    net(x, cell.begin_state(4));
    if (whole) {
      net.hybridize();
    } else {
      cell.hybridize();
    }
    autograd::record([&] {
      auto [y, states] = net(x, cell.begin_state(4));
      const auto v = values(y);
      const size_t step = 4 * 50;
      size_t zeros = 0, same = 0;
      for (size_t i = 0; i < step; ++i) {
        zeros += v[i] == 0;
        same += v[i + step] == v[i];
      }
      INFO(zeros << " " << same);
      CHECK((zeros > 60 && zeros < 140));  // 100 of 200, standard deviation 7
      CHECK((same > 60 && same < 140));
    });
    const auto base = values(cell.base_cell
                                 .unroll_sequence(rnn::detail::UnrollCall<NDArray>{
                                     3, rnn::detail::Sequence<NDArray>(x), cell.begin_state(4), Layout::TNC, true, {}})
                                 .outputs.arrays[0]);
    require_close(net(x, cell.begin_state(4)).first, base);  // nothing when predicting
  }
}

TEST_CASE("recurrent cells: variational dropout draws once for a sequence", "[gluon]") {
  // The base cell's output is its input, so that the masks are seen.
  rnn::RNNCell identity(40, {.activation = "relu",
                             .i2h_weight_initializer = init::Zero(),
                             .h2h_weight_initializer = init::Zero(),
                             .i2h_bias_initializer = init::One()});
  rnn::VariationalDropoutCell cell(identity, {.drop_states = 0.5, .drop_outputs = 0.5});
  rnn::VariationalDropoutCell whole_cell(identity, {.drop_outputs = 0.5});
  cell.initialize();
  Along net(cell, 4), whole(whole_cell, 4);
  const NDArray x = nd.ones({4, 3, 40});
  net(x, cell.begin_state(3));
  for (bool active : {false, true}) {
    net.hybridize(active);
    whole.hybridize(active);
    autograd::record([&] {
      const auto check = [&](const auto& block) {
        const NDArray y = block(x, cell.begin_state(3)).first;
        const auto v = values(y);
        size_t kept = 0;
        for (size_t i = 0; i < 120; ++i) {
          kept += v[i] == 2;
          CHECK((v[i] == 0 || v[i] == 2));
          for (size_t step = 1; step < 4; ++step) CHECK(v[i + step * 120] == v[i]);
        }
        CHECK((kept > 30 && kept < 90));  // 60 of 120
        CHECK(values(block(x, cell.begin_state(3)).first) != v);
      };
      check(net);
      check(whole);
    });
  }
}

TEST_CASE("recurrent cells: what keeps arrays between steps is no single plan, and no body of a loop", "[gluon]") {
  rnn::ZoneoutCell cell(rnn::RNNCell(3), {.zoneout_outputs = 0.5});
  cell.initialize();
  const NDArray x = nd.random_normal({4, 2, 3});
  const List states = cell.begin_state(2);
  Along loop(cell, 4, true);
  OneStep step(cell);
  loop(x, states);  // as code, it is a loop of steps
  step(x[0], states);
  loop.hybridize();
  CHECK_THROWS_AS(loop(x, states), TraceError);
  step.hybridize();
  CHECK_THROWS_AS(step(x[0], states), TraceError);
  cell.reset();
  auto [y, next] = cell(x[0], states);  // the base cell is a plan, and the cell itself runs as code
  auto [again, last] = cell(x[1], next);
  CHECK(again.shape() == y.shape());
}

TEST_CASE("recurrent cells: other dtypes", "[gluon]") {
  auto cell = stack(rnn::LSTMCell(3), rnn::GRUCell(3));
  cell.initialize(init::Uniform(0.5));
  const NDArray x = nd.random_normal({2, 4, 3});
  const auto expected = values(cell.unroll(4, x).first);
  for (DType dtype : {DType::float64, DType::float16}) {
    cell.cast(dtype);
    CHECK(cell.begin_state(2)[0].dtype() == dtype);
    for (bool active : {false, true}) {
      cell.hybridize(active);
      const NDArray y = cell.unroll(4, x.astype(dtype)).first;
      CHECK(y.dtype() == dtype);
      require_close(y, expected, dtype == DType::float16 ? 5e-3 : 1e-5, dtype == DType::float16 ? 5e-3 : 1e-5);
    }
  }
}

}  // namespace recurrent_cell_test
