// CTC on CUDA: a block for each sequence, whose threads take the places of a step.
#include "kaon/ops/nn/rnn/kernels/ctc_paths.h"
#include "kaon/ops/nn/rnn/kernels/rnn_cuda.cuh"

namespace kaon {

using namespace ops;
namespace {

template <class T>
struct CtcCall {
  const T* log_probs;
  int64_t batch, classes, blank, most;  // most: labels of a row
  const int64_t *length, *counts, *labels;
  double* ways;  // (batch, steps + 2, places)
  int64_t steps;
  T *loss, *gradient;  // either may be null; the gradient is 0 before
};

template <class T>
__global__ void __launch_bounds__(cuda::block) ctc_kernel(CtcCall<T> c) {
  const int64_t all_places = 2 * c.most + 1;
  for (int64_t n = blockIdx.x; n < c.batch; n += gridDim.x) {
    const CtcPaths<T> p{c.log_probs + n * c.classes, c.batch * c.classes,  c.classes, c.blank, c.length[n],
                        2 * c.counts[n] + 1,         c.labels + n * c.most};
    double* const ways = c.ways + n * (c.steps + 2) * all_places;
    const bool fits = p.fits();
    for (int64_t t = 0; t < p.steps && fits; ++t) {
      double* const row = ways + t * p.places;
      for (int64_t place = threadIdx.x; place < p.places; place += blockDim.x) {
        row[place] = p.forward(t, place, row - p.places);
      }
      __syncthreads();
    }
    const double total = fits ? p.total(ways + (p.steps - 1) * p.places) : 0;
    __syncthreads();  // below the last step is written over
    if (threadIdx.x == 0 && c.loss) c.loss[n] = T(fits ? -total : 0);
    if (!fits || !c.gradient || total == ctc_never) continue;
    double* const after[2] = {ways + p.steps * p.places, ways + (p.steps + 1) * p.places};
    for (int64_t t = p.steps; t-- > 0;) {
      double *const now = after[t % 2], *const row = ways + t * p.places;
      for (int64_t place = threadIdx.x; place < p.places; place += blockDim.x) {
        now[place] = p.backward(t, place, after[(t + 1) % 2]);
        row[place] = ::exp(row[place] + now[place] - total);
      }
      __syncthreads();
      // the first place of each class adds up all of its class, in their order
      for (int64_t place = threadIdx.x; place < p.places; place += blockDim.x) {
        const int64_t k = p.class_of(place);
        bool is_first = k >= 0 && k < p.classes && (place % 2 == 1 || place == 0);
        if (k == p.blank && place > 0) is_first = false;
        for (int64_t i = 1; i < place && is_first; i += 2) is_first = p.class_of(i) != k;
        if (!is_first) continue;
        T sum = T(0);
        for (int64_t i = place; i < p.places; ++i) {
          if (p.class_of(i) == k) sum = T(double(sum) - row[i]);
        }
        c.gradient[n * p.classes + t * p.stride + k] = sum;
      }
      __syncthreads();
    }
  }
}

// The labels and their number, for each sequence.
template <class L>
struct ReadLabels {
  const L* label;
  int64_t most, padding;
  const int64_t* given;  // null: until the padding
  int64_t *labels, *counts;
  __device__ void operator()(int64_t n) const {
    counts[n] = read_labels(label + n * most, most, padding, given ? given[n] : int64_t(-1), labels + n * most);
  }
};

template <class T>
void losses(const op::CtcLossOfLogs& op, KernelContext& c) {
  const Shape &data = c.in(0).shape, &label = c.in(1).shape;
  const int64_t steps = data[0], batch = data[1], classes = data[2], most = label[1];
  if (batch == 0) return;
  const bool is_first = op.blank_label == BlankLabel::first;
  const int64_t* const length = device_lengths(c, op.use_data_lengths ? &c.in(2) : nullptr, batch, steps);
  const int64_t* const given = op.use_label_lengths ? device_lengths(c, &c.inputs.back(), batch, most) : nullptr;
  auto* const labels = cuda::take<int64_t>(c, batch * most);
  auto* const counts = cuda::take<int64_t>(c, batch);
  dispatch_all("labels", c.in(1).dtype, [&]<class L>() {
    cuda::for_each(c, batch,
                   ReadLabels<L>{c.in(1).as<L>(), most, is_first ? int64_t(0) : int64_t(-1), given, labels, counts});
  });
  if (c.out(1).data) cuda::zero_bytes(c, c.out(1).data, c.in(0).bytes());
  const CtcCall<T> call{c.in(0).as<T>(),
                        batch,
                        classes,
                        is_first ? 0 : classes - 1,
                        most,
                        length,
                        counts,
                        labels,
                        cuda::take<double>(c, batch * (steps + 2) * (2 * most + 1)),
                        steps,
                        c.out(0).as<T>(),
                        c.out(1).as<T>()};
  cuda::launch(c, ctc_kernel<T>, unsigned(std::min(batch, cuda::most_blocks)), unsigned(cuda::block), call);
}

}  // namespace

void run_cuda(const op::CtcLossOfLogs& op, KernelContext& c) {
  if (c.in(0).dtype == DType::float64) {
    losses<double>(op, c);
  } else {
    losses<float>(op, c);
  }
}

}  // namespace kaon
