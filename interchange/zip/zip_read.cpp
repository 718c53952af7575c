#include <fmt/format.h>
#include <zlib.h>

#include <algorithm>
#include <unordered_set>

#include "kaon/interchange/zip/zip_file.h"

namespace kaon::interchange {
namespace {

constexpr uint32_t end_mark = 0x06054b50, end64_mark = 0x06064b50, locator64_mark = 0x07064b50,
                   central_mark = 0x02014b50, local_mark = 0x04034b50;
constexpr uint16_t full16 = 0xffff;
// Deflate makes at most 258 bytes of two bits.
constexpr uint64_t max_ratio = 1032;

struct Directory {
  uint64_t at, bytes, count;
};

// The record at the end of the archive: behind it is at most a comment of 65535 bytes.
uint64_t find_end(const FileBytes& file) {
  constexpr uint64_t record = 22;
  if (file.size() < record) file.fail(0, "a zip archive (22 bytes)", fmt::format("{} bytes", file.size()));
  const uint64_t last = file.size() - record, first = last > full16 ? last - full16 : 0;
  for (uint64_t at = last + 1; at-- > first;) {
    if (file.number<uint32_t>(at, "end") != end_mark) continue;
    if (file.number<uint16_t>(at + 20, "end") == last - at) return at;
  }
  file.fail(last, "the end record of a zip archive", "none");
}

Directory read_end(const FileBytes& file) {
  const uint64_t end = find_end(file);
  Directory d{.at = file.number<uint32_t>(end + 16, "offset of the directory"),
              .bytes = file.number<uint32_t>(end + 12, "size of the directory"),
              .count = file.number<uint16_t>(end + 10, "number of entries")};
  uint64_t parts = file.number<uint16_t>(end + 4, "number of this part");
  uint64_t limit = end;
  if ((d.at == full32 || d.bytes == full32 || d.count == full16) && end >= 20 &&
      file.number<uint32_t>(end - 20, "locator") == locator64_mark) {
    const auto at = file.number<uint64_t>(end - 12, "offset of the zip64 end record");
    if (at > end - 20 || file.number<uint32_t>(at, "the zip64 end record") != end64_mark) {
      file.fail(end - 12, "the offset of a zip64 end record", fmt::format("{}", at));
    }
    parts = file.number<uint32_t>(at + 16, "number of this part");
    d = {.at = file.number<uint64_t>(at + 48, "offset of the directory"),
         .bytes = file.number<uint64_t>(at + 40, "size of the directory"),
         .count = file.number<uint64_t>(at + 32, "number of entries")};
    limit = at;
  }
  if (parts != 0) file.fail(end, "an archive in one part", fmt::format("part {}", parts));
  if (d.at > limit || d.bytes > limit - d.at) {
    file.fail(end, fmt::format("a directory before byte {}", limit), fmt::format("{} bytes at byte {}", d.bytes, d.at));
  }
  constexpr uint64_t smallest = 46;
  if (d.count > d.bytes / smallest) {
    file.fail(end, fmt::format("at most {} entries in {} bytes", d.bytes / smallest, d.bytes),
              fmt::format("{}", d.count));
  }
  return d;
}

// The numbers that did not fit their 32 bits, from the extra field of zip64.
void read_zip64(ByteReader extra, std::initializer_list<std::pair<uint64_t*, bool>> numbers) {
  while (extra.remaining() >= 4) {
    const auto kind = extra.number<uint16_t>("extra field");
    const auto bytes = extra.number<uint16_t>("extra field");
    if (kind != 1) {
      extra.take(bytes, "extra field");
      continue;
    }
    const uint64_t end = extra.offset() + bytes;
    for (const auto& [number, is_there] : numbers) {
      if (!is_there) continue;
      if (extra.offset() + 8 > end) extra.fail(extra.offset(), "a number in the zip64 field", "its end");
      *number = extra.number<uint64_t>("zip64 field");
    }
    return;
  }
}

void check_name(const FileBytes& file, uint64_t at, const std::string& name) {
  bool is_bad = name.empty() || name.front() == '/' || name.find('\\') != std::string::npos ||
                name.find('\0') != std::string::npos;
  for (size_t from = 0; from <= name.size() && !is_bad;) {
    const size_t to = std::min(name.find('/', from), name.size());
    is_bad = std::string_view(name).substr(from, to - from) == "..";
    from = to + 1;
  }
  if (is_bad) file.fail(at, "a name inside of the archive", fmt::format("'{}'", name.substr(0, 200)));
}

}  // namespace

std::vector<ZipEntry> read_zip(const FileBytes& file) {
  const Directory directory = read_end(file);
  ByteReader in(file, directory.at, directory.at + directory.bytes);
  std::vector<ZipEntry> entries;
  std::vector<std::pair<uint64_t, uint64_t>> ranges;  // of local headers with their data
  std::unordered_set<std::string> names;
  for (uint64_t i = 0; i < directory.count; ++i) {
    const uint64_t at = in.offset();
    const std::string_view head = in.take(46, "an entry of the directory");
    const auto number = [&]<class T>(T, uint64_t offset) { return file.number<T>(at + offset, "an entry"); };
    if (number(uint32_t(), 0) != central_mark) in.fail(at, "an entry of the directory", "something else");
    ZipEntry entry;
    const uint16_t flags = number(uint16_t(), 8), method = number(uint16_t(), 10);
    entry.crc = number(uint32_t(), 16);
    entry.compressed = number(uint32_t(), 20);
    entry.bytes = number(uint32_t(), 24);
    uint64_t local = number(uint32_t(), 42);
    entry.name = in.take(number(uint16_t(), 28), "the name of an entry");
    const uint64_t extra_at = in.offset();
    in.take(number(uint16_t(), 30), "the extra field of an entry");
    read_zip64(ByteReader(file, extra_at, in.offset()), {{&entry.bytes, entry.bytes == full32},
                                                         {&entry.compressed, entry.compressed == full32},
                                                         {&local, local == full32}});
    in.take(number(uint16_t(), 32), "the comment of an entry");
    (void)head;

    check_name(file, at, entry.name);
    if (!names.insert(entry.name).second) in.fail(at, "each name once", fmt::format("'{}' again", entry.name));
    if (flags & 1) in.fail(at, fmt::format("'{}' without encryption", entry.name), "an encrypted entry");
    if (method != 0 && method != 8) {
      in.fail(at, fmt::format("'{}' stored (0) or deflated (8)", entry.name), fmt::format("method {}", method));
    }
    entry.is_deflated = method == 8;
    if (!entry.is_deflated && entry.bytes != entry.compressed) {
      in.fail(at, fmt::format("'{}' stored in {} bytes", entry.name, entry.bytes), fmt::format("{}", entry.compressed));
    }
    if (entry.is_deflated && entry.bytes / max_ratio > entry.compressed) {
      in.fail(at,
              fmt::format("'{}' of at most {} bytes, {} times the {} that are there", entry.name,
                          entry.compressed * max_ratio, max_ratio, entry.compressed),
              fmt::format("{}", entry.bytes));
    }
    if (local >= directory.at || file.number<uint32_t>(local, "a local header") != local_mark) {
      in.fail(at, fmt::format("'{}' before the directory", entry.name), fmt::format("byte {}", local));
    }
    entry.offset = local + 30 + file.number<uint16_t>(local + 26, "a local header") +
                   file.number<uint16_t>(local + 28, "a local header");
    if (file.part(local + 30, file.number<uint16_t>(local + 26, "a local header"), "a local name") != entry.name) {
      in.fail(local, fmt::format("the name '{}', as in the directory", entry.name), "another one");
    }
    if (entry.offset > directory.at || entry.compressed > directory.at - entry.offset) {
      in.fail(at, fmt::format("'{}' to end before the directory at byte {}", entry.name, directory.at),
              fmt::format("{} bytes at byte {}", entry.compressed, entry.offset));
    }
    ranges.emplace_back(local, entry.offset + entry.compressed);
    entries.push_back(std::move(entry));
  }
  std::sort(ranges.begin(), ranges.end());
  for (size_t i = 1; i < ranges.size(); ++i) {
    if (ranges[i].first < ranges[i - 1].second) {
      file.fail(ranges[i].first, fmt::format("entries one after another (the next from byte {})", ranges[i - 1].second),
                "entries that overlap");
    }
  }
  return entries;
}

namespace {

// The inflated bytes: all of them, or the first `most`.
std::string inflate_entry(const FileBytes& file, const ZipEntry& entry, uint64_t most) {
  const std::string_view in = file.part(entry.offset, entry.compressed, entry.name);
  z_stream stream{};
  if (inflateInit2(&stream, -MAX_WBITS) != Z_OK) throw MemoryError("[zip] no memory to inflate");
  struct End {
    z_stream& stream;
    ~End() { inflateEnd(&stream); }
  } end{stream};
  std::string out;
  uint64_t taken = 0;
  int result = Z_OK;
  const auto fail = [&](std::string_view found) {
    file.fail(entry.offset + taken - stream.avail_in,
              fmt::format("'{}': {} bytes when inflated", entry.name, entry.bytes), found);
  };
  while (result != Z_STREAM_END && out.size() < most) {
    if (stream.avail_in == 0 && taken < in.size()) {
      const uint64_t piece = std::min<uint64_t>(in.size() - taken, 1 << 24);
      stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(in.data() + taken));
      stream.avail_in = uInt(piece);
      taken += piece;
    }
    const size_t before = out.size();
    // grows as bytes come: at most to double what is there
    const uint64_t room = std::min<uint64_t>({most - before, std::max<uint64_t>(before, 1 << 16), 1 << 30});
    out.resize(before + size_t(room));
    stream.next_out = reinterpret_cast<Bytef*>(out.data() + before);
    stream.avail_out = uInt(room);
    result = inflate(&stream, Z_NO_FLUSH);
    out.resize(before + size_t(room) - stream.avail_out);
    if (result == Z_MEM_ERROR) throw MemoryError("[zip] no memory to inflate");
    if (result != Z_OK && result != Z_STREAM_END && result != Z_BUF_ERROR) fail("corrupt data");
    if (out.size() > entry.bytes) fail("more");
    if (result != Z_STREAM_END && stream.avail_in == 0 && taken == in.size() && out.size() == before) {
      fail(fmt::format("{}", out.size()));
    }
  }
  return out;
}

uint32_t crc_of(std::string_view bytes) {
  uLong crc = crc32(0, nullptr, 0);
  for (size_t at = 0; at < bytes.size();) {
    const size_t piece = std::min<size_t>(bytes.size() - at, size_t(1) << 30);
    crc = crc32(crc, reinterpret_cast<const Bytef*>(bytes.data() + at), uInt(piece));
    at += piece;
  }
  return uint32_t(crc);
}

void check_crc(const FileBytes& file, const ZipEntry& entry, std::string_view bytes) {
  if (const uint32_t crc = crc_of(bytes); crc != entry.crc) {
    file.fail(entry.offset, fmt::format("'{}' with CRC-32 {:#010x}", entry.name, entry.crc),
              fmt::format("{:#010x}", crc));
  }
}

}  // namespace

ZipContents contents_of(const FileBytes& file, const ZipEntry& entry, bool checks) {
  if (!entry.is_deflated) {
    const std::string_view bytes = file.part(entry.offset, entry.bytes, entry.name);
    if (checks) check_crc(file, entry, bytes);
    return {file, entry.offset};
  }
  // one more byte than promised shows that there is more
  std::string bytes = inflate_entry(file, entry, entry.bytes + 1);
  if (bytes.size() != entry.bytes) {
    file.fail(entry.offset, fmt::format("'{}': {} bytes when inflated", entry.name, entry.bytes),
              fmt::format("{}", bytes.size()));
  }
  if (checks) check_crc(file, entry, bytes);
  return {FileBytes::owning(std::move(bytes), fmt::format("{}: '{}'", file.name(), entry.name)), 0};
}

std::string beginning_of(const FileBytes& file, const ZipEntry& entry, uint64_t most) {
  most = std::min(most, entry.bytes);
  if (entry.is_deflated) return inflate_entry(file, entry, most);
  return std::string(file.part(entry.offset, most, entry.name));
}

}  // namespace kaon::interchange
