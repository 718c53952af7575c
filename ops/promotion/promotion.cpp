#include "kaon/ops/promotion/promoted_call.h"

#include <algorithm>

#include "kaon/ops/elementwise/elementwise.h"
#include "kaon/ops/linalg/linalg.h"
#include "kaon/ops/numeric/numeric.h"
#include "kaon/ops/op_def.h"
#include "kaon/ops/statistics/statistics.h"

namespace kaon {

using namespace ops;

namespace {

// Among integers of different sign.
DType mixed_sign(DType with_sign, DType without_sign) {
  const size_t width = std::max(size_of(with_sign), 2 * size_of(without_sign));
  switch (width) {
    case 2: return DType::int16;
    case 4: return DType::int32;
    case 8: return DType::int64;
    default: return DType::float64;
  }
}

}  // namespace

DType result_type(DType a, DType b) {
  if (a == b) return a;
  if (a == DType::boolean || b == DType::boolean) return a == DType::boolean ? b : a;
  if (is_floating(a) != is_floating(b)) return is_floating(a) ? a : b;
  if (size_of(a) != size_of(b) && (is_floating(a) || is_unsigned(a) == is_unsigned(b))) {
    return size_of(a) > size_of(b) ? a : b;
  }
  if (is_floating(a)) return DType::float32;  // float16 and bfloat16
  return is_unsigned(a) ? mixed_sign(b, a) : mixed_sign(a, b);
}

}  // namespace kaon

namespace kaon::ops {

namespace {

using namespace op;

// Those that refuse two arrays of different dtypes: what promotes is otherwise an error, so that promotion changes no
// program that runs without it.
constexpr const OpDef* promoting[] = {&BroadcastAdd::def,
                                      &BroadcastSub::def,
                                      &BroadcastMul::def,
                                      &BroadcastDiv::def,
                                      &BroadcastMod::def,
                                      &BroadcastPower::def,
                                      &BroadcastMaximum::def,
                                      &BroadcastMinimum::def,
                                      &BroadcastHypot::def,
                                      &LogAddExp::def,
                                      &BroadcastEqual::def,
                                      &BroadcastNotEqual::def,
                                      &BroadcastGreater::def,
                                      &BroadcastGreaterEqual::def,
                                      &BroadcastLesser::def,
                                      &BroadcastLesserEqual::def,
                                      &BroadcastLogicalAnd::def,
                                      &BroadcastLogicalOr::def,
                                      &BroadcastLogicalXor::def,
                                      &CompareEqual::def,
                                      &CompareNotEqual::def,
                                      &CompareGreater::def,
                                      &CompareGreaterEqual::def,
                                      &CompareLess::def,
                                      &CompareLessEqual::def,
                                      &BitwiseAnd::def,
                                      &BitwiseOr::def,
                                      &BitwiseXor::def,
                                      &LeftShift::def,
                                      &RightShift::def,
                                      &Lcm::def,
                                      &Arctan2::def,
                                      &Copysign::def,
                                      &Fmod::def,
                                      &Fmax::def,
                                      &Fmin::def,
                                      &Ldexp::def,
                                      &FloorDivide::def,
                                      &IsClose::def,
                                      &AllClose::def,
                                      &Dot::def,
                                      &BatchDot::def,
                                      &Matmul::def,
                                      &Tensordot::def,
                                      &TensordotIntAxes::def,
                                      &Outer::def,
                                      &Kron::def};

}  // namespace

uint32_t promoted_inputs(const OpDef& def) {
  if (&def == &Where::def || &def == &BroadcastWhere::def) return 0b110;
  return std::find(std::begin(promoting), std::end(promoting), &def) != std::end(promoting) ? 0b11 : 0;
}

}  // namespace kaon::ops
