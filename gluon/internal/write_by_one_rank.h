// write_by_one_rank: files of a program of several ranks, each written once.
#pragma once

#include <exception>
#include <functional>

#include "kaon/gluon/internal/gradient_buckets.h"

namespace kaon::gluon::detail {

// Rank 0 calls `write`; without ranks this process does. Returns on each rank when the file is there. Throws on rank 0
// what `write` throws, on the others IoError then; CommError where a rank is gone, so that none waits for ever. Where
// one had gone before the call the file stays as it was: the last update may have failed with it.
inline void write_by_one_rank(const GradientBuckets* ranks, const std::function<void()>& write) {
  if (!ranks) return write();
  ranks->ranks().barrier().wait_to_read();
  std::exception_ptr failure;
  if (ranks->ranks().rank() == 0) {
    try {
      write();
    } catch (...) {
      failure = std::current_exception();
    }
  }
  const bool has_failed = ranks->on_any({bool(failure)})[0];
  if (failure) std::rethrow_exception(failure);
  if (has_failed) throw IoError("rank 0 could not write the file");
}

}  // namespace kaon::gluon::detail
