// How the results of operators are stored, as MXNet infers it.
#pragma once

#include <optional>
#include <span>

#include "kaon/mxnet/attributes/attributes.h"
#include "kaon/mxnet/handle/sparse_array.h"

namespace kaon::mxnet {

// Of the first result; `inputs`: how the inputs are stored. The other results are dense. Throws ValueError for a text
// that is no storage.
ops::StorageType result_storage(const OperatorInfo& info, Texts texts, std::span<const ops::StorageType> inputs);

// Whether the first result stores the same elements as the first input, which is sparse, zeros included.
bool keeps_pattern(const OperatorInfo& info, std::span<const ops::StorageType> inputs);

// The storage that an attribute names; nothing: it names none. Throws ValueError.
std::optional<ops::StorageType> named_storage(const OperatorInfo& info, Texts texts, std::string_view key);

}  // namespace kaon::mxnet
