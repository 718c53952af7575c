#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>
#include <set>

#include "kaon/engine/base/atomic_file.h"
#include "kaon/engine/error.h"
#include "kaon/interchange/file/array_bytes.h"
#include "kaon/interchange/file/digest.h"
#include "kaon/interchange/safetensors/header.h"

namespace kaon::safetensors {

using namespace interchange;
namespace json = boost::json;
namespace fs = std::filesystem;

namespace {

uint64_t bytes_of(const NDArray& array) { return uint64_t(array.size()) * size_of(array.dtype()); }

void check(const NamedArrays& arrays, const SaveOptions& options) {
  check_arrays(arrays, "safetensors::save");
  const auto check_text = [](const std::string& text) {
    if (is_utf8(text)) return;
    throw ValueError("[safetensors::save] names and metadata must be UTF-8, as the format's JSON is");
  };
  for (const auto& [key, text] : options.metadata) check_text(key), check_text(text);
  for (const auto& [name, array] : arrays) {
    check_text(name);
    if (name == "__metadata__") {
      throw ValueError("[safetensors::save] '__metadata__' is no name for an array: the format uses it");
    }
  }
  if (!std::has_single_bit(options.alignment) || options.alignment < 8 || options.alignment > 4096) {
    throw ValueError(
        fmt::format("[safetensors::save] alignment must be a power of two from 8 to 4096, got {}", options.alignment));
  }
}

// By size of an element, so that each tensor is aligned for it, then by name, so that files are the same.
std::vector<const NamedArrays::value_type*> in_order(const NamedArrays& arrays) {
  std::vector<const NamedArrays::value_type*> order;
  for (const auto& a : arrays) order.push_back(&a);
  std::sort(order.begin(), order.end(), [](const auto* a, const auto* b) {
    const size_t x = size_of(a->second.dtype()), y = size_of(b->second.dtype());
    return x != y ? x > y : a->first < b->first;
  });
  return order;
}

std::string header_of(const std::vector<const NamedArrays::value_type*>& order, const SaveOptions& options) {
  json::object root;
  if (!options.metadata.empty()) {
    json::object metadata;
    for (const auto& [key, text] : options.metadata) metadata[key] = text;
    root["__metadata__"] = std::move(metadata);
  }
  uint64_t at = 0;
  for (const auto* named : order) {
    const NDArray& array = named->second;
    json::array shape;
    for (int64_t d : array.shape()) shape.push_back(d);
    const uint64_t end = at + bytes_of(array);
    root[named->first] = json::object{{"dtype", json::string(safetensors_name(array.dtype()))},
                                      {"shape", std::move(shape)},
                                      {"data_offsets", json::array{at, end}}};
    at = end;
  }
  std::string text = json::serialize(root);
  const size_t over = (8 + text.size()) % options.alignment;
  if (over) text.append(options.alignment - over, ' ');
  if (text.size() > 100'000'000) {
    throw ValueError(
        fmt::format("[safetensors::save] the header has {} bytes, more than the 100000000 of the format", text.size()));
  }
  const uint64_t bytes = text.size();
  std::string prefix(sizeof bytes, '\0');
  std::copy_n(reinterpret_cast<const char*>(&bytes), sizeof bytes, prefix.data());
  return prefix + text;
}

void write(const NamedArrays& arrays, const SaveOptions& options, engine::FunctionRef<void(std::string_view)> sink) {
  const auto order = in_order(arrays);
  sink(header_of(order, options));
  for (const auto* named : order) with_bytes(named->second, sink);
}

void write_one(const fs::path& file, const NamedArrays& arrays, const SaveOptions& options) {
  engine::AtomicFile out(file);
  write(arrays, options, [&](std::string_view bytes) { out.write(bytes.data(), bytes.size()); });
  out.commit();
}

constexpr std::string_view index_suffix = ".safetensors.index.json", shard_suffix = ".safetensors";

// "<stem>-<digest>-00001-of-00003.safetensors": no shard of other contents has the name, so that those of an older
// index stay as they are until the new index is there.
std::string shard_name(const std::string& stem, const NamedArrays& arrays, const SaveOptions& options, size_t number,
                       size_t count) {
  Digest digest;
  write(arrays, options, [&](std::string_view bytes) { digest.add(bytes); });
  return fmt::format("{}-{}-{:05}-of-{:05}{}", stem, digest.text(), number, count, shard_suffix);
}

// Whether the name is one of a shard of this stem, with a digest or, as other tools write it, without.
bool is_shard_of(std::string_view name, const std::string& stem) {
  if (!name.starts_with(stem + '-') || !name.ends_with(shard_suffix)) return false;
  name.remove_prefix(stem.size() + 1);
  name.remove_suffix(shard_suffix.size());
  const auto is_made_of = [](std::string_view part, std::string_view characters) {
    return part.find_first_not_of(characters) == std::string_view::npos;
  };
  constexpr std::string_view digits = "0123456789";
  if (name.size() == 16 + 1 + 14) {
    if (!is_made_of(name.substr(0, 16), "0123456789abcdef") || name[16] != '-') return false;
    name.remove_prefix(17);
  }
  return name.size() == 14 && is_made_of(name.substr(0, 5), digits) && name.substr(5, 4) == "-of-" &&
         is_made_of(name.substr(9), digits);
}

// The shards of the index that has the name now; none where there is no index, or a damaged one.
std::set<std::string> older_shards(const fs::path& index, const std::string& stem) {
  std::error_code error;
  if (!fs::is_regular_file(index, error)) return {};
  try {
    std::set<std::string> files = safetensors_index_files(index);
    std::erase_if(files, [&](const std::string& name) { return !is_shard_of(name, stem); });
    return files;
  } catch (const Error&) {
    return {};
  }
}

void write_shards(const fs::path& file, const NamedArrays& arrays, const SaveOptions& options) {
  const std::string name = file.filename().string();
  if (!name.ends_with(index_suffix) || name.size() == index_suffix.size()) {
    throw ValueError(
        fmt::format("[safetensors::save] several files need an index named '<name>{}', got '{}'", index_suffix, name));
  }
  std::vector<NamedArrays> shards(1);
  uint64_t total = 0, used = 0;
  for (const auto& named : arrays) {
    const uint64_t bytes = bytes_of(named.second);
    if (options.max_shard_bytes > 0 && !shards.back().empty() && used + bytes > options.max_shard_bytes) {
      shards.emplace_back();
      used = 0;
    }
    shards.back().push_back(named);
    used += bytes;
    total += bytes;
  }
  json::object map;
  const std::string stem = name.substr(0, name.size() - index_suffix.size());
  std::set<std::string> older = older_shards(file, stem);
  std::vector<fs::path> made;
  std::error_code ignored;
  try {
    for (size_t i = 0; i < shards.size(); ++i) {
      const std::string shard = shard_name(stem, shards[i], options, i + 1, shards.size());
      const fs::path path = file.parent_path() / shard;
      const bool is_new = !fs::exists(path, ignored);
      write_one(path, shards[i], options);
      if (is_new) made.push_back(path);
      older.erase(shard);
      for (const auto& [tensor, array] : shards[i]) map[tensor] = shard;
    }
    json::object metadata{{"total_size", total}};
    for (const auto& [key, text] : options.metadata) metadata[key] = text;
    engine::write_file(
        file, json::serialize(json::object{{"metadata", std::move(metadata)}, {"weight_map", std::move(map)}}));
  } catch (...) {
    for (const fs::path& path : made) fs::remove(path, ignored);
    throw;
  }
  for (const std::string& shard : older) fs::remove(file.parent_path() / shard, ignored);
}

}  // namespace

void save(const fs::path& file, const NamedArrays& arrays, const SaveOptions& options) {
  check(arrays, options);
  uint64_t total = 0;
  for (const auto& [name, array] : arrays) total += bytes_of(array);
  const bool is_index = file.filename().string().ends_with(index_suffix);
  if (is_index || (options.max_shard_bytes > 0 && total > options.max_shard_bytes)) {
    return write_shards(file, arrays, options);
  }
  write_one(file, arrays, options);
}

std::string save_to_bytes(const NamedArrays& arrays, const SaveOptions& options) {
  check(arrays, options);
  std::string all;
  write(arrays, options, [&](std::string_view bytes) { all += bytes; });
  return all;
}

}  // namespace kaon::safetensors
