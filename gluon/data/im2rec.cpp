// Lists of image files, and files of records made of them.
#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>

#include "kaon/gluon/data/internal/image_bytes.h"
#include "kaon/gluon/data/internal/text_lines.h"
#include "kaon/gluon/data/record_io.h"
#include "kaon/gluon/data/transforms.h"
#include "kaon/ops/array/file_io.h"

namespace kaon::recordio {

using namespace gluon::data::detail;
namespace fs = std::filesystem;
namespace transforms = gluon::data::vision::transforms;

std::vector<ListItem> read_list(const fs::path& list) {
  std::vector<ListItem> items;
  for_each_line(list, [&](std::string_view line, int64_t number) {
    const auto fields = fields_of(line);
    ListItem item{0, {}, std::string(fields.back())};
    bool is_good = fields.size() >= 3 && is_number(fields[0], item.key);
    for (size_t i = 1; i + 1 < fields.size() && is_good; ++i) {
      is_good = is_number(fields[i], item.labels.emplace_back());
    }
    if (!is_good) {
      throw IoError(
          fmt::format("[recordio] {}: line {}: expected a key, labels and a path, with tabs between them, got \"{}\"",
                      list.string(), number, line.substr(0, 80)));
    }
    items.push_back(std::move(item));
  });
  return items;
}

void write_list(const fs::path& list, std::span<const ListItem> items) {
  std::string text;
  for (const ListItem& item : items) {
    text += fmt::format("{}\t", item.key);
    for (float label : item.labels) text += fmt::format("{:f}\t", label);
    text += item.path + '\n';
  }
  engine::write_file(list, text);
}

namespace {

void list_folder(const fs::path& folder, const fs::path& root, bool recursive, float& label,
                 std::vector<ListItem>& items) {
  std::error_code error;
  std::vector<fs::path> files, folders;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    if (entry.is_directory(error)) {
      folders.push_back(entry.path());
    } else if (entry.is_regular_file(error) && has_image_name(entry.path())) {
      files.push_back(entry.path());
    }
  }
  if (error) throw IoError(fmt::format("[im2rec] {}: {}", folder.string(), error.message()));
  std::ranges::sort(files);
  std::ranges::sort(folders);
  for (const fs::path& file : files) {
    items.push_back({int64_t(items.size()), {label}, file.lexically_relative(root).string()});
  }
  if (!files.empty()) ++label;
  if (!recursive) return;
  for (const fs::path& inner : folders) list_folder(inner, root, true, label, items);
}

}  // namespace

std::vector<ListItem> list_images(const fs::path& root, bool recursive) {
  std::vector<ListItem> items;
  float label = 0;
  list_folder(root, root, recursive, label, items);
  return items;
}

namespace {

// The record of a file.
std::string packed(const ListItem& item, const fs::path& file, const PackOptions& options) {
  IRHeader header{0, item.labels, uint64_t(item.key), 0};
  if (!options.pack_label || header.label.size() < 2) header.label.resize(1);
  const std::string bytes = ops::read_file(file);
  if (!options.encode && !options.center_crop && options.resize == 0) return pack(header, bytes);
  gluon::data::HostTensor image = decoded(bytes, file.string(), options.flag);
  if (options.center_crop) {
    image = transforms::CenterCrop(std::min(image.shape()[0], image.shape()[1]))(std::move(image));
  }
  if (options.resize > 0) image = transforms::Resize(options.resize, {.keep_ratio = true})(std::move(image));
  return pack_img(header, image, options.format);
}

}  // namespace

int64_t pack_files(std::span<const ListItem> items, const fs::path& root, const fs::path& prefix,
                   const PackOptions& options) {
  if (options.resize < 0) {
    throw ValueError(fmt::format("[im2rec] resize: expected at least 0, got {}", options.resize));
  }
  fs::path index = prefix, file = prefix;
  index += ".idx";
  file += ".rec";
  MXIndexedRecordIO out(index, file, "w");
  int64_t count = 0;
  for (const ListItem& item : items) {
    std::string record;
    try {
      record = packed(item, root / item.path, options);
    } catch (const IoError& e) {
      if (options.skip_corrupt) continue;
      throw IoError(fmt::format("[im2rec] key {}: {}", item.key, e.what()));
    }
    out.write_idx(item.key, record);
    ++count;
  }
  out.close();
  return count;
}

}  // namespace kaon::recordio
