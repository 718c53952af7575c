#include "kaon/ops/optim/optim.h"

#include <atomic>
#include <cmath>

#include "kaon/ops/math/dispatch.h"
#include "kaon/ops/op_def.h"

namespace kaon {

using namespace ops;

constinit const OpDef op::AllFinite::def = make_op_def<op::AllFinite>();

void op::AllFinite::infer(InferContext& c) const {
  for (int i = 0; i < c.num_inputs(); ++i) c.expect_floating(i);
  c.set_output(Shape(1), DType::float32);
}

void run_cpu(const op::AllFinite&, KernelContext& c) {
  std::atomic<bool> finite{true};
  for (const TensorView& x : c.inputs) {
    dispatch_float("_kaon_all_finite", x.dtype, [&]<class T>() {
      c.run.parallel_for(x.size(), 65536, [&](int64_t begin, int64_t end) {
        // 0 * x is 0 for finite x and NaN for the others; a sum without branches runs as vectors
        accumulate_t<T> sum = 0;
        for (int64_t i = begin; i < end; ++i) sum += accumulate_t<T>(x.as<T>()[i]) * 0;
        if (std::isnan(sum)) finite.store(false, std::memory_order_relaxed);
      });
    });
  }
  c.out().as<float>()[0] = finite ? 1.0f : 0.0f;
}

}  // namespace kaon
