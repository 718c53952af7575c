// IDX: the file format of MNIST, plain or compressed with gzip.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "kaon/gluon/data/host_tensor.h"

namespace kaon::gluon::data {

// The tensor in an IDX file (big-endian: two zero bytes, type, number of dimensions, dimensions, elements). Types
// uint8, int8, int16, int32, float32, float64. Compressed if it begins with gzip's magic number, whatever its name.
// Blocks. Throws IoError with file, offset and expectation; allocates only for sizes that the file can hold. Thread
// safety: any thread.
HostTensor read_idx(const std::filesystem::path& file);

// The same from memory; `name` is for messages.
HostTensor parse_idx(std::string_view bytes, const std::string& name);

}  // namespace kaon::gluon::data
