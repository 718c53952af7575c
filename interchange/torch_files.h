// State dicts of PyTorch (.pt, .pth), read without running code.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "kaon/engine/api.h"
#include "kaon/ops/ndarray_file.h"

namespace KAON_API kaon {
namespace torch_files {

// The tensors of a file of torch.save (1.6 and later): of a state dict by its names; of dicts, lists and tuples inside
// of each other, as checkpoints are, by their keys joined with dots ("model.fc.weight"); a tensor alone, or one whose
// keys are empty, is named "tensor". Numbers, texts and None beside them are passed over. Tensors of dtypes that Kaon
// has, of any strides; those that share a storage share memory here too. They are stored in the mapped file, as those
// of safetensors::load() are; only those not stored one element after another are copied. The pickle is read as data,
// and nothing is called: left out is what a class or function would have to make that is not one of a state dict's, as
// an argparse.Namespace beside the weights, with all that it holds, and so are sparse and quantized tensors, tensors of
// dtypes that Kaon lacks, and those below a key that is neither a text nor an integer. contents() says what was left
// out and why. Blocks. Throws IoError, naming file and byte, for what torch.save did not write, was cut off or is of
// the format before 1.6, for tensors that reach beyond their storage, for TorchScript, and where something was left out
// and no tensor remains, as of a whole module.
KAON_API NamedArrays load(const std::filesystem::path& file);
KAON_API NamedArrays load_from_bytes(std::string_view bytes, const std::string& source = "bytes");

// What a file has beside the tensors that are read.
struct LeftOut {
  std::string name;     // as a tensor's
  uint64_t offset = 0;  // in the file
  std::string expected, found;
  bool is_tensor = false;
};
struct Contents {
  NamedArrays arrays;
  std::vector<LeftOut> left_out;
  std::string source;  // the file, for errors

  // The tensor of a name. Throws IoError, naming the byte and why, for what was left out, and ValueError for a name
  // that the file does not have.
  KAON_API NDArray at(std::string_view name) const;
};
// As load(), but throws nothing for what is left out.
KAON_API Contents contents(const std::filesystem::path& file);
KAON_API Contents contents_from_bytes(std::string_view bytes, const std::string& source = "bytes");

}  // namespace torch_files
}  // namespace kaon
