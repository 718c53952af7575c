// Whether several failures are one event.
#pragma once

#include <span>

#include "kaon/engine/error.h"

namespace kaon::engine {

// Of one kind that says so (OneEvent), or all dropped with a stopped scope.
bool are_one_event(std::span<const IntrusivePtr<const OpError>> errors);

}  // namespace kaon::engine
