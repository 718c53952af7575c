// Files of tensors of any kind, by their contents; and what is in them.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "kaon/engine/api.h"
#include "kaon/ops/ndarray_file.h"

namespace KAON_API kaon {

enum class FileKind : uint8_t {
  mxnet_params,
  mxnet_symbol,
  mxnet_states,  // a pickle of Trainer.save_states
  safetensors,
  safetensors_index,
  npy,
  npz,
  torch,         // a zip archive of torch.save
  torch_legacy,  // of PyTorch before 1.6, which is not read
  onnx,          // by its name: the format has no mark
  unknown
};
KAON_API std::string_view name_of(FileKind kind);

// By the first bytes of the file, where they tell; the name decides the rest, so that the reader of a damaged file says
// what is wrong. Blocks. Throws IoError for a file that cannot be read, and for a folder.
KAON_API FileKind kind_of(const std::filesystem::path& file);

// The arrays of a file of MXNet's, safetensors, NumPy's or PyTorch's; that of an npy file is named as the file. Of an
// ONNX model: the initializers of its graph, in its own layout. Throws as the reader of its kind, and IoError for a
// file that has none. What torch_files::load() leaves out is left out.
KAON_API NamedArrays load_tensors(const std::filesystem::path& file);

struct SaveTensorsOptions {
  std::map<std::string, std::string> metadata{};  // of safetensors alone
  bool compress = false;                          // of npz alone
  uint64_t max_shard_bytes = 0;                   // of safetensors alone
};
// Writes the kind that the name ends in: .params or .nd, .safetensors or .safetensors.index.json, .npz, or .npy for one
// array. Throws as the writer of its kind, and ValueError for another name.
KAON_API void save_tensors(const std::filesystem::path& file, const NamedArrays& arrays,
                           const SaveTensorsOptions& options = {});

// A tensor as its file names it; also of dtypes that Kaon lacks.
struct TensorSummary {
  std::string name, dtype, shape;
  uint64_t bytes = 0;
  std::string note;  // why it cannot be read; empty: it can
};
struct FileSummary {
  FileKind kind = FileKind::unknown;
  uint64_t bytes = 0;  // of the file, or of those that an index names together
  std::vector<TensorSummary> tensors;
  std::map<std::string, std::string> metadata;
  // Of a program:
  std::vector<std::string> inputs, outputs;  // every variable of a symbol file is an input or a parameter
  std::map<std::string, int64_t> operators;  // how often each is there
  std::vector<std::string> problems;         // what is not supported, left out or does not fit, also of tensors
};
// What is in a file. Reads no values but those of formats without a table. Throws as the readers do, and IoError, with
// the kinds that are known, for a file of none of them.
KAON_API FileSummary summarize_file(const std::filesystem::path& file);

}  // namespace kaon
