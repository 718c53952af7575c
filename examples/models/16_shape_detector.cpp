// A detector finds rectangles, discs and triangles that the program draws into images: an SSD of four stages. Prints
// the mean average precision of the Pascal VOC on images that it has not seen; ends with 1 unless it has learned. An
// argument is the number of epochs.
#include <fmt/format.h>
#include <kaon/gluon/metric/detection.h>
#include <kaon/gluon/model_zoo/ssd.h>
#include <kaon/kaon.h>

#include <random>

using namespace kaon;
using namespace kaon::gluon::data;
namespace nn = kaon::gluon::nn;
using gluon::model_zoo::vision::SSD;

constexpr int side = 64, most_shapes = 3, classes = 3;

// An image (3, side, side) with noise and one to three shapes, each of a colour of its own, and for each its class and
// corners in parts of the image, (most_shapes, 5), -1 where there is none.
Sample draw(int64_t seed) {
  std::mt19937 random{uint32_t(seed)};
  const auto between = [&](float low, float high) { return std::uniform_real_distribution<float>(low, high)(random); };
  std::vector<float> image(3 * side * side), labels(most_shapes * 5, -1);
  for (float& v : image) v = between(0, 0.3f);
  const int shapes = 1 + int(random() % most_shapes);
  for (int s = 0; s < shapes; ++s) {
    const int kind = int(random() % classes);
    const float size = between(0.25f, 0.5f), x = between(0, 1 - size), y = between(0, 1 - size);
    const float colour[] = {between(0.5f, 1), between(0.5f, 1), between(0.5f, 1)};
    for (int i = 0; i < side * side; ++i) {
      const float u = (float(i % side) / side - x) / size,
                  v = (float(i / side) / side - y) / size;  // in the shape's box
      if (u < 0 || u > 1 || v < 0 || v > 1) continue;
      const bool is_disc = (u - 0.5f) * (u - 0.5f) + (v - 0.5f) * (v - 0.5f) < 0.25f;
      const bool is_triangle = std::abs(u - 0.5f) < v / 2;
      if ((kind == 1 && !is_disc) || (kind == 2 && !is_triangle)) continue;
      for (int c = 0; c < 3; ++c) image[size_t(c * side * side + i)] = colour[c];
    }
    std::copy_n(std::initializer_list<float>{float(kind), x, y, x + size, y + size}.begin(), 5, &labels[size_t(s) * 5]);
  }
  return Sample(HostTensor({3, side, side}, image), HostTensor({most_shapes, 5}, labels));
}

nn::HybridSequential halved(int64_t channels) {
  return nn::HybridSequential(nn::Conv2D(channels, {.kernel_size = {3, 3}, .padding = {1, 1}}), nn::BatchNormReLU(),
                              nn::MaxPool2D());
}

int main(int argc, char** argv) {
  random::seed(7);
  SSD net(classes, {nn::HybridSequential(halved(16), halved(32), halved(48)), halved(64), halved(64)});
  net.initialize(init::Xavier());
  net.hybridize();
  gluon::Trainer trainer(net.collect_params(), optimizer::Adam({.learning_rate = 3e-3}));
  const DataLoader train(Dataset(600, draw), {.batch_size = 16, .shuffle = true, .seed = 1});
  for (int epoch = 1; epoch <= (argc > 1 ? std::stoi(argv[1]) : 12); ++epoch) {
    metric::Loss mean_loss;
    for (Batch& batch : train.sync()) {
      NDArray loss = autograd::record([&] {
        auto [anchors, scores, boxes] = net(batch.data);
        return net.loss(nd, anchors, scores, boxes, batch.label);
      });
      loss.backward();
      trainer.step(batch.size());
      mean_loss.update({}, loss);
    }
    fmt::print("epoch {:2}: loss {:.3f}\n", epoch, mean_loss.get().second);
  }

  metric::VOCMApMetric precision;
  const Dataset unseen(100, [](int64_t i) { return draw(1000000 + i); });
  for (Batch& batch : DataLoader(unseen, {.batch_size = 20}).sync()) {
    precision.update(batch.label, net.detect(batch.data));
  }
  const double map = precision.get().second;
  fmt::print("mean average precision {:.3f}\n", map);
  return map > 0.5 ? 0 : 1;
}
