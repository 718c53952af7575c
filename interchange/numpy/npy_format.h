// The npy format inside of other bytes.
#pragma once

#include <optional>
#include <string>

#include "kaon/engine/run_context.h"
#include "kaon/interchange/file/file_bytes.h"
#include "kaon/interchange/numpy_files.h"

namespace kaon::interchange {

struct NpyDType {
  DType dtype;
  bool is_swapped;  // big-endian
};
// Of a text such as "<f4"; nothing for a dtype that Kaon lacks.
std::optional<NpyDType> npy_dtype(std::string_view text);

// Reads the header in [at, end). Throws IoError.
npy::Header read_npy_header(const FileBytes& file, uint64_t at, uint64_t end);
// The bytes of the elements. Throws IoError where those that the header in [at, end) announces are not all that follow.
uint64_t expect_npy_bytes(const FileBytes& file, uint64_t at, uint64_t end, const npy::Header& header, DType dtype);
// The array in [at, end), whose bytes must be all of them. Throws IoError.
NDArray read_npy(const FileBytes& file, uint64_t at, uint64_t end);
// Calls `sink` with the header and the elements, as they are when all writes pushed before have run. Blocks until it
// has returned; later writes wait for it.
void write_npy(const NDArray& array, const npy::SaveOptions& options,
               engine::FunctionRef<void(std::string_view header, std::string_view elements)> sink);
// Throws ValueError.
void check_npy(const NDArray& array, const npy::SaveOptions& options);

}  // namespace kaon::interchange
