// ImageRecordIter and its kin: images of a file of records, augmented.
#include <fmt/format.h>

#include <algorithm>

#include "kaon/engine/error.h"
#include "kaon/mxnet/records/data_iterator.h"
#include "kaon/mxnet/records/image_records.h"
#include "kaon/mxnet/records/image_transforms.h"

namespace kaon::mxnet {

using namespace gluon::data;

namespace {

DType dtype_of_images(const IteratorAttributes& attributes) {
  const std::string& name = attributes.iterator();
  const DType usual = name.find("UInt8") != name.npos  ? DType::uint8
                      : name.find("Int8") != name.npos ? DType::int8
                                                       : DType::float32;
  const DType dtype = attributes.dtype().value_or(usual);
  if (dtype != usual && (usual != DType::float32 || (dtype != DType::uint8 && dtype != DType::int8))) {
    attributes.fail(
        "dtype", fmt::format("expected {}, got {}", usual == DType::float32 ? "float32, uint8 or int8" : name_of(usual),
                             name_of(dtype)));
  }
  return dtype;
}

}  // namespace

std::unique_ptr<DataIterator> make_image_iterator(const IteratorAttributes& attributes) {
  const Shape shape = attributes.shape("data_shape");
  if (shape.ndim() != 3 || (shape[0] != 1 && shape[0] != 3) || shape[1] < 1 || shape[2] < 1) {
    attributes.fail("data_shape",
                    fmt::format("expected (channels, height, width) of 1 or 3 channels, got {}", shape.str()));
  }
  const int64_t labels = attributes.integer("label_width");
  if (labels < 1) attributes.fail("label_width", fmt::format("expected a positive number, got {}", labels));
  const Dataset images = image_records(attributes, shape[0])
                             .transform_first(vision::transforms::Compose(image_transforms(attributes, shape)));
  const Normalizer normalizer(attributes, shape, dtype_of_images(attributes), images);
  const std::string name = attributes.iterator();
  const bool has_index = name.ends_with("_v1");
  Dataset samples = images.transform([=](Sample s, SampleRandom& random) {
    if (s.label.size() != labels) {
      throw ValueError(fmt::format("[{}] image {} has {} labels, but label_width is {}", name,
                                   *s.others[0].as<int64_t>(), s.label.size(), labels));
    }
    if (labels == 1) s.label = std::move(s.label).reshape(Shape());
    s.data = normalizer(s.data, random);
    if (!has_index) *s.others[0].mutable_as<int64_t>() = 0;  // as in MXNet, where they are not told
    return s;
  });
  BatchOptions options = batch_options(attributes);
  options.shuffles = attributes.flag("shuffle");
  options.seed = uint64_t(attributes.integer("seed"));
  options.workers = int(std::clamp<int64_t>(attributes.integer("preprocess_threads"), 1, 16));
  return std::make_unique<DataIterator>(std::move(samples), options);
}

}  // namespace kaon::mxnet
