// IndexedRecords: the records of a file by their place in its index.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "kaon/gluon/data/internal/record_file.h"
#include "kaon/gluon/data/record_io.h"

namespace kaon::gluon::data {

namespace detail {

// Thread safety: immutable; any thread.
class IndexedRecords {
 public:
  // By <file without its end>.idx, or by reading through the file where there is none. Blocks. Throws IoError.
  explicit IndexedRecords(const std::filesystem::path& file);
  int64_t size() const { return int64_t(index_.size()); }
  std::string read(int64_t place) const;     // blocks; throws IoError
  std::string name_of(int64_t place) const;  // "train.rec: record 3 (key 7, at byte 120)"

 private:
  RecordFile file_;
  std::vector<recordio::IndexEntry> index_;
};

}  // namespace detail
}  // namespace kaon::gluon::data
