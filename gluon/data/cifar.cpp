#include <fmt/format.h>

#include <algorithm>

#include "kaon/engine/error.h"
#include "kaon/gluon/data/vision.h"
#include "kaon/ops/array/file_io.h"

namespace kaon::gluon::data::vision {
namespace {

namespace fs = std::filesystem;

struct Kind {
  const char* name;
  const char* folder;  // in the archive
  const char* archive;
  size_t label_bytes;  // of a record: before 3 planes of 32 x 32
  size_t label_at;
  int labels;
};

fs::path find(const Kind& kind, const fs::path& root, const std::string& name) {
  std::error_code error;
  for (const fs::path& folder : {root, root / kind.folder}) {
    if (fs::exists(folder / name, error)) return folder / name;
  }
  throw IoError(
      fmt::format("[{}] {}: expected a file {} in it or in its folder {}, of {} from "
                  "https://www.cs.toronto.edu/~kriz/cifar.html, found neither",
                  kind.name, root.string(), name, kind.folder, kind.archive));
}

ArrayDataset load(const Kind& kind, const fs::path& root, const std::vector<std::string>& names) {
  constexpr size_t plane = 32 * 32, channels = 3;
  const size_t record = kind.label_bytes + channels * plane;
  std::vector<uint8_t> pixels;
  std::vector<int32_t> labels;
  for (const std::string& name : names) {
    const fs::path file = find(kind, root, name);
    std::string bytes;
    try {
      bytes = ops::read_file(file);
    } catch (const IoError& e) {
      throw IoError(fmt::format("[{}] {}", kind.name, e.what()));
    }
    if (bytes.empty() || bytes.size() % record != 0) {
      throw IoError(fmt::format("[{}] {}: expected records of {} bytes, got {} bytes: record {} is truncated",
                                kind.name, file.string(), record, bytes.size(), bytes.size() / record));
    }
    const auto* in = reinterpret_cast<const uint8_t*>(bytes.data());
    for (size_t i = 0; i < bytes.size() / record; ++i, in += record) {
      labels.push_back(in[kind.label_at]);
      if (labels.back() >= kind.labels) {
        throw IoError(fmt::format("[{}] {}: record {}: expected a label from 0 to {}, got {}", kind.name, file.string(),
                                  i, kind.labels - 1, labels.back()));
      }
      const size_t begin = pixels.size();
      pixels.resize(begin + channels * plane);
      for (size_t c = 0; c < channels; ++c) {
        const uint8_t* from = in + kind.label_bytes + c * plane;
        for (size_t p = 0; p < plane; ++p) pixels[begin + p * channels + c] = from[p];
      }
    }
  }
  const auto count = int64_t(labels.size());
  return ArrayDataset(HostTensor({count, 32, 32, 3}, pixels), HostTensor(Shape(count), labels));
}

}  // namespace

CIFAR10::CIFAR10(const fs::path& root, bool train)
    : Dataset(load({"CIFAR10", "cifar-10-batches-bin", "cifar-10-binary.tar.gz", 1, 0, 10}, root,
                   train ? std::vector<std::string>{"data_batch_1.bin", "data_batch_2.bin", "data_batch_3.bin",
                                                    "data_batch_4.bin", "data_batch_5.bin"}
                         : std::vector<std::string>{"test_batch.bin"})) {}

CIFAR100::CIFAR100(const fs::path& root, bool fine_label, bool train)
    : Dataset(load(
          {"CIFAR100", "cifar-100-binary", "cifar-100-binary.tar.gz", 2, fine_label ? 1u : 0u, fine_label ? 100 : 20},
          root, {train ? "train.bin" : "test.bin"})) {}

}  // namespace kaon::gluon::data::vision
