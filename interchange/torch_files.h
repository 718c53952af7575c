// State dicts of PyTorch (.pt, .pth), read without running code.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "kaon/engine/api.h"
#include "kaon/ops/ndarray_file.h"

namespace KAON_API kaon {
namespace torch_files {

// The tensors of a file of torch.save (1.6 and later): of a state dict by its names; of dicts, lists and tuples inside
// of each other, as checkpoints are, by their keys joined with dots ("model.fc.weight"). Numbers, texts and None beside
// them are passed over. Tensors of dtypes that Kaon has, of any strides; those that share a storage share memory here
// too. They lie in the mapped file, as those of safetensors::load() do; only those whose elements are not one after
// another are copied. The pickle is read as data: a class or function that is not one of a state dict's is refused by
// its name, and nothing is called. Blocks. Throws IoError, naming file and byte, for what torch.save did not write, was
// cut off or is of the format before 1.6, for tensors that reach beyond their storage, for dtypes that Kaon lacks,
// sparse and quantized tensors, whole modules and TorchScript.
KAON_API NamedArrays load(const std::filesystem::path& file);
KAON_API NamedArrays load_from_bytes(std::string_view bytes, const std::string& source = "bytes");

}  // namespace torch_files
}  // namespace kaon
