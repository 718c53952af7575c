// Ranks: several processes learn handwritten digits together, each from its part of every batch.
// kaon-launch -n 2 19_ranks; alone it is one rank. Prints for each epoch the mean loss over the ranks and how many
// images a second they learn from together; at the end whether all ranks have the same weights. Ends with 1 unless they
// have, and unless the loss has fallen. An argument is the folder of the digits.
#include "../networks.h"
#include "kaon/comm/communicator.h"

using namespace examples;

namespace {

Task<bool> train(comm::Communicator world, std::filesystem::path folder) {
  const gluon::data::Dataset all = digits(folder, true);
  const int64_t batch = 64;  // of all ranks together
  const gluon::data::DistributedSampler part(all.size(), world.size(), world.rank(), {.seed = 1});
  const gluon::data::DataLoader loader(all, gluon::data::BatchSampler(part, batch / world.size()));

  LeNet net;
  net.initialize(init::Xavier());
  net(nd.zeros({1, 1, 28, 28}));  // infers the shapes, so that the trainer gives every rank the same first weights
  net.hybridize({.static_alloc = true, .static_shape = true});
  gluon::Trainer trainer(net.collect_params(), optimizer::SGD({.learning_rate = 0.05, .momentum = 0.9}),
                         {.kvstore = "dist_device_sync"});
  const gluon::loss::SoftmaxCrossEntropyLoss loss_fn;

  double first = 0, mean = 0;
  for (int epoch = 1; epoch <= 2; ++epoch) {
    const auto begin = std::chrono::steady_clock::now();
    NDArray sum = nd.zeros({1});
    auto batches = loader.batches();
    while (auto b = co_await batches.next()) {
      NDArray loss;
      autograd::record([&] { loss = loss_fn(net(b->data), b->label); });
      loss.backward();
      trainer.step(batch);
      sum += loss.mean();
    }
    sum = co_await world.all_reduce(sum, comm::Reduce::mean);
    mean = sum.asscalar<float>() / double(loader.size());
    if (epoch == 1) first = mean;
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
    if (world.rank() == 0) {
      fmt::print("epoch {}: loss {:.3f}, {:.0f} images/s by {} ranks\n", epoch, mean,
                 double(loader.size() * batch) / seconds.count(), world.size());
    }
  }

  bool is_same = true;
  for (const auto& p : net.collect_params()) {
    const NDArray w = p.data(), most = co_await world.all_reduce(w, comm::Reduce::max);
    is_same = is_same && nd.array_equal(w, most).asscalar<bool>();
  }
  if (world.rank() == 0) fmt::print("all ranks have the same weights: {}\n", is_same ? "yes" : "no");
  co_return is_same&& mean < first;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return sync_wait(train(comm::mpi(), argc > 1 ? argv[1] : KAON_DATA_DIR "/mnist-10k")) ? 0 : 1;
  } catch (const std::exception& e) {
    fmt::print(stderr, "19_ranks: {}\n", e.what());
    return 1;
  }
}
