// Zip archives, as NumPy and PyTorch write them: read over a mapping, and written.
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "kaon/engine/run_context.h"
#include "kaon/interchange/file/file_bytes.h"

namespace kaon::interchange {

// A field of 32 bits that holds this: the number is in the zip64 field.
inline constexpr uint32_t full32 = 0xffffffff;

struct ZipEntry {
  std::string name;
  uint64_t offset = 0;      // of its data in the file
  uint64_t compressed = 0;  // bytes in the file
  uint64_t bytes = 0;       // of its contents
  uint32_t crc = 0;
  bool is_deflated = false;
};

// The entries of an archive, zip64 included. Throws IoError, with file and byte, for what is no archive or is cut off;
// for encrypted entries and methods other than stored and deflate; for archives in several parts; for names that are
// there twice, empty, absolute or with "..", entries that overlap, and contents larger than deflate can make of the
// bytes that are there.
std::vector<ZipEntry> read_zip(const FileBytes& file);

// The contents of an entry, which begin at `offset` of the result: those that are stored are the file's own bytes.
// Checks the length and, where `checks` says so, the CRC-32, which reads all bytes. Memory grows with what is read,
// never with what a header promises. Throws IoError.
struct ZipContents {
  FileBytes bytes;
  uint64_t offset;
};
ZipContents contents_of(const FileBytes& file, const ZipEntry& entry, bool checks);
// The contents, up to `most` bytes, without the check.
std::string beginning_of(const FileBytes& file, const ZipEntry& entry, uint64_t most);

// Writes an archive, with zip64 where sizes need it. Entries begin at multiples of 64 bytes. Throws IoError.
class ZipWriter {
 public:
  using Sink = engine::FunctionRef<void(std::string_view)>;
  explicit ZipWriter(Sink sink) : sink_(sink) {}
  // An entry of these pieces, one after another. Throws ValueError for a name that is empty or too long.
  void add(const std::string& name, std::initializer_list<std::string_view> pieces, bool deflates);
  void finish();

 private:
  struct Written {
    std::string name;
    uint64_t at, compressed, bytes;
    uint32_t crc;
    bool is_deflated;
  };
  void put(std::string_view bytes);
  Sink sink_;
  uint64_t at_ = 0;
  std::vector<Written> entries_;
};

}  // namespace kaon::interchange
