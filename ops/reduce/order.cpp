// topk, sort and argsort: rows in order.
#include <fmt/format.h>

#include <algorithm>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include "kaon/ops/functions.h"
#include "kaon/ops/kernels/scratch.h"
#include "kaon/ops/math/dispatch.h"
#include "kaon/ops/op_def.h"
#include "kaon/ops/reduce/kernels/order_key.h"
#include "kaon/ops/reduce/kernels/order_window.h"
#include "kaon/ops/reduce/reduce.h"

namespace kaon {

using namespace ops;
namespace {

// Puts the entries from `first` to first + k in their places.
template <class E>
void order_range(std::span<E> entries, int64_t first, int64_t k) {
  const int64_t n = int64_t(entries.size());
  const auto begin = entries.begin() + first, end = begin + k;
  if (first == 0 && k < n && k <= n / 64) return std::partial_sort(begin, end, entries.end());
  if (first > 0) std::nth_element(entries.begin(), begin, entries.end());
  if (first + k < n && k <= 4) return std::partial_sort(begin, end, entries.end());
  if (first + k < n) std::nth_element(begin, end, entries.end());
  std::sort(begin, end);
}

// Of these rows few elements are wanted: most are left out before any are put in order.
bool is_narrowed(int64_t n, int64_t k) { return n >= 192 && 8 * k <= n; }

// The entries `first` to first + k of such a row, in order: those between bounds that hold them are kept, as long as
// that leaves out many. `room` is for 2 (n + order_window_room) entries.
template <class T>
const OrderEntry<uint32_t>* few_of_row(const T* x, int64_t n, int64_t first, int64_t k, bool is_ascend,
                                       OrderEntry<uint32_t>* room) {
  static_assert(sizeof(room->both) == sizeof *room);
  OrderEntry<uint32_t>*now = room, *next = room + n + order_window_room;
  int64_t before = 0, left = n;
  // what is kept goes to `to`; false where it is too much
  const auto keep = [&](auto* to, auto... row) {
    int64_t below = 0;
    const int64_t count = order_window(row..., left, first - before, k, &to->both, below);
    if (count == 0 || count > left / 4 * 3) return false;
    before += below, left = count;
    return true;
  };
  bool goes_on = true, is_made = false;
  if constexpr (std::is_same_v<T, float>) goes_on = is_made = keep(now, x, is_ascend);
  for (int64_t i = 0; i < n && !is_made; ++i) now[i] = {order_key(x[i], is_ascend), uint32_t(i)};
  while (goes_on && is_narrowed(left, k)) {
    goes_on = keep(next, &now->both);
    if (goes_on) std::swap(now, next);
  }
  order_range(std::span(now, size_t(left)), first - before, k);
  return now + (first - before);
}

uint32_t key_of(const OrderEntry<uint32_t>& e) { return uint32_t(e.both >> 32); }
uint64_t key_of(const OrderEntry<uint64_t>& e) { return e.key; }

// All of a long row, which comes in the order of the indices: a stable pass for each digit of the keys, from the lowest
// on. A digit that all have needs none. `other` is room for the entries.
template <class E>
void order_by_digits(std::vector<E>& entries, std::vector<E>& other) {
  using Key = decltype(key_of(E()));
  constexpr int bits = 11, digits = (8 * int(sizeof(Key)) + bits - 1) / bits;
  constexpr size_t values = size_t(1) << bits;
  const auto digit = [](Key key, int d) { return size_t(key >> (d * bits)) & (values - 1); };
  const Scratch scratch(digits * values * sizeof(uint32_t));
  uint32_t* const counts = scratch.as<uint32_t>();
  std::fill_n(counts, digits * values, 0);
  for (const E& e : entries) {
    for (int d = 0; d < digits; ++d) ++counts[size_t(d) * values + digit(key_of(e), d)];
  }
  other.resize(entries.size());
  for (int d = 0; d < digits; ++d) {
    uint32_t* const places = counts + size_t(d) * values;
    if (places[digit(key_of(entries[0]), d)] == entries.size()) continue;
    uint32_t place = 0;
    for (size_t v = 0; v < values; ++v) place += std::exchange(places[v], place);
    for (const E& e : entries) other[places[digit(key_of(e), d)]++] = e;
    entries.swap(other);
  }
}

// Few elements of a long row: those in the buckets of the leading bits of their keys that hold the range. Returns how
// many entries are before the ones that are kept.
template <class T, class E>
int64_t take_buckets(const T* x, int64_t n, int64_t first, int64_t k, bool is_ascend, std::vector<E>& entries) {
  using Key = OrderKey<T>;
  constexpr int shift = 8 * int(sizeof(Key)) - 16;
  const Scratch scratch((1 << 16) * sizeof(uint32_t));
  uint32_t* const counts = scratch.as<uint32_t>();
  std::fill_n(counts, 1 << 16, 0);
  for (int64_t i = 0; i < n; ++i) ++counts[size_t(order_key(x[i], is_ascend) >> shift)];
  int64_t before = 0, end = 0;
  uint32_t low = 0, high = 0;
  while (before + counts[low] <= first) before += counts[low++];
  for (high = low, end = before + counts[low]; end < first + k;) end += counts[++high];
  for (int64_t i = 0; i < n; ++i) {
    const Key key = order_key(x[i], is_ascend);
    if (uint32_t(key >> shift) - low <= high - low) entries.emplace_back(key, uint32_t(i));
  }
  return before;
}

// How many of these may come before an element `last`, without a decision for each. A NaN may.
template <class T>
int32_t count_before(const T* x, int64_t n, T last, bool is_ascend) {
  int32_t count = 0;
  if (is_ascend) {
    for (int64_t i = 0; i < n; ++i) count += !(x[i] >= last);
  } else {
    for (int64_t i = 0; i < n; ++i) count += !(x[i] <= last);
  }
  return count;
}

// The first k elements of a long row, k > 0, and some more: most elements come after the last of those found so far,
// and are left out by blocks. False where too many are not, as in a row that is in the other order.
template <class T, class E>
bool take_first(const T* x, int64_t n, int64_t k, bool is_ascend, std::vector<E>& entries) {
  constexpr int64_t block = 64, least = 512;
  const size_t room = size_t(std::max(2 * k, least));
  int64_t spare = n / 8, last = -1;  // how many more may be entered; the last of the first k, once there are these
  OrderKey<T> limit = 0;
  entries.reserve(room + block);
  for (int64_t i = 0; i < n; i += block) {
    const int64_t end = std::min(n, i + block);
    if (last >= 0 && count_before(x + i, end - i, x[last], is_ascend) == 0) continue;
    for (int64_t j = i; j < end; ++j) {
      const OrderKey<T> key = order_key(x[j], is_ascend);
      if (last < 0 || key < limit) entries.emplace_back(key, uint32_t(j)), --spare;
    }
    if (entries.size() < room) continue;
    if (spare < 0) return entries.clear(), false;
    std::nth_element(entries.begin(), entries.begin() + k - 1, entries.end());
    entries.resize(size_t(k));
    last = int64_t(entries[size_t(k - 1)].index());
    limit = order_key(x[last], is_ascend);
  }
  return true;
}

template <class T>
void order_rows(KernelContext& c, int64_t n, int64_t first, int64_t k, bool is_ascend) {
  constexpr int64_t long_row = 1 << 14, digits_from = 1 << 11;
  using Entry = OrderEntry<OrderKey<T>>;
  const T* x = c.in(0).as<const T>();
  T* values = c.out(0).as<T>();
  int64_t* indices = c.out(1).as<int64_t>();
  const int64_t rows = c.in(0).size() / n;
  const bool is_few = n >= long_row && k <= n / 64;
  const auto set = [&](int64_t row, const Entry* ordered) {
    for (int64_t i = 0; i < k; ++i) {
      const uint32_t at = ordered[i].index();
      if (values) values[row * k + i] = x[row * n + at];
      if (indices) indices[row * k + i] = int64_t(at);
    }
  };
  c.run.parallel_for(rows, std::max<int64_t>(1, 4096 / n), [&](int64_t begin, int64_t end) {
    if constexpr (sizeof(OrderKey<T>) == sizeof(uint32_t)) {
      if (!is_few && is_narrowed(n, k)) {
        const Scratch scratch(size_t(2 * (n + order_window_room)) * sizeof(Entry));
        for (int64_t row = begin; row < end; ++row) {
          set(row, few_of_row(x + row * n, n, first, k, is_ascend, scratch.as<Entry>()));
        }
        return;
      }
    }
    std::vector<Entry> entries, other;
    if (!is_few) entries.reserve(size_t(n));
    for (int64_t row = begin; row < end; ++row) {
      const T* const from = x + row * n;
      entries.clear();
      int64_t before = 0;
      if (!is_few) {
        entries.resize(size_t(n));
        for (int64_t i = 0; i < n; ++i) entries[size_t(i)] = {order_key(from[i], is_ascend), uint32_t(i)};
      } else if (first > 0 || !take_first(from, n, k, is_ascend, entries)) {
        before = take_buckets(from, n, first, k, is_ascend, entries);
      }
      if (k == n && n >= digits_from) {
        order_by_digits(entries, other);
      } else {
        order_range(std::span(entries), first - before, k);
      }
      set(row, entries.data() + (first - before));
    }
  });
}

// A row as it is ordered: the last axis of data with `axis` there, or all of data.
struct Rows {
  int ndim, axis;  // axis -1: flattened

  Rows(const Shape& data, const std::optional<int>& axis, const char* op)
      : ndim(data.ndim()), axis(axis ? normalize_axis(*axis, data.ndim(), op) : -1) {}
  bool is_flat() const { return axis < 0; }
  NDArray take(const NDArray& x) const {
    if (is_flat()) return nd._reshape_to(x, {.shape = Shape(x.size())});
    return axis == ndim - 1 ? x : nd.swapaxes(x, axis, ndim - 1);
  }
  NDArray give_back(const NDArray& y) const {
    return is_flat() || axis == ndim - 1 ? y : nd.swapaxes(y, axis, ndim - 1);
  }
  // The shape of k elements along the axis.
  Shape of(const Shape& data, int64_t k) const {
    if (is_flat()) return Shape(k);
    Shape s = data;
    s[axis] = k;
    return s;
  }
  int64_t length(const Shape& data) const { return is_flat() ? data.size() : data[axis]; }
};

// Numbers of elements of the flattened array of this shape, from indices along its last axis.
NDArray flat_numbers(const NDArray& indices, const Shape& shape) {
  const int64_t n = shape.back(), rows = shape.size() / n, k = indices.shape().back();
  const NDArray table = nd._reshape_to(indices, {.shape = {rows, k}});
  const NDArray first = nd.arange_like(table, {.step = double(n), .axis = 0});
  const NDArray all = table + nd._reshape_to(first, {.shape = {rows, 1}});
  return nd._reshape_to(all, {.shape = Shape(rows * k)});
}

// Zeros of this shape with `values` at the indices along the last axis.
NDArray scattered(const NDArray& values, const NDArray& indices, const Shape& shape) {
  const NDArray list = nd._reshape_to(values, {.shape = Shape(values.size())});
  const NDArray all = nd._backward_take(list, flat_numbers(indices, shape), {.shape = Shape(shape.size())});
  return nd._reshape_to(all, {.shape = shape});
}

void expect_numbers(const InferContext& c) {
  if (c.dtype() == DType::boolean) c.fail_dtype("needs numbers, got bool; use cast");
}

void expect_index_dtype(const InferContext& c, DType dtype) {
  if (dtype == DType::boolean || dtype == DType::int8) {
    c.fail_value(fmt::format("dtype must be one for indices, got {}", name_of(dtype)));
  }
}

}  // namespace

// --- _order

constinit const OpDef op::Order::def = make_op_def<op::Order>();

void op::Order::infer(InferContext& c) const {
  expect_numbers(c);
  c.expect_ndim_at_least(0, 1);
  Shape shape = c.shape(0);
  int64_t& n = shape[shape.ndim() - 1];
  if (first < 0 || first > n) c.fail_value(fmt::format("first must be 0 to {}, got {}", n, first));
  if (k < 0 || k > n - first) c.fail_value(fmt::format("k must be 0 to {}, got {}", n - first, k));
  if (n > int64_t(UINT32_MAX)) c.fail(fmt::format("rows must have fewer than 2^32 elements, got {}", n));
  n = k > 0 ? k : n - first;
  c.set_output(0, shape, c.dtype());
  c.set_output(1, shape, DType::int64);
}

void op::Order::grad(GradContext& g) const {
  if (!g.wants(0) || !g.has_head(0)) return;
  const Shape& data = g.input_like(0).shape();
  g.set(0, g.head().size() == 0 ? nd.zeros_like(g.input_like(0)) : scattered(g.head(), g.output(1), data));
}

void run_cpu(const op::Order& op, KernelContext& c) {
  if (c.out(0).size() == 0) return;
  const int64_t n = c.in(0).shape.back(), k = c.out(0).shape.back();
  dispatch_number("_order", c.in(0).dtype, [&]<class T>() { order_rows<T>(c, n, op.first, k, op.is_ascend); });
}

// --- topk

constinit const OpDef op::TopK::def = make_op_def<op::TopK>();

void op::TopK::infer(InferContext& c) const {
  expect_numbers(c);
  expect_index_dtype(c, dtype);
  c.expect_ndim_at_least(0, 1);
  const Shape& data = c.shape(0);
  const Rows rows(data, axis, c.op());
  const int64_t n = rows.length(data);
  if (k > n) c.fail_value(fmt::format("k must be at most {}, the size of the axis, got {}", n, k));
  const Shape shape = rows.of(data, k < 1 ? n : k);
  if (ret_typ == TopKReturn::mask) return c.set_output(data, c.dtype());
  c.set_output(0, shape, ret_typ == TopKReturn::indices ? dtype : c.dtype());
  if (ret_typ == TopKReturn::both) c.set_output(1, shape, dtype);
}

void op::TopK::compose(ComposeContext& c) const {
  const Rows rows(c.input().shape(), axis, "topk");
  const NDArray x = rows.take(c.input());
  const std::vector<NDArray> first = nd._order(x, {.k = std::max(k, 0), .is_ascend = is_ascend});
  switch (ret_typ) {
    case TopKReturn::value: return c.set(rows.give_back(first[0]));
    case TopKReturn::indices: return c.set(rows.give_back(nd.cast(first[1], dtype)));
    case TopKReturn::both:
      c.set(0, rows.give_back(first[0]));
      return c.set(1, rows.give_back(nd.cast(first[1], dtype)));
    case TopKReturn::mask: break;
  }
  if (x.size() == 0) return c.set(nd.zeros_like(c.input()));
  const NDArray mask = scattered(nd.ones(first[1].shape(), {.dtype = x.dtype()}), first[1], x.shape());
  c.set(rows.is_flat() ? nd.reshape_like(mask, c.input()) : rows.give_back(mask));
}

// --- sort

constinit const OpDef op::Sort::def = make_op_def<op::Sort>();

void op::Sort::infer(InferContext& c) const {
  expect_numbers(c);
  c.expect_ndim_at_least(0, 1);
  const Rows rows(c.shape(0), axis, c.op());
  c.set_output(rows.of(c.shape(0), rows.length(c.shape(0))), c.dtype());
}

void op::Sort::compose(ComposeContext& c) const {
  const Rows rows(c.input().shape(), axis, "sort");
  c.set(rows.give_back(nd._order(rows.take(c.input()), {.is_ascend = is_ascend})[0]));
}

// --- argsort

constinit const OpDef op::ArgSort::def = make_op_def<op::ArgSort>();

void op::ArgSort::infer(InferContext& c) const {
  expect_numbers(c);
  expect_index_dtype(c, dtype);
  c.expect_ndim_at_least(0, 1);
  const Rows rows(c.shape(0), axis, c.op());
  c.set_output(rows.of(c.shape(0), rows.length(c.shape(0))), dtype);
}

void op::ArgSort::compose(ComposeContext& c) const {
  const Rows rows(c.input().shape(), axis, "argsort");
  c.set(rows.give_back(nd.cast(nd._order(rows.take(c.input()), {.is_ascend = is_ascend})[1], dtype)));
}

}  // namespace kaon
