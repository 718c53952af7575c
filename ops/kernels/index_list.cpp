#include "kaon/ops/kernels/index_list.h"

#include <algorithm>
#include <atomic>
#include <cstring>

#include <fmt/format.h>

#include "kaon/ops/math/index_range.h"
#include "kaon/ops/math/runs.h"

namespace kaon::ops {

namespace {

constexpr int64_t move_grain = 1 << 15;  // elements that one task moves

}  // namespace

const int64_t* load_indices(KernelContext& c, const TensorView& indices, int64_t n, IndexMode mode, const char* op) {
  const int64_t count = indices.size();
  if (indices.dtype == DType::int64) {  // most often these are the positions, whatever the mode
    std::atomic<bool> within = true;
    c.run.parallel_for(count, move_grain, [&](int64_t begin, int64_t end) {
      if (!all_within(indices.as<const int64_t>() + begin, size_t(end - begin), n)) within = false;
    });
    if (within) return indices.as<const int64_t>();
  }
  int64_t* out = static_cast<int64_t*>(c.run.workspace(size_t(std::max<int64_t>(1, count)) * sizeof(int64_t)));
  dispatch_all(op, indices.dtype, [&]<class T>() {
    const T* in = indices.as<T>();
    c.run.parallel_for(count, move_grain, [&](int64_t j, int64_t end) {
      for (; j < end; ++j) {
        out[j] = position_of(to_index(in[j]), n, mode);
        if (out[j] < 0) {
          throw IndexError(fmt::format("[{}] index {} at position {} is outside an axis of size {}", op,
                                       double(accumulate_t<T>(in[j])), j, n));
        }
      }
    });
  });
  return out;
}

namespace {

// Slices of so few elements are added one after the other, each in memory: sorting their indices would cost more.
constexpr int64_t kShort = 8;

// As integers wrap.
template <class T>
T plus(T a, T b) {
  return T(sum_t<T>(a) + sum_t<T>(b));
}

template <class T>
void add_in_turn(KernelContext& c, const int64_t* positions, int64_t count, int64_t rows, int64_t outer, int64_t inner,
                 const T* from, T* to, const T* data) {
  c.run.parallel_for(outer, std::max<int64_t>(1, move_grain / ((count + rows) * inner)), [&](int64_t o, int64_t end) {
    for (; o < end; ++o) {
      T* const slices = to + o * rows * inner;
      const T* const added = from + o * count * inner;
      std::fill_n(slices, rows * inner, T(0));
      if (inner == 1) {
        for (int64_t j = 0; j < count; ++j) slices[positions[j]] = plus(slices[positions[j]], added[j]);
      } else {
        for (int64_t j = 0; j < count; ++j) {
          T* const slice = slices + positions[j] * inner;
          for (int64_t i = 0; i < inner; ++i) slice[i] = plus(slice[i], added[j * inner + i]);
        }
      }
      if (!data) continue;
      const T* const own = data + o * rows * inner;
      for (int64_t i = 0; i < rows * inner; ++i) slices[i] = plus(own[i], slices[i]);
    }
  });
}

template <class T>
void add_slices(const T* a, const T* b, T* to, int64_t n) {
  if constexpr (std::is_same_v<T, float>) {
    add_runs(to, a, b, size_t(n));
  } else {
    for (int64_t i = 0; i < n; ++i) to[i] = T(a[i] + b[i]);
  }
}

// One row of floats, each of which is the sum of these slices, in order; then that of `data`, if there is one.
template <class T, class Slice>
void add_row(int64_t k, int64_t end, const Slice& slice, const T* data, T* row, int64_t n) {
  if (k == end) {
    for (int64_t i = 0; i < n; ++i) row[i] = T(data[i] + T(0));
  } else if (end - k == 1) {
    if (data) return add_slices(data, slice(k), row, n);
    copy_run(row, slice(k), size_t(n) * sizeof(T));
  } else {
    add_slices(slice(k), slice(k + 1), row, n);
    for (k += 2; k < end; ++k) add_slices(row, slice(k), row, n);
    if (data) add_slices(data, row, row, n);
  }
}

}  // namespace

void scatter_add(KernelContext& c, const int64_t* positions, int64_t count, int64_t rows, int64_t outer, int64_t inner,
                 const void* src, void* dst, DType dtype, const void* data) {
  if (outer * rows * inner == 0) return;
  if (inner <= kShort && dtype != DType::float16 && dtype != DType::bfloat16) {
    return dispatch_all("scatter_add", dtype, [&]<class T>() {
      if constexpr (std::is_same_v<T, accumulate_t<T>>) {
        add_in_turn(c, positions, count, rows, outer, inner, static_cast<const T*>(src), static_cast<T*>(dst),
                    static_cast<const T*>(data));
      }
    });
  }
  // Counting sort: the contributions of row r are order[start[r]] .. order[start[r + 1]], in index order.
  int64_t* start = static_cast<int64_t*>(c.run.workspace(size_t(rows + 2 + count) * sizeof(int64_t)));
  int64_t* order = start + rows + 2;
  std::fill_n(start, rows + 2, 0);
  for (int64_t j = 0; j < count; ++j) ++start[positions[j] + 2];
  for (int64_t r = 0; r < rows; ++r) start[r + 2] += start[r + 1];
  for (int64_t j = 0; j < count; ++j) order[start[positions[j] + 1]++] = j;
  dispatch_signed("scatter_add", dtype, [&]<class T>() {
    using Acc = sum_t<T>;
    const T* from = static_cast<const T*>(src);
    const T* const own = static_cast<const T*>(data);
    T* to = static_cast<T*>(dst);
    const int64_t load = inner * (1 + count / rows);
    c.run.parallel_for(outer * rows, std::max<int64_t>(1, move_grain / load), [&](int64_t item, int64_t end) {
      Acc sum[256];
      for (; item < end; ++item) {
        const int64_t o = item / rows, r = item % rows, first = start[r], last = start[r + 1];
        T* row = to + item * inner;
        const T* const own_row = own ? own + item * inner : nullptr;
        if (first == last && !own) {
          std::memset(static_cast<void*>(row), 0, size_t(inner) * sizeof(T));
          continue;
        }
        const auto part = [&](int64_t k) { return from + (o * count + order[k]) * inner; };
        if constexpr (std::is_same_v<T, Acc>) {  // in place
          add_row(first, last, part, own_row, row, inner);
          continue;
        }
        for (int64_t column = 0; column < inner; column += 256) {
          const int64_t n = std::min<int64_t>(256, inner - column);
          std::fill_n(sum, n, Acc(0));
          for (int64_t k = first; k < last; ++k) {
            const T* const head = part(k) + column;
            for (int64_t i = 0; i < n; ++i) sum[i] = Acc(sum[i] + Acc(head[i]));
          }
          for (int64_t i = 0; own && i < n; ++i) sum[i] = Acc(Acc(own_row[column + i]) + sum[i]);
          for (int64_t i = 0; i < n; ++i) row[column + i] = T(sum[i]);
        }
      }
    });
  });
}

void gather_rows(KernelContext& c, const int64_t* positions, int64_t count, int64_t rows, int64_t outer, int64_t inner,
                 const void* src, void* dst, size_t width) {
  if (outer * count * inner == 0) return;
  auto gather = [&]<class T>(T) {
    const T* from = static_cast<const T*>(src);
    T* to = static_cast<T*>(dst);
    c.run.parallel_for(outer * count, std::max<int64_t>(1, move_grain / inner), [&](int64_t item, int64_t end) {
      int64_t o = item / count, j = item % count;
      for (; item < end; ++item) {
        const T* row = from + (o * rows + positions[j]) * inner;
        if (inner >= 16) {
          copy_run(to + item * inner, row, size_t(inner) * sizeof(T));
        } else {
          for (int64_t i = 0; i < inner; ++i) to[item * inner + i] = row[i];
        }
        if (++j == count) j = 0, ++o;
      }
    });
  };
  switch (width) {
    case 8: return gather(uint64_t());
    case 4: return gather(uint32_t());
    case 2: return gather(uint16_t());
    default: return gather(uint8_t());
  }
}

}  // namespace kaon::ops
