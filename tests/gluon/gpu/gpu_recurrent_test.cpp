// Recurrent layers and unrolled cells on a GPU against the CPU, with their gradients. Run on the emulator
// (tests/cuda_emulator) where there is none.
#include <catch2/catch.hpp>

#include "kaon/engine/device/backend.h"
#include "kaon/kaon.h"
#include "kaon/tests/support/skip.h"

namespace gpu_recurrent_test {

using namespace kaon;
namespace rnn = kaon::gluon::rnn;

namespace {

// A layer and unrolled cells, both from zeros.
struct Net : gluon::HybridBlock<Net> {
  rnn::LSTM layer = child("layer", rnn::LSTM(3, {.num_layers = 2, .bidirectional = true, .use_sequence_length = true}));
  rnn::HybridSequentialRNNCell cells;
  Net() {
    cells.add(rnn::LSTMCell(4), rnn::BidirectionalCell(rnn::GRUCell(3), rnn::RNNCell(2)));
    child("cells", cells);
  }
  auto hybrid_forward(auto, auto x, auto lengths) {
    return cells.unroll(4, layer(x, {}, lengths).first, {}, rnn::Layout::TNC, lengths).first;
  }
};

struct Loop : gluon::HybridBlock<Loop> {
  rnn::RNNCell cell = child("cell", rnn::RNNCell(5));
  auto hybrid_forward(auto F, auto x, auto lengths) {
    auto first = F.reshape(F.slice_axis(x, 0, 0, 1), {-3, -2});
    return rnn::dynamic_unroll(cell, x, {first}, {}, lengths).first;
  }
};

template <class Net>
std::vector<std::vector<double>> run(Net net, const NDArray& x, const NDArray& lengths) {
  NDArray y = autograd::record([&] { return net(x, lengths); });
  y.backward();
  std::vector<std::vector<double>> all{y.asvector<double>()};
  for (const gluon::Parameter& p : net.collect_params()) all.push_back(p.grad().asvector<double>());
  return all;
}

template <class Net>
void check_on_gpu(Net net, std::initializer_list<bool> modes) {
  net.initialize(init::Uniform(0.5));
  const NDArray x = nd.random_normal({4, 3, 5}), lengths = nd.array({4, 1, 2});
  net(x, lengths);
  const auto expected = run(net, x, lengths);
  net.collect_params().reset_ctx(gpu(0));
  for (bool active : modes) {
    net.hybridize(active);
    const auto got = run(net, x.as_in_context(gpu(0)), lengths.as_in_context(gpu(0)));
    REQUIRE(got.size() == expected.size());
    for (size_t i = 0; i < got.size(); ++i) {
      REQUIRE(got[i].size() == expected[i].size());
      for (size_t k = 0; k < got[i].size(); ++k)
        REQUIRE(got[i][k] == Approx(expected[i][k]).epsilon(1e-4).margin(1e-5));
    }
  }
}

}  // namespace

TEST_CASE("gpu: recurrent layers and cells", "[gluon][cuda]") {
  if (!test::has_gpu()) return;
  check_on_gpu(Net(), {false, true});
}

TEST_CASE("gpu: cells in a loop; hybridized, loops are for the CPU", "[gluon][cuda]") {
  if (!test::has_gpu()) return;
  Loop net;
  check_on_gpu(net, {false});
  net.hybridize();
  const NDArray x = nd.ones({4, 3, 5}).as_in_context(gpu(0)), lengths = nd.array({4, 1, 2}).as_in_context(gpu(0));
  REQUIRE_THROWS_WITH(net(x, lengths), Catch::Contains("no kernel for GPUs"));
}

}  // namespace gpu_recurrent_test
