// MemoryPlan: the memory of each value of a graph; values that are never alive together share it.
#pragma once

#include <string>
#include <vector>

#include "kaon/graph/ir/graph.h"

namespace kaon::graph {

enum class Place : uint8_t { arena, input, output, constant };

struct ValueSlot {
  Place place = Place::arena;
  uint32_t index = 0;  // of the input or output; of the node for constants
  size_t offset = 0;   // in the arena
  size_t bytes = 0;
  uint32_t first = 0, last = 0;  // nodes between which the memory is in use
  ValueId root{};  // the value that owns the memory: itself, or the one it is a view or in-place result of
};

// How it works. Node numbers are the time axis: a value lives from its node to its last user, views and in-place
// results extending their root's life. Inputs, constants and outputs have arrays of their own. The other values are in
// one arena: the largest first, each at the lowest offset (64-byte aligned) that is free during its life. An operator
// with traits.inplace takes over its input's memory when that input dies there. Values of nodes that run in parallel
// are alive as long as any of these nodes runs, except between nodes of one group.
struct MemoryPlan {
  std::vector<std::vector<ValueSlot>> slots;  // by node and output
  size_t arena_bytes = 0;
  size_t unplanned_bytes = 0;  // the sum of the sizes of the values in the arena

  // By node, for those that run in parallel: between which nodes it may run, and its group, whose nodes run in order.
  struct Time {
    uint32_t earliest, latest;
    uint32_t group = 0;  // 0: a group of one
  };
  std::vector<Time> times;

  const ValueSlot& slot(ValueId v) const { return slots[v.node][v.output]; }
  // When the memory of a value is in use.
  struct Life {
    uint32_t first, last;                 // nodes
    uint32_t earliest, latest;            // where these may run
    uint32_t group;                       // of both; 0 where they are of none or of two
    bool meets(const Life& other) const;  // at the same time, perhaps
  };
  Life life(const ValueSlot& root) const;  // a value that owns its memory
  // One line per value in the arena, then peak and saving.
  std::string report(const Graph& graph) const;
  // A picture for a file .svg: node numbers across, bytes up, one block for each value in the arena, with names and
  // numbers where the pointer rests.
  std::string svg(const Graph& graph) const;
  // Throws Error when two values that are alive together overlap.
  void check(const Graph& graph) const;
};

MemoryPlan plan_memory(const Graph& graph);

}  // namespace kaon::graph
