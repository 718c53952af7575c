// MNIST: handwritten digits from a folder.
#pragma once

#include <filesystem>

#include "kaon/gluon/data/dataset.h"

namespace kaon::gluon::data::vision {

// Reads train-images-idx3-ubyte and train-labels-idx1-ubyte (t10k-... for train = false) in `root`, with or without
// .gz. Samples: an image (28, 28, 1), or of another height and width, of uint8, and a label, int32, 0 to 9. Blocks.
// Throws IoError for a missing folder or file, a truncated or corrupt file, and files that do not belong together.
class MNIST : public Dataset {
 public:
  explicit MNIST(const std::filesystem::path& root, bool train = true);
};

}  // namespace kaon::gluon::data::vision
