// The bytes of arrays, for files that are written.
#pragma once

#include <string>
#include <string_view>

#include "kaon/engine/run_context.h"
#include "kaon/ops/ndarray.h"
#include "kaon/ops/ndarray_file.h"

namespace kaon::interchange {

// Calls `use` with the array's elements, row-major, as they are when all writes pushed before have run; of an array on
// a GPU a copy. Blocks until it has returned; later writes wait for it. Throws the array's failure and what `use`
// throws.
void with_bytes(const NDArray& array, engine::FunctionRef<void(std::string_view)> use);

// Throws ValueError, naming `caller`, for an undefined array, an empty name and a name that is there twice.
void check_arrays(const NamedArrays& arrays, std::string_view caller);

// Whether the text is UTF-8, as RFC 3629 defines it.
bool is_utf8(std::string_view text);

// The elements of a strided array of `shape`, one after another, to `out`: element i of axis k is strides[k] elements
// of `element` bytes behind element i - 1. The caller has checked that all of them are there.
void gather(const char* first, const Shape& shape, const int64_t* strides, size_t element, char* out);

// Reverses the bytes of each element of `element` bytes.
void swap_bytes(char* data, size_t count, size_t element);

}  // namespace kaon::interchange
