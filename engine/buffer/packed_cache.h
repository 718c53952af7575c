// Data that operations derive from a Buffer and keep for later ones, such as weights in the layout of a primitive.
#pragma once

#include <memory>

#include "kaon/engine/buffer/buffer.h"
#include "kaon/engine/run_context.h"

namespace kaon::engine {

struct PackedData {
  virtual ~PackedData() = default;
};

// Returns the kept object for which is_it() is true, else the result of make(), which is kept until the buffer is
// written or destroyed, or memory is short. make() may return null. Called by an operation that holds a read grant.
// Thread safety: any thread; two threads that need the same object at once both make it, and one of the two is kept.
std::shared_ptr<const PackedData> find_or_pack(Buffer& buffer, FunctionRef<bool(const PackedData&)> is_it,
                                               FunctionRef<std::shared_ptr<const PackedData>()> make);

// Drops the kept objects of all buffers, or of one. Thread safety: any thread.
void drop_packed() noexcept;
void drop_packed(const Buffer& buffer) noexcept;

}  // namespace kaon::engine
