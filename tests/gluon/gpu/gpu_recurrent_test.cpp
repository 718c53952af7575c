// Recurrent layers and unrolled cells on a GPU against the CPU, with their gradients. Run on the emulator
// (tests/cuda_emulator) where there is none.
#include <catch2/catch.hpp>

#include "kaon/engine/device/backend.h"
#include "kaon/kaon.h"
#include "kaon/tests/support/skip.h"

using namespace kaon;
namespace rnn = kaon::gluon::rnn;

namespace {

// A layer and unrolled cells, both from zeros, then a loop from the first of their outputs.
struct Net : gluon::HybridBlock<Net> {
  rnn::LSTM layer = child("layer", rnn::LSTM(3, {.num_layers = 2, .bidirectional = true, .use_sequence_length = true}));
  rnn::HybridSequentialRNNCell cells;
  rnn::RNNCell loop = child("loop", rnn::RNNCell(5));
  Net() {
    cells.add(rnn::LSTMCell(4), rnn::BidirectionalCell(rnn::GRUCell(3), rnn::RNNCell(2)));
    child("cells", cells);
  }
  auto hybrid_forward(auto F, auto x, auto lengths) {
    auto y = cells.unroll(4, layer(x, {}, lengths).first, {}, rnn::Layout::TNC, lengths).first;
    auto first = F.reshape(F.slice_axis(y, 0, 0, 1), {-3, -2});
    return rnn::dynamic_unroll(loop, y, {first}, {}, lengths).first;
  }
};

std::vector<std::vector<double>> run(Net net, const NDArray& x, const NDArray& lengths) {
  NDArray y = autograd::record([&] { return net(x, lengths); });
  y.backward();
  std::vector<std::vector<double>> all{y.asvector<double>()};
  for (const auto& p : net.collect_params()) all.push_back(p.grad().asvector<double>());
  return all;
}

}  // namespace

TEST_CASE("gpu: recurrent layers and cells", "[gluon][cuda]") {
  if (!test::has_gpu()) return;
  Net net;
  net.initialize(init::Uniform(0.5));
  const NDArray x = nd.random_normal({4, 3, 5}), lengths = nd.array({4, 1, 2});
  net(x, lengths);
  const auto expected = run(net, x, lengths);
  net.collect_params().reset_ctx(gpu(0));
  for (bool active : {false, true}) {
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
