#include <fmt/format.h>

#include <algorithm>

#include "kaon/engine/error.h"
#include "kaon/gluon/data/internal/image_bytes.h"
#include "kaon/gluon/data/internal/indexed_records.h"
#include "kaon/gluon/data/vision.h"
#include "kaon/ops/array/file_io.h"

namespace kaon::gluon::data::vision {
namespace {

namespace fs = std::filesystem;

void check_flag(const char* who, const ImageOptions& options) {
  if (options.flag != 0 && options.flag != 1) {
    throw ValueError(fmt::format("[{}] flag: expected 0 or 1, got {}", who, options.flag));
  }
  if (options.min_side < 0) {
    throw ValueError(fmt::format("[{}] min_side: expected at least 0, got {}", who, options.min_side));
  }
}

HostTensor read_image(const char* who, const fs::path& file, const ImageOptions& options) {
  std::string bytes;
  try {
    bytes = ops::read_file(file);
  } catch (const IoError& e) {
    throw IoError(fmt::format("[{}] {}", who, e.what()));
  }
  return detail::decoded(bytes, fmt::format("[{}] {}", who, file.string()), options.flag, options.min_side);
}

HostTensor labels_of(const std::vector<float>& labels, bool is_list) {
  return is_list ? HostTensor(Shape(int64_t(labels.size())), labels) : HostTensor(labels[0]);
}

using ListItems = std::vector<std::pair<std::string, std::vector<float>>>;

Dataset list_dataset(const fs::path& root, ListItems given, const ImageOptions& options) {
  check_flag("ImageListDataset", options);
  for (const auto& [path, labels] : given) {
    if (labels.empty()) throw ValueError(fmt::format("[ImageListDataset] {}: expected a label, got none", path));
  }
  return SimpleDataset(std::move(given), [root, options](const auto& item) {
    return Sample(read_image("ImageListDataset", root / item.first, options),
                  labels_of(item.second, item.second.size() > 1));
  });
}

ListItems listed(const fs::path& list) {
  ListItems items;
  for (recordio::ListItem& item : recordio::read_list(list)) {
    items.emplace_back(std::move(item.path), std::move(item.labels));
  }
  return items;
}

Dataset record_dataset(const fs::path& file, const ImageOptions& options) {
  check_flag("ImageRecordDataset", options);
  auto records = std::make_shared<const detail::IndexedRecords>(file);
  return Dataset(records->size(), detail::IndexFn([records, options](int64_t i) {
                   const std::string record = records->read(i);
                   const std::string name = "[ImageRecordDataset] " + records->name_of(i);
                   recordio::Unpacked unpacked;
                   try {
                     unpacked = recordio::unpack(record);
                   } catch (const IoError& e) {
                     throw IoError(fmt::format("{}: {}", name, e.what()));
                   }
                   return Sample(detail::decoded(unpacked.data, name, options.flag, options.min_side),
                                 labels_of(unpacked.header.label, unpacked.header.flag > 0));
                 }));
}

std::vector<fs::path> sorted_entries(const fs::path& folder) {
  std::error_code error;
  std::vector<fs::path> entries;
  for (const auto& entry : fs::directory_iterator(folder, error)) entries.push_back(entry.path());
  if (error) {
    throw IoError(fmt::format("[ImageFolderDataset] {}: expected a folder with a folder of images for each class: {}",
                              folder.string(), error.message()));
  }
  std::ranges::sort(entries);
  return entries;
}

}  // namespace

ImageFolderDataset::ImageFolderDataset(const fs::path& root, const ImageOptions& options)
    : ImageFolderDataset(
          [&] {
            auto listed = std::make_shared<Listed>();
            std::error_code error;
            for (const fs::path& folder : sorted_entries(root)) {
              if (!fs::is_directory(folder, error)) continue;
              for (const fs::path& file : sorted_entries(folder)) {
                if (detail::has_image_name(file)) listed->items.emplace_back(file, int32_t(listed->synsets.size()));
              }
              listed->synsets.push_back(folder.filename().string());
            }
            if (listed->synsets.empty()) {
              throw IoError(fmt::format("[ImageFolderDataset] {}: expected a folder of images for each class, got none",
                                        root.string()));
            }
            return listed;
          }(),
          options) {}

ImageFolderDataset::ImageFolderDataset(std::shared_ptr<const Listed> listed, const ImageOptions& options)
    : Dataset(int64_t(listed->items.size()), detail::IndexFn([listed, options](int64_t i) {
                const auto& [file, label] = listed->items[size_t(i)];
                return Sample(read_image("ImageFolderDataset", file, options), label);
              })),
      listed_(std::move(listed)) {
  check_flag("ImageFolderDataset", options);
}

ImageListDataset::ImageListDataset(const fs::path& root, const fs::path& list, const ImageOptions& options)
    : Dataset(list_dataset(root, listed(list), options)) {}
ImageListDataset::ImageListDataset(const fs::path& root, ListItems items, const ImageOptions& options)
    : Dataset(list_dataset(root, std::move(items), options)) {}

ImageRecordDataset::ImageRecordDataset(const fs::path& file, const ImageOptions& options)
    : Dataset(record_dataset(file, options)) {}

}  // namespace kaon::gluon::data::vision
