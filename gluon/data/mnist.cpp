#include "kaon/gluon/data/vision.h"

#include <fmt/format.h>

#include "kaon/gluon/data/internal/idx.h"

namespace kaon::gluon::data::vision {
namespace {

namespace fs = std::filesystem;

// A dataset in MNIST's files.
struct Kind {
  const char* name;
  const char* from;
};

fs::path find(const Kind& kind, const fs::path& root, const char* name) {
  std::error_code error;
  if (!fs::is_directory(root, error)) {
    throw IoError(fmt::format("[{}] {}: expected a folder with {} or {}.gz from {}, got {}", kind.name, root.string(),
                              name, name, kind.from, fs::exists(root, error) ? "something else" : "nothing"));
  }
  for (const char* suffix : {"", ".gz"}) {
    fs::path file = root / (std::string(name) + suffix);
    if (fs::exists(file, error)) return file;
  }
  throw IoError(fmt::format("[{}] {}: expected a file {} or {}.gz from {} in it, found neither", kind.name,
                            root.string(), name, name, kind.from));
}

HostTensor read_bytes(const Kind& kind, const fs::path& file, int ndim) {
  HostTensor t = read_idx(file);
  if (t.dtype() != DType::uint8 || t.shape().ndim() != ndim) {
    throw IoError(fmt::format("[{}] {}: at byte 0: expected magic number 00 00 08 {:02x}, got {} dimensions of {}",
                              kind.name, file.string(), ndim, t.shape().ndim(), name_of(t.dtype())));
  }
  return t;
}

ArrayDataset load(const Kind& kind, const fs::path& image_file, const fs::path& label_file) {
  HostTensor images = read_bytes(kind, image_file, 3);
  const HostTensor labels = read_bytes(kind, label_file, 1);
  const int64_t count = labels.size();
  if (images.shape()[0] != count) {
    throw IoError(fmt::format("[{}] {}: at byte 4: expected {} labels, as many as images in {}, got {}", kind.name,
                              label_file.string(), images.shape()[0], image_file.string(), count));
  }
  std::vector<int32_t> digits(labels.as<uint8_t>(), labels.as<uint8_t>() + count);
  for (int64_t i = 0; i < count; ++i) {
    if (digits[size_t(i)] > 9) {
      throw IoError(fmt::format("[{}] {}: at byte {}: expected a digit from 0 to 9, got {}", kind.name,
                                label_file.string(), 8 + i, digits[size_t(i)]));
    }
  }
  Shape with_channel = images.shape();
  with_channel.push_back(1);
  return ArrayDataset(std::move(images).reshape(with_channel), HostTensor(Shape(count), digits));
}

ArrayDataset load_from(const Kind& kind, const fs::path& root, bool train) {
  const fs::path image_file = find(kind, root, train ? "train-images-idx3-ubyte" : "t10k-images-idx3-ubyte");
  return load(kind, image_file, find(kind, root, train ? "train-labels-idx1-ubyte" : "t10k-labels-idx1-ubyte"));
}

constexpr Kind mnist{"MNIST", "http://yann.lecun.com/exdb/mnist"};
constexpr Kind fashion{"FashionMNIST", "https://github.com/zalandoresearch/fashion-mnist"};

}  // namespace

MNIST::MNIST(const fs::path& root, bool train) : Dataset(load_from(mnist, root, train)) {}
Dataset MNIST::of_files(const fs::path& images, const fs::path& labels) { return load(mnist, images, labels); }
FashionMNIST::FashionMNIST(const fs::path& root, bool train) : Dataset(load_from(fashion, root, train)) {}

}  // namespace kaon::gluon::data::vision
