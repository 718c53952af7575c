#include <fmt/format.h>

#include <boost/json/object.hpp>
#include <map>
#include <set>
#include <span>
#include <unordered_map>

#include "kaon/interchange/file/json_text.h"
#include "kaon/interchange/safetensors/header.h"

namespace kaon::safetensors {

using namespace interchange;
namespace json = boost::json;
namespace fs = std::filesystem;

namespace {

Contents arrays_of(const FileBytes& file) {
  SafetensorsHeader header = read_safetensors_header(file);
  Contents contents{.arrays = {}, .metadata = std::move(header.metadata)};
  for (const TensorInfo& t : header.tensors) {
    const auto dtype = safetensors_dtype(t.dtype);
    if (!dtype) file.fail(t.offset, fmt::format("tensor '{}' of a dtype that Kaon has", t.name), t.dtype);
    if (t.shape.size() > size_t(Shape::max_ndim)) {
      file.fail(t.offset, fmt::format("tensor '{}' of at most {} dimensions", t.name, Shape::max_ndim),
                fmt::format("{}", t.shape.size()));
    }
    contents.arrays.emplace_back(t.name, file.array(t.offset, Shape(std::span(t.shape)), *dtype, t.name));
  }
  return contents;
}

bool is_index(const fs::path& file) { return file.extension() == ".json"; }

// Which tensors are in which file beside the index.
struct Index {
  std::map<std::string, std::set<std::string>> files;
  std::map<std::string, std::string> metadata;
};

Index read_index(const FileBytes& file) {
  const json::value value = parse_json(file, 0, file.size(), "the index");
  const json::object* root = value.if_object();
  const json::value* found = root ? root->if_contains("weight_map") : nullptr;
  const json::object* map = found ? found->if_object() : nullptr;
  if (!map) file.fail(0, "an object \"weight_map\"", "none");
  Index index;
  for (const auto& [tensor, name] : *map) {
    const json::string* text = name.if_string();
    const std::string shard = text ? std::string(std::string_view(*text)) : std::string();
    // a name alone: a path could lead anywhere
    if (shard.empty() || shard == "." || shard == ".." ||
        shard.find_first_of(std::string("/\\\0", 3)) != std::string::npos) {
      file.fail(0, fmt::format("the name of a file beside the index for tensor '{}'", std::string_view(tensor)),
                text ? fmt::format("'{}'", shard) : "no text");
    }
    index.files[shard].insert(std::string(std::string_view(tensor)));
  }
  const json::value* metadata = root->if_contains("metadata");
  if (const json::object* object = metadata ? metadata->if_object() : nullptr) {
    for (const auto& [key, member] : *object) {
      if (const auto* s = member.if_string()) index.metadata.emplace(key, *s);
      if (const auto* i = member.if_int64()) index.metadata.emplace(key, fmt::format("{}", *i));
    }
  }
  return index;
}

// Calls use(bytes of a file, the tensors that the index has in it) for each. Errors name the index too: it may be what
// is wrong.
template <class Use>
std::map<std::string, std::string> for_each_shard(const fs::path& file, Use use) {
  const FileBytes bytes = FileBytes::map(file);
  Index index = read_index(bytes);
  for (const auto& [name, tensors] : index.files) {
    try {
      use(FileBytes::map(file.parent_path() / name), tensors);
    } catch (const Error& e) {
      std::rethrow_exception(e.with_context(fmt::format("; a file of the index {}", file.string())));
    }
  }
  return std::move(index.metadata);
}

void check_names(const FileBytes& shard, const std::set<std::string>& expected, size_t found) {
  if (found != expected.size()) {
    shard.fail(0, fmt::format("the {} tensors that the index has in this file", expected.size()),
               fmt::format("{} of them", found));
  }
}

}  // namespace

Contents load(const fs::path& file) {
  if (!is_index(file)) return arrays_of(FileBytes::map(file));
  Contents all;
  all.metadata = for_each_shard(file, [&](const FileBytes& shard, const std::set<std::string>& tensors) {
    size_t found = 0;
    for (auto& named : arrays_of(shard).arrays) {
      if (!tensors.contains(named.first)) continue;  // the index names another file for it, or none
      ++found;
      all.arrays.push_back(std::move(named));
    }
    check_names(shard, tensors, found);
  });
  return all;
}

Contents load_from_bytes(std::string_view bytes, const std::string& source) {
  return arrays_of(FileBytes::copy_of(bytes, source));
}

std::vector<TensorInfo> list(const fs::path& file) {
  if (!is_index(file)) return read_safetensors_header(FileBytes::map(file)).tensors;
  std::vector<TensorInfo> all;
  for_each_shard(file, [&](const FileBytes& shard, const std::set<std::string>& tensors) {
    size_t found = 0;
    for (TensorInfo& t : read_safetensors_header(shard).tensors) {
      if (!tensors.contains(t.name)) continue;
      ++found;
      all.push_back(std::move(t));
    }
    check_names(shard, tensors, found);
  });
  return all;
}

}  // namespace kaon::safetensors

namespace kaon::interchange {

std::set<std::string> safetensors_index_files(const std::filesystem::path& index) {
  std::set<std::string> files;
  for (const auto& [name, tensors] : safetensors::read_index(FileBytes::map(index)).files) files.insert(name);
  return files;
}

}  // namespace kaon::interchange
