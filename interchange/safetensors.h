// safetensors: the file format of Hugging Face's models. Read over a mapping of the file, written aligned.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "kaon/engine/api.h"
#include "kaon/ops/ndarray_file.h"

namespace KAON_API kaon {
namespace safetensors {

// A tensor as the file names it.
struct TensorInfo {
  std::string name;
  std::string dtype;  // "F32", "BF16"; also those that Kaon lacks, as "F8_E4M3"
  std::vector<int64_t> shape;
  uint64_t offset = 0;  // of its first byte in the file
  uint64_t bytes = 0;
};

struct Contents {
  NamedArrays arrays;                           // by their place in the file
  std::map<std::string, std::string> metadata;  // "__metadata__"; of sharded files what the index says
};

// The arrays of a file, or of the files that an index ("model.safetensors.index.json") names in its own folder. They
// are stored in the mapped file: nothing is copied but what is not aligned for its dtype and, up to 4 MiB, what does
// not begin on a cache line. Pages are read when an operator needs them, and an array that is written in place changes
// in this process alone. Blocks. Throws IoError, naming file and byte, for a file that is not what the format says: a
// header of more than 100 MB, tensors that overlap, leave holes or end beyond the file, names that are there twice,
// shapes that do not fit the bytes; for a dtype that Kaon lacks; for an index that names a file outside of its folder
// or whose tensors are not in their files.
KAON_API Contents load(const std::filesystem::path& file);
// The same of bytes, which are copied once; no index.
KAON_API Contents load_from_bytes(std::string_view bytes, const std::string& source = "bytes");

// What is in a file, without arrays. Throws as load() does, but for dtypes.
KAON_API std::vector<TensorInfo> list(const std::filesystem::path& file);

struct SaveOptions {
  std::map<std::string, std::string> metadata{};
  // Of the first tensor in the file, in bytes; those behind it follow without a gap, larger elements first, so that
  // each is aligned for its dtype. A power of two from 8 to 4096.
  size_t alignment = 64;
  // When larger than 0, arrays of more bytes together are written to several files, each of at most so many bytes where
  // no single array has more. The name given is that of an index then, "model.safetensors.index.json", and the files
  // beside it are "model-<16 digits>-00001-of-00002.safetensors" and so on, whose digits follow from their contents. An
  // index is written for such a name in any case.
  uint64_t max_shard_bytes = 0;
};

// Writes each file atomically, the index last; then the shards of an older index of this name are removed. A crash
// leaves the older index with its shards, or the new one. Blocks until the arrays are computed. Throws IoError,
// ValueError for undefined arrays, names that are empty, twice there or "__metadata__", and options out of range.
KAON_API void save(const std::filesystem::path& file, const NamedArrays& arrays, const SaveOptions& options = {});
KAON_API std::string save_to_bytes(const NamedArrays& arrays, const SaveOptions& options = {});

}  // namespace safetensors
}  // namespace kaon
