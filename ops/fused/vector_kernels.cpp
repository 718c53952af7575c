#include "kaon/ops/fused/vector_kernels.h"

#include <utility>

#include "kaon/engine/base/process_wide.h"

#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_SSE4)
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kaon/ops/fused/vector_kernels.cpp"
#include "hwy/foreach_target.h"
//
#include "hwy/cache_control.h"
#include "hwy/highway.h"
#include "kaon/ops/elementwise/kernels/binary_vector.h"
#include "kaon/ops/elementwise/kernels/select_vector.h"
#include "kaon/ops/elementwise/kernels/unary_vector.h"
#include "kaon/ops/operator/fused_forms.h"

HWY_BEFORE_NAMESPACE();
namespace kaon::ops::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;
namespace {

// Eight vectors: the calling convention passes them in registers, and they hide the latency of most operators.
using D = hn::CappedTag<float, max_block / 8>;
using V = hn::Vec<D>;
#define KAON_STEP_PARAMETERS const VectorStep *s, VectorFrame *f, V r0, V r1, V r2, V r3, V r4, V r5, V r6, V r7
#define KAON_REGISTERS r0, r1, r2, r3, r4, r5, r6, r7
using Step = void (*)(KAON_STEP_PARAMETERS);
// A jump where the compiler knows tail calls.
#define KAON_NEXT_STEP return reinterpret_cast<Step>(s[1].run)(s + 1, f, KAON_REGISTERS)

// Calls `body` with each register and the element of the block where it begins.
template <class F>
HWY_INLINE void each(const F& body, V& r0, V& r1, V& r2, V& r3, V& r4, V& r5, V& r6, V& r7) {
  const size_t n = hn::Lanes(D());
  body(r0, 0), body(r1, n), body(r2, 2 * n), body(r3, 3 * n);
  body(r4, 4 * n), body(r5, 5 * n), body(r6, 6 * n), body(r7, 7 * n);
}

void Load(KAON_STEP_PARAMETERS) {
  const float* from = f->at[s->operand[0]];
  each([&](V& r, size_t i) HWY_ATTR { r = hn::LoadU(D(), from + i); }, KAON_REGISTERS);
  KAON_NEXT_STEP;
}

void Store(KAON_STEP_PARAMETERS) {
  float* to = f->at[s->operand[0]];
  each([&](V& r, size_t i) HWY_ATTR { hn::StoreU(r, D(), to + i); }, KAON_REGISTERS);
  KAON_NEXT_STEP;
}

void StoreOutput(KAON_STEP_PARAMETERS) {
  float* to = f->at[s->operand[0]];
  if (f->stream) {
    each([&](V& r, size_t i) HWY_ATTR { hn::Stream(r, D(), to + i); }, KAON_REGISTERS);
  } else {
    each([&](V& r, size_t i) HWY_ATTR { hn::StoreU(r, D(), to + i); }, KAON_REGISTERS);
  }
  KAON_NEXT_STEP;
}

void Tile(KAON_STEP_PARAMETERS) {
  const float* in[] = {f->at[s->operand[0]], f->at[s->operand[1]], f->at[s->operand[2]]};
  float* to = f->at[s->result];
  s->tile(s->attrs, in, to, 8 * hn::Lanes(D()));
  each([&](V& r, size_t i) HWY_ATTR { r = hn::LoadU(D(), to + i); }, KAON_REGISTERS);
  KAON_NEXT_STEP;
}

void End(const VectorStep*, VectorFrame*, V, V, V, V, V, V, V, V) {}

// The forms of a functor that `make` gives for the numbers.
template <auto make>
void One(KAON_STEP_PARAMETERS) {
  const auto op = make(s->numbers);
  each([&](V& r, size_t) HWY_ATTR { r = op(D(), r); }, KAON_REGISTERS);
  KAON_NEXT_STEP;
}

template <auto make>
void Right(KAON_STEP_PARAMETERS) {
  const auto op = make(s->numbers);
  const float* m = f->at[s->operand[0]];
  each([&](V& r, size_t i) HWY_ATTR { r = op(D(), r, hn::LoadU(D(), m + i)); }, KAON_REGISTERS);
  KAON_NEXT_STEP;
}

template <auto make>
void Left(KAON_STEP_PARAMETERS) {
  const auto op = make(s->numbers);
  const float* m = f->at[s->operand[0]];
  each([&](V& r, size_t i) HWY_ATTR { r = op(D(), hn::LoadU(D(), m + i), r); }, KAON_REGISTERS);
  KAON_NEXT_STEP;
}

template <auto make>
void Three(KAON_STEP_PARAMETERS) {
  const auto op = make(s->numbers);
  const float *a = f->at[s->operand[0]], *b = f->at[s->operand[1]], *c = f->at[s->operand[2]];
  each([&](V& r, size_t i)
           HWY_ATTR { r = op(D(), hn::LoadU(D(), a + i), hn::LoadU(D(), b + i), hn::LoadU(D(), c + i)); },
       KAON_REGISTERS);
  KAON_NEXT_STEP;
}

template <class F>
HWY_INLINE F plain(const StepNumbers&) {
  return {};
}
template <class F>
HWY_INLINE F with_number(const StepNumbers& n) {
  return {n.first};
}
template <class F>
HWY_INLINE F with_bounds(const StepNumbers& n) {
  return {n.first, n.second};
}

template <auto make>
StepFn one() {
  return reinterpret_cast<StepFn>(&One<make>);
}
template <auto make>
RegisterForms two() {
  return {.right = reinterpret_cast<StepFn>(&Right<make>), .left = reinterpret_cast<StepFn>(&Left<make>)};
}

// A few instructions: as tiles they would cost more in memory than in arithmetic. The compiler warns of a kind that is
// in neither list.
constexpr bool is_cheap(UnaryKind k) {
  using U = UnaryKind;
  switch (k) {
    case U::relu:
    case U::sqrt:
    case U::rsqrt:
    case U::square:
    case U::abs:
    case U::sign:
    case U::negative:
    case U::reciprocal:
    case U::floor:
    case U::ceil:
    case U::round:
    case U::rint:
    case U::trunc:
    case U::fix:
    case U::softsign:
    case U::logical_not:
    case U::degrees:
    case U::radians:
    case U::identity:
    case U::stop_gradient:
    case U::zeros_like:
    case U::ones_like: return true;
    case U::sigmoid:
    case U::tanh:
    case U::exp:
    case U::log:
    case U::erf:
    case U::log1p:
    case U::expm1:
    case U::log2:
    case U::log10:
    case U::sin:
    case U::cos:
    case U::tan:
    case U::arcsin:
    case U::arccos:
    case U::arctan:
    case U::sinh:
    case U::cosh:
    case U::arcsinh:
    case U::arccosh:
    case U::arctanh:
    case U::cbrt:
    case U::rcbrt:
    case U::softrelu:
    case U::gelu:
    case U::gamma:
    case U::gammaln:
    case U::digamma:
    case U::erfinv: return false;
  }
  return false;
}
constexpr bool is_cheap(BinaryKind k) {
  using B = BinaryKind;
  switch (k) {
    case B::add:
    case B::sub:
    case B::mul:
    case B::div:
    case B::maximum:
    case B::minimum:
    case B::equal:
    case B::not_equal:
    case B::greater:
    case B::greater_equal:
    case B::lesser:
    case B::lesser_equal:
    case B::logical_and:
    case B::logical_or:
    case B::logical_xor: return true;
    case B::mod:
    case B::power:
    case B::hypot:
    case B::logaddexp: return false;
  }
  return false;
}

// A page ahead: where the processor's own prefetching stops.
HWY_INLINE void fetch_ahead(const float* p, size_t n) {
  constexpr size_t page = 4096, line = 64;
  const char* from = reinterpret_cast<const char*>(p) + page;
  for (size_t i = 0; i < n * sizeof(float); i += line) __builtin_prefetch(from + i);
}

void Run(const VectorStep* steps, VectorFrame& frame, size_t moving, size_t blocks) {
  const size_t block = 8 * hn::Lanes(D());
  const V zero = hn::Zero(D());
  const Step first = reinterpret_cast<Step>(steps->run);
  for (size_t b = 0; b < blocks; ++b) {
    for (size_t k = 0; k < frame.fetched; ++k) fetch_ahead(frame.at[k], block);
    first(steps, &frame, zero, zero, zero, zero, zero, zero, zero, zero);
    for (size_t k = 0; k < moving; ++k) frame.at[k] += block;
  }
}

VectorKernels make_kernels() {
  VectorKernels k;
  k.block = 8 * hn::Lanes(D());
  k.run = &Run;
  auto erased = [](Step step) { return reinterpret_cast<StepFn>(step); };
  RegisterKernels& r = k.registers;
  k.moves = {erased(&Load), erased(&Store), erased(&StoreOutput), erased(&Tile), erased(&End)};
  [&]<size_t... I>(std::index_sequence<I...>) {
    auto add = [&]<UnaryKind K>() {
      if constexpr (is_cheap(K)) r.unary[size_t(K)] = one<plain<UnaryVector<K>>>();
    };
    (add.template operator()<UnaryKind(I)>(), ...);
  }
  (std::make_index_sequence<size_t(unary_kinds)>());
  [&]<size_t... I>(std::index_sequence<I...>) {
    auto add = [&]<UnaryBackwardKind K>() {
      if constexpr (K != UnaryBackwardKind::gelu) {
        r.unary_backward[size_t(K)] = two<plain<UnaryBackwardVector<K>>>();
      }
    };
    (add.template operator()<UnaryBackwardKind(I)>(), ...);
  }
  (std::make_index_sequence<size_t(unary_backward_kinds)>());
  [&]<size_t... I>(std::index_sequence<I...>) {
    auto add = [&]<BinaryKind K>() {
      if constexpr (is_cheap(K)) r.binary[size_t(K)] = two<plain<BinaryVector<K>>>();
    };
    (add.template operator()<BinaryKind(I)>(), ...);
  }
  (std::make_index_sequence<size_t(binary_kinds)>());
  [&]<size_t... I>(std::index_sequence<I...>) {
    auto add = [&]<ScalarKind K>() {
      if constexpr (is_cheap(info(K).kind) && K != ScalarKind::smooth_l1) {
        r.scalar[size_t(K)] = one<with_number<ScalarVector<info(K).kind, info(K).reversed>>>();
      }
    };
    (add.template operator()<ScalarKind(I)>(), ...);
  }
  (std::make_index_sequence<size_t(scalar_kinds)>());
  r.scalar[size_t(ScalarKind::smooth_l1)] = one<with_number<SmoothL1Vector>>();
  r.root = one<plain<RootVector>>();
  r.clip = one<with_bounds<ClipVector>>();
  r.clip_backward = two<with_bounds<ClipBackwardVector>>();
  r.where = reinterpret_cast<StepFn>(&Three<plain<WhereVector>>);
  return k;
}

}  // namespace

VectorKernels Kernels() { return make_kernels(); }

}  // namespace kaon::ops::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace kaon::ops {

HWY_EXPORT(Kernels);

const VectorKernels& vector_kernels() {
  static constinit MadeOnce<const VectorKernels> kernels;
  return kernels.get([] { return new VectorKernels(HWY_DYNAMIC_DISPATCH(Kernels)()); });
}

}  // namespace kaon::ops
#endif  // HWY_ONCE
