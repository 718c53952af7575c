#include "kaon/gluon/data/record_io.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>

#include "kaon/engine/base/atomic_file.h"
#include "kaon/engine/error.h"
#include "kaon/gluon/data/internal/image_bytes.h"
#include "kaon/gluon/data/internal/record_file.h"
#include "kaon/gluon/data/internal/text_lines.h"

namespace kaon::recordio {

using namespace gluon::data::detail;
namespace fs = std::filesystem;
namespace {

// Heads and labels are written as the machine has numbers in memory.
static_assert(std::endian::native == std::endian::little, "MXNet's files are little-endian");

}  // namespace

struct MXRecordIO::State {
  explicit State(const fs::path& f, bool w) : file(f), is_writing(w) { open(); }
  ~State() {
    if (out) std::fclose(out);
  }
  void open() {
    at = 0;
    if (!is_writing) {
      in = std::make_unique<RecordFile>(file);
      return;
    }
    out = std::fopen(file.c_str(), "wb");
    if (!out) fail("cannot write");
  }
  void close() {
    in.reset();
    if (out && std::fclose(std::exchange(out, nullptr)) != 0) fail("cannot write");
  }
  void put(const void* data, size_t bytes) {
    if (bytes && std::fwrite(data, 1, bytes, out) != bytes) fail("cannot write");
    at += bytes;
  }
  void put_part(RecordPart part, std::string_view data) {
    const uint32_t head[2]{record_magic, record_word(part, data.size())};
    put(head, sizeof head);
    put(data.data(), data.size());
  }
  [[noreturn]] void fail(const char* what) const {
    throw IoError(fmt::format("[recordio] {}: at byte {}: {}: {}", file.string(), at, what, std::strerror(errno)));
  }

  fs::path file;
  bool is_writing;
  uint64_t at = 0;
  std::unique_ptr<RecordFile> in;
  std::FILE* out = nullptr;
};

MXRecordIO::MXRecordIO(const fs::path& file, std::string_view flag) {
  if (flag != "r" && flag != "w") {
    throw ValueError(fmt::format("[recordio] {}: flag: expected \"r\" or \"w\", got \"{}\"", file.string(), flag));
  }
  state_ = std::make_unique<State>(file, flag == "w");
}
MXRecordIO::~MXRecordIO() = default;
MXRecordIO::MXRecordIO(MXRecordIO&&) noexcept = default;
MXRecordIO& MXRecordIO::operator=(MXRecordIO&&) noexcept = default;

MXRecordIO::State& MXRecordIO::open_for(bool writing, const char* what) const {
  if (!is_open()) throw StateError(fmt::format("[recordio] {}: the file is closed", what));
  if (state_->is_writing != writing) {
    throw StateError(fmt::format("[recordio] {}: {} was opened to {}", what, state_->file.string(),
                                 writing ? "be read" : "be written"));
  }
  return *state_;
}

void MXRecordIO::write(std::string_view record) {
  State& s = open_for(true, "write");
  if (record.size() > most_record_bytes) {
    throw ValueError(
        fmt::format("[recordio] write: expected at most {} bytes, got {}", most_record_bytes, record.size()));
  }
  // a reader that looks for the next record finds no magic number inside one
  size_t begin = 0;
  for (size_t i = 0; i + 4 <= record.size(); i += 4) {
    if (std::memcmp(record.data() + i, &record_magic, 4) != 0) continue;
    s.put_part(begin == 0 ? RecordPart::first : RecordPart::middle, record.substr(begin, i - begin));
    begin = i + 4;
  }
  s.put_part(begin == 0 ? RecordPart::whole : RecordPart::last, record.substr(begin));
  constexpr uint32_t zero = 0;
  s.put(&zero, (4 - record.size() % 4) % 4);
}

std::optional<std::string> MXRecordIO::read() {
  State& s = open_for(false, "read");
  return s.in->read(s.at);
}

uint64_t MXRecordIO::tell() const {
  if (!is_open()) throw StateError("[recordio] tell: the file is closed");
  return state_->at;
}

void MXRecordIO::seek_to(uint64_t at) { open_for(false, "seek_to").at = at; }

void MXRecordIO::reset() {
  if (!state_) throw StateError("[recordio] reset: the file is closed");
  state_->close();
  state_->open();
}

void MXRecordIO::close() {
  if (state_) state_->close();
}

bool MXRecordIO::is_open() const { return state_ && (state_->in || state_->out); }
const fs::path& MXRecordIO::file() const { return state_->file; }

MXIndexedRecordIO::MXIndexedRecordIO(const fs::path& index, const fs::path& file, std::string_view flag)
    : MXRecordIO(file, flag), index_file_(index) {
  if (flag == "r") index_ = read_index(index);
}

MXIndexedRecordIO::~MXIndexedRecordIO() {
  try {
    close();
  } catch (const std::exception&) {
  }
}

void MXIndexedRecordIO::write_idx(int64_t key, std::string_view record) {
  const uint64_t at = open_for(true, "write_idx").at;
  write(record);
  index_.push_back({key, at});
}

void MXIndexedRecordIO::seek(int64_t key) {
  State& s = open_for(false, "seek");
  // as in a dictionary, the last line of a key counts
  const auto found = std::find_if(index_.rbegin(), index_.rend(), [&](const IndexEntry& e) { return e.key == key; });
  if (found == index_.rend()) {
    throw IndexError(
        fmt::format("[recordio] {}: expected one of {} keys, got {}", index_file_.string(), index_.size(), key));
  }
  s.at = found->at;
}

std::string MXIndexedRecordIO::read_idx(int64_t key) {
  seek(key);
  const uint64_t at = state_->at;
  std::optional<std::string> record = read();
  if (!record) {
    throw IoError(fmt::format("[recordio] {}: key {} is at byte {}, the end of {}", index_file_.string(), key, at,
                              file().string()));
  }
  return std::move(*record);
}

void MXIndexedRecordIO::reset() {
  MXRecordIO::reset();
  if (state_->is_writing) index_.clear();
}

void MXIndexedRecordIO::close() {
  if (!is_open()) return;
  const bool writing = state_->is_writing;
  MXRecordIO::close();
  if (!writing) return;
  std::string text;
  for (const IndexEntry& e : index_) text += fmt::format("{}\t{}\n", e.key, e.at);
  engine::write_file(index_file_, text);
}

std::vector<int64_t> MXIndexedRecordIO::keys() const {
  std::vector<int64_t> keys;
  for (const IndexEntry& e : index_) keys.push_back(e.key);
  return keys;
}

std::vector<IndexEntry> read_index(const fs::path& index) {
  std::vector<IndexEntry> entries;
  for_each_line(index, [&](std::string_view line, int64_t number) {
    const auto fields = fields_of(line);
    IndexEntry entry{};
    if (fields.size() < 2 || !is_number(fields[0], entry.key) || !is_number(fields[1], entry.at)) {
      throw IoError(fmt::format("[recordio] {}: line {}: expected a key, a tab and a byte, got \"{}\"", index.string(),
                                number, line.substr(0, 80)));
    }
    entries.push_back(entry);
  });
  return entries;
}

std::vector<IndexEntry> scan_index(const fs::path& file) {
  const RecordFile in(file);
  std::vector<IndexEntry> entries;
  for (uint64_t at = 0, begin = 0; in.pass(at); begin = at) entries.push_back({int64_t(entries.size()), begin});
  return entries;
}

namespace {

struct PackedHeader {
  uint32_t flag;
  float label;
  uint64_t id, id2;
};
static_assert(sizeof(PackedHeader) == 24);

}  // namespace

std::string pack(const IRHeader& header, std::string_view data) {
  const bool has_list = header.flag != 0 || header.label.size() != 1;
  const PackedHeader packed{has_list ? uint32_t(header.label.size()) : 0, has_list ? 0.0f : header.label[0], header.id,
                            header.id2};
  const size_t label_bytes = has_list ? header.label.size() * sizeof(float) : 0;
  std::string record(sizeof packed + label_bytes + data.size(), '\0');
  std::memcpy(record.data(), &packed, sizeof packed);
  if (label_bytes) std::memcpy(record.data() + sizeof packed, header.label.data(), label_bytes);
  std::ranges::copy(data, record.begin() + std::ptrdiff_t(sizeof packed + label_bytes));
  return record;
}

Unpacked unpack(std::string_view record) {
  PackedHeader packed;
  if (record.size() < sizeof packed) {
    throw IoError(
        fmt::format("[recordio] unpack: expected a header of {} bytes, got {}", sizeof packed, record.size()));
  }
  std::memcpy(&packed, record.data(), sizeof packed);
  record.remove_prefix(sizeof packed);
  Unpacked result{{packed.flag, {packed.label}, packed.id, packed.id2}, record};
  if (packed.flag > 0) {
    if (record.size() / sizeof(float) < packed.flag) {
      throw IoError(
          fmt::format("[recordio] unpack: expected {} labels of 4 bytes, got {} bytes", packed.flag, record.size()));
    }
    result.header.label.resize(packed.flag);
    std::memcpy(result.header.label.data(), record.data(), packed.flag * sizeof(float));
    result.data.remove_prefix(packed.flag * sizeof(float));
  }
  return result;
}

std::string pack_img(const IRHeader& header, const gluon::data::HostTensor& image, const ImageFormat& format) {
  const int quality = format.is_png ? format.compression : format.quality;
  if (format.is_png ? quality < 0 || quality > 9 : quality < 1 || quality > 100) {
    throw ValueError(fmt::format("[pack_img] {}, got {}",
                                 format.is_png ? "compression: expected 0 to 9" : "quality: expected 1 to 100",
                                 quality));
  }
  return pack(header, encoded(image, format.is_png, quality));
}

UnpackedImage unpack_img(std::string_view record, int flag) {
  Unpacked unpacked = unpack(record);
  return {std::move(unpacked.header), decoded(unpacked.data, "[unpack_img] record", flag)};
}

}  // namespace kaon::recordio
