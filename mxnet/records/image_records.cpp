#include "kaon/mxnet/records/image_records.h"

#include <fmt/format.h>

#include <memory>
#include <mutex>
#include <unordered_map>
#include <utility>

#include "kaon/engine/error.h"
#include "kaon/gluon/data/record_io.h"
#include "kaon/mxnet/records/data_iterator.h"

namespace kaon::mxnet {

using namespace gluon::data;

namespace {

class ImageRecords final : public DatasetSource {
 public:
  ImageRecords(const IteratorAttributes& attributes, int64_t channels)
      : iterator_(attributes.iterator()),
        file_(attributes.text("path_imgrec")),
        flag_(channels == 1 ? 0 : 1),
        reader_(file_, "r") {
    const std::string index = attributes.has("path_imgidx") ? attributes.text("path_imgidx") : "";
    entries_ = index.empty() ? recordio::scan_index(file_) : recordio::read_index(index);
    const Part part = part_of(attributes, int64_t(entries_.size()));
    entries_.erase(entries_.begin() + part.end, entries_.end());
    entries_.erase(entries_.begin(), entries_.begin() + part.begin);
    if (entries_.empty()) attributes.fail("path_imgrec", fmt::format("{} has no records for this part", file_));
    if (const std::string list = attributes.text("path_imglist"); !list.empty()) {
      for (recordio::ListItem& item : recordio::read_list(list)) labels_.emplace(item.key, std::move(item.labels));
    }
  }

  int64_t size() const override { return int64_t(entries_.size()); }
  Sample get(int64_t i) const override {
    const recordio::IndexEntry& entry = entries_[size_t(i)];
    const std::string record = read(entry.at);
    try {
      recordio::UnpackedImage unpacked = recordio::unpack_img(record, flag_);
      const int64_t id = int64_t(unpacked.header.id);
      std::vector<float> label = std::move(unpacked.header.label);
      if (!labels_.empty()) {
        const auto found = labels_.find(id);
        if (found == labels_.end()) throw IoError(fmt::format("expected a line of image {} in path_imglist", id));
        label = found->second;
      }
      const int64_t count = int64_t(label.size());
      return Sample(std::move(unpacked.image), HostTensor(Shape(count), label), HostTensor(id));
    } catch (const Error& e) {
      throw IoError(fmt::format("[{}] {}: the record at byte {}: {}", iterator_, file_, entry.at, e.what()));
    }
  }

 private:
  std::string read(uint64_t at) const {
    const std::scoped_lock lock(mutex_);
    reader_.seek_to(at);
    std::optional<std::string> record = reader_.read();
    if (!record) {
      throw IoError(fmt::format("[{}] {}: expected a record at byte {}, found the end", iterator_, file_, at));
    }
    return std::move(*record);
  }

  std::string iterator_, file_;
  int flag_;
  std::vector<recordio::IndexEntry> entries_;
  std::unordered_map<int64_t, std::vector<float>> labels_;  // by an image's number; empty: the record's own
  mutable std::mutex mutex_;
  mutable recordio::MXRecordIO reader_;
};

}  // namespace

Dataset image_records(const IteratorAttributes& attributes, int64_t channels) {
  return Dataset(std::shared_ptr<const DatasetSource>(std::make_shared<ImageRecords>(attributes, channels)));
}

}  // namespace kaon::mxnet
