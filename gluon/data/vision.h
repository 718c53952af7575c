// Datasets of images, and transforms of images.
#pragma once

#include <filesystem>
#include <vector>

#include "kaon/engine/api.h"
#include "kaon/gluon/data/dataset.h"

namespace KAON_API kaon {
namespace gluon::data::vision {

// Reads train-images-idx3-ubyte and train-labels-idx1-ubyte (t10k-... for train = false) in `root`, with or without
// .gz. Samples: an image (28, 28, 1), or of another height and width, of uint8, and a label, int32, 0 to 9. Blocks.
// Throws IoError for a missing folder or file, a truncated or corrupt file, and files that do not belong together.
class MNIST : public Dataset {
 public:
  explicit MNIST(const std::filesystem::path& root, bool train = true);
};

// Transforms for Dataset::transform_first: MNIST(root).transform_first(transforms::to_tensor). They run at the call.
// Thread safety: any thread.
namespace transforms {

// An image (height, width, channels) of uint8 as (channels, height, width) of float32 in [0, 1]. Throws ShapeError or
// TypeError for another one.
KAON_API HostTensor to_tensor(HostTensor image);

// y[c] = (x[c] - mean[c]) / std[c] over the channels of a float32 image (channels, height, width).
class Normalize {
 public:
  // A single value is for all channels. Throws ValueError when std has a zero, and for lengths that are 0 or differ.
  Normalize(std::vector<float> mean, std::vector<float> std);
  HostTensor operator()(HostTensor image) const;  // throws ShapeError, TypeError for an image that does not fit

 private:
  std::vector<float> mean_, std_;
};
inline Normalize normalize(std::vector<float> mean, std::vector<float> std) {
  return Normalize(std::move(mean), std::move(std));
}
inline Normalize normalize(float mean, float std) { return Normalize({mean}, {std}); }

// Mirrors an image (height, width, channels) of any dtype with probability 1/2, by the sample's random numbers. Throws
// ShapeError for another shape.
KAON_API HostTensor random_flip_left_right(HostTensor image, SampleRandom& random);

// Converts the elements as C++ does; bool is x != 0.
class Cast {
 public:
  explicit Cast(DType dtype);  // throws TypeError for an unknown dtype
  HostTensor operator()(HostTensor tensor) const;

 private:
  DType dtype_;
};
inline Cast cast(DType dtype) { return Cast(dtype); }

}  // namespace transforms
}  // namespace gluon::data::vision
}  // namespace kaon
