// Float32 tiles of where, clip, its backward operator, and add_n.
#pragma once

#include "kaon/ops/math/tile.h"

namespace kaon::ops {

struct SelectTiles {
  TileFn where;          // inputs: condition, x, y
  TileFn clip;           // attrs: Clip
  TileFn clip_backward;  // attrs: ClipBackward; inputs: head, data
  TileFn add_n;          // attrs: AddN
};

// Thread safety: any thread.
const SelectTiles& select_tiles();

}  // namespace kaon::ops
