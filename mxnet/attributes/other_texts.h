// Attributes whose texts MXNet reads in another way than Kaon's operators do.
#pragma once

#include <map>
#include <string>

#include "kaon/mxnet/attributes/attributes.h"

namespace kaon::mxnet {

// The texts that Kaon's operator is to get in place of given ones, by name.
std::map<std::string_view, std::string> other_texts(const OperatorInfo& info, Texts texts);

// A program gives addresses of its functions as texts. An operator gets a number for it instead, so that a file cannot
// name an address. nullptr: the text is no such number.
void* address_of(std::string_view text);

}  // namespace kaon::mxnet
