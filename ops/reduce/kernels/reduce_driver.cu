#include "kaon/ops/reduce/kernels/reduce.cuh"

namespace kaon::cuda {
namespace {

// C: sum (for all kinds of sums), prod, or max (for min too).
template <class A, Combine C>
struct Values {
  using Acc = A;
  using Fold = Values;
  Combine combine;
  Results results;

  __device__ A identity() const { return identity_of<A>(combine); }
  __device__ A merge(A a, A b) const {
    if constexpr (C == Combine::max) {
      return combine == Combine::max ? ops::merge(Combine::max, a, b) : ops::merge(Combine::min, a, b);
    } else {
      return ops::merge(C, a, b);
    }
  }
  // The term that an element adds.
  __device__ A term(A x) const {
    if constexpr (!std::numeric_limits<A>::is_integer && C != Combine::max) {
      if (combine == Combine::nan_sum || combine == Combine::nan_prod) return x == x ? x : identity();
      if (combine == Combine::sum_abs) return ::fabs(x);
      if (combine == Combine::sum_squares) return x * x;
    }
    return x;
  }
  template <class T>
  __device__ void put(int64_t k, A value) const {
    static_cast<T*>(results.data)[k] = T(accumulate_t<T>(value));
  }
  __device__ void store(int64_t k, A acc) const {
    if constexpr (std::numeric_limits<A>::is_integer) {
      switch (results.dtype) {  // by width: integers wrap
        case DType::uint64:
        case DType::int64: return put<int64_t>(k, acc);
        case DType::uint32:
        case DType::int32: return put<int32_t>(k, acc);
        case DType::uint16:
        case DType::int16: return put<int16_t>(k, acc);
        default: return put<int8_t>(k, acc);
      }
    } else {
      A value = results.divisor == 1 ? acc : acc / A(results.divisor);
      if (results.root) value = ::sqrt(value);
      switch (results.dtype) {
        case DType::float64: return put<double>(k, value);
        case DType::float16: return put<float16>(k, value);
        case DType::bfloat16: return put<bfloat16>(k, value);
        default: return put<float>(k, value);
      }
    }
  }
};

template <class T, class A, Combine C>
struct Elements : Values<A, C> {
  static constexpr int pack = 16 / sizeof(T);
  const T* data;
  __device__ A add(A acc, int64_t at, int64_t, int64_t) const { return this->merge(acc, this->term(A(data[at]))); }
  bool packs() const { return is_aligned<pack>(data); }
  __device__ Pack<T, pack> load(int64_t at) const { return *reinterpret_cast<const Pack<T, pack>*>(data + at); }
  __device__ A add_pack(A acc, int64_t at, int64_t) const {
    const auto x = load(at);
#pragma unroll
    for (int i = 0; i < pack; ++i) acc = this->merge(acc, this->term(A(x.v[i])));
    return acc;
  }
  __device__ void add_across(A (&acc)[pack], int64_t at, int64_t) const {
    const auto x = load(at);
#pragma unroll
    for (int i = 0; i < pack; ++i) acc[i] = this->merge(acc[i], this->term(A(x.v[i])));
  }
};

template <class T, class A>
void reduce_as(KernelContext& c, Combine combine, const T* data, std::span<const ReduceDim> dims,
               const Results& results) {
  const auto as = [&]<Combine C>() { reduce(c, Elements<T, A, C>{{combine, results}, data}, dims); };
  switch (combine) {
    case Combine::prod:
    case Combine::nan_prod: return as.template operator()<Combine::prod>();
    case Combine::max:
    case Combine::min: return as.template operator()<Combine::max>();
    default: return as.template operator()<Combine::sum>();
  }
}

}  // namespace

void reduce_dims(KernelContext& c, Combine combine, const TensorView& in, std::span<const ReduceDim> dims, bool wide,
                 const Results& results) {
  wide |= combine == Combine::sum_abs || combine == Combine::sum_squares;
  // max and min tell signed from unsigned integers, sums and products do not
  const bool is_extreme = combine == Combine::max || combine == Combine::min;
  const DType dtype = is_extreme ? in.dtype : as_signed(in.dtype);
  dispatch_number("reduce", dtype, [&]<class T>() {
    if constexpr (is_unsigned(dtype_of<T>)) {
      reduce(c, Elements<T, wide_t<T>, Combine::max>{{combine, results}, in.as<T>()}, dims);
    } else if constexpr (!is_floating(dtype_of<T>)) {
      reduce_as<T, int64_t>(c, combine, in.as<T>(), dims, results);
    } else if constexpr (std::is_same_v<T, double>) {
      reduce_as<T, double>(c, combine, in.as<T>(), dims, results);
    } else if (wide) {  // of sums only
      reduce(c, Elements<T, double, Combine::sum>{{combine, results}, in.as<T>()}, dims);
    } else {
      reduce_as<T, float>(c, combine, in.as<T>(), dims, results);
    }
  });
}

}  // namespace kaon::cuda
