// Runs a program again and again, each time with another allocation that fails.
#pragma once

#include <functional>
#include <new>
#include <string>
#include <vector>

#include "allocations.h"
#include "kaon/engine/error.h"

namespace kaon::test {

// Whether the call throws for want of memory; any other exception leaves it.
template <class F>
bool lacks_memory(F&& f) {
  try {
    f();
    return false;
  } catch (const MemoryError&) {
    return true;
  } catch (const std::bad_alloc&) {
    return true;
  } catch (const AggregateError&) {
    return true;
  }
}

// Results are compared bit for bit.
using Results = std::vector<float>;

struct FaultOptions {
  int most = 60;  // allocations tried, spread over all; 0: every one
  std::vector<Lack> lacks{Lack::one, Lack::from_then_on};
  // Called after an attempt that has failed: what must be as it was. Throws what is wrong.
  std::function<void()> check_unchanged{};
};

// `program` makes what it needs, computes and waits; it lets go of everything. For each allocation that fails, alone or
// with all after it, it must either end with the right results or throw MemoryError or std::bad_alloc (or an aggregate
// of these); after that the same program passes with the right results, and in the end nothing more is alive than
// before.
void survives(const std::string& name, const std::function<Results()>& program, const FaultOptions& options = {});

}  // namespace kaon::test
