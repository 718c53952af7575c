// MNISTIter: the files of MNIST as numbers from 0 to 255/256.
#include <fmt/format.h>

#include "kaon/gluon/data/vision.h"
#include "kaon/mxnet/records/data_iterator.h"

namespace kaon::mxnet {

using namespace gluon::data;

std::unique_ptr<DataIterator> make_mnist_iterator(const IteratorAttributes& attributes) {
  if (attributes.dtype().value_or(DType::float32) != DType::float32) {
    attributes.fail("dtype", "expected float32, got " + attributes.text("dtype"));
  }
  const bool is_flat = attributes.flag("flat");
  const Dataset all = vision::MNIST::of_files(attributes.text("image"), attributes.text("label"));
  const Part part = part_of(attributes, all.size());
  // one order for all epochs, drawn over the part
  std::vector<int64_t> order(static_cast<size_t>(part.end - part.begin));
  const uint64_t seed = uint64_t(attributes.integer("seed"));
  if (attributes.flag("shuffle")) {
    order = RandomSampler(int64_t(order.size()), seed).indices(0);
  } else {
    order = SequentialSampler(int64_t(order.size())).indices(0);
  }
  for (int64_t& i : order) i += part.begin;
  Dataset samples = all.subset(std::move(order)).transform([is_flat](Sample s) {
    const int64_t height = s.data.shape()[0], width = s.data.shape()[1];
    HostTensor image(is_flat ? Shape(height * width) : Shape(1, height, width), DType::float32);
    const uint8_t* from = s.data.as<uint8_t>();
    float* to = image.mutable_as<float>();
    for (int64_t i = 0; i < height * width; ++i) to[i] = float(from[i]) * (1.0f / 256);
    return Sample(std::move(image), HostTensor(float(*s.label.as<int32_t>())), HostTensor(int64_t(0)));
  });
  BatchOptions options = batch_options(attributes);
  options.drops_last = true;
  return std::make_unique<DataIterator>(std::move(samples), options);
}

}  // namespace kaon::mxnet
