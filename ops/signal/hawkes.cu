#include "kaon/ops/cuda/launch.cuh"
#include "kaon/ops/math/dispatch.h"
#include "kaon/ops/signal/kernels/hawkes.h"
#include "kaon/ops/signal/signal.h"

namespace kaon {

using namespace ops;
namespace {

template <class F>
void in_float_or_double(const char* op, DType dtype, const F& f) {
  if (dtype == DType::float32) return f.template operator()<float>();
  if (dtype == DType::float64) return f.template operator()<double>();
  fail_unsupported_dtype(op, dtype);
}

}  // namespace

void run_cuda(const op::HawkesLL&, KernelContext& c) {
  in_float_or_double("_contrib_hawkesll", c.in(0).dtype, [&]<class T>() {
    const auto array = [&](int output) {
      return static_cast<T*>(output > 0 && c.out(output).data ? c.out(output).data : c.run.workspace(c.in(0).bytes()));
    };
    cuda::for_each(c, c.in(0).shape[0], HawkesForward<T>{hawkes_call<T>(c), c.out(0).as<T>(), array(1), array(0)});
  });
}

void run_cuda(const op::BackwardHawkesLL&, KernelContext& c) {
  in_float_or_double("_backward_hawkesll", c.in(0).dtype, [&]<class T>() {
    const auto array = [&] { return static_cast<T*>(c.run.workspace(c.in(0).bytes())); };
    const auto result = [&](int i) { return c.out(i).data ? c.out(i).as<T>() : array(); };
    cuda::for_each(c, c.in(0).shape[0],
                   HawkesBackward<T>{hawkes_call<T>(c), result(0), result(1), result(2), array(), array(), array()});
  });
}

}  // namespace kaon
