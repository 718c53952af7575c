// isnan, isinf, isfinite, isposinf and isneginf.
#include <algorithm>

#include "kaon/ops/elementwise/kernels/pointwise.h"
#include "kaon/ops/math/dispatch.h"
#include "kaon/ops/numeric/kernels/bits_value.h"
#include "kaon/ops/numeric/numeric.h"
#include "kaon/ops/op_def.h"

namespace kaon {

using namespace ops;

template <NumberKind K>
constinit const OpDef op::IsKind<K>::def = make_op_def<op::IsKind<K>>();

template struct op::IsKind<NumberKind::nan>;
template struct op::IsKind<NumberKind::infinite>;
template struct op::IsKind<NumberKind::finite>;
template struct op::IsKind<NumberKind::positive_infinite>;
template struct op::IsKind<NumberKind::negative_infinite>;

void ops::run_number_kind(NumberKind kind, KernelContext& c) {
  const TensorView& x = c.in(0);
  bool* const out = c.out().as<bool>();
  c.run.parallel_for(x.size(), pointwise_grain, [&](int64_t begin, int64_t end) {
    if (!is_floating(x.dtype)) return void(std::fill(out + begin, out + end, kind == NumberKind::finite));
    dispatch_width(x.dtype, [&]<class T>() {
      const BitRange<T> range = bit_range(kind, T(infinity_bits(x.dtype)));
      const T* const in = x.as<const T>();
      for (int64_t i = begin; i < end; ++i) out[i] = range(in[i]);
    });
  });
}

}  // namespace kaon
