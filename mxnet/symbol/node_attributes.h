// Attributes of nodes as programs name them.
#pragma once

#include <string>
#include <string_view>

namespace kaon::mxnet {

// The key under which an attribute of an operator or a variable is kept: "lr_mult" is kept as "__lr_mult__". Throws
// ValueError for "weight_lr_mult", which is an attribute of the variable `weight`.
std::string stored_key(std::string_view key, std::string_view value);

}  // namespace kaon::mxnet
