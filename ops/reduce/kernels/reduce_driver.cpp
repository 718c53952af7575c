#include "kaon/ops/reduce/kernels/reduce_driver.h"

#include <algorithm>
#include <array>

namespace kaon::ops {

namespace {

constexpr int64_t kPiece = reduce_piece;
constexpr int64_t kRun = reduce_run;
constexpr int64_t kWidth = 512;  // columns that one task accumulates: they stay in L1
constexpr int64_t kRows = 64;    // rows added up in registers
constexpr int64_t kMaxDims = 16;

constexpr int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

// The offsets along one kind of dimension (kept or reduced), without the innermost dimension.
struct Walk {
  std::array<int64_t, kMaxDims> sizes{}, strides{};
  int ndim = 0;
  int64_t count = 1;

  void add(int64_t size, int64_t stride) {
    sizes[size_t(ndim)] = size, strides[size_t(ndim)] = stride, count *= size, ++ndim;
  }
  int64_t offset(int64_t index) const {
    int64_t sum = 0;
    for (int i = ndim - 1; i > 0; --i) {
      sum += index % sizes[size_t(i)] * strides[size_t(i)];
      index /= sizes[size_t(i)];
    }
    return ndim ? sum + index * strides[0] : 0;
  }
  int64_t inner_size() const { return ndim ? sizes[size_t(ndim - 1)] : 1; }
  int64_t inner_stride() const { return ndim ? strides[size_t(ndim - 1)] : 0; }
};

template <class Acc>
struct Reduction {
  RunContext& run;
  Combine combine;
  RunKernels kernels;
  const char* data;
  size_t width;  // bytes per element
  StoreResults store;
  Walk kept{}, reduced{};

  const char* at(int64_t element) const { return data + size_t(element) * width; }

  // The innermost dimension, of n elements, is reduced.
  void inner(int64_t n) {
    const int64_t blocks = ceil_div(n, kRun), units = reduced.count * blocks;
    if (units == 1 && kept.ndim <= 1) return short_runs(n);
    const int64_t per_group = std::max<int64_t>(1, kPiece / std::min(n, kRun)), groups = ceil_div(units, per_group);
    if (groups == 1) {
      run.parallel_for(kept.count, std::max<int64_t>(1, kPiece / (reduced.count * n)), [&](int64_t o, int64_t end) {
        for (; o < end; ++o) {
          const Acc acc = reduce_units(kept.offset(o), n, blocks, 0, units);
          store(o, 1, &acc);
        }
      });
      return;
    }
    Acc* partial = static_cast<Acc*>(run.workspace(size_t(kept.count * groups) * sizeof(Acc)));
    run.parallel_for(kept.count * groups, 1, [&](int64_t i, int64_t end) {
      for (; i < end; ++i) {
        const int64_t first = i % groups * per_group;
        partial[i] = reduce_units(kept.offset(i / groups), n, blocks, first, std::min(units, first + per_group));
      }
    });
    run.parallel_for(kept.count, std::max<int64_t>(1, 4096 / groups), [&](int64_t o, int64_t end) {
      for (; o < end; ++o) {
        Pairwise<Acc> sum(combine);
        for (int64_t g = 0; g < groups; ++g) sum.push(partial[o * groups + g]);
        const Acc acc = sum.result();
        store(o, 1, &acc);
      }
    });
  }

  void short_runs(int64_t n) {
    run.parallel_for(kept.count, std::max<int64_t>(1, kPiece / n), [&](int64_t o, int64_t end) {
      Acc acc[256];
      for (; o < end; o += 256) {
        const int64_t count = std::min<int64_t>(256, end - o);
        kernels.runs(at(o * n), size_t(n), size_t(count), size_t(n), acc);
        store(o, count, acc);
      }
    });
  }

  // Units are blocks of the runs that belong to one result, numbered over the outer reduced dimensions.
  Acc reduce_units(int64_t base, int64_t n, int64_t blocks, int64_t first, int64_t last) const {
    Pairwise<Acc> sum(combine);
    Acc acc[64];
    while (first < last) {
      int64_t count = 1;
      if (blocks == 1) {
        const int64_t left = reduced.inner_size() - first % reduced.inner_size();
        count = std::min({int64_t(64), last - first, left});
        kernels.runs(at(base + reduced.offset(first)), size_t(n), size_t(count), size_t(reduced.inner_stride()), acc);
      } else {
        const int64_t begin = first % blocks * kRun;
        const char* p = at(base + reduced.offset(first / blocks) + begin);
        kernels.runs(p, size_t(std::min(kRun, n - begin)), 1, 0, acc);
      }
      for (int64_t i = 0; i < count; ++i) sum.push(acc[i]);
      first += count;
    }
    return sum.result();
  }

  // The innermost dimension, of k elements, is kept; the one before it is reduced and so has stride k.
  void outer(int64_t k) {
    const int64_t inner_rows = reduced.inner_size(), rows = reduced.count;
    const int64_t buffer = std::min(k, kWidth), buffers = ceil_div(k, buffer);
    // Short rows: several consecutive rows are accumulated as one, and folded at the end.
    const int64_t fold = k <= 256 ? std::clamp<int64_t>(256 / k, 1, inner_rows) : 1;
    const int64_t per_group = std::max(kRows, kPiece / buffer), groups = ceil_div(rows, per_group);
    Acc* partial = nullptr;
    if (groups > 1) partial = static_cast<Acc*>(run.workspace(size_t(kept.count * groups * k) * sizeof(Acc)));
    const int64_t cost = buffer * std::min(rows, per_group);
    run.parallel_for(kept.count * groups * buffers, std::max<int64_t>(1, kPiece / cost), [&](int64_t i, int64_t end) {
      Acc acc[kWidth];
      for (; i < end; ++i) {
        const int64_t column = i % buffers * buffer, g = i / buffers % groups, o = i / buffers / groups;
        const int64_t columns = std::min(buffer, k - column);
        std::fill_n(acc, columns * fold, identity_of<Acc>(combine));
        const int64_t last = std::min(rows, (g + 1) * per_group);
        for (int64_t r = g * per_group; r < last;) {
          const int64_t count = std::min(last - r, inner_rows - r % inner_rows);
          const int64_t base = kept.offset(o) + reduced.offset(r) + column;
          add_rows(base, k, columns, count, fold, acc);
          r += count;
        }
        for (int64_t f = 1; f < fold; ++f) {
          for (int64_t j = 0; j < columns; ++j) acc[j] = merge(combine, acc[j], acc[f * columns + j]);
        }
        if (partial) {
          std::copy_n(acc, columns, partial + (o * groups + g) * k + column);
        } else {
          store(o * k + column, columns, acc);
        }
      }
    });
    if (!partial) return;
    run.parallel_for(
        kept.count * buffers, std::max<int64_t>(1, kPiece / (groups * buffer)), [&](int64_t i, int64_t end) {
          for (; i < end; ++i) {
            const int64_t column = i % buffers * buffer, o = i / buffers, columns = std::min(buffer, k - column);
            Acc* first = partial + o * groups * k + column;
            for (int64_t step = 1; step < groups; step *= 2) {
              for (int64_t g = 0; g + step < groups; g += 2 * step) {
                Acc *a = first + g * k, *b = a + step * k;
                for (int64_t j = 0; j < columns; ++j) a[j] = merge(combine, a[j], b[j]);
              }
            }
            store(o * k + column, columns, first);
          }
        });
  }

  // `count` rows of stride k: first as rows of fold * k elements, then the rest.
  void add_rows(int64_t base, int64_t k, int64_t columns, int64_t count, int64_t fold, Acc* acc) const {
    int64_t wide = count / fold;
    for (int64_t r = 0; r < wide; r += kRows) {
      const int64_t n = std::min(kRows, wide - r);
      kernels.rows(at(base + r * fold * k), size_t(columns * fold), size_t(n), size_t(k * fold), acc);
    }
    const int64_t rest = count - wide * fold;  // fewer than fold: side by side, a shorter row
    if (rest) kernels.rows(at(base + wide * fold * k), size_t(columns * rest), 1, 0, acc);
  }

  void identities(int64_t outputs) {
    Acc acc[256];
    std::fill_n(acc, 256, identity_of<Acc>(combine));
    for (int64_t o = 0; o < outputs; o += 256) store(o, std::min<int64_t>(256, outputs - o), acc);
  }

  void execute(std::span<const ReduceDim> dims) {
    // Neighbours of one kind become one dimension; dimensions of 1 vanish.
    ReduceDim merged[kMaxDims];
    int n = 0;
    int64_t outputs = 1, inputs = 1;
    for (const ReduceDim& d : dims) {
      inputs *= d.size;
      if (!d.reduced) outputs *= d.size;
      if (d.size == 1) continue;
      if (n > 0 && merged[n - 1].reduced == d.reduced) {
        merged[n - 1].size *= d.size;
      } else {
        merged[n++] = d;
      }
    }
    if (inputs == 0) return identities(outputs);
    if (n == 0) merged[n++] = {1, true};
    int64_t strides[kMaxDims], stride = 1;
    for (int i = n - 1; i >= 0; --i) strides[i] = stride, stride *= merged[i].size;
    for (int i = 0; i < n - 1; ++i) (merged[i].reduced ? reduced : kept).add(merged[i].size, strides[i]);
    if (merged[n - 1].reduced) {
      inner(merged[n - 1].size);
    } else {
      outer(merged[n - 1].size);
    }
  }
};

}  // namespace

void reduce_dims(RunContext& run, Combine combine, const void* data, DType dtype, std::span<const ReduceDim> dims,
                 StoreResults store) {
  const RunKernels kernels = run_kernels(dtype, combine);
  auto execute = [&]<class Acc>(Acc) {
    Reduction<Acc>{run, combine, kernels, static_cast<const char*>(data), size_of(dtype), store}.execute(dims);
  };
  switch (kernels.acc) {
    case AccType::f32: return execute(float());
    case AccType::f64: return execute(double());
    case AccType::i64: return execute(int64_t());
    case AccType::u64: return execute(uint64_t());
  }
}

}  // namespace kaon::ops
