// External data: the arrays of a model in a file of their own beside it.
#pragma once

#include <filesystem>
#include <span>

#include "kaon/interchange/onnx/format/model.h"

namespace kaon::onnx::exporting {

// Writes the model, the elements of whose initializers are these arrays; of an undefined one those that the initializer
// has. Where the file would have more than `most` bytes, or more
// than protobuf allows, arrays of `smallest` bytes and more go into a second file, "<name>.<16 digits>.data", whose
// name follows from its contents: no other model's file has it. The second file is on disk before the model takes its
// name; then that of an older model of this name is removed. A crash leaves the old model with its data, or the new
// one. Blocks. Throws IoError, and ValueError for what protobuf cannot hold.
void write_files(format::Model& model, std::span<const NDArray> arrays, const std::filesystem::path& path,
                 uint64_t most, uint64_t smallest);

}  // namespace kaon::onnx::exporting
