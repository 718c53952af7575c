// Arrays as MXNet's files hold them, dense and sparse, as their dense parts.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "kaon/ops/ndarray.h"

namespace kaon::ops {

// The numbers are those in files.
enum class StorageType : int32_t { dense, row_sparse, csr };

// An array of a file. Undefined data: none.
struct StoredArray {
  StorageType storage = StorageType::dense;
  Shape shape;               // of the whole array, where it is sparse
  NDArray data;              // the values that are stored
  std::vector<NDArray> aux;  // row_sparse: indices; csr: indptr, indices
};

using NamedStoredArrays = std::vector<std::pair<std::string, StoredArray>>;

// As nd_file::load, with sparse arrays. That their parts fit together is for the caller to check.
NamedStoredArrays load_stored(const std::filesystem::path& file);
NamedStoredArrays load_stored_from_bytes(std::string_view bytes, const std::string& source);
// As nd_file::save; sparse arrays are written in version 2.
void save_stored(const std::filesystem::path& file, const NamedStoredArrays& arrays, int version = 2);

// One array as it stands in a file, without a list around it: what MXNet's pickles hold.
std::string array_to_bytes(const StoredArray& array, int version = 2);
// Throws IoError as load does.
StoredArray array_from_bytes(std::string_view bytes, const std::string& source);

}  // namespace kaon::ops
