#include "kaon/ops/elementwise/cast.h"

#include <algorithm>
#include <cstring>

#include "kaon/ops/dispatch.h"
#include "kaon/ops/elementwise/pointwise.h"
#include "kaon/ops/elementwise/scalar_math.h"
#include "kaon/ops/functions.h"

namespace kaon {
namespace {

template <class To, class From>
To convert(From v) {
  if constexpr (std::is_same_v<To, bool>) {
    return v != From(0);
  } else if constexpr (std::is_floating_point_v<From> && std::is_integral_v<To>) {
    if (v >= From(-2147483648.0) && v < From(2147483648.0)) return To(int32_t(v));
    return from_number<To>(double(v));
  } else {
    return To(v);
  }
}

template <class To, class From>
void convert_run(const From* from, To* to, size_t n) {
  for (size_t i = 0; i < n; ++i) to[i] = convert<To, From>(from[i]);
}

void widen(DType dtype, const void* from, float* to, size_t n) {
  (dtype == DType::float16 ? float16_to_float32 : bfloat16_to_float32)(from, to, n);
}
void narrow(DType dtype, const float* from, void* to, size_t n) {
  (dtype == DType::float16 ? float32_to_float16 : float32_to_bfloat16)(from, to, n);
}

template <class T>
inline constexpr bool is_half = std::is_same_v<T, float16> || std::is_same_v<T, bfloat16>;

// A tile of one dtype to another; 16-bit floats go through float32.
template <class To, class From>
void convert_tile(const From* from, To* to, size_t n) {
  if constexpr (is_half<From>) {
    float wide[pointwise_tile];
    widen(dtype_of<From>, from, wide, n);
    convert_tile<To, float>(wide, to, n);
  } else if constexpr (is_half<To>) {
    if constexpr (std::is_same_v<From, float>) {
      narrow(dtype_of<To>, from, to, n);
    } else {
      float wide[pointwise_tile];
      convert_run<float, From>(from, wide, n);
      narrow(dtype_of<To>, wide, to, n);
    }
  } else {
    convert_run<To, From>(from, to, n);
  }
}

}  // namespace

constinit const OpDef Cast::def = make_op_def<Cast>();

void Cast::infer(InferContext& c) const {
  if (!is_valid(dtype)) c.fail_value("unknown dtype");
  c.set_output(c.shape(0), dtype);
}

void Cast::grad(GradContext& g) const {
  if (g.wants(0)) g.set(0, nd.cast(g.head(), g.input(0).dtype()));
}

void run_cpu(const Cast&, KernelContext& c) {
  const TensorView &in = c.in(0), &out = c.out();
  if (in.dtype == out.dtype) {
    const size_t width = size_of(in.dtype);
    c.run.parallel_for(in.size(), pointwise_grain, [&](int64_t begin, int64_t end) {
      std::memcpy(out.as<char>() + size_t(begin) * width, in.as<char>() + size_t(begin) * width,
                  size_t(end - begin) * width);
    });
    return;
  }
  dispatch_all("Cast", in.dtype, [&]<class From>() {
    dispatch_all("Cast", out.dtype, [&]<class To>() {
      c.run.parallel_for(in.size(), pointwise_grain, [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; i += int64_t(pointwise_tile)) {
          convert_tile<To, From>(in.as<From>() + i, out.as<To>() + i,
                                 std::min(pointwise_tile, size_t(end - i)));
        }
      });
    });
  });
}

}  // namespace kaon
