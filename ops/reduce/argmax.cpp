#include "kaon/ops/reduce/reduce.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "kaon/ops/math/dispatch.h"
#include "kaon/ops/op_def.h"
#include "kaon/ops/reduce/kernels/axes.h"
#include "kaon/ops/reduce/kernels/reduce_kernels.h"

namespace kaon {

using namespace ops;

constinit const OpDef op::ArgMax::def = make_op_def<op::ArgMax>();
constinit const OpDef op::ArgMin::def = make_op_def<op::ArgMin>();
constinit const OpDef op::ArgMaxChannel::def = make_op_def<op::ArgMaxChannel>();

namespace {

// The largest n so that a dtype holds 0 to n.
int64_t largest_index(DType dtype) {
  return dispatch_all("argmax", dtype, []<class T>() -> int64_t {
    if constexpr (is_floating(dtype_of<T>)) {
      return int64_t(1) << (std::is_same_v<T, bfloat16>  ? 8
                            : std::is_same_v<T, float16> ? 11
                            : std::is_same_v<T, float>   ? 24
                                                         : 53);
    } else {
      return int64_t(std::min<uint64_t>(std::numeric_limits<T>::max(), INT64_MAX));
    }
  });
}

void infer_arg(InferContext& c, std::optional<int> axis, bool keepdims) {
  const Shape& shape = c.shape(0);
  const int ndim = shape.ndim();
  const uint32_t mask = axis ? bit(normalize_axis(*axis, ndim, c.op())) : (1u << ndim) - 1;
  expect_elements(c, mask);
  const DType dtype = c.dtype() == DType::boolean ? DType::float32 : c.dtype();
  const int64_t n = axis ? shape[normalize_axis(*axis, ndim, c.op())] : shape.size();
  if (n - 1 > largest_index(dtype)) {
    c.fail(fmt::format("dtype {} does not hold the indices of {} elements of data {}; use cast", name_of(dtype), n,
                       shape.str()));
  }
  c.set_output(reduced_shape(shape, mask, keepdims), dtype);
}

// Exact: infer has seen to it.
template <class Out>
Out index_as(int64_t k) {
  return Out(accumulate_t<Out>(k));
}

// One run: the vectorised reduction finds the value, a scan its first place.
template <Combine C, class T, class Acc>
int64_t find_in_run(const RunKernels& kernels, const T* x, int64_t n) {
  if (n < 32) {
    int64_t best = 0;
    Acc value = Acc(x[0]);
    for (int64_t k = 1; k < n; ++k) {  // without branches: the maximum's position cannot be predicted
      const Acc v = Acc(x[k]);
      const bool better = beats<C>(v, value);
      best = better ? k : best;
      value = better ? v : value;
    }
    return best;
  }
  Acc value;
  kernels.runs(x, size_t(n), 1, 0, &value);
  int64_t k = 0;
  if (value != value) {
    while (Acc(x[k]) == Acc(x[k])) ++k;
  } else {
    while (Acc(x[k]) != value) ++k;
  }
  return k;
}

template <Combine C>
void run_arg(KernelContext& c, std::optional<int> axis, const char* name) {
  constexpr int64_t piece = 1 << 15;
  const TensorView& in = c.in(0);
  const Shape& shape = in.shape;
  int64_t outer = 1, n = shape.size(), inner = 1;
  if (axis) {
    const int a = normalize_axis(*axis, shape.ndim(), name);
    outer = shape.product(0, a), n = shape[a], inner = shape.product(a + 1, shape.ndim());
  }
  if (outer * n * inner == 0) return;
  const RunKernels kernels = run_kernels(in.dtype, C);
  dispatch_all(name, in.dtype, [&]<class T>() {
    using Acc = wide_t<T>;
    using Out = std::conditional_t<std::is_same_v<T, bool>, float, T>;
    const T* x = in.as<T>();
    Out* out = c.out().as<Out>();
    if (inner == 1 && outer == 1 && n > piece) {  // pieces first, then the first of the best pieces
      const int64_t pieces = (n + piece - 1) / piece;
      int64_t* best = static_cast<int64_t*>(c.run.workspace(size_t(pieces) * sizeof(int64_t)));
      c.run.parallel_for(n, piece, [&](int64_t begin, int64_t end) {
        best[begin / piece] = begin + find_in_run<C, T, Acc>(kernels, x + begin, end - begin);
      });
      int64_t winner = best[0];
      for (int64_t i = 1; i < pieces; ++i) {
        if (beats<C>(Acc(x[best[i]]), Acc(x[winner]))) winner = best[i];
      }
      out[0] = index_as<Out>(winner);
    } else if (inner == 1) {
      c.run.parallel_for(outer, std::max<int64_t>(1, piece / n), [&](int64_t o, int64_t end) {
        for (; o < end; ++o) out[o] = index_as<Out>(find_in_run<C, T, Acc>(kernels, x + o * n, n));
      });
    } else {
      const int64_t buffer = std::min<int64_t>(inner, 256), buffers = (inner + buffer - 1) / buffer;
      c.run.parallel_for(outer * buffers, std::max<int64_t>(1, piece / (n * buffer)), [&](int64_t i, int64_t end) {
        Acc best[256];
        for (; i < end; ++i) {
          const int64_t o = i / buffers, column = i % buffers * buffer, columns = std::min(buffer, inner - column);
          const T* p = x + o * n * inner + column;
          Out* index = out + o * inner + column;
          for (int64_t j = 0; j < columns; ++j) best[j] = Acc(p[j]), index[j] = Out(0);
          for (int64_t k = 1; k < n; ++k) {
            const Out at = index_as<Out>(k);
            for (int64_t j = 0; j < columns; ++j) {
              const Acc v = Acc(p[k * inner + j]);
              if (beats<C>(v, best[j])) best[j] = v, index[j] = at;
            }
          }
        }
      });
    }
  });
}

}  // namespace

void op::ArgMax::infer(InferContext& c) const { infer_arg(c, axis, keepdims); }
void op::ArgMin::infer(InferContext& c) const { infer_arg(c, axis, keepdims); }
void op::ArgMaxChannel::infer(InferContext& c) const {
  c.expect_ndim_at_least(0, 2);
  infer_arg(c, 1, false);
}

void run_cpu(const op::ArgMax& op, KernelContext& c) { run_arg<Combine::max>(c, op.axis, "argmax"); }
void run_cpu(const op::ArgMin& op, KernelContext& c) { run_arg<Combine::min>(c, op.axis, "argmin"); }
void run_cpu(const op::ArgMaxChannel&, KernelContext& c) { run_arg<Combine::max>(c, 1, "argmax_channel"); }

}  // namespace kaon
