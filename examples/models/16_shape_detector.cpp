// A detector finds rectangles, discs and triangles that the program draws into images: an SSD of four stages. Prints
// the mean average precision of the Pascal VOC on images that it has not seen; ends with 1 unless it has learned. An
// argument is the number of epochs.
#include <fmt/format.h>
#include <kaon/gluon/metric/detection.h>
#include <kaon/gluon/model_zoo/ssd.h>
#include <kaon/kaon.h>

#include "shapes.h"

using namespace kaon;
using namespace kaon::gluon::data;
namespace nn = kaon::gluon::nn;
using gluon::model_zoo::vision::SSD;

// An image, and the kinds of its shapes with their corners.
Sample drawn(int64_t seed) {
  const shapes::Drawn d = shapes::draw(seed);
  return Sample(HostTensor({3, shapes::side, shapes::side}, d.image), HostTensor({shapes::most, 5}, d.boxes));
}

nn::HybridSequential halved(int64_t channels) {
  return nn::HybridSequential(nn::Conv2D(channels, {.kernel_size = {3, 3}, .padding = {1, 1}}), nn::BatchNormReLU(),
                              nn::MaxPool2D());
}

int main(int argc, char** argv) {
  random::seed(7);
  SSD net(shapes::kinds, {nn::HybridSequential(halved(16), halved(32), halved(48)), halved(64), halved(64)});
  net.initialize(init::Xavier());
  net.hybridize();
  gluon::Trainer trainer(net.collect_params(), optimizer::Adam({.learning_rate = 3e-3}));
  const DataLoader train(Dataset(600, drawn), {.batch_size = 16, .shuffle = true, .seed = 1});
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
  const Dataset unseen(100, [](int64_t i) { return drawn(1000000 + i); });
  for (Batch& batch : DataLoader(unseen, {.batch_size = 20}).sync()) {
    precision.update(batch.label, net.detect(batch.data));
  }
  const double map = precision.get().second;
  fmt::print("mean average precision {:.3f}\n", map);
  return map > 0.5 ? 0 : 1;
}
