// That sequences of tokens fit into a network with a limited number of places.
#pragma once

#include <source_location>

#include "kaon/engine/api.h"
#include "kaon/gluon/block.h"

namespace KAON_API kaon {
namespace gluon::model_zoo::text::detail {

// Throw ShapeError unless tokens are (batch, length) with a length of at most `limit`, which the network calls
// `name`. Of a Symbol only where its shape is known; asking binds a trace to nothing.
void check_tokens(const char* network, const char* name, int64_t limit, const NDArray& tokens);
void check_tokens(const char* network, const char* name, int64_t limit, const Symbol& tokens);
// Makes `places`, cut from the network's by the tokens, say this where other tokens do not fit.
void name_limit(const char* network, const char* name, int64_t limit, const Symbol& places);
// As check_tokens before a call, whose trace may be older than these tokens: the error names the block and the site.
void check_tokens(const BlockNode& block, const std::source_location& site, const char* network, const char* name,
                  int64_t limit, const NDArray& tokens);

}  // namespace gluon::model_zoo::text::detail
}  // namespace kaon
