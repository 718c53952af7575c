// Elements chosen, replaced and moved by indices as ONNX nodes.
#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "kaon/interchange/onnx/export/emit.h"
#include "kaon/ops/all_ops.h"

namespace kaon::onnx::exporting {

namespace {

std::string of_last_axis(Emit& e, int i) {  // (m, ...) to (..., m), as ONNX has tuples
  std::vector<int64_t> perm;
  for (int k = 1; k < e.rank(i); ++k) perm.push_back(k);
  perm.push_back(0);
  return e.transpose(e.cast(e.in(i), DType::int64), perm);
}

// Of one tuple, Kaon's element is (1,).
void gather_nd(Emit& e) {
  const std::string y = e.node("GatherND", {e.in(0), of_last_axis(e, 1)});
  e.set(e.rank(1) == 1 && e.shape(1)[0] == e.rank() ? e.reshape(y, e.result()) : y);
}

void scatter_set_nd(Emit& e) {
  const bool is_one = e.rank(2) == 1 && e.shape(2)[0] == e.rank();
  e.set(e.node("ScatterND", {e.in(0), of_last_axis(e, 2), is_one ? e.reshape(e.in(1), Shape()) : e.in(1)}));
}

void batch_take(Emit& e) {
  const Shape column(e.shape()[0], 1);
  const std::string at = e.reshape(e.index(1, IndexMode::clip, e.shape()[1]), column);
  e.set(e.reshape(e.node("GatherElements", {e.in(0), at}, {integer("axis", 1)}), e.result()));
}

void take_along_axis(Emit& e) {
  const auto& op = e.op<op::TakeAlongAxis>();
  const int axis = e.axis(op.axis);
  e.set(e.node("GatherElements", {e.in(0), e.index(1, op.mode, e.shape()[axis])}, {integer("axis", axis)}));
}

std::string scattered(Emit& e, const std::string& data, const std::string& at, const std::string& values, int axis,
                      Scatter how) {
  std::vector<Attribute> attributes{integer("axis", axis)};
  const char* names[] = {"none", "add", "mul", "max", "min"};
  if (how == Scatter::max || how == Scatter::min) e.builder().require(18, "ScatterElements with max and min");
  if (how != Scatter::none) attributes.push_back(text("reduction", names[size_t(how)]));
  return e.node("ScatterElements", {data, at, values}, attributes);
}

void put_along_axis(Emit& e) {
  const auto& op = e.op<op::PutAlongAxis>();
  const int axis = e.axis(op.axis);
  e.set(scattered(e, e.in(0), e.index(1, op.mode, e.shape()[axis]), e.in(2), axis, op.reduce));
}

void index_add(Emit& e) {
  const auto& op = e.op<op::IndexAdd>();
  const int axis = e.axis(op.axis);
  Shape along = Shape::filled(e.rank(), 1);
  along[axis] = e.shape(1).size();
  const std::string at = e.expand(e.reshape(e.index(1, op.mode, e.shape()[axis]), along), e.shape(2));
  e.set(scattered(e, e.in(0), at, e.in(2), axis, Scatter::add));
}

void repeat(Emit& e) {
  const auto& op = e.op<op::Repeat>();
  std::string x = e.in();
  Shape shape = e.shape();
  int axis = 0;
  if (!op.axis) shape = Shape(shape.size()), x = e.reshape(x, shape);
  else axis = e.axis(*op.axis);
  Shape one, many;
  for (int i = 0; i < shape.ndim(); ++i) {
    one.push_back(shape[i]), many.push_back(shape[i]);
    if (i == axis) one.push_back(1), many.push_back(op.repeats);
  }
  e.set(e.reshape(e.expand(e.reshape(x, one), many), e.result()));
}

// --- parts replaced: at each position of an axis, which element of the part comes there, or -1

struct Part {
  std::vector<std::vector<int64_t>> from;  // by axis of the array
  bool is_empty = false;
};

template <class Op>
Part part_of(const Emit& e, const Op& op) {
  Part part;
  for (int i = 0; i < e.rank(); ++i) {
    const int64_t n = e.shape()[i];
    std::vector<int64_t>& from = part.from.emplace_back(size_t(n), -1);
    const int64_t step = i < op.step.ndim() ? op.step[i].value_or(1) : 1;
    const auto bound = [&](const OptionalShape& s, int64_t otherwise) {
      if (i >= s.ndim() || !s[i]) return otherwise;
      const int64_t at = *s[i] < 0 ? *s[i] + n : *s[i];
      return step > 0 ? std::clamp<int64_t>(at, 0, n) : std::clamp<int64_t>(at, -1, n - 1);
    };
    const int64_t begin = bound(op.begin, step > 0 ? 0 : n - 1), end = bound(op.end, step > 0 ? n : -1);
    int64_t count = 0;
    for (int64_t at = begin; step > 0 ? at < end : at > end; at += std::clamp(step, -n, n)) from[size_t(at)] = count++;
    part.is_empty |= count == 0;
  }
  return part;
}

// Whether a position is in the part; broadcasts to the array.
std::string mask_of(Emit& e, const Part& part, int rank) {
  std::string mask;
  for (int i = 0; i < rank; ++i) {
    std::vector<double> inside;
    for (int64_t f : part.from[size_t(i)]) inside.push_back(f >= 0);
    if (std::ranges::all_of(inside, [](double b) { return b != 0; })) continue;
    Shape along = Shape::filled(rank, 1);
    along[i] = int64_t(inside.size());
    const std::string here = e.array(inside, along, DType::boolean);
    mask = mask.empty() ? here : e.node("And", {mask, here});
  }
  return mask;
}

void slice_assign(Emit& e) {
  const Part part = part_of(e, e.op<op::SliceAssign>());
  if (part.is_empty) return e.set(e.node("Identity", {e.in(0)}));
  std::string spread = e.in(1);
  for (int i = 0; i < e.rank(); ++i) {
    std::vector<int64_t> from = part.from[size_t(i)], straight(from.size());
    std::iota(straight.begin(), straight.end(), 0);
    if (from == straight) continue;
    for (int64_t& f : from) f = std::max<int64_t>(f, 0);
    spread = e.node("Gather", {spread, e.builder().constant(from)}, {integer("axis", i)});
  }
  const std::string mask = mask_of(e, part, e.rank());
  e.set(mask.empty() ? e.node("Identity", {spread}) : e.where(mask, spread, e.in(0)));
}

// Zeros with the part in its place.
void slice_grad(Emit& e) {
  const auto& op = e.op<op::SliceGrad>();
  if (e.shape().size() == 0) return e.set(e.expand(e.number(0), e.result()));
  Part part;
  std::string spread = e.in();
  for (int i = 0; i < e.rank(); ++i) {
    std::vector<int64_t> from(size_t(e.result()[i]), -1), read;
    for (int64_t k = 0; k < e.shape()[i]; ++k) from[size_t(op.begin[i] + k * op.step[i])] = k;
    for (int64_t f : from) read.push_back(std::max<int64_t>(f, 0));
    if (e.result()[i] != e.shape()[i] || op.step[i] != 1) {
      spread = e.node("Gather", {spread, e.builder().constant(read)}, {integer("axis", i)});
    }
    part.from.push_back(from);
  }
  const std::string mask = mask_of(e, part, e.rank());
  e.set(mask.empty() ? e.node("Identity", {spread}) : e.where(mask, spread, e.number(0)));
}

// Zeros with the slices of head added at the indices.
void take_grad(Emit& e) {
  const auto& op = e.op<op::TakeGrad>();
  const Shape& s = e.result();
  const int axis = op.axis < 0 ? op.axis + s.ndim() : op.axis;
  const int64_t n = e.shape(1).size(), outer = s.product(0, axis), inner = s.product(axis + 1, s.ndim());
  const Shape rows(outer, n, inner);
  const std::string at = e.expand(e.reshape(e.index(1, op.mode, s[axis]), Shape(1, n, 1)), rows);
  const std::string zeros = e.expand(e.number(0), Shape(outer, s[axis], inner));
  e.set(e.reshape(scattered(e, zeros, at, e.reshape(e.in(0), rows), 1, Scatter::add), s));
}

void slice_assign_scalar(Emit& e) {
  const auto& op = e.op<op::SliceAssignScalar>();
  const Part part = part_of(e, op);
  if (part.is_empty) return e.set(e.node("Identity", {e.in(0)}));
  const std::string mask = mask_of(e, part, e.rank()), value = e.number(op.scalar);
  e.set(mask.empty() ? e.expand(value, e.result()) : e.where(mask, value, e.in(0)));
}

// --- positions as tuples and as numbers

std::vector<int64_t> strides_of(const Shape& shape) {
  std::vector<int64_t> strides(size_t(shape.ndim()), 1);
  for (int i = shape.ndim() - 2; i >= 0; --i) strides[size_t(i)] = strides[size_t(i) + 1] * shape[i + 1];
  return strides;
}

void ravel(Emit& e) {
  const Shape& shape = *e.op<op::RavelMultiIndex>().shape;
  Shape column = Shape::filled(e.rank(), 1);
  column[0] = shape.ndim();
  const std::string strides = e.reshape(e.builder().constant(strides_of(shape)), column);
  const std::string sum = e.reduce("ReduceSum", e.mul(e.cast(e.in(), DType::int64), strides), {0}, false);
  e.set(e.reshape(e.cast(sum, e.result_dtype()), e.result()));
}

void unravel(Emit& e) {
  const Shape& shape = *e.op<op::UnravelIndex>().shape;
  const std::vector<int64_t> strides = strides_of(shape);
  Shape row(1);
  for (int64_t d : e.shape()) row.push_back(d);
  const std::string at = e.reshape(e.cast(e.in(), DType::int64), row);
  std::vector<std::string> parts;
  for (int i = 0; i < shape.ndim(); ++i) {
    std::string part = e.div(at, e.number(double(strides[size_t(i)]), DType::int64));
    if (i > 0) part = e.node("Mod", {part, e.number(double(shape[i]), DType::int64)});
    parts.push_back(part);
  }
  e.set(e.reshape(e.cast(e.concat(parts, 0), e.result_dtype()), e.result()));
}

void search_sorted(Emit& e) {
  Shape sorted, values;
  for (int i = 0; i + 1 < e.rank(0); ++i) sorted.push_back(e.shape(0)[i]);
  sorted.push_back(1), sorted.push_back(e.shape(0)[e.rank(0) - 1]);
  for (int64_t d : e.shape(1)) values.push_back(d);
  values.push_back(1);
  const bool right = e.op<op::SearchSorted>().right;
  const std::string x = e.reshape(e.in(0), sorted), v = e.reshape(e.in(1), values);
  std::string before = e.node(right ? "LessOrEqual" : "Less", {x, v});
  if (e.is_real()) {  // NaN is larger than all
    std::string more = e.node("IsNaN", {v});
    if (!right) more = e.node("And", {more, e.node("Not", {e.node("IsNaN", {x})})});
    before = e.node("Or", {before, more});
  }
  const std::string count = e.reduce("ReduceSum", e.cast(before, DType::int64), {-1}, false);
  e.set(e.reshape(count, e.result()));
}

// --- parts of matrices, arrays rolled

void triangle(Emit& e, bool upper, int64_t k) {
  std::string x = e.in();
  if (e.rank() == 1) x = e.expand(x, e.result());  // the rows of a matrix
  e.set(e.node("Trilu", {x, e.number(double(k), DType::int64)}, {integer("upper", upper)}));
}

// The places of a triangle of an n x n matrix in row-major order, as LinalgExtractTrian has them.
std::vector<int64_t> trian_places(int64_t n, int offset, bool lower) {
  const bool below = offset < 0 || (offset == 0 && lower);
  std::vector<int64_t> places;
  for (int64_t a = 0; a < n; ++a) {
    for (int64_t b = 0; b < n; ++b) {
      const int64_t row = below ? a : b, column = below ? b : a;  // row by row, or column by column
      if (below ? column <= row + offset : column >= row + offset) places.push_back(row * n + column);
    }
  }
  return places;
}

void extract_trian(Emit& e) {
  const auto& op = e.op<op::LinalgExtractTrian>();
  const int last = e.rank() - 1;
  const int64_t n = e.shape()[last];
  Shape flat;
  for (int i = 0; i + 2 < e.rank(); ++i) flat.push_back(e.shape()[i]);
  flat.push_back(n * n);
  const std::string at = e.builder().constant(trian_places(n, op.offset, op.lower));
  e.set(e.reshape(e.node("Gather", {e.reshape(e.in(), flat), at}, {integer("axis", flat.ndim() - 1)}), e.result()));
}

void make_trian(Emit& e) {
  const auto& op = e.op<op::LinalgMakeTrian>();
  const int64_t n = e.result()[e.result().ndim() - 1], last = e.rank() - 1;
  const std::vector<int64_t> places = trian_places(n, op.offset, op.lower);
  std::vector<int64_t> from(size_t(n * n), int64_t(places.size()));  // behind the elements comes a 0
  for (size_t i = 0; i < places.size(); ++i) from[size_t(places[i])] = int64_t(i);
  Shape one = e.shape();
  one[int(last)] = 1;
  const std::string zeros = e.builder().initializer(nd.zeros(one, {.dtype = e.dtype()}), "zeros");
  const std::string longer = e.node("Concat", {e.in(), zeros}, {integer("axis", last)});
  e.set(e.reshape(e.node("Gather", {longer, e.builder().constant(from)}, {integer("axis", last)}), e.result()));
}

void roll(Emit& e) {
  const auto& op = e.op<op::Roll>();
  std::string x = e.in();
  const auto rolled = [&](int axis, int64_t n, int64_t shift) {
    if (n == 0 || shift % n == 0) return;
    const int64_t cut = n - (shift % n + n) % n;
    x = e.concat({e.slice(x, axis, cut, n), e.slice(x, axis, 0, cut)}, axis);
  };
  const Shape shift = op.shift.value_or(Shape());
  if (!op.axis) {
    int64_t sum = 0;
    for (int64_t s : shift) sum += s;
    x = e.reshape(x, Shape(e.shape().size()));
    rolled(0, e.shape().size(), sum);
    return e.set(e.reshape(x, e.result()));
  }
  for (int i = 0; i < op.axis->ndim(); ++i) {
    const int axis = e.axis((*op.axis)[i]);
    rolled(axis, e.shape()[axis], shift.ndim() == 1 ? shift[0] : shift[i]);
  }
  e.set(x == e.in() ? e.node("Identity", {x}) : x);
}

void difference(Emit& e) {
  const int axis = e.axis(e.op<op::Difference>().axis);
  const int64_t n = e.shape()[axis];
  e.set(e.sub(e.slice(e.in(), axis, 1, n), e.slice(e.in(), axis, 0, n - 1)));
}

// Steps in reverse order; a sequence of no steps is as it is, as one of one step.
void sequence_reverse(Emit& e) {
  const auto& op = e.op<op::SequenceReverse>();
  const int64_t steps = e.shape()[0];
  if (!op.use_sequence_length) return e.set(e.slice(e.in(), 0, INT64_MAX, INT64_MIN, -1));
  const std::string length =
      e.node("Clip", {e.cast(e.in(1), DType::int64), e.number(1, DType::int64), e.number(double(steps), DType::int64)});
  e.set(e.node("ReverseSequence", {e.in(0), length}, {integer("time_axis", 0), integer("batch_axis", 1)}));
}

template <bool Deep>
void blocks(Emit& e) {
  const int64_t size = e.op<std::conditional_t<Deep, op::SpaceToDepth, op::DepthToSpace>>().block_size;
  e.set(e.node(Deep ? "SpaceToDepth" : "DepthToSpace", {e.in()}, {integer("blocksize", size)}));
}

const WriterRow indexing_table[] = {
    {&op::GatherNd::def, gather_nd},
    {&op::ScatterSetNd::def, scatter_set_nd},
    {&op::BatchTake::def, batch_take},
    {&op::TakeAlongAxis::def, take_along_axis},
    {&op::PutAlongAxis::def, put_along_axis},
    {&op::IndexAdd::def, index_add},
    {&op::Repeat::def, repeat},
    {&op::SliceAssign::def, slice_assign},
    {&op::SliceAssignScalar::def, slice_assign_scalar},
    {&op::SliceGrad::def, slice_grad},
    {&op::TakeGrad::def, take_grad},
    {&op::RavelMultiIndex::def, ravel},
    {&op::UnravelIndex::def, unravel},
    {&op::SearchSorted::def, search_sorted},
    {&op::Tril::def, [](Emit& e) { triangle(e, false, e.op<op::Tril>().k); }},
    {&op::Triu::def, [](Emit& e) { triangle(e, true, e.op<op::Triu>().k); }},
    {&op::Triangle::def, [](Emit& e) { triangle(e, !e.op<op::Triangle>().lower, 0); }},
    {&op::LinalgExtractTrian::def, extract_trian},
    {&op::LinalgMakeTrian::def, make_trian},
    {&op::Roll::def, roll},
    {&op::Difference::def, difference},
    {&op::SequenceReverse::def, sequence_reverse},
    {&op::DepthToSpace::def, blocks<false>},
    {&op::SpaceToDepth::def, blocks<true>},
};

}  // namespace

std::span<const WriterRow> indexing_writers() { return indexing_table; }

}  // namespace kaon::onnx::exporting
