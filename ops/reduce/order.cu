// Rows in order on CUDA: a bitonic sort (Batcher 1968) of all rows at once, a kernel for each of its steps.
#include "kaon/ops/cuda/launch.cuh"
#include "kaon/ops/math/dispatch.h"
#include "kaon/ops/reduce/kernels/order_key.h"
#include "kaon/ops/reduce/reduce.h"

namespace kaon {

using namespace ops;
namespace {

// Entries of a row of x, padded to `width`, a power of two, by some that come after all others.
template <class T, class Entry>
struct MakeEntries {
  int64_t n, width;
  bool is_ascend;
  const T* x;
  Entry* entries;
  __device__ void operator()(int64_t i) const {
    const int64_t row = i / width, at = i % width;
    entries[i] = Entry(at < n ? order_key(x[row * n + at], is_ascend) : ~OrderKey<T>(0), uint32_t(at));
  }
};

// Pairs of entries `apart` from each other, in runs of `run` that rise and fall in turn.
template <class Entry>
struct OrderPairs {
  int64_t width, run, apart;
  Entry* entries;
  __device__ void operator()(int64_t i) const {
    const int64_t first = i / apart * 2 * apart + i % apart, second = first + apart;
    const bool rises = (first % width & run) == 0;
    const Entry a = entries[first], b = entries[second];
    if ((b < a) != rises) return;
    entries[first] = b;
    entries[second] = a;
  }
};

template <class T, class Entry>
struct TakeFirst {
  int64_t n, width, first, k;
  const T* x;
  const Entry* entries;
  T* values;
  int64_t* indices;
  __device__ void operator()(int64_t i) const {
    const int64_t row = i / k, at = entries[row * width + first + i % k].index();
    if (values) values[i] = x[row * n + at];
    if (indices) indices[i] = at;
  }
};

template <class T>
void order_rows(KernelContext& c, int64_t n, int64_t first, int64_t k, bool is_ascend) {
  using Entry = OrderEntry<OrderKey<T>>;
  const int64_t rows = c.in(0).size() / n;
  int64_t width = 1;
  while (width < n) width *= 2;
  auto* entries = static_cast<Entry*>(c.run.workspace(size_t(rows * width) * sizeof(Entry)));
  const T* x = c.in(0).as<const T>();
  cuda::for_each(c, rows * width, MakeEntries<T, Entry>{n, width, is_ascend, x, entries});
  for (int64_t run = 2; run <= width; run *= 2) {
    for (int64_t apart = run / 2; apart > 0; apart /= 2) {
      cuda::for_each(c, rows * width / 2, OrderPairs<Entry>{width, run, apart, entries});
    }
  }
  cuda::for_each(c, rows * k,
                 TakeFirst<T, Entry>{n, width, first, k, x, entries, c.out(0).as<T>(), c.out(1).as<int64_t>()});
}

}  // namespace

void run_cuda(const op::Order& op, KernelContext& c) {
  if (c.out(0).size() == 0) return;
  const int64_t n = c.in(0).shape.back(), k = c.out(0).shape.back();
  dispatch_number("_order", c.in(0).dtype, [&]<class T>() { order_rows<T>(c, n, op.first, k, op.is_ascend); });
}

}  // namespace kaon
