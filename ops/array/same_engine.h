// Check that all arrays of an operation belong to one engine.
#pragma once

#include "kaon/engine/buffer/buffer.h"

namespace kaon::ops {

// Throws StateError when one of the two engines has ended, else DeviceError.
[[noreturn]] void throw_other_engine(const Buffer& a, const Buffer& b, const char* op);

inline void check_same_engine(const Buffer& a, const Buffer& b, const char* op) {
  if (!(a.engine == b.engine)) [[unlikely]]
    throw_other_engine(a, b, op);
}

}  // namespace kaon::ops
