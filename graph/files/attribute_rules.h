// Which attributes in MXNet's texts are not the operator's, or make no difference here.
#pragma once

#include <string_view>

namespace kaon::graph {

// Of a node and no operator: __shape__, __lr_mult__.
bool is_hidden(std::string_view key);
// Such a one as old releases have it, of the node or of one of its inputs: lr_mult, weight_lr_mult.
bool ends_in_hidden_key(std::string_view key);

// Attributes that do not change results here: choices of other libraries, sizes of their scratch memory, storage of
// results and gradients.
bool may_be_ignored(std::string_view key, std::string_view value);

}  // namespace kaon::graph
