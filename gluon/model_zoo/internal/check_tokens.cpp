#include "kaon/gluon/model_zoo/internal/check_tokens.h"

#include <fmt/format.h>

#include "kaon/graph/ir/symbol_node.h"

namespace kaon::gluon::model_zoo::text::detail {
namespace {

std::string demand(const char* network, const char* name, int64_t limit) {
  return fmt::format("[{}] a sequence is longer than {}: expected at most {} tokens", network, name, limit);
}

void check(const char* network, const char* name, int64_t limit, const Shape& tokens) {
  if (tokens.ndim() != 2) {
    throw ShapeError(fmt::format("[{}] tokens: expected (batch, length), got {}", network, tokens.str()));
  }
  if (tokens[1] > limit) {
    throw ShapeError(fmt::format("{}, got {}: tokens {}", demand(network, name, limit), tokens[1], tokens.str()));
  }
}

}  // namespace

void check_tokens(const char* network, const char* name, int64_t limit, const NDArray& tokens) {
  check(network, name, limit, tokens.shape());
}

void check_tokens(const char* network, const char* name, int64_t limit, const Symbol& tokens) {
  const Shape& shape = tokens.entry().node->outputs[tokens.entry().output].shape;
  if (shape.is_known()) check(network, name, limit, shape);
}

void name_limit(const char* network, const char* name, int64_t limit, const Symbol& places) {
  places.entry().node->demand = std::make_shared<const std::string>(demand(network, name, limit));
}

void check_tokens(const BlockNode& block, const std::source_location& site, const char* network, const char* name,
                  int64_t limit, const NDArray& tokens) {
  try {
    check(network, name, limit, tokens.shape());
  } catch (...) {
    gluon::detail::rethrow_with_call(block, site);
  }
}

}  // namespace kaon::gluon::model_zoo::text::detail
