// Recurrent layers and CTC beyond the test table: steps in several pieces, the loop over them, dropout between layers,
// NaN, probabilities far from 1.
#include <atomic>
#include <catch2/catch.hpp>
#include <chrono>
#include <cmath>
#include <functional>
#include <limits>
#include <thread>

#include "kaon/engine/operation/var.h"
#include "kaon/graph/autograd.h"
#include "kaon/graph/symbol.h"
#include "kaon/ops/functions.h"
#include "kaon/ops/nn/rnn/kernels/step_loop.h"
#include "kaon/ops/random_state.h"

namespace rnn_test {

using namespace kaon;
using namespace kaon::graph;
using Catch::Matchers::Contains;

namespace {

constexpr double inf = std::numeric_limits<double>::infinity(), nan_ = std::numeric_limits<double>::quiet_NaN();
using Doubles = std::vector<double>;

// The results, then the gradients.
std::vector<Doubles> run(const op::RNN& op, const std::vector<NDArray>& arrays, DType t) {
  std::vector<NDArray> in;
  for (size_t i = 0; i < arrays.size(); ++i) {
    const bool is_length = op.use_sequence_length && i + 1 == arrays.size();
    in.push_back(is_length ? arrays[i] : nd.cast(arrays[i], t));
    if (!is_length) in.back().attach_grad();
  }
  const std::vector<NDArray> y = autograd::record([&] {
    return in.size() == 3   ? nd.RNN_states(in[0], in[1], in[2], op)
           : in.size() == 4 ? nd.RNN_states(in[0], in[1], in[2], in[3], op)
                            : nd.RNN_states(in[0], in[1], in[2], in[3], in[4], op);
  });
  std::vector<NDArray> heads;
  std::vector<Doubles> all;
  for (const NDArray& a : y) {
    heads.push_back(nd.sin(nd._reshape_to(nd.arange(double(a.size()), {.dtype = t}), {.shape = a.shape()})));
    all.push_back(a.asvector<double>());
  }
  autograd::backward(y, heads);
  for (const NDArray& a : in) {
    if (!op.use_sequence_length || &a != &in.back()) all.push_back(a.grad().asvector<double>());
  }
  return all;
}

struct Sizes {
  int64_t batch, hidden, projection;
};

}  // namespace

TEST_CASE("rnn: steps that are cut into pieces give what doubles give, which are not cut") {
  const int64_t steps = 5, inputs = 30;
  random::seed(7);
  for (RnnMode mode : {RnnMode::rnn_relu, RnnMode::rnn_tanh, RnnMode::lstm, RnnMode::gru}) {
    for (const auto [batch, hidden, projection] : {Sizes{67, 149, 0}, {67, 149, 77}, {1, 411, 0}, {1, 411, 277}}) {
      if (projection > 0 && mode != RnnMode::lstm) continue;
      for (bool use_lengths : {false, true}) {
        op::RNN op{.state_size = hidden, .num_layers = 1, .bidirectional = true, .mode = mode};
        if (projection > 0) op.projection_size = projection;
        op.use_sequence_length = use_lengths;
        const op::RnnParameters all{.mode = mode,
                                    .input_size = inputs,
                                    .state_size = hidden,
                                    .num_layers = 1,
                                    .bidirectional = true,
                                    .projection_size = projection};
        std::vector<NDArray> arrays{nd.random_normal({steps, batch, inputs}),
                                    nd.random_normal(Shape(all.size()), {.scale = 0.1}),
                                    nd.random_normal({2, batch, all.result_size()})};
        if (mode == RnnMode::lstm) arrays.push_back(nd.random_normal({2, batch, hidden}));
        if (use_lengths) arrays.push_back(nd.random_randint(0, steps + 1, Shape(batch)));
        const std::vector<Doubles> got = run(op, arrays, DType::float32), want = run(op, arrays, DType::float64);
        REQUIRE(got.size() == want.size());
        for (size_t k = 0; k < got.size(); ++k) {
          double wrong = 0, largest = 1;
          for (size_t i = 0; i < got[k].size(); ++i) {
            wrong = std::max(wrong, std::abs(got[k][i] - want[k][i])),
            largest = std::max(largest, std::abs(want[k][i]));
          }
          INFO(int(mode) << " batch " << batch << " projection " << projection << " lengths " << use_lengths
                         << " array " << k);
          CHECK(wrong < 2e-5 * largest);
        }
      }
    }
  }
}

TEST_CASE("rnn: results and gradients have the same bits for any number of threads", "[unsanitized]") {
  for (RnnMode mode : {RnnMode::rnn_tanh, RnnMode::lstm, RnnMode::gru}) {
    for (const auto [batch, hidden, projection] : {Sizes{1, 300, 0}, {1, 300, 270}, {33, 160, 0}, {33, 160, 150}}) {
      if (projection > 0 && mode != RnnMode::lstm) continue;
      op::RNN op{.state_size = hidden, .num_layers = 1, .mode = mode};
      if (projection > 0) op.projection_size = projection;
      const op::RnnParameters all{
          .mode = mode, .input_size = 20, .state_size = hidden, .num_layers = 1, .projection_size = projection};
      std::vector<std::vector<Doubles>> found;
      for (const int threads : {0, 1, 2, 4}) {
        Engine engine({.threads = threads});
        EngineScope scope(engine);
        random::seed(3);
        std::vector<NDArray> arrays{nd.random_normal({40, batch, 20}),
                                    nd.random_normal(Shape(all.size()), {.scale = 0.1}),
                                    nd.random_normal({1, batch, all.result_size()})};
        if (mode == RnnMode::lstm) arrays.push_back(nd.random_normal({1, batch, hidden}));
        found.push_back(run(op, arrays, DType::float32));
      }
      INFO(int(mode) << " batch " << batch << " projection " << projection);
      for (const auto& other : found) CHECK(other == found[0]);
    }
  }
}

namespace {

// Which pieces in_steps() has made when each piece begins, all in one operation of an engine with so many threads.
void check_steps(int threads, int64_t steps, int64_t pieces, std::function<void(int64_t, int64_t)> work = {}) {
  Engine engine({.threads = threads});
  engine::Var var;
  std::vector<std::atomic<int>> made(size_t(std::max<int64_t>(1, steps * pieces)));
  std::atomic<int> too_early{0};
  engine.push({kaon::write(var)}, [&](RunContext& run) {
    ops::in_steps(run, steps, pieces, [&](int64_t step, int64_t piece) {
      for (int64_t i = 0; i < pieces && step > 0; ++i) too_early += made[size_t((step - 1) * pieces + i)] != 1;
      if (work) work(step, piece);
      ++made[size_t(step * pieces + piece)];
    });
  });
  engine.wait(var);
  CHECK(too_early == 0);
  for (int64_t i = 0; i < steps * pieces; ++i) CHECK(made[size_t(i)] == 1);
}

}  // namespace

TEST_CASE("step loop: each piece is made once, when the step before is done") {
  for (const int threads : {0, 1, 2, 4}) {
    for (const int64_t pieces : {1, 2, 7, 64, 65}) {
      for (const int64_t steps : {0, 1, 2, 50}) check_steps(threads, steps, pieces);
    }
    // threads that are late now and then: others take over
    check_steps(threads, 30, 5, [](int64_t step, int64_t piece) {
      if ((step + piece) % 7 == 0) std::this_thread::sleep_for(std::chrono::microseconds(200));
    });
  }
}

TEST_CASE("step loop: an exception ends it") {
  for (const int threads : {0, 1, 2, 4}) {
    Engine engine({.threads = threads});
    engine::Var var;
    std::atomic<int> later{0};
    engine.push({kaon::write(var)}, [&](RunContext& run) {
      ops::in_steps(run, 20, 4, [&](int64_t step, int64_t piece) {
        if (step == 3 && piece == 2) throw ValueError("piece 2 of step 3");
        later += step > 3;
      });
    });
    CHECK_THROWS_WITH(engine.wait(var), Contains("piece 2 of step 3"));
    CHECK(later == 0);
  }
}

TEST_CASE("rnn: dropout between layers hides the lower layer, in training alone") {
  const NDArray x = nd.random_normal({3, 2, 4}), h = nd.random_normal({2, 2, 4}), w = nd.random_normal({80});
  const op::RNN op{.state_size = 4, .num_layers = 2, .mode = RnnMode::rnn_tanh, .p = 1};
  op::RNN one = op, none = op;
  one.num_layers = 1, none.p = 0;
  const NDArray hidden = autograd::train_mode([&] { return nd.RNN(x, w, h, op); });
  // the second layer's W, U and biases behind those of the first
  const NDArray second = nd.concat({.dim = 0}, nd.slice_axis(w, 0, 32, 64), nd.slice_axis(w, 0, 72, 80));
  const NDArray alone = nd.RNN(nd.zeros({3, 2, 4}), second, nd.slice_axis(h, 0, 1, 2), one);
  CHECK(hidden.asvector<float>() == alone.asvector<float>());
  CHECK(nd.RNN(x, w, h, op).asvector<float>() == nd.RNN(x, w, h, none).asvector<float>());
}

TEST_CASE("rnn: a NaN in the cell becomes the lower bound if it shall, and stays else") {
  const NDArray x = nd.zeros({1, 1, 1}), w = nd.zeros({16}), h = nd.zeros({1, 1, 1});
  const NDArray c = nd.full({1, 1, 1}, nan_);
  op::RNN op{.state_size = 1, .num_layers = 1, .lstm_state_clip_min = -0.5, .lstm_state_clip_max = 0.5};
  CHECK(std::isnan(nd.RNN_states(x, w, h, c, op)[2].asscalar<float>()));
  op.lstm_state_clip_nan = true;
  CHECK(nd.RNN_states(x, w, h, c, op)[2].asscalar<float>() == -0.5f);
  CHECK(nd.RNN_states(x, w, h, nd.full({1, 1, 1}, inf), op)[2].asscalar<float>() == 0.5f);
}

TEST_CASE("rnn: symbols name the inputs that they make as MXNet does") {
  const auto names = [](const op::RNN& op) {
    Symbol x = sym.var("x");
    const Symbol* inputs[] = {&x};
    std::vector<Symbol> outs(1);
    Symbol::apply(op::RNN::def, &op, inputs, outs, std::source_location::current(), "r");
    return outs[0].list_arguments();
  };
  using Names = std::vector<std::string>;
  CHECK(names({.state_size = 2, .num_layers = 1}) == Names{"x", "r_parameters", "r_state", "r_state_cell"});
  CHECK(names({.state_size = 2, .num_layers = 1, .mode = RnnMode::gru, .use_sequence_length = true}) ==
        Names{"x", "r_parameters", "r_state", "r_sequence_length"});
}

TEST_CASE("ctc: what is behind the end of a sequence reaches no gradient") {
  constexpr float nan = std::numeric_limits<float>::quiet_NaN();
  NDArray x = nd.array({1, 0, 0, 2, nan, nan}, {3, 1, 2});
  x.attach_grad();
  const NDArray label = nd.ones({1, 1}), length = nd.array({2}, {1});
  autograd::record([&] { return nd.CTCLoss(x, label, length, {.use_data_lengths = true}); }).backward();
  const std::vector<float> slopes = x.grad().asvector<float>();
  for (size_t i = 0; i < 4; ++i) CHECK((std::isfinite(slopes[i]) && slopes[i] != 0));
  CHECK(slopes[4] == 0);
  CHECK(slopes[5] == 0);
}

TEST_CASE("ctc: large numbers, labels that do not fit and labels that are no class") {
  const auto loss = [](const NDArray& data, const NDArray& label) {
    NDArray x = data.copy();
    x.attach_grad();
    const NDArray y = autograd::record([&] { return nd.CTCLoss(x, label); });
    y.backward();
    return std::pair(y.asvector<double>(), x.grad().asvector<double>());
  };
  const auto finite = [](const Doubles& v) {
    return std::all_of(v.begin(), v.end(), [](double x) { return std::isfinite(x); });
  };
  // every path costs 1e4 in each of 50 steps but one
  const NDArray steep = nd.concat({.dim = 2}, nd.full({50, 1, 1}, 1e4), nd.zeros({50, 1, 2}));
  const auto [far, slope] = loss(steep, nd.array({1.f}, {1, 1}));
  CHECK(far[0] == Approx(1e4).epsilon(1e-3));
  CHECK(finite(slope));
  const auto [short_loss, short_slope] = loss(nd.zeros({3, 1, 3}), nd.array({1.f, 1.f, 1.f}, {1, 3}));
  CHECK(short_loss == Doubles{0});
  CHECK(short_slope == Doubles(9, 0));
  const auto [no_class, no_slope] = loss(nd.zeros({3, 2, 3}), nd.array({1.f, 7.f}, {2, 1}));
  CHECK(std::isfinite(no_class[0]));
  CHECK(no_class[1] == inf);
  CHECK(finite(no_slope));
  const NDArray with_nan = nd.array({0.f, float(nan_), 0.f, 0.f, 0.f, 0.f}, {3, 1, 2});
  CHECK(std::isnan(loss(with_nan, nd.array({1.f}, {1, 1})).first[0]));
}

TEST_CASE("rnn: a second derivative is refused, not wrong") {
  NDArray x = nd.ones({3, 1, 2});
  x.attach_grad();
  CHECK_THROWS_AS(autograd::record([&] {
                    const NDArray y = nd.CTCLoss(x, nd.ones({1, 1}));
                    NDArray g = autograd::grad(y, x, true);
                    g.backward();
                    return g;
                  }),
                  StateError);
}

}  // namespace rnn_test
