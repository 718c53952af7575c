// ImageDetRecordIter: images with labels of objects, a list of numbers of any length for each image.
#include <fmt/format.h>

#include <algorithm>

#include "kaon/engine/error.h"
#include "kaon/mxnet/records/data_iterator.h"
#include "kaon/mxnet/records/image_records.h"
#include "kaon/mxnet/records/image_transforms.h"

namespace kaon::mxnet {

using namespace gluon::data;
using namespace gluon::data::vision;
using transforms::ImageSize;

namespace {

// The most numbers that an image has. Reads every record once.
int64_t most_labels(const Dataset& images) {
  int64_t most = 0;
  for (int64_t i = 0; i < images.size(); ++i) most = std::max(most, images.get(i).label.size());
  return most;
}

// A label: how many numbers are before the objects, how many an object has, further numbers before the objects, then
// the objects: a class and left, top, right, bottom in parts of the image.
void mirror_objects(std::vector<float>& label, const std::string& name) {
  const auto head = size_t(label.size() > 1 ? label[0] : 0), width = size_t(label.size() > 1 ? label[1] : 0);
  if (head < 2 || width < 5 || head > label.size()) {
    throw ValueError(
        fmt::format("[{}] expected a label that begins with the numbers of its head (2 or more) and of an "
                    "object (5 or more), got {} and {}",
                    name, head, width));
  }
  for (size_t at = head; at + width <= label.size(); at += width) {
    const float left = label[at + 1], right = label[at + 3];
    label[at + 1] = 1 - right;
    label[at + 3] = 1 - left;
  }
}

}  // namespace

std::unique_ptr<DataIterator> make_detection_iterator(const IteratorAttributes& attributes) {
  const Shape shape = attributes.shape("data_shape");
  if (shape.ndim() != 3 || (shape[0] != 1 && shape[0] != 3) || shape[1] < 1 || shape[2] < 1) {
    attributes.fail("data_shape",
                    fmt::format("expected (channels, height, width) of 1 or 3 channels, got {}", shape.str()));
  }
  attributes.refuse_unless_default({"aug_seq", "rand_crop_prob", "rand_pad_prob", "random_hue_prob",
                                    "random_saturation_prob", "random_illumination_prob", "random_contrast_prob",
                                    "dtype"});
  const std::string mode = attributes.text("resize_mode"), name = attributes.iterator();
  if (mode != "force" && mode != "shrink" && mode != "fit") {
    attributes.fail("resize_mode", "expected 'fit', 'force' or 'shrink', got '" + mode + "'");
  }
  const int64_t side = attributes.integer("resize"), height = shape[1], width = shape[2];
  const int interpolation = int(attributes.integer("inter_method"));
  const double mirrors = attributes.number("rand_mirror_prob");
  const auto pad_value = float(attributes.number("label_pad_value"));

  const Dataset images = image_records(attributes, shape[0]);
  const int64_t wanted = attributes.integer("label_width"), pads = attributes.integer("label_pad_width");
  const int64_t most = most_labels(images);
  if (pads > 0 && pads < most) {
    attributes.fail("label_pad_width",
                    fmt::format("expected at least the numbers of an image, {}, got {}", most, pads));
  }
  const int64_t label_size = 4 + std::max(most, pads);
  const Normalizer normalizer(attributes, shape, DType::float32, images);
  Dataset samples = images.transform([=](Sample s, SampleRandom& random) {
    std::vector<float> label(s.label.as<float>(), s.label.as<float>() + s.label.size());
    if (wanted > 0 && int64_t(label.size()) != wanted) {
      throw ValueError(fmt::format("[{}] image {} has {} labels, but label_width is {}", name,
                                   *s.others[0].as<int64_t>(), label.size(), wanted));
    }
    HostTensor image = std::move(s.data);
    if (mirrors > 0 && random.chance(mirrors)) {
      image = mirrored(std::move(image));
      mirror_objects(label, name);
    }
    const auto resize = [&](ImageSize size, bool keeps) {
      image = transforms::Resize(size, {.keep_ratio = keeps, .interpolation = interpolation})(std::move(image));
    };
    if (side > 0) resize(side, true);
    const int64_t rows = image.shape()[0], columns = image.shape()[1];
    if (mode == "force") {
      if (rows != height || columns != width) resize(ImageSize(width, height), false);
    } else if (mode == "fit" || rows > height || columns > width) {
      const double scale = std::min(double(height) / double(rows), double(width) / double(columns));
      resize(ImageSize(std::clamp<int64_t>(int64_t(double(columns) * scale), 1, width),
                       std::clamp<int64_t>(int64_t(double(rows) * scale), 1, height)),
             false);
    }
    HostTensor all(Shape(label_size), DType::float32);
    float* to = all.mutable_as<float>();
    std::fill(to, to + label_size, pad_value);
    const float head[] = {float(shape[0]), float(image.shape()[0]), float(image.shape()[1]), float(label.size())};
    std::copy(std::begin(head), std::end(head), to);
    std::copy(label.begin(), label.end(), to + 4);
    image = padded(image, 0, 0, height, width, 0);
    return Sample(normalizer(image, random), std::move(all), std::move(s.others[0]));
  });
  BatchOptions options = batch_options(attributes);
  options.shuffles = attributes.flag("shuffle");
  options.seed = uint64_t(attributes.integer("seed"));
  options.workers = int(std::clamp<int64_t>(attributes.integer("preprocess_threads"), 1, 16));
  return std::make_unique<DataIterator>(std::move(samples), options);
}

}  // namespace kaon::mxnet
