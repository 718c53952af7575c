// Attributes of operators as programs give them: names and texts, as Python's str() writes values.
#pragma once

#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "kaon/mxnet/table/operator_table.h"
#include "kaon/ops/operator/op_attributes.h"

namespace kaon::mxnet {

using Texts = std::span<const std::pair<std::string_view, std::string_view>>;
using OwnTexts = std::vector<std::pair<std::string_view, std::string_view>>;

// The two lists of a C function.
OwnTexts texts_of(int count, const char* const* keys, const char* const* values);

// The value of `key`; empty: it is not there.
std::string_view find_text(Texts texts, std::string_view key);

// Whether the attribute is not the operator's but a node's: __shape__, ctx_group, lr_mult ... Such ones are skipped
// below.
bool is_hidden_attribute(std::string_view key);

// The attributes of a call or of a node. Those that change no result here (workspace, cudnn_tune) are skipped, and so
// is every attribute of an operator that has none. `num_inputs` is what the operator's own count of inputs becomes
// where it is not given; -1: leave it. Throws ValueError, naming operator and attribute: Kaon has no such operator, a
// name that MXNet does not know or a value that Kaon does not support, a text that is no value, one that is missing.
ops::Attributes read_attributes(const OperatorInfo& info, Texts texts, int num_inputs = -1);

// Throws ValueError: the text is no value of the attribute.
[[noreturn]] void refuse_text(const OperatorInfo& info, std::string_view key, std::string_view text);

}  // namespace kaon::mxnet
