#include "kaon/ops/elementwise/tile.h"

#include <unordered_map>
#include <utility>

#include "kaon/ops/elementwise/add_n.h"
#include "kaon/ops/elementwise/binary.h"
#include "kaon/ops/elementwise/binary_kernels.h"
#include "kaon/ops/elementwise/scalar.h"
#include "kaon/ops/elementwise/select.h"
#include "kaon/ops/elementwise/select_kernels.h"
#include "kaon/ops/elementwise/unary.h"
#include "kaon/ops/elementwise/unary_kernels.h"

namespace kaon {
namespace {

using TileMap = std::unordered_map<const OpDef*, TileFn>;

template <int n, class F>
void for_each_index(F&& f) {
  [&]<int... I>(std::integer_sequence<int, I...>) {
    (f.template operator()<I>(), ...);
  }(std::make_integer_sequence<int, n>());
}

TileMap make_map() {
  TileMap map;
  for_each_index<unary_kinds>([&]<int I>() {
    map.emplace(&Unary<UnaryKind(I)>::def, unary_kernels(UnaryKind(I)).float32);
  });
  for_each_index<unary_backward_kinds>([&]<int I>() {
    map.emplace(&UnaryBackward<UnaryBackwardKind(I)>::def, unary_backward_kernels(UnaryBackwardKind(I)).float32);
  });
  for_each_index<binary_kinds>([&]<int I>() {
    map.emplace(&Binary<BinaryKind(I)>::def, binary_kernels(BinaryKind(I)).float32);
  });
  for_each_index<scalar_kinds>([&]<int I>() {
    map.emplace(&Scalar<ScalarKind(I)>::def, scalar_kernels(ScalarKind(I)).float32);
  });
  map.emplace(&Where::def, select_tiles().where);
  map.emplace(&Clip::def, select_tiles().clip);
  map.emplace(&ClipBackward::def, select_tiles().clip_backward);
  map.emplace(&AddN::def, select_tiles().add_n);
  return map;
}

}  // namespace

TileFn float32_tile(const OpDef& def) {
  static const TileMap map = make_map();
  const auto found = map.find(&def);
  return found == map.end() ? nullptr : found->second;
}

}  // namespace kaon
