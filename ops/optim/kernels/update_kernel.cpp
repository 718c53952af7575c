#include "kaon/ops/optim/kernels/update_kernel.h"

#include <algorithm>
#include <limits>

#include "kaon/ops/math/dispatch.h"

#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_SSE4)  // two vector targets build in half the time
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kaon/ops/optim/kernels/update_kernel.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "kaon/ops/math/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace kaon::ops::HWY_NAMESPACE {
namespace {

// A vector of elements.
template <class D>
struct Elements {
  using T = hn::TFromD<D>;
  hn::Vec<D> v;

  Elements() = default;
  HWY_INLINE Elements(hn::Vec<D> vector) : v(vector) {}
  HWY_INLINE explicit Elements(double value) : v(hn::Set(D(), T(value))) {}

  friend HWY_INLINE Elements operator+(Elements a, Elements b) { return hn::Add(a.v, b.v); }
  friend HWY_INLINE Elements operator-(Elements a, Elements b) { return hn::Sub(a.v, b.v); }
  friend HWY_INLINE Elements operator*(Elements a, Elements b) { return hn::Mul(a.v, b.v); }
  friend HWY_INLINE Elements operator/(Elements a, Elements b) { return hn::Div(a.v, b.v); }
  friend HWY_INLINE Elements operator-(Elements a) { return hn::Neg(a.v); }
  friend HWY_INLINE Elements fma(Elements a, Elements b, Elements c) { return hn::MulAdd(a.v, b.v, c.v); }
  friend HWY_INLINE Elements nfma(Elements a, Elements b, Elements c) { return hn::NegMulAdd(a.v, b.v, c.v); }
  friend HWY_INLINE Elements root(Elements a) { return hn::Sqrt(a.v); }
  friend HWY_INLINE Elements magnitude(Elements a) { return hn::Abs(a.v); }
  friend HWY_INLINE Elements sign(Elements a) {
    const auto one = hn::CopySign(hn::Set(D(), T(1)), a.v);
    return hn::IfThenElse(hn::Gt(hn::Abs(a.v), hn::Zero(D())), one, a.v);  // 0 and NaN stay
  }
  friend HWY_INLINE Elements larger(Elements a, Elements b) {
    return hn::IfThenElse(hn::IsNaN(a.v), a.v, hn::IfThenElse(hn::Gt(a.v, b.v), a.v, b.v));
  }
  friend HWY_INLINE Elements bounded(Elements a, Elements least, Elements most) {
    return hn::IfThenElse(hn::IsNaN(a.v), a.v, hn::Max(hn::Min(a.v, most.v), least.v));
  }
  friend HWY_INLINE Elements nonzero_ratio(Elements a, Elements b) {
    return hn::IfThenZeroElse(hn::Eq(b.v, hn::Zero(D())), hn::Div(a.v, b.v));
  }
  friend HWY_INLINE Elements zero_unless_larger(Elements a, Elements bound, Elements other) {
    return hn::IfThenZeroElse(hn::Le(hn::Abs(a.v), bound.v), other.v);
  }
  friend HWY_INLINE Elements without_denormals(Elements a) {
    const auto least = hn::Set(D(), std::numeric_limits<T>::min());
    return hn::IfThenZeroElse(hn::Lt(hn::Abs(a.v), least), a.v);
  }
};

#define KAON_UPDATE_INLINE HWY_INLINE
#include "kaon/ops/optim/kernels/update_formulas.h"
#undef KAON_UPDATE_INLINE

constexpr int num_arrays = UpdateTensor::first_state + max_update_states;  // those of a formula

// Elements [0, n) at `p`, in whole vectors: what is behind n is computed too, but not summed up.
template <UpdateKind kind, class T>
void update_vectors(const UpdateConstants<Elements<Lane<T>>>& c, T* const* p, size_t n, double* sums) {
  using V = Elements<Lane<T>>;
  constexpr UpdateTraits traits = traits_of(kind);
  const Lane<T> d;
  const size_t lanes = hn::Lanes(d);
  V total[2] = {V(0), V(0)};
  UpdateElements<V> e;
  for (size_t i = 0; i < n; i += lanes) {
    e.weight = hn::LoadU(d, p[UpdateTensor::weight] + i);
    e.grad = hn::LoadU(d, p[UpdateTensor::grad] + i);
    for (int k = 0; k < traits.states; ++k) e.state[k] = hn::LoadU(d, p[UpdateTensor::first_state + k] + i);
    if constexpr (traits.sums) e.sum[0] = e.sum[1] = V(0);
    update_elements<kind>(c, e);
    if constexpr (traits.writes_weight) hn::StoreU(e.weight.v, d, p[UpdateTensor::weight] + i);
    if constexpr (traits.writes_states) {
      for (int k = 0; k < traits.states; ++k) hn::StoreU(e.state[k].v, d, p[UpdateTensor::first_state + k] + i);
    }
    if constexpr (traits.sums) {
      const auto counted = hn::FirstN(d, std::min(n - i, lanes));
      for (int k = 0; k < 2; ++k) total[k] = total[k] + V(hn::IfThenElseZero(counted, e.sum[k].v));
    }
  }
  if constexpr (traits.sums) {
    for (int k = 0; k < 2; ++k) sums[k] += double(hn::GetLane(hn::SumOfLanes(d, total[k].v)));
  }
}

template <class From, class To>
void convert_vectors(const From* from, To* to, size_t n) {
  const Lane<From> d;
  const size_t lanes = hn::Lanes(d);
  size_t i = 0;
  for (; i + lanes <= n; i += lanes) store(d, load(d, from + i), to + i);
  if (i < n) store_n(d, load_n(d, from + i, n - i), to + i, n - i);
}

// From elements of an array to numbers, and back.
template <class T>
void read_elements(const void* array, DType dtype, int64_t at, T* to, size_t n) {
  if (dtype == dtype_of<T>) {
    memcpy(to, static_cast<const T*>(array) + at, n * sizeof(T));
  } else if constexpr (std::is_same_v<T, float>) {
    if (dtype == DType::float16) return convert_vectors(static_cast<const float16*>(array) + at, to, n);
    convert_vectors(static_cast<const bfloat16*>(array) + at, to, n);
  }
}
template <class T>
void write_elements(const T* from, void* array, DType dtype, int64_t at, size_t n) {
  if (dtype == dtype_of<T>) {
    memcpy(static_cast<T*>(array) + at, from, n * sizeof(T));
  } else if constexpr (std::is_same_v<T, float>) {
    if (dtype == DType::float16) return convert_vectors(from, static_cast<float16*>(array) + at, n);
    convert_vectors(from, static_cast<bfloat16*>(array) + at, n);
  }
}

// One weight, in tiles: arrays of other elements than T, and ends that fill no vector, go by way of buffers.
template <class T>
struct Update {
  static constexpr size_t tile = 256;
  const UpdateRule& rule;
  const UpdateTensor& t;
  UpdateTraits traits = traits_of(rule.kind);
  UpdateConstants<Elements<Lane<T>>> constants{rule, t.numbers};
  bool is_direct = true;

  Update(const UpdateRule& rule, const UpdateTensor& t) : rule(rule), t(t) {
    for (int k = 0; k < UpdateTensor::first_state + traits.states; ++k)
      is_direct = is_direct && dtype(k) == dtype_of<T>;
  }

  // Array k as formulas have it: the weight is the float32 copy, where there is one.
  int index(int k) const {
    return k == UpdateTensor::weight && t.arrays[UpdateTensor::master] ? UpdateTensor::master : k;
  }
  DType dtype(int k) const { return t.dtypes[index(k)]; }
  bool is_written(int k) const {
    return k == UpdateTensor::weight ? traits.writes_weight : k != UpdateTensor::grad && traits.writes_states;
  }

  template <UpdateKind kind>
  void run(int64_t begin, int64_t end, double* sums) const {
    const int64_t lanes = int64_t(hn::Lanes(Lane<T>()));
    while (begin < end) {
      const int64_t rest = end - begin, whole = rest / lanes * lanes;
      const int64_t n = is_direct && whole > 0 ? whole : std::min(rest, int64_t(tile));
      run_tile<kind>(begin, size_t(n), n % lanes == 0, sums);
      begin += n;
    }
  }

  template <UpdateKind kind>
  void run_tile(int64_t at, size_t n, bool whole, double* sums) const {
    HWY_ALIGN T buffers[num_arrays][tile];
    T* p[num_arrays];
    for (int k = 0; k < UpdateTensor::first_state + traits.states; ++k) {
      if (whole && dtype(k) == dtype_of<T>) {
        p[k] = static_cast<T*>(t.arrays[index(k)]) + at;
      } else {
        p[k] = buffers[k];
        const size_t padded = std::min(tile, n + hn::MaxLanes(Lane<T>()));
        std::fill(p[k] + n, p[k] + padded, T(0));
        read_elements(t.arrays[index(k)], dtype(k), at, p[k], n);
      }
    }
    update_vectors<kind, T>(constants, p, n, sums);
    for (int k = 0; k < UpdateTensor::first_state + traits.states; ++k) {
      if (is_written(k) && p[k] == buffers[k]) write_elements(p[k], t.arrays[index(k)], dtype(k), at, n);
    }
    if (traits.writes_weight && t.arrays[UpdateTensor::master]) {
      write_elements(p[0], t.arrays[UpdateTensor::weight], t.dtypes[UpdateTensor::weight], at, n);
    }
  }
};

template <class T>
void update_typed(const UpdateRule& rule, const UpdateTensor& t, int64_t begin, int64_t end, double* sums) {
  const Update<T> update(rule, t);
  with_update_kind(rule.kind, [&]<UpdateKind kind>() {
    for (int64_t block = begin; block < end; ++block) {
      double* const own = sums + 2 * (traits_of(kind).sums ? block - begin : 0);
      update.template run<kind>(block * update_block, std::min(t.size, (block + 1) * update_block), own);
    }
  });
}

void UpdateBlocks(const UpdateRule& rule, const UpdateTensor& t, int64_t begin, int64_t end, double* sums) {
  t.is_double() ? update_typed<double>(rule, t, begin, end, sums) : update_typed<float>(rule, t, begin, end, sums);
}

}  // namespace
}  // namespace kaon::ops::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace kaon::ops {

HWY_EXPORT(UpdateBlocks);

void update_blocks(const UpdateRule& rule, const UpdateTensor& tensor, int64_t begin, int64_t end, double* sums) {
  HWY_DYNAMIC_DISPATCH(UpdateBlocks)(rule, tensor, begin, end, sums);
}

}  // namespace kaon::ops
#endif  // HWY_ONCE
