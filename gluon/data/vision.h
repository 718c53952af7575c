// Datasets of images.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "kaon/engine/api.h"
#include "kaon/gluon/data/dataset.h"
#include "kaon/gluon/data/transforms.h"

namespace KAON_API kaon {
namespace gluon::data::vision {

// Reads train-images-idx3-ubyte and train-labels-idx1-ubyte (t10k-... for train = false) in `root`, with or without
// .gz. Samples: an image (28, 28, 1), or of another height and width, of uint8, and a label, int32, 0 to 9. Blocks.
// Throws IoError for a missing folder or file, a truncated or corrupt file, and files that do not belong together.
class MNIST : public Dataset {
 public:
  explicit MNIST(const std::filesystem::path& root, bool train = true);
  // The same of files with other names.
  static Dataset of_files(const std::filesystem::path& images, const std::filesystem::path& labels);
};
// Files of the same names and form: https://github.com/zalandoresearch/fashion-mnist.
class FashionMNIST : public Dataset {
 public:
  explicit FashionMNIST(const std::filesystem::path& root, bool train = true);
};

// Reads data_batch_1.bin to data_batch_5.bin, or test_batch.bin, in `root` or in cifar-10-batches-bin in it: the binary
// version of https://www.cs.toronto.edu/~kriz/cifar.html. Samples: an image (32, 32, 3) of uint8 and a label, int32, 0
// to 9. Blocks. Throws IoError for a missing folder or file and for a truncated file.
class CIFAR10 : public Dataset {
 public:
  explicit CIFAR10(const std::filesystem::path& root, bool train = true);
};
// train.bin or test.bin, in `root` or in cifar-100-binary in it. The label is one of 20, or fine: one of 100.
class CIFAR100 : public Dataset {
 public:
  explicit CIFAR100(const std::filesystem::path& root, bool fine_label = false, bool train = true);
};

// Datasets of image files: JPEG and PNG, decoded as image::imdecode does when a sample is loaded. What is damaged
// throws IoError then, which names file and record; LoaderOptions::skip_corrupt leaves it out.
struct ImageOptions {
  int flag = 1;  // 1: (height, width, 3) red, green, blue; 0: grey (height, width, 1)
  // JPEG files are decoded at 1/8, 1/4 or 1/2 of their sides, rounded up, where both are at least so many pixels then:
  // for a resize that follows. 0: never. The values are near to those of an average, which MXNet does not have.
  int64_t min_side = 0;
};

// The images in the folders of `root`, in order of their names: a folder a class. The label is the number of the
// folder, int32. Files that do not end in .jpg, .jpeg or .png, in any case, are passed over. Blocks at the call. Throws
// IoError for a missing folder and for one without folders.
class ImageFolderDataset : public Dataset {
 public:
  explicit ImageFolderDataset(const std::filesystem::path& root, const ImageOptions& options = {});
  const std::vector<std::string>& synsets() const { return listed_->synsets; }  // names of the classes, by label
  const std::vector<std::pair<std::filesystem::path, int32_t>>& items() const { return listed_->items; }

 private:
  struct Listed {
    std::vector<std::string> synsets;
    std::vector<std::pair<std::filesystem::path, int32_t>> items;
  };
  ImageFolderDataset(std::shared_ptr<const Listed> listed, const ImageOptions& options);
  std::shared_ptr<const Listed> listed_;
};

// The images that a list names: lines "key<tab>label<tab>...<tab>path", paths from `root`, as im2rec has them. The
// label is float32: one number, or (n,) of n. Blocks at the call. Throws IoError that names the line.
class ImageListDataset : public Dataset {
 public:
  ImageListDataset(const std::filesystem::path& root, const std::filesystem::path& list,
                   const ImageOptions& options = {});
  // A path from `root` and its labels for each image.
  ImageListDataset(const std::filesystem::path& root, std::vector<std::pair<std::string, std::vector<float>>> items,
                   const ImageOptions& options = {});
};

// The images of a file of records that im2rec wrote, MXNet's or Kaon's, as RecordFileDataset reads them. The label is
// float32: one number, or (n,) where the record has a list.
class ImageRecordDataset : public Dataset {
 public:
  explicit ImageRecordDataset(const std::filesystem::path& file, const ImageOptions& options = {});
};

}  // namespace gluon::data::vision
}  // namespace kaon
