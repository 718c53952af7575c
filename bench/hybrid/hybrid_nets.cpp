#include "kaon/bench/hybrid/hybrid_bare.h"
#include "kaon/bench/hybrid/hybrid_parts.h"

namespace kaon::bench {
namespace {

namespace nn = gluon::nn;
namespace vision = gluon::model_zoo::vision;

constexpr int64_t batch = 64;

enum class How { imperative, hybridized, whole_step, autotuned_step };

// A net that learns digits.
struct Learner {
  nn::HybridSequential net;
  gluon::loss::SoftmaxCrossEntropyLoss loss_fn;
  NDArray data;
  NDArray label = nd.arange(double(batch)) % 10;
  std::unique_ptr<gluon::Trainer> trainer;
  std::unique_ptr<gluon::TrainingStep> whole_step;

  Learner(const nn::HybridSequential& untrained, const Shape& sample, How how)
      : net(untrained), data(nd.random_uniform(sample)) {
    net.initialize(init::Xavier());
    net(data);
    if (how == How::hybridized) {
      hybridize(net);
      hybridize(loss_fn);
    }
    // without momentum, as the peers' programs
    trainer = std::make_unique<gluon::Trainer>(net.collect_params(), optimizer::SGD({.learning_rate = 0.01}));
    if (how == How::whole_step) whole_step = std::make_unique<gluon::TrainingStep>(net, loss_fn, *trainer);
    if (how == How::autotuned_step) {
      whole_step = std::make_unique<gluon::TrainingStep>(net, loss_fn, *trainer, HybridizeOptions{.autotune = true});
    }
  }
  double samples_per_second(int steps) {
    nd.waitall();
    const double s = seconds([&] {
      for (int i = 0; i < steps; ++i) {
        if (whole_step) {
          (*whole_step)(data, label);
          continue;
        }
        NDArray loss = autograd::record([&] { return loss_fn(net(data), label); });
        loss.backward();
        trainer->step(batch);
      }
      nd.waitall();
    });
    return double(steps * batch) / s;
  }
};

nn::HybridSequential lenet_20_50() {
  return nn::HybridSequential(nn::Conv2D(20, {.kernel_size = 5, .activation = "relu"}), nn::MaxPool2D({.pool_size = 2}),
                              nn::Conv2D(50, {.kernel_size = 5, .activation = "relu"}), nn::MaxPool2D({.pool_size = 2}),
                              nn::Flatten(), nn::Dense(128, {.activation = "relu"}), nn::Dense(10));
}
nn::HybridSequential digits_mlp() {
  return nn::HybridSequential(nn::Dense(128, {.activation = "relu"}), nn::Dense(64, {.activation = "relu"}),
                              nn::Dense(10));
}

void compare_training(const std::string& name, const BarePrimitives& bare, nn::HybridSequential (*make)(),
                      const Shape& sample, int steps, double goal, int threads) {
  Learner imperative(make(), sample, How::imperative), hybrid(make(), sample, How::hybridized),
      whole(make(), sample, How::whole_step), autotuned(make(), sample, How::autotuned_step);
  const auto r =
      interleave(5, {[&] { return double(batch) / bare.run(); }, [&] { return imperative.samples_per_second(steps); },
                     [&] { return hybrid.samples_per_second(steps); }, [&] { return whole.samples_per_second(steps); },
                     [&] { return autotuned.samples_per_second(steps); }});
  const std::string t = on_threads(threads);
  print(name + "_bare" + t, r[0], "samples/s");
  print(name + "_imperative" + t, r[1], "samples/s", name + "_bare", r[0]);
  print(name + "_hybridized" + t, r[2], "samples/s", {{name + "_bare", r[0]}, {name + "_imperative", r[1]}}, goal);
  print(name + "_one_submission" + t, r[3], "samples/s", {{name + "_bare", r[0]}, {name + "_hybridized", r[2]}}, goal);
  print(name + "_autotuned" + t, r[4], "samples/s", {{name + "_bare", r[0]}, {name + "_one_submission", r[3]}}, goal);
}

// Every convolution of ResNet-18 with relu; those of the same shape run one after the other on the same memory.
BarePrimitives resnet18_convolutions(int64_t n, int threads, bool winograd) {
  BarePrimitives bare(threads);
  bare.convolution({n, 3, 224, 64, 7, 2, 3}, true);
  bare.convolution({n, 64, 56, 64, 3, 1, 1}, true, 4, winograd);
  for (int64_t channels = 128, size = 56; channels <= 512; channels *= 2, size /= 2) {
    bare.convolution({n, channels / 2, size, channels, 3, 2, 1}, true);
    bare.convolution({n, channels / 2, size, channels, 1, 2, 0}, true);
    bare.convolution({n, channels, size / 2, channels, 3, 1, 1}, true, 3, winograd);
  }
  return bare;
}

}  // namespace

void lenet(int threads) {
  constexpr int calls = 1000;
  const NDArray x = nd.random_uniform({1, 1, 28, 28});
  examples::LeNet imperative, hybrid;
  for (auto net : {imperative, hybrid}) net.initialize(init::Xavier());
  hybridize(hybrid);
  BarePrimitives bare(threads);
  bare.convolution({1, 1, 28, 6, 5}, true);
  bare.max_pooling(1, 6, 24);
  bare.convolution({1, 6, 12, 16, 5}, true);
  bare.max_pooling(1, 16, 8);
  bare.dense(1, 256, 120, true);
  bare.dense(1, 120, 84, true);
  bare.dense(1, 84, 10, false);
  const auto r = interleave(
      9, {[&] { return bare.run() * per_us; }, [&] { return seconds_per_call(imperative, x, calls) * per_us; },
          [&] { return seconds_per_call(hybrid, x, calls) * per_us; },
          [&] { return seconds_per_call(hybrid, x, calls, Wait::each) * per_us; }});
  const std::string t = on_threads(threads);
  print("lenet_b1_bare" + t, r[0], "us");
  print("lenet_b1_imperative" + t, r[1], "us", "lenet_b1_bare", r[0]);
  print("lenet_b1_hybridized" + t, r[2], "us", {{"lenet_b1_bare", r[0]}, {"lenet_b1_imperative", r[1]}},
        1.25 * r[0].median);
  print("lenet_b1_hybridized_each_waited_for" + t, r[3], "us", "lenet_b1_bare", r[0]);
}

void training(int threads) {
  BarePrimitives convolutional(threads);
  convolutional.train_convolution({batch, 1, 28, 20, 5}, false);
  convolutional.train_relu_and_pooling(batch, 20, 24);
  convolutional.train_convolution({batch, 20, 12, 50, 5}, true);
  convolutional.train_relu_and_pooling(batch, 50, 8);
  convolutional.train_dense(batch, 800, 128, true, true);
  convolutional.train_dense(batch, 128, 10, false, true);
  if (threads == 1) convolutional.print_choices();
  compare_training("lenet_training", convolutional, lenet_20_50, {batch, 1, 28, 28}, 30, threads == 1 ? 12500 : 20000,
                   threads);

  BarePrimitives dense(threads);
  dense.train_dense(batch, 784, 128, true, false);
  dense.train_dense(batch, 128, 64, true, true);
  dense.train_dense(batch, 64, 10, false, true);
  compare_training("mlp_training", dense, digits_mlp, {batch, 784}, 300, threads == 1 ? 430000 : 580000, threads);
}

void resnet(int threads) {
  vision::ResNetV1 imperative = vision::resnet18_v1(), hybrid = vision::resnet18_v1(), winograd = vision::resnet18_v1();
  vision::ResNetV1 autotuned = vision::resnet18_v1(), both = vision::resnet18_v1();
  for (auto net : {imperative, hybrid, winograd, autotuned, both}) net.initialize(init::Xavier());
  hybridize(hybrid);
  winograd.hybridize({.static_alloc = true, .static_shape = true, .winograd = true});
  autotuned.hybridize({.static_alloc = true, .static_shape = true, .autotune = true});
  both.hybridize({.static_alloc = true, .static_shape = true, .winograd = true, .autotune = true});
  for (int64_t n : {1, 8}) {
    const NDArray x = nd.random_uniform({n, 3, 224, 224});
    const BarePrimitives bare = resnet18_convolutions(n, threads, false);
    const BarePrimitives bare_winograd = resnet18_convolutions(n, threads, true);
    BarePrimitives own_weights = resnet18_convolutions(n, threads, false);
    own_weights.give_each_its_weights();
    if (threads == 1 && n == 1) bare.print_choices();
    const auto ms = [&](const vision::ResNetV1& net) {
      return seconds_per_call(net, x, n == 1 ? 6 : 2, Wait::each) * per_ms;
    };
    // all that is bare first: after it the processor rests
    const auto r =
        interleave(5, {[&] { return bare.run() * per_ms; }, [&] { return own_weights.run() * per_ms; },
                       [&] { return bare_winograd.run() * per_ms; }, [&] { return ms(imperative); },
                       [&] { return ms(hybrid); }, [&] { return ms(autotuned); }, [&] { return ms(winograd); },
                       [&] { return ms(both); }, [&] { return bare.run_multiply_adds() * per_ms; }});
    const std::string name = "resnet18_b" + std::to_string(n), t = on_threads(threads);
    print(name + "_multiply_adds_alone" + t, r[8], "ms");
    print(name + "_bare_convolutions" + t, r[0], "ms", name + "_multiply_adds_alone", r[8]);
    print(name + "_bare_convolutions_own_weights" + t, r[1], "ms", name + "_bare_convolutions", r[0]);
    print(name + "_imperative" + t, r[3], "ms", name + "_bare_convolutions", r[0]);
    print(name + "_hybridized" + t, r[4], "ms",
          {{name + "_bare_convolutions", r[0]},
           {name + "_multiply_adds_alone", r[8]},
           {name + "_bare_convolutions_own_weights", r[1]},
           {name + "_imperative", r[3]}},
          1.15 * r[0].median);
    // 5.5 and 34 ms where the multiply-adds of direct convolutions alone take 6.6 and 52.6
    const double of_multiply_adds = n == 1 ? 5.5 / 6.6 : 34 / 52.6;
    const std::optional<double> goal = threads == 1 ? std::nullopt : std::optional(of_multiply_adds * r[8].median);
    print(name + "_bare_winograd" + t, r[2], "ms", name + "_bare_convolutions", r[0]);
    print(name + "_hybridized_winograd" + t, r[6], "ms",
          {{name + "_bare_winograd", r[2]}, {name + "_bare_convolutions", r[0]}, {name + "_hybridized", r[4]}}, goal);
    print(name + "_autotuned" + t, r[5], "ms", {{name + "_bare_convolutions", r[0]}, {name + "_hybridized", r[4]}},
          1.15 * r[0].median);
    print(name + "_autotuned_winograd" + t, r[7], "ms",
          {{name + "_bare_winograd", r[2]}, {name + "_hybridized_winograd", r[6]}}, goal);
  }
}

}  // namespace kaon::bench
