// npy and npz: NumPy's files of one array, and of several.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

#include "kaon/engine/api.h"
#include "kaon/ops/ndarray_file.h"

namespace KAON_API kaon {

// Dtypes: those of Kaon, in either byte order. bfloat16, which NumPy lacks, is read from and written as '<V2', as
// ml_dtypes' arrays are saved. Complex numbers, texts, dates, structures and Python's objects are refused by name.
namespace npy {

// What is in a file, without the array.
struct Header {
  int version = 1;    // 1 to 3
  std::string dtype;  // as the file has it, "<f4"
  bool fortran_order = false;
  Shape shape;
  uint64_t offset = 0;  // of the first element
};

// Format versions 1 to 3. The array lies in the mapped file, as those of safetensors::load() do; one in Fortran's order
// or in the other byte order is copied. Blocks. Throws IoError, naming file and byte, for a file that is not what the
// format says, is cut off or longer than its array, and for a dtype that Kaon lacks.
KAON_API NDArray load(const std::filesystem::path& file);
KAON_API NDArray load_from_bytes(std::string_view bytes, const std::string& source = "bytes");
KAON_API Header read_header(const std::filesystem::path& file);  // any dtype of one item size; throws as load() does

struct SaveOptions {
  int version = 1;             // 1 to 3; a header of more than 65535 bytes needs 2, which no array of Kaon's has
  bool fortran_order = false;  // the first dimension changes fastest
};

// Writes the file atomically. Blocks until the array is computed. Throws IoError, ValueError for an undefined array and
// options out of range.
KAON_API void save(const std::filesystem::path& file, const NDArray& array, const SaveOptions& options = {});
KAON_API std::string save_to_bytes(const NDArray& array, const SaveOptions& options = {});

}  // namespace npy

namespace npz {

struct LoadOptions {
  uint64_t max_bytes = 0;  // of all arrays together, where a file may come from anywhere; 0: no limit
};

// The arrays of an archive by their names without ".npy", in its order. Those that are stored lie in the mapped file.
// Memory grows with what the file holds: at most 1032 times the bytes that are deflated, the most that deflate can do,
// and never by what a header alone promises. Blocks. Throws IoError, naming file and byte, as npy::load() does and for
// archives that are no zip files, are encrypted, whose entries overlap or fail their checksum, and for arrays beyond
// max_bytes.
KAON_API NamedArrays load(const std::filesystem::path& file, const LoadOptions& options = {});
KAON_API NamedArrays load_from_bytes(std::string_view bytes, const std::string& source = "bytes",
                                     const LoadOptions& options = {});

struct SaveOptions {
  bool compress = false;  // deflate, as numpy.savez_compressed
};

// Writes the file atomically, by zip64 where it is large. Blocks until the arrays are computed. Throws IoError,
// ValueError for undefined arrays and names that are empty, longer than 65531 bytes or twice there.
KAON_API void save(const std::filesystem::path& file, const NamedArrays& arrays, const SaveOptions& options = {});
KAON_API std::string save_to_bytes(const NamedArrays& arrays, const SaveOptions& options = {});

}  // namespace npz
}  // namespace kaon
