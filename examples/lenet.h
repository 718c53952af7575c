// How the LeNet learns digits: shared by train_mnist and bench_mnist_accuracy.
#pragma once

#include <chrono>
#include <deque>

#include "kaon/comm/communicator.h"
#include "networks.h"

namespace examples {

using gluon::data::DataLoader;

struct TrainingOptions {
  int epochs = 5;
  int64_t batch_size = 32;      // of all ranks together
  double learning_rate = 0.02;  // falls linearly to 0
  uint64_t seed = 1;            // of parameters and of the order of the digits
  bool imperative = false;
  bool exact = false;          // hybridized: bit-equal to imperative
  comm::Communicator world{};  // the ranks that learn together; undefined: this process learns alone
};

// Is told about every step of an epoch.
class StepListener {
 public:
  virtual ~StepListener() = default;
  virtual void pushed() {}
  virtual void finished(double loss) { (void)loss; }
};

struct EpochResult {
  double loss = 0, accuracy = 0, images_per_second = 0;
};

// A net with all that its training needs. Seeds the random numbers when it is made.
class LeNetTraining {
 public:
  LeNetTraining(const gluon::data::Dataset& train, const TrainingOptions& o)
      : world_(o.world),
        loader_(make_loader(train, o)),
        net_(make_net(o)),
        trainer_(net_.collect_params(),
                 optimizer::SGD({.momentum = 0.9,
                                 .lr_scheduler = lr_scheduler::PolyScheduler(
                                     {.max_update = o.epochs * loader_.size(), .base_lr = o.learning_rate, .pwr = 1})}),
                 {.kvstore = world_.defined() ? "dist_device_sync" : "device"}) {
    if (!o.imperative) loss_fn_.hybridize({.static_alloc = true, .static_shape = true, .exact = o.exact});
  }

  const LeNet& net() const { return net_; }
  int64_t steps_per_epoch() const { return loader_.size(); }

  // One pass over the training digits, of which each rank has its part; the result is that of all ranks, and listeners
  // hear of the steps and losses of this one. The loop runs ahead of the engine and reads the loss of a step only when
  // `ahead` later ones are pushed, so that the engine always has work while it waits.
  Task<EpochResult> epoch(StepListener& listener) {
    constexpr size_t ahead = 32;
    const auto begin = std::chrono::steady_clock::now();
    metric::Accuracy accuracy;
    std::deque<NDArray> losses;
    double loss_sum = 0;
    int64_t images = 0, steps = 0;
    auto batches = loader_.batches();
    while (auto batch = co_await batches.next()) {
      NDArray output;
      NDArray loss = autograd::record([&] {
        output = net_(batch->data);
        return loss_fn_(output, batch->label);
      });
      loss.backward();
      trainer_.step(batch->size() * ranks());
      accuracy.update(batch->label, output);
      losses.push_back(loss.mean());
      images += batch->size();
      ++steps;
      listener.pushed();
      if (losses.size() > ahead) {
        const double value = co_await losses.front().item<double>();
        losses.pop_front();
        loss_sum += value;
        listener.finished(value);
      }
    }
    for (const NDArray& loss : losses) {
      const double value = co_await loss.item<double>();
      loss_sum += value;
      listener.finished(value);
    }
    co_await Engine::current().idle();
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    EpochResult result;
    result.loss = loss_sum / double(steps);
    result.accuracy = co_await accuracy.value();
    result.images_per_second = double(images * ranks()) / seconds;
    if (world_.defined()) {
      NDArray means = nd.array({result.loss, result.accuracy});
      means = co_await world_.all_reduce(means, comm::Reduce::mean);
      result.loss = means[0].asscalar<double>(), result.accuracy = means[1].asscalar<double>();
    }
    co_return result;
  }

 private:
  int64_t ranks() const { return world_.defined() ? world_.size() : 1; }

  static DataLoader make_loader(const gluon::data::Dataset& train, const TrainingOptions& o) {
    if (!o.world.defined()) return {train, {.batch_size = o.batch_size, .shuffle = true, .seed = o.seed}};
    const gluon::data::DistributedSampler part(train.size(), o.world.size(), o.world.rank(), {.seed = o.seed});
    return {train, gluon::data::BatchSampler(part, o.batch_size / o.world.size())};
  }

  static LeNet make_net(const TrainingOptions& o) {
    random::seed(o.seed);
    LeNet net;
    net.initialize(init::Xavier());
    if (o.world.defined()) net(nd.zeros({1, 1, 28, 28}));  // infers the shapes: the trainer sends rank 0's weights
    if (!o.imperative) net.hybridize({.static_alloc = true, .static_shape = true, .exact = o.exact});
    return net;
  }

  comm::Communicator world_;
  DataLoader loader_;
  LeNet net_;
  gluon::loss::SoftmaxCrossEntropyLoss loss_fn_;
  gluon::Trainer trainer_;
};

// The share of digits that a net recognises.
template <class Net>
Task<double> evaluate(Net net, gluon::data::Dataset dataset) {
  DataLoader loader(dataset, {.batch_size = 100});
  metric::Accuracy accuracy;
  auto batches = loader.batches();
  while (auto batch = co_await batches.next()) accuracy.update(batch->label, net(batch->data));
  co_return co_await accuracy.value();
}

}  // namespace examples
