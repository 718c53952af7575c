// Float32 tiles of where, clip, its backward operator, and add_n, per instruction set.
#include "kaon/ops/elementwise/kernels/select_kernels.h"

#include "kaon/ops/elementwise/elementwise.h"

#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_SSE4)
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kaon/ops/elementwise/kernels/select_kernels.cpp"
#include "hwy/foreach_target.h"
//
#include "hwy/highway.h"
#include "kaon/ops/elementwise/kernels/select_vector.h"
#include "kaon/ops/elementwise/kernels/tile_loop.h"

HWY_BEFORE_NAMESPACE();
namespace kaon::ops::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;
namespace vm = kaon::ops::math::HWY_NAMESPACE;

void WhereTile(const void*, const float* const* in, float* out, size_t n) {
  vm::tile_loop<3>(in, out, n, WhereVector{});
}

void ClipTile(const void* attrs, const float* const* in, float* out, size_t n) {
  const op::Clip& op = *static_cast<const op::Clip*>(attrs);
  vm::tile_loop<1>(in, out, n, ClipVector{float(op.a_min), float(op.a_max)});
}

void ClipBackwardTile(const void* attrs, const float* const* in, float* out, size_t n) {
  const op::ClipBackward& op = *static_cast<const op::ClipBackward*>(attrs);
  vm::tile_loop<2>(in, out, n, ClipBackwardVector{float(op.a_min), float(op.a_max)});
}

struct AddVector {
  template <class D, class V>
  HWY_INLINE V operator()(D, V a, V b) const {
    return hn::Add(a, b);
  }
};

// One register sum per vector, over all inputs in their order.
void AddTile(const void* attrs, const float* const* in, float* out, size_t n) {
  const int inputs = static_cast<const op::AddN*>(attrs)->num_args;
  if (inputs == 2) return vm::tile_loop<2>(in, out, n, AddVector{});
  const hn::ScalableTag<float> d;
  size_t i = 0;
  for (; i + hn::Lanes(d) <= n; i += hn::Lanes(d)) {
    auto sum = hn::LoadU(d, in[0] + i);
    for (int k = 1; k < inputs; ++k) sum = hn::Add(sum, hn::LoadU(d, in[k] + i));
    hn::StoreU(sum, d, out + i);
  }
  for (; i < n; ++i) {
    float sum = in[0][i];
    for (int k = 1; k < inputs; ++k) sum += in[k][i];
    out[i] = sum;
  }
}

const SelectTiles* Tiles() {
  static constexpr SelectTiles tiles{&WhereTile, &ClipTile, &ClipBackwardTile, &AddTile};
  return &tiles;
}

}  // namespace kaon::ops::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace kaon::ops {

HWY_EXPORT(Tiles);

const SelectTiles& select_tiles() { return *HWY_DYNAMIC_DISPATCH(Tiles)(); }

}  // namespace kaon::ops
#endif  // HWY_ONCE
