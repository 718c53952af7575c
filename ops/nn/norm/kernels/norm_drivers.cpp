// Parallel drivers of the normalisations: the partition into pieces, and the merging of their sums.
#include <algorithm>
#include <memory>

#include "kaon/ops/nn/norm/kernels/norm_table.h"

namespace kaon::ops {
namespace {

constexpr int64_t piece_elements = 1 << 15;

int64_t items_per_piece(int64_t elements_per_item) {
  return std::max<int64_t>(1, piece_elements / std::max<int64_t>(1, elements_per_item));
}

template <class T>
T* workspace(RunContext& run, int64_t elements) {
  return static_cast<T*>(run.workspace(size_t(std::max<int64_t>(1, elements)) * sizeof(T)));
}

// The memory of two arrays of `width` elements per piece of `items` items.
template <class T>
struct Parts {
  Parts(RunContext& run, int64_t items, int64_t items_each, int64_t width)
      : grain(items_each),
        count((items + items_each - 1) / items_each),
        width_(width),
        data_(workspace<T>(run, 2 * count * width)) {}
  T* first(int64_t piece) const { return data_ + 2 * piece * width_; }
  T* second(int64_t piece) const { return first(piece) + width_; }

  int64_t grain, count;

 private:
  int64_t width_;
  T* data_;
};

}  // namespace

template <class T>
void channel_moments(RunContext& run, const ChannelSizes& s, const T* x, T* mean, T* variance) {
  const NormTable<T>& k = norm_table<T>();
  if (s.inner != 1) {
    run.parallel_for(s.channels, items_per_piece(s.per_channel()), [&](int64_t begin, int64_t end) {
      for (int64_t c = begin; c < end; ++c) k.plane_moments(x, s, c, mean + c, variance + c);
    });
    return;
  }
  const Parts<T> parts(run, s.outer, items_per_piece(s.channels), s.channels);
  run.parallel_for(s.outer, parts.grain, [&](int64_t begin, int64_t end) {
    const int64_t piece = begin / parts.grain;
    k.row_moments(x + begin * s.channels, end - begin, s.channels, parts.first(piece), parts.second(piece));
  });
  for (int64_t c = 0; c < s.channels; ++c) {
    Moments<double> all{};
    for (int64_t piece = 0; piece < parts.count; ++piece) {
      const double n = double(std::min(parts.grain, s.outer - piece * parts.grain));
      all = merge(all, {n, double(parts.first(piece)[c]), double(parts.second(piece)[c])});
    }
    mean[c] = T(all.mean);
    variance[c] = T(all.squares / all.count);
  }
}

template <class T>
void channel_products(RunContext& run, const ChannelSizes& s, const T* head, const T* x, const T* mean, T* head_sum,
                      T* product_sum) {
  const NormTable<T>& k = norm_table<T>();
  if (s.inner != 1) {
    run.parallel_for(s.channels, items_per_piece(s.per_channel()), [&](int64_t begin, int64_t end) {
      for (int64_t c = begin; c < end; ++c) k.plane_products(head, x, s, c, mean[c], head_sum + c, product_sum + c);
    });
    return;
  }
  const Parts<T> parts(run, s.outer, items_per_piece(s.channels), s.channels);
  run.parallel_for(s.outer, parts.grain, [&](int64_t begin, int64_t end) {
    const int64_t piece = begin / parts.grain;
    k.row_products(head + begin * s.channels, x + begin * s.channels, mean, end - begin, s.channels, parts.first(piece),
                   parts.second(piece));
  });
  for (int64_t c = 0; c < s.channels; ++c) {
    double heads = 0, products = 0;
    for (int64_t piece = 0; piece < parts.count; ++piece) {
      heads += double(parts.first(piece)[c]);
      products += double(parts.second(piece)[c]);
    }
    head_sum[c] = T(heads);
    product_sum[c] = T(products);
  }
}

template <class T>
void channel_affine(RunContext& run, const ChannelSizes& s, const T* head, const T* x, const T* mean, const T* a,
                    const T* b, const T* shift, T* out) {
  const NormTable<T>& k = norm_table<T>();
  const ChannelAffine<T> f{head, x, mean, a, b, shift, out};
  if (s.inner == 1) {
    run.parallel_for(s.outer, items_per_piece(s.channels),
                     [&](int64_t begin, int64_t end) { k.affine_rows(f, s, begin, end); });
  } else {
    run.parallel_for(s.outer * s.channels, items_per_piece(s.inner),
                     [&](int64_t begin, int64_t end) { k.affine_planes(f, s, begin, end); });
  }
}

template <class T>
void normalize_rows(RunContext& run, int64_t rows, int64_t columns, const T* x, const RowAffine<T>& affine, double eps,
                    T* y, T* mean, T* std) {
  run.parallel_for(rows, items_per_piece(columns), [&](int64_t begin, int64_t end) {
    norm_table<T>().layer_rows(end - begin, columns, x + begin * columns, affine.from_row(begin), eps,
                               y + begin * columns, mean + begin, std + begin);
  });
}

template <class T>
void normalize_rows_backward(RunContext& run, int64_t rows, int64_t columns, const T* head, const T* x,
                             const RowAffine<T>& affine, const T* mean, const T* std, T* dx, T* dgamma, T* dbeta) {
  const Parts<T> parts(run, rows, items_per_piece(columns), affine.per_row ? 0 : columns);
  run.parallel_for(rows, parts.grain, [&](int64_t begin, int64_t end) {
    const int64_t piece = begin / parts.grain, at = begin * columns;
    const auto target = [&](T* whole, T* part) { return !whole ? nullptr : affine.per_row ? whole + begin : part; };
    norm_table<T>().layer_rows_backward(end - begin, columns, head + at, x + at, affine.from_row(begin), mean + begin,
                                        std + begin, dx ? dx + at : nullptr, target(dgamma, parts.first(piece)),
                                        target(dbeta, parts.second(piece)));
  });
  if (affine.per_row) return;
  for (int64_t i = 0; i < columns; ++i) {
    T gammas = 0, betas = 0;
    for (int64_t piece = 0; piece < parts.count; ++piece) {
      if (dgamma) gammas += parts.first(piece)[i];
      if (dbeta) betas += parts.second(piece)[i];
    }
    if (dgamma) dgamma[i] = gammas;
    if (dbeta) dbeta[i] = betas;
  }
}

#define KAON_NORM_DRIVERS(T)                                                                                       \
  template void channel_moments(RunContext&, const ChannelSizes&, const T*, T*, T*);                               \
  template void channel_products(RunContext&, const ChannelSizes&, const T*, const T*, const T*, T*, T*);          \
  template void channel_affine(RunContext&, const ChannelSizes&, const T*, const T*, const T*, const T*, const T*, \
                               const T*, T*);                                                                      \
  template void normalize_rows(RunContext&, int64_t, int64_t, const T*, const RowAffine<T>&, double, T*, T*, T*);  \
  template void normalize_rows_backward(RunContext&, int64_t, int64_t, const T*, const T*, const RowAffine<T>&,    \
                                        const T*, const T*, T*, T*, T*)
KAON_NORM_DRIVERS(float);
KAON_NORM_DRIVERS(double);
#undef KAON_NORM_DRIVERS

}  // namespace kaon::ops
