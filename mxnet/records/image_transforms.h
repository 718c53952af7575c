// What MXNet's image iterators do to an image between its record and its batch.
#pragma once

#include <memory>
#include <vector>

#include "kaon/gluon/data/transforms.h"
#include "kaon/mxnet/records/iterator_table.h"

namespace kaon::mxnet {

// Images are uint8 (height, width, channels).
using gluon::data::vision::transforms::Transform;

// (channels, height, width) of `shape`, as the augmenter of ImageRecordIter makes it: resized, padded, cropped, with
// other colours. Throws ValueError for attributes that Kaon does not provide.
std::vector<Transform> image_transforms(const IteratorAttributes& attributes, const Shape& shape);

// An image of the size at another place of a black one: the rest is `fill`.
gluon::data::HostTensor padded(const gluon::data::HostTensor& image, int64_t top, int64_t left, int64_t height,
                               int64_t width, uint8_t fill);
gluon::data::HostTensor mirrored(gluon::data::HostTensor image);  // left and right

// uint8 (height, width, channels) as (channels, height, width) of a dtype: float32 after the mean and the deviation of
// each channel, a mean image, contrast, illumination, scale and mirror; uint8 as it is; int8 cut at 127.
class Normalizer {
 public:
  // Reads and, where mean_img names no file, computes and writes the mean of `images`, which are transformed already.
  Normalizer(const IteratorAttributes& attributes, const Shape& shape, DType dtype, const gluon::data::Dataset& images);
  gluon::data::HostTensor operator()(const gluon::data::HostTensor& image, gluon::data::SampleRandom& random) const;

 private:
  Shape shape_;
  DType dtype_;
  std::vector<float> mean_, deviation_;  // by channel
  float scale_ = 1;
  double contrast_ = 0, illumination_ = 0;
  bool mirror_ = false, random_mirror_ = false;
  gluon::data::HostTensor mean_image_;
};

}  // namespace kaon::mxnet
