#include <fmt/format.h>

#include <cstring>

#include "kaon/engine/error.h"
#include "kaon/gluon/data/dataset.h"
#include "kaon/gluon/data/internal/indexed_records.h"

namespace kaon::gluon::data {

namespace fs = std::filesystem;

namespace detail {
namespace {

std::vector<recordio::IndexEntry> index_of(const fs::path& file) {
  fs::path index = file;
  index.replace_extension(".idx");
  std::error_code error;
  return fs::exists(index, error) && index != file ? recordio::read_index(index) : recordio::scan_index(file);
}

}  // namespace

IndexedRecords::IndexedRecords(const fs::path& file) : file_(file), index_(index_of(file)) {}

std::string IndexedRecords::name_of(int64_t place) const {
  const recordio::IndexEntry& entry = index_[size_t(place)];
  return fmt::format("{}: record {} (key {}, at byte {})", file_.file().string(), place, entry.key, entry.at);
}

std::string IndexedRecords::read(int64_t place) const {
  uint64_t at = index_[size_t(place)].at;
  std::optional<std::string> record = file_.read(at);
  if (!record) throw IoError(fmt::format("[recordio] {}: expected a record, got the end of the file", name_of(place)));
  return std::move(*record);
}

}  // namespace detail

namespace {

Dataset records_of(const fs::path& file) {
  auto records = std::make_shared<const detail::IndexedRecords>(file);
  return Dataset(records->size(), detail::IndexFn([records](int64_t i) {
                   const std::string bytes = records->read(i);
                   HostTensor tensor(Shape(int64_t(bytes.size())), DType::uint8);
                   if (!bytes.empty()) std::memcpy(tensor.mutable_data(), bytes.data(), bytes.size());
                   return Sample(std::move(tensor));
                 }));
}

}  // namespace

RecordFileDataset::RecordFileDataset(const fs::path& file) : Dataset(records_of(file)) {}

}  // namespace kaon::gluon::data
