// What operations derive from the bytes of a Chunk and keep for the next ones: weights in the layout of a primitive.
#pragma once

#include <memory>

#include "kaon/engine/buffer/chunk.h"
#include "kaon/engine/run_context.h"

namespace kaon {

struct Derived {
  virtual ~Derived() = default;
};

// What has been derived from the chunk's bytes and is_it(), else what make() gives; it is kept until the bytes are
// written, the Chunk dies or memory lacks. make() may give null, which is returned. Called by an operation that holds a
// read grant. Thread safety: any thread; two that derive the same at once both make it, and one of the two is kept.
std::shared_ptr<const Derived> derived_from(Chunk& chunk, FunctionRef<bool(const Derived&)> is_it,
                                            FunctionRef<std::shared_ptr<const Derived>()> make);

// Keeps nothing of what has been derived so far. Thread safety: any thread.
void drop_derived() noexcept;

}  // namespace kaon
