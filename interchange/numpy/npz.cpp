#include <fmt/format.h>

#include "kaon/engine/base/atomic_file.h"
#include "kaon/engine/error.h"
#include "kaon/interchange/file/array_bytes.h"
#include "kaon/interchange/numpy/npy_format.h"
#include "kaon/interchange/zip/zip_file.h"

namespace kaon::npz {

using namespace interchange;

namespace {

constexpr std::string_view suffix = ".npy";

NamedArrays read(const FileBytes& file, const LoadOptions& options) {
  NamedArrays arrays;
  uint64_t total = 0;
  for (const ZipEntry& entry : read_zip(file)) {
    if (!entry.name.ends_with(suffix)) {
      file.fail(entry.offset, "entries whose names end in .npy", fmt::format("'{}'", entry.name));
    }
    if (__builtin_add_overflow(total, entry.bytes, &total) || (options.max_bytes > 0 && total > options.max_bytes)) {
      file.fail(entry.offset, fmt::format("arrays of at most {} bytes together", options.max_bytes),
                fmt::format("at least {}", total));
    }
    const auto [bytes, offset] = contents_of(file, entry, true);
    arrays.emplace_back(entry.name.substr(0, entry.name.size() - suffix.size()),
                        read_npy(bytes, offset, offset + entry.bytes));
  }
  return arrays;
}

void write(const NamedArrays& arrays, const SaveOptions& options, ZipWriter::Sink sink) {
  ZipWriter zip(sink);
  for (const auto& [name, array] : arrays) {
    write_npy(array, {}, [&, &name = name](std::string_view header, std::string_view elements) {
      zip.add(name + std::string(suffix), {header, elements}, options.compress);
    });
  }
  zip.finish();
}

}  // namespace

NamedArrays load(const std::filesystem::path& file, const LoadOptions& options) {
  return read(FileBytes::map(file), options);
}

NamedArrays load_from_bytes(std::string_view bytes, const std::string& source, const LoadOptions& options) {
  return read(FileBytes::copy_of(bytes, source), options);
}

void save(const std::filesystem::path& file, const NamedArrays& arrays, const SaveOptions& options) {
  check_arrays(arrays, "npz::save");
  engine::AtomicFile out(file);
  write(arrays, options, [&](std::string_view bytes) { out.write(bytes.data(), bytes.size()); });
  out.commit();
}

std::string save_to_bytes(const NamedArrays& arrays, const SaveOptions& options) {
  check_arrays(arrays, "npz::save");
  std::string all;
  write(arrays, options, [&](std::string_view bytes) { all += bytes; });
  return all;
}

}  // namespace kaon::npz
