#include <fmt/format.h>
#include <zlib.h>

#include <algorithm>
#include <cstring>

#include "kaon/engine/error.h"
#include "kaon/interchange/zip/zip_file.h"

namespace kaon::interchange {
namespace {

constexpr uint64_t alignment = 64;

template <class... T>
std::string packed(T... numbers) {
  std::string text;
  (text.append(reinterpret_cast<const char*>(&numbers), sizeof(T)), ...);
  return text;
}

uint16_t u16(uint64_t n) { return uint16_t(n); }
uint32_t u32(uint64_t n) { return uint32_t(std::min<uint64_t>(n, full32)); }  // full: see the zip64 field
bool is_large(uint64_t n) { return n >= full32; }

// 1980-01-01: archives of the same arrays are the same.
constexpr uint16_t time_of_day = 0, date = 33;

// Calls sink with the deflated pieces.
class Deflater {
 public:
  Deflater() {
    if (deflateInit2(&stream_, Z_DEFAULT_COMPRESSION, Z_DEFLATED, -MAX_WBITS, 8, Z_DEFAULT_STRATEGY) != Z_OK)
      throw MemoryError("[zip] no memory to deflate");
  }
  ~Deflater() { deflateEnd(&stream_); }
  Deflater(const Deflater&) = delete;
  Deflater& operator=(const Deflater&) = delete;

  void add(std::string_view bytes, std::string& out, bool ends = false) {
    do {
      const size_t piece = std::min<size_t>(bytes.size(), size_t(1) << 30);
      stream_.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
      stream_.avail_in = uInt(piece);
      bytes.remove_prefix(piece);
      char room[1 << 16];
      do {
        stream_.next_out = reinterpret_cast<Bytef*>(room);
        stream_.avail_out = sizeof room;
        deflate(&stream_, ends && bytes.empty() ? Z_FINISH : Z_NO_FLUSH);
        out.append(room, sizeof room - stream_.avail_out);
      } while (stream_.avail_out == 0);
    } while (!bytes.empty());
  }

 private:
  z_stream stream_{};
};

}  // namespace

void ZipWriter::put(std::string_view bytes) {
  sink_(bytes);
  at_ += bytes.size();
}

void ZipWriter::add(const std::string& name, std::initializer_list<std::string_view> pieces, bool deflates) {
  if (name.empty() || name.size() > 0xffff) {
    throw ValueError(fmt::format("[zip] the name of an entry must have 1 to 65535 bytes, got {}", name.size()));
  }
  Written entry{.name = name, .at = at_, .compressed = 0, .bytes = 0, .crc = 0, .is_deflated = deflates};
  std::string deflated;
  {
    Deflater deflater;
    uLong crc = crc32(0, nullptr, 0);
    for (const std::string_view piece : pieces) {
      entry.bytes += piece.size();
      for (size_t at = 0; at < piece.size(); at += size_t(1) << 30) {
        const std::string_view part = piece.substr(at, size_t(1) << 30);
        crc = crc32(crc, reinterpret_cast<const Bytef*>(part.data()), uInt(part.size()));
      }
      if (deflates) deflater.add(piece, deflated);
    }
    if (deflates) deflater.add({}, deflated, true);
    entry.crc = uint32_t(crc);
    entry.compressed = deflates ? deflated.size() : entry.bytes;
  }
  const bool large = is_large(entry.bytes) || is_large(entry.compressed);
  std::string extra;
  if (large) extra = packed(u16(1), u16(16), entry.bytes, entry.compressed);
  // A field that readers pass over, so that arrays can be mapped: its kind and length, then zeros.
  const uint64_t begin = at_ + 30 + name.size() + extra.size();
  if (const uint64_t over = (begin + 4) % alignment; begin % alignment != 0) {
    const uint64_t padding = over ? alignment - over : 0;
    extra += packed(uint16_t(0x4b41), u16(padding)) + std::string(padding, '\0');
  }
  put(packed(uint32_t(0x04034b50), u16(large ? 45 : 20), uint16_t(0x0800), u16(deflates ? 8 : 0), time_of_day, date,
             entry.crc, large ? full32 : u32(entry.compressed), large ? full32 : u32(entry.bytes), u16(name.size()),
             u16(extra.size())));
  put(name);
  put(extra);
  if (deflates) {
    put(deflated);
  } else {
    for (const std::string_view piece : pieces) put(piece);
  }
  entries_.push_back(std::move(entry));
}

void ZipWriter::finish() {
  const uint64_t directory = at_;
  for (const Written& e : entries_) {
    std::string numbers;
    if (is_large(e.bytes)) numbers += packed(e.bytes);
    if (is_large(e.compressed)) numbers += packed(e.compressed);
    if (is_large(e.at)) numbers += packed(e.at);
    const std::string extra = numbers.empty() ? "" : packed(u16(1), u16(numbers.size())) + numbers;
    const uint16_t version = extra.empty() ? 20 : 45;
    put(packed(uint32_t(0x02014b50), version, version, uint16_t(0x0800), u16(e.is_deflated ? 8 : 0), time_of_day, date,
               e.crc, u32(e.compressed), u32(e.bytes), u16(e.name.size()), u16(extra.size()), uint16_t(0), uint16_t(0),
               uint16_t(0), uint32_t(0), u32(e.at)));
    put(e.name);
    put(extra);
  }
  const uint64_t bytes = at_ - directory, count = entries_.size();
  if (is_large(directory) || is_large(bytes) || count >= 0xffff) {
    const uint64_t end64 = at_;
    put(packed(uint32_t(0x06064b50), uint64_t(44), uint16_t(45), uint16_t(45), uint32_t(0), uint32_t(0), count, count,
               bytes, directory));
    put(packed(uint32_t(0x07064b50), uint32_t(0), end64, uint32_t(1)));
  }
  const uint16_t small = u16(std::min<uint64_t>(count, 0xffff));
  put(packed(uint32_t(0x06054b50), uint16_t(0), uint16_t(0), small, small, u32(bytes), u32(directory), uint16_t(0)));
}

}  // namespace kaon::interchange
