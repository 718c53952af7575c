// The seeds' two networks and the digits that the LeNet learns: shared by train_mnist and bench_mnist_accuracy.
#pragma once

#include <kaon/kaon.h>

#include <filesystem>

namespace examples {

using namespace kaon;
namespace nn = kaon::gluon::nn;

struct LeNet : gluon::HybridBlock<LeNet> {
  nn::Conv2D conv1 = child("conv1", nn::Conv2D(6, {.kernel_size = 5}));
  nn::MaxPool2D pool1 = child("pool1", nn::MaxPool2D({.pool_size = 2}));
  nn::Conv2D conv2 = child("conv2", nn::Conv2D(16, {.kernel_size = 5}));
  nn::MaxPool2D pool2 = child("pool2", nn::MaxPool2D({.pool_size = 2}));
  nn::Dense fc1 = child("fc1", nn::Dense(120));
  nn::Dense fc2 = child("fc2", nn::Dense(84));
  // A Dense layer would do. The product is written out to show a parameter of one's own.
  gluon::Parameter fc3_weight = param("fc3_weight", {10, 84});

  auto hybrid_forward(auto F, auto x) {
    x = pool1(F.relu(conv1(x)));
    x = pool2(F.relu(conv2(x)));
    x = F.reshape(x, {0, -1});
    x = F.relu(fc1(x));
    x = F.relu(fc2(x));
    return F.dot(x, F(fc3_weight), {.transpose_b = true});
  }
};

inline nn::HybridSequential seed_mlp() {
  return nn::HybridSequential(nn::Dense(256, {.activation = "relu"}), nn::Dense(128, {.activation = "relu"}),
                              nn::Dense(2));
}

// The digits in a folder, standardised with MNIST's mean and deviation.
inline gluon::data::Dataset digits(const std::filesystem::path& folder, bool train) {
  namespace transforms = gluon::data::vision::transforms;
  return gluon::data::vision::MNIST(folder, train)
      .transform_first(transforms::to_tensor)
      .transform_first(transforms::normalize(0.1307f, 0.3081f));
}

}  // namespace examples
