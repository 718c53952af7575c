#include "kaon/ops/cuda/index.cuh"
#include "kaon/ops/cuda/launch.cuh"
#include "kaon/ops/kernels/index_list.cuh"
#include "kaon/ops/nn/attention/kernels/rotary_call.h"

namespace kaon {

using namespace ops;
namespace {

// A thread turns one pair of all rows that share a position, or copies two numbers behind the pairs.
template <class T>
struct TurnPair {
  RotarySizes s;
  const void* positions;  // null: 0, 1, 2 ...
  DType dtype;
  const T* x;
  T* y;
  __device__ void operator()(int64_t i) const {
    using A = accumulate_t<T>;
    const int64_t half = (s.dim + 1) / 2, k = i % half, step = i / half, t = step % s.length, sample = step / s.length;
    const int64_t rest = 2 * k;  // of numbers that are not turned
    double sine = 0, cosine = 1;
    if (k < s.pairs) {
      const double p =
          s.offset + (positions ? cuda::with_element(positions, dtype, step, cuda::ToNumber()) : double(t));
      sine = ::sin(p * s.frequency(k)), cosine = ::cos(p * s.frequency(k));
    }
    for (int64_t row = 0; row < s.inner; ++row) {
      const int64_t at = ((sample * s.inner + row) * s.length + t) * s.dim;
      if (k < s.pairs) {
        const int64_t one = at + s.first_of(k), two = at + s.second_of(k);
        const A a = A(x[one]), b = A(x[two]);
        y[one] = T(a * A(cosine) - b * A(sine));
        y[two] = T(a * A(sine) + b * A(cosine));
      } else {
        y[at + rest] = x[at + rest];
        if (rest + 1 < s.dim) y[at + rest + 1] = x[at + rest + 1];
      }
    }
  }
};

}  // namespace

void run_cuda(const op::RotaryEmbedding& op, KernelContext& c) {
  if (c.out().size() == 0) return;
  const TensorView* const given = op.use_positions ? &c.in(1) : nullptr;
  const RotarySizes s(op, c.in(0).shape, given ? &given->shape : nullptr);
  dispatch_float("rotary_embedding", c.in(0).dtype, [&]<class T>() {
    cuda::for_each(c, s.samples * s.length * ((s.dim + 1) / 2),
                   TurnPair<T>{s, given ? given->data : nullptr, given ? given->dtype : DType::float32, c.in(0).as<T>(),
                               c.out().as<T>()});
  });
}

}  // namespace kaon
