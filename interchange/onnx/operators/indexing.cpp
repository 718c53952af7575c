// Elements chosen, and written, by indices.
#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <optional>

#include "kaon/interchange/onnx/convert/families.h"
#include "kaon/interchange/onnx/operators/helpers.h"

namespace kaon::onnx::convert {

namespace {

// Indices as operators take them that refuse those outside an axis and count negative ones from its end.
Symbol indices(const Call& c, int i) { return cast(c.x(i), DType::int64); }

// Constant indices of an axis of length n, from its start.
std::vector<int64_t> known_indices(const Call& c, int i, int64_t n) {
  std::vector<int64_t> values = c.input(i).known.asvector<int64_t>();
  for (int64_t& v : values) {
    if (v < -n || v >= n) c.fail(fmt::format("index {} of {} elements", v, n));
    if (v < 0) v += n;
  }
  return values;
}

// The same from the start, where places among `count` elements are computed of them: those outside an axis lead to no
// place. `n`: the axes' lengths, which broadcast.
Symbol from_start(const Symbol& i, const Symbol& n, int64_t count) {
  const Symbol at = sym.broadcast_where(i < 0, sym.broadcast_add(i, n), i);
  const Symbol is_inside = sym.broadcast_mul(at >= 0, sym.broadcast_lesser(at, n));
  const Symbol nowhere = full(Shape(1), -double((int64_t(1) << 62) / std::max<int64_t>(count, 1)), DType::int64);
  return sym.broadcast_where(is_inside, at, nowhere);
}

void gather(Call& c) {
  const int axis = c.axis("axis", 0, c.rank());
  const int64_t n = c.shape()[axis];
  Shape result;
  for (int i = 0; i < axis; ++i) result.push_back(c.shape()[i]);
  for (int64_t d : c.shape(1)) result.push_back(d);
  for (int i = axis + 1; i < c.rank(); ++i) result.push_back(c.shape()[i]);
  if (c.input(1).is_constant() && c.shape(1).size() == 1) {  // a part
    const int64_t at = known_indices(c, 1, n)[0];
    return c.set_like(c.input(0), reshaped(slice_along(c.x(), axis, at, at + 1), result));
  }
  if (c.input(1).is_constant()) known_indices(c, 1, n);
  c.set_like(c.input(0), reshaped(sym.take(c.x(), indices(c, 1), {.axis = axis, .mode = IndexMode::raise}), result));
}

void gather_elements(Call& c) {
  const int axis = c.axis("axis", 0, c.rank());
  // along the other axes the indices may be fewer
  Symbol x = c.x();
  for (int i = 0; i < c.rank(); ++i) {
    if (i != axis) x = slice_along(x, i, 0, c.shape(1)[i]);
  }
  c.set_like(c.input(0), sym.take_along_axis(x, indices(c, 1), {.axis = axis}));
}

// The batch axes' own numbers in front of tuples of indices (batch..., rows..., k): (batch + k, batch..., rows...).
Symbol tuples(const Call& c, int input, int batch) {
  const Shape& s = c.shape(input);
  const int last = s.ndim() - 1;
  std::vector<int64_t> order{last};
  for (int i = 0; i < last; ++i) order.push_back(i);
  const Symbol first = transposed(cast(c.x(input), DType::int64), order);  // (k, batch..., rows...)
  if (batch == 0) return first;
  std::vector<Symbol> parts;
  Shape one(1);
  for (int i = 0; i < last; ++i) one.push_back(s[i]);
  for (int b = 0; b < batch; ++b) {
    std::vector<int64_t> numbers(static_cast<size_t>(s[b]));
    std::iota(numbers.begin(), numbers.end(), 0);
    Shape along = Shape::filled(last + 1, 1);
    along[b + 1] = s[b];
    parts.push_back(broadcast(reshaped(constant(numbers), along), one));
  }
  parts.push_back(first);
  return concatenated(parts, 0);
}

// The slice x[begin : end : step] of the first axes.
struct Region {
  OptionalShape begin, end, step;
  Shape shape;  // with the axes behind
};

constexpr int64_t kFewNumbers = 4096;  // are no burden as a constant, and not worth waiting for while a net is loaded

// The region of an array that known tuples of indices (rows..., k) go through in its order, as those do that assign to
// slices. Its elements are one copy, and the tuples, as many numbers as k times the region has, are in no program.
std::optional<Region> region_of(const Value& tuples, const Shape& data) {
  if (!tuples.is_constant() || tuples.known.size() < kFewNumbers) return std::nullopt;
  const Shape& s = tuples.shape();
  const int rows = s.ndim() - 1, k = int(s[rows]);
  const bool is_here = tuples.known.dtype() == DType::int64 && tuples.known.device() == cpu();
  const std::vector<int64_t> copied = is_here ? std::vector<int64_t>() : tuples.known.asvector<int64_t>();
  const int64_t* const at = is_here ? tuples.known.data<const int64_t>().data() : copied.data();
  Region r{.begin = {}, .end = {}, .step = {}, .shape = data};
  // an axis of the tuples with several numbers moves along one axis of the array, and later ones along later axes
  std::vector<std::vector<int64_t>> moves(static_cast<size_t>(rows), std::vector<int64_t>(static_cast<size_t>(k)));
  std::vector<int64_t> steps(static_cast<size_t>(k), 1), counts(static_cast<size_t>(k), 1);
  int last = -1;
  int64_t stride = k;
  std::vector<int64_t> strides(static_cast<size_t>(rows));
  for (int d = rows - 1; d >= 0; --d) strides[size_t(d)] = stride, stride *= s[d];
  for (int d = 0; d < rows; ++d) {
    if (s[d] == 1) continue;
    int along = -1;
    for (int j = 0; j < k; ++j) {
      const int64_t move = at[strides[size_t(d)] + j] - at[j];
      if (move == 0) continue;
      if (along >= 0 || move < 0 || j <= last) return std::nullopt;
      along = j;
      steps[size_t(j)] = moves[size_t(d)][size_t(j)] = move, counts[size_t(j)] = s[d];
    }
    if (along < 0) return std::nullopt;
    last = along;
  }
  for (int j = 0; j < k; ++j) {
    const int64_t n = data[j], first = at[j] < 0 ? at[j] + n : at[j];
    const int64_t end = first + (counts[size_t(j)] - 1) * steps[size_t(j)] + 1;
    if (first < 0 || end > n) return std::nullopt;
    const bool is_whole = counts[size_t(j)] == n;
    r.begin.push_back(is_whole ? std::optional<int64_t>() : first);
    r.end.push_back(is_whole ? std::optional<int64_t>() : end);
    r.step.push_back(steps[size_t(j)]);
    r.shape[j] = counts[size_t(j)];
  }
  std::vector<int64_t> place(static_cast<size_t>(rows), 0), expected(at, at + k);
  for (int64_t row = 0;; ++row) {
    if (!std::equal(expected.begin(), expected.end(), at + row * k)) return std::nullopt;
    int d = rows - 1;
    for (; d >= 0; --d) {
      const bool wraps = ++place[size_t(d)] == s[d];
      for (int j = 0; j < k; ++j) expected[size_t(j)] += moves[size_t(d)][size_t(j)] * (wraps ? 1 - s[d] : 1);
      if (!wraps) break;
      place[size_t(d)] = 0;
    }
    if (d < 0) return r;
  }
}

void gather_nd(Call& c) {
  const int batch = int(c.integer("batch_dims", 0));
  Shape result;
  for (int i = 0; i + 1 < c.rank(1); ++i) result.push_back(c.shape(1)[i]);
  for (int i = batch + int(c.shape(1).back()); i < c.rank(); ++i) result.push_back(c.shape()[i]);
  if (batch == 0) {
    if (const auto r = region_of(c.input(1), c.shape()))
      return c.set_like(c.input(0), reshaped(sym.slice(c.x(), r->begin, r->end, r->step), result));
  }
  c.set_like(c.input(0), reshaped(sym.gather_nd(c.x(), tuples(c, 1, batch)), result));
}

Scatter scatter_kind(const Call& c) {
  const std::string reduction = c.text("reduction", "none");
  if (reduction == "none") return Scatter::none;
  if (reduction == "add") return Scatter::add;
  if (reduction == "mul") return Scatter::mul;
  if (reduction == "max") return Scatter::max;
  if (reduction == "min") return Scatter::min;
  c.fail("reduction must be none, add, mul, max or min, got '" + reduction + "'");
}

void scatter_elements(Call& c) {
  const int axis = c.axis("axis", 0, c.rank());
  if (c.input(1).is_constant()) known_indices(c, 1, c.shape()[axis]);
  // Where the indices are fewer along other axes: the flattened array, with the places of the elements.
  bool fewer = false;
  for (int i = 0; i < c.rank(); ++i) fewer |= i != axis && c.shape(1)[i] != c.shape()[i];
  if (!fewer) {
    return c.set_like(c.input(0),
                      sym.put_along_axis(c.x(), indices(c, 1), c.x(2), {.axis = axis, .reduce = scatter_kind(c)}));
  }
  const Symbol index = from_start(indices(c, 1), constant({c.shape()[axis]}), c.shape().size());
  const int64_t stride = c.shape().product(axis + 1, c.rank());
  std::vector<int64_t> base;
  const Shape& s = c.shape(1);
  for (int64_t e = 0; e < s.size(); ++e) {
    int64_t rest = e, at = 0, step = 1;
    for (int i = s.ndim() - 1; i >= 0; --i) {
      if (i != axis) at += rest % s[i] * step;
      rest /= s[i];
      step *= c.shape()[i];
    }
    base.push_back(at);
  }
  const Symbol places = sym.broadcast_add(reshaped(index, Shape(s.size())) * double(stride), constant(base));
  const Symbol y = sym.put_along_axis(reshaped(c.x(), Shape(c.shape().size())), places,
                                      reshaped(c.x(2), Shape(s.size())), {.axis = 0, .reduce = scatter_kind(c)});
  c.set_like(c.input(0), reshaped(y, c.shape()));
}

Symbol combined(Scatter kind, const Symbol& old, const Symbol& update) {
  switch (kind) {
    case Scatter::none: return update;
    case Scatter::add: return old + update;
    case Scatter::mul: return old * update;
    case Scatter::max: return sym.broadcast_maximum(old, update);
    case Scatter::min: return sym.broadcast_minimum(old, update);
  }
  return update;
}

void scatter_nd(Call& c) {
  const Scatter kind = scatter_kind(c);
  const int64_t k = c.shape(1).back();
  if (const auto r = region_of(c.input(1), c.shape())) {
    Symbol updates = reshaped(c.x(2), r->shape);
    if (kind != Scatter::none) updates = combined(kind, sym.slice(c.x(), r->begin, r->end, r->step), updates);
    return c.set_like(c.input(0),
                      sym._slice_assign(c.x(), updates, {.begin = r->begin, .end = r->end, .step = r->step}));
  }
  if (kind == Scatter::none) {
    const Symbol updates = c.shape(2).empty() ? reshaped(c.x(2), Shape(1)) : c.x(2);  // Kaon's element is (1,)
    return c.set_like(c.input(0), sym._scatter_set_nd(c.x(), updates, tuples(c, 1, 0), {.shape = c.shape()}));
  }
  // rows of a matrix, by their numbers
  const int64_t rows = c.shape().product(0, int(k)), width = c.shape().product(int(k), c.rank());
  const int64_t n = c.shape(1).size() / std::max<int64_t>(k, 1);
  std::vector<int64_t> sizes(c.shape().begin(), c.shape().begin() + k);
  const Symbol at =
      from_start(reshaped(tuples(c, 1, 0), Shape(k, n)), reshaped(constant(sizes), Shape(k, 1)), c.shape().size());
  Symbol row = full(Shape(1, n), 0, DType::int64);
  for (int64_t i = 0; i < k; ++i) {
    row = sym.broadcast_add(row * double(c.shape()[int(i)]), slice_along(at, 0, i, i + 1));
  }
  const Symbol index = broadcast(reshaped(row, Shape(n, 1)), Shape(n, width));
  const Symbol y = sym.put_along_axis(reshaped(c.x(), Shape(rows, width)), index, reshaped(c.x(2), Shape(n, width)),
                                      {.axis = 0, .reduce = kind});
  c.set_like(c.input(0), reshaped(y, c.shape()));
}

// Updates written to a cache along an axis, from each sample's position on.
void tensor_scatter(Call& c) {
  const int axis = c.axis("axis", -2, c.rank());
  const bool circular = c.text("mode", "linear") == "circular";
  const int64_t n = c.shape()[axis], steps = c.shape(1)[axis], batch = c.shape()[0];
  Symbol begin = full(Shape(batch, 1), 0, DType::int64);
  if (c.has(2)) begin = reshaped(cast(c.x(2), DType::int64), Shape(batch, 1));
  std::vector<int64_t> numbers(static_cast<size_t>(steps));
  std::iota(numbers.begin(), numbers.end(), 0);
  Symbol at = sym.broadcast_add(begin, reshaped(constant(numbers), Shape(1, steps)));
  if (circular) at = at % double(n);
  Shape s = Shape::filled(c.rank(), 1);
  s[0] = batch, s[axis] = steps;
  c.set_like(c.input(0), sym.put_along_axis(c.x(), broadcast(reshaped(at, s), c.shape(1)), c.x(1), {.axis = axis}));
}

void one_hot(Call& c) {
  const int64_t depth = int64_t(c.number(1));
  if (depth < 1) c.fail(fmt::format("depth is {}", depth));
  const int axis = c.axis("axis", -1, c.rank() + 1);
  const Symbol values = c.x(2);
  const Symbol off = reshaped(slice_along(values, 0, 0, 1), Shape(1)),
               on = reshaped(slice_along(values, 0, 1, 2), Shape(1));
  const Symbol i = cast(c.x(), DType::float64);
  Symbol hot = sym.one_hot(sym.broadcast_where(i < 0, i + double(depth), i), depth, {.dtype = DType::boolean});
  std::vector<int64_t> axes;
  for (int a = 0; a <= c.rank(); ++a) axes.push_back(a < axis ? a : a == axis ? c.rank() : a - 1);
  c.set(sym.broadcast_where(transposed(hot, axes), on, off));
}

void non_zero(Call& c) {
  const Shape s = c.rank() == 0 ? Shape(1) : c.shape();
  const Value x = Value::of(reshaped(c.x(), s));
  Value input = c.input(0).is_constant() ? c.input(0) : x;
  c.set(c.conversion().host({input}, [s](const std::vector<NDArray>& in) {
    return std::vector{nd.transpose(nd.nonzero(in[0].reshape(s))).copy()};
  })[0]);
}

void compress(Call& c) {
  const std::vector<int64_t> keep = c.integers(1);
  const bool flat = !c.has("axis");
  const int axis = flat ? 0 : c.axis("axis", 0, c.rank());
  const Symbol x = flat ? reshaped(c.x(), Shape(c.shape().size())) : c.x();
  std::vector<int64_t> chosen;
  for (size_t i = 0; i < keep.size() && int64_t(i) < shape_of(x)[axis]; ++i) {
    if (keep[i] != 0) chosen.push_back(int64_t(i));
  }
  if (chosen.empty()) return c.set_like(c.input(0), full(with_dim(shape_of(x), axis, 0), 0, c.dtype()));
  c.set_like(c.input(0), sym.take(x, constant(chosen), {.axis = axis}));
}

// The different slices along an axis, or elements, in order or as they come first; where each is first, which one each
// is, and how often.
void unique(Call& c) {
  const bool sorted = c.integer("sorted", 1) != 0, flat = !c.has("axis");
  const int axis = flat ? 0 : c.axis("axis", 0, c.rank());
  std::vector<int64_t> axes(size_t(flat ? 1 : c.rank()));
  std::iota(axes.begin(), axes.end(), 0);
  std::rotate(axes.begin(), axes.begin() + axis, axes.begin() + axis + 1);
  const Symbol rows = flat ? reshaped(c.x(), Shape(c.shape().size())) : transposed(c.x(), axes);
  const int64_t n = shape_of(rows)[0], width = n == 0 ? 0 : shape_of(rows).size() / n;
  const std::vector<double> v =
      c.conversion().read(c.input(0).is_constant() && flat ? c.input(0) : Value::of(rows)).asvector<double>();
  const auto row = [&](int64_t i) { return std::span(v).subspan(size_t(i * width), size_t(width)); };
  std::vector<int64_t> first, inverse(static_cast<size_t>(n)), counts;
  const auto less = [&](int64_t a, int64_t b) { return std::ranges::lexicographical_compare(row(a), row(b)); };
  std::vector<int64_t> order(static_cast<size_t>(n));
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), less);
  for (int64_t at : order) {
    if (first.empty() || less(first.back(), at)) first.push_back(at), counts.push_back(0);
    ++counts.back();
    inverse[size_t(at)] = int64_t(first.size()) - 1;
  }
  if (!sorted) {
    std::vector<int64_t> by(first.size()), place(first.size());
    std::iota(by.begin(), by.end(), 0);
    std::sort(by.begin(), by.end(), [&](int64_t a, int64_t b) { return first[size_t(a)] < first[size_t(b)]; });
    std::vector<int64_t> f, k;
    for (size_t i = 0; i < by.size(); ++i) {
      place[size_t(by[i])] = int64_t(i);
      f.push_back(first[size_t(by[i])]), k.push_back(counts[size_t(by[i])]);
    }
    for (int64_t& i : inverse) i = place[size_t(i)];
    first = f, counts = k;
  }
  const Symbol chosen = sym.take(rows, constant(first), {.axis = 0});
  std::vector<int64_t> back(axes.size());
  for (size_t i = 0; i < axes.size(); ++i) back[size_t(axes[i])] = int64_t(i);
  c.set(0, flat ? chosen : transposed(chosen, back));
  const std::vector<int64_t>* lists[] = {&first, &inverse, &counts};
  for (int i = 0; i < 3; ++i) {
    const auto& list = *lists[i];
    c.set(i + 1, Value::constant(NDArray::from(list.data(), list.size(), Shape(int64_t(list.size())), DType::int64)));
  }
}

void array_feature_extractor(Call& c) {
  const Symbol y =
      sym.take(c.x(), cast(reshaped(c.x(1), Shape(c.shape(1).size())), DType::int64), {.axis = c.rank() - 1});
  c.set(c.rank() == 1 ? reshaped(y, Shape(1, shape_of(y).size())) : y);
}

constexpr Row indexing_table[] = {
    {"Gather", gather},
    {"GatherElements", gather_elements},
    {"GatherND", gather_nd},
    {"Scatter", scatter_elements},
    {"ScatterElements", scatter_elements},
    {"ScatterND", scatter_nd},
    {"TensorScatter", tensor_scatter},
    {"OneHot", one_hot},
    {"NonZero", non_zero},
    {"Compress", compress},
    {"Unique", unique},
    {"ArrayFeatureExtractor", array_feature_extractor, 1, "ai.onnx.ml"},
};

}  // namespace

std::span<const Row> indexing_rows() { return indexing_table; }

}  // namespace kaon::onnx::convert
