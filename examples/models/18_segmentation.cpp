// A U-Net says of each pixel whether it belongs to a rectangle, a disc, a triangle or to none, in images that the
// program draws. Prints for each class the intersection over union of what it says and what is drawn, on images that it
// has not seen, and their mean; ends with 1 unless it has learned. An argument is the number of epochs.
#include <fmt/format.h>
#include <kaon/gluon/model_zoo/unet.h>
#include <kaon/kaon.h>

#include "shapes.h"

using namespace kaon;
using namespace kaon::gluon::data;
using gluon::model_zoo::vision::UNet;

constexpr int classes = shapes::kinds + 1;  // 0: the background

// An image, and the class of each pixel.
Sample drawn(int64_t seed) {
  const shapes::Drawn d = shapes::draw(seed);
  return Sample(HostTensor({3, shapes::side, shapes::side}, d.image),
                HostTensor({shapes::side, shapes::side}, d.pixels));
}

// Of each class: pixels that are of it and are said to be, by pixels of which one of the two is true.
std::vector<double> intersection_over_union(const metric::ConfusionMatrix& pixels) {
  const std::vector<double> counts = pixels.matrix().asvector<double>();
  std::vector<double> result;
  for (size_t c = 0; c < classes; ++c) {
    double is = 0, said = 0;
    for (size_t i = 0; i < classes; ++i) is += counts[c * classes + i], said += counts[i * classes + c];
    const double both = counts[c * classes + c];
    result.push_back(both / (is + said - both));
  }
  return result;
}

int main(int argc, char** argv) {
  random::seed(7);
  UNet net({.classes = classes, .channels = 8, .depth = 3});
  net.initialize(init::Xavier());
  net.hybridize({.static_alloc = true, .static_shape = true});
  gluon::Trainer trainer(net.collect_params(), optimizer::Adam({.learning_rate = 5e-3}));
  const gluon::loss::SoftmaxCrossEntropyLoss loss_fn({.axis = 1});  // one for each pixel
  gluon::TrainingStep step([&](auto x, auto y) { return loss_fn(net(x), y); }, trainer);
  const DataLoader train(Dataset(320, drawn), {.batch_size = 16, .shuffle = true, .seed = 1});
  for (int epoch = 1; epoch <= (argc > 1 ? std::stoi(argv[1]) : 8); ++epoch) {
    metric::Loss mean_loss;
    for (Batch& batch : train.sync()) mean_loss.update({}, step(batch.data, batch.label));
    fmt::print("epoch {:2}: loss {:.3f}\n", epoch, mean_loss.get().second);
  }

  metric::ConfusionMatrix pixels(classes);
  const Dataset unseen(100, [](int64_t i) { return drawn(1000000 + i); });
  for (Batch& batch : DataLoader(unseen, {.batch_size = 20}).sync()) pixels.update(batch.label, net(batch.data));
  const char* const names[] = {"background", "rectangle", "disc", "triangle"};
  double mean = 0;
  for (size_t c = 0; const double iou : intersection_over_union(pixels)) {
    fmt::print("{:>10}: {:.3f}\n", names[c++], iou);
    mean += iou / classes;
  }
  fmt::print("mean intersection over union {:.3f}\n", mean);
  return mean > 0.7 ? 0 : 1;
}
