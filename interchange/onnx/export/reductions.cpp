// Reductions, elements in order, and sums and products up to each element as ONNX nodes.
#include <fmt/format.h>

#include <limits>

#include "kaon/interchange/onnx/export/emit.h"
#include "kaon/ops/all_ops.h"

namespace kaon::onnx::exporting {

namespace {

std::vector<int64_t> axes_of(const Emit& e, const Shape& given, bool exclude) {
  const int rank = e.rank();
  std::vector<bool> named(size_t(rank), given.empty());
  for (int64_t a : given) named[size_t(e.axis(a))] = true;
  if (exclude) named.flip();
  std::vector<int64_t> axes;
  for (int i = 0; i < rank; ++i) {
    if (named[size_t(i)]) axes.push_back(i);
  }
  return axes;
}

// ONNX reduces numbers of 32 bits and more; shorter ones wrap or are the same in int32.
DType reducible(DType t) {
  switch (t) {
    case DType::boolean:
    case DType::uint8:
    case DType::int8:
    case DType::uint16:
    case DType::int16: return DType::int32;
    default: return t;
  }
}

std::string in_dtype(Emit& e, const std::string& x, DType from, DType to) { return from == to ? x : e.cast(x, to); }

// x reduced over these axes, as the result wants it. Where nothing is left, Kaon's result is (1,).
void set_reduced(Emit& e, const char* name, std::string x, DType dtype, const std::vector<int64_t>& axes,
                 bool keepdims) {
  bool is_of_none = false;
  for (int64_t a : axes) is_of_none |= e.shape()[int(a)] == 0;
  if (is_of_none && std::string_view(name) == "ReduceMean") {
    return e.set(e.expand(e.number(std::numeric_limits<double>::quiet_NaN(), e.result_dtype()), e.result()));
  }
  DType wide = reducible(dtype);
  if (e.result_dtype() == DType::int64 && dtype == DType::boolean) wide = DType::int64;
  if (e.result_dtype() == DType::float32 && dtype == DType::boolean) wide = DType::float32;
  x = in_dtype(e, x, dtype, wide);
  std::string y;
  if (axes.empty()) {  // ONNX takes none for all
    const std::string_view n = name;
    y = n == "ReduceL1" || n == "ReduceL2" ? e.node("Abs", {x}) : e.node("Identity", {x});
  } else {
    y = e.reduce(name, x, axes, keepdims);
  }
  y = in_dtype(e, y, wide, e.result_dtype());
  e.set(int(axes.size()) == e.rank() && !keepdims ? e.reshape(y, e.result()) : y);
}

template <class Op>
void reduction(Emit& e, const char* name) {
  const auto& op = e.op<Op>();
  set_reduced(e, name, e.in(), e.dtype(), axes_of(e, op.axis, op.exclude), op.keepdims);
}

// NaN counts as `instead`.
template <class Op>
void without_nan(Emit& e, const char* name, double instead) {
  const auto& op = e.op<Op>();
  std::string x = e.in();
  if (e.is_real()) x = e.where(e.node("IsNaN", {x}), e.number(instead), x);
  set_reduced(e, name, x, e.dtype(), axes_of(e, op.axis, op.exclude), op.keepdims);
}

template <class Op>
void truth(Emit& e) {
  const auto& op = e.op<Op>();
  std::string x = e.cast(e.cast(e.in(), DType::boolean), DType::int32);
  const bool of_no_axes = op.axis && op.axis->empty();
  const std::vector<int64_t> axes = of_no_axes ? std::vector<int64_t>() : axes_of(e, op.axis.value_or(Shape()), false);
  const bool is_all = std::same_as<Op, op::All>;
  if (!axes.empty() && e.shape().size() > 0) x = e.reduce(is_all ? "ReduceMin" : "ReduceMax", x, axes, op.keepdims);
  else if (!axes.empty()) x = e.expand(e.number(is_all, DType::int32), e.result());  // of nothing
  const std::string y = e.cast(x, DType::boolean);
  e.set(e.rank() == 0 || (int(axes.size()) == e.rank() && !op.keepdims) ? e.reshape(y, e.result()) : y);
}

void norm(Emit& e) {
  const auto& op = e.op<op::Norm>();
  const DType t = e.result_dtype();
  set_reduced(e, op.ord == 1 ? "ReduceL1" : "ReduceL2", in_dtype(e, e.in(), e.dtype(), t), t,
              axes_of(e, op.axis, false), op.keepdims);
}

void sum_to(Emit& e) {
  std::vector<int64_t> axes;
  const int more = e.rank() - e.result().ndim();
  for (int i = 0; i < e.rank(); ++i) {
    if (i < more || (e.result()[i - more] == 1 && e.shape()[i] != 1)) axes.push_back(i);
  }
  const DType t = e.dtype(), wide = reducible(t);
  std::string x = in_dtype(e, e.in(), t, wide);
  if (!axes.empty()) x = e.reduce("ReduceSum", x, axes, true);
  e.set(e.reshape(in_dtype(e, x, wide, t), e.result()));
}

// --- where the largest element is

void set_place(Emit& e, const char* name, std::optional<int> axis, bool keepdims) {
  const DType t = e.dtype();
  std::string x = t == DType::boolean ? e.cast(e.in(), DType::int32) : e.in();
  if (!axis) x = e.reshape(x, Shape(e.shape().size()));
  const std::string at =
      e.node(name, {x}, {integer("axis", axis ? e.axis(*axis) : 0), integer("keepdims", axis && keepdims)});
  const std::string y = in_dtype(e, at, DType::int64, e.result_dtype());
  e.set(!axis || (e.rank() == 1 && !keepdims) ? e.reshape(y, e.result()) : y);
}

template <class Op>
void place(Emit& e, const char* name) {
  set_place(e, name, e.op<Op>().axis, e.op<Op>().keepdims);
}

void place_of_channel(Emit& e) { set_place(e, "ArgMax", 1, false); }

// --- elements in order

void order(Emit& e) {
  const auto& op = e.op<op::Order>();
  const int last = e.rank() - 1;
  const int64_t n = e.shape()[last], end = op.k > 0 ? op.first + op.k : n;
  const DType t = e.dtype(), wide = is_floating(t) || t == DType::int64 || t == DType::int32 ? t : DType::int64;
  if (t == DType::uint64) e.fail("the order of uint64");
  std::vector<std::string> both =
      e.nodes("TopK", {in_dtype(e, e.in(), t, wide), e.builder().constant({end})},
              {integer("axis", -1), integer("largest", !op.is_ascend), integer("sorted", 1)}, 2);
  for (std::string& x : both) {
    if (op.first > 0) x = e.slice(x, last, op.first, end);
  }
  e.set(in_dtype(e, both[0], wide, t), 0);
  e.set(both[1], 1);
}

// --- up to each element

void running_sum(Emit& e) {
  const auto& op = e.op<op::Scan>();
  const DType t = e.dtype(), wide = reducible(t);
  const std::string axis = e.number(e.axis(op.axis), DType::int64);
  const std::string y = e.node("CumSum", {in_dtype(e, e.in(), t, wide), axis}, {integer("reverse", op.reverse)});
  e.set(in_dtype(e, y, wide, t));
}

// A Scan of rows of x along `axis` with these states. body(states, row) gives the next states, then the results.
template <class Body>
std::vector<std::string> scan(Emit& e, int axis, const std::vector<std::pair<std::string, TensorMeta>>& states,
                              const std::vector<DType>& results, Body&& body) {
  Builder& b = e.builder();
  Shape row;
  for (int i = 0; i < e.rank(); ++i) {
    if (i != axis) row.push_back(e.shape()[i]);
  }
  std::vector<std::string> inputs, names;
  std::vector<TensorMeta> metas;
  for (const auto& [value, meta] : states) inputs.push_back(value), metas.push_back(meta);
  inputs.push_back(e.in());
  metas.push_back({row, e.dtype()});
  b.open_graph("scan");
  for (const TensorMeta& m : metas) names.push_back(b.body_input("row", m));
  std::vector<TensorMeta> made(metas.begin(), metas.end() - 1);
  for (DType t : results) made.push_back({row, t});
  b.set_body_outputs(body(std::vector<std::string>(names.begin(), names.end() - 1), names.back()), made);
  return e.nodes("Scan", inputs,
                 {integer("num_scan_inputs", 1), integers("scan_input_axes", {axis}),
                  integers("scan_output_axes", std::vector<int64_t>(results.size(), axis)),
                  exporting::body("body", b.close_graph())},
                 int(made.size()));
}

std::string filled(Emit& e, double value, const Shape& shape, DType dtype) {
  return e.builder().initializer(nd.full(shape.empty() ? Shape(1) : shape, value, {.dtype = dtype}), "filled");
}

Shape row_shape(const Emit& e, int axis) {
  Shape row;
  for (int i = 0; i < e.rank(); ++i) {
    if (i != axis) row.push_back(e.shape()[i]);
  }
  return row;
}

// A value of the state's shape, also where that has no dimensions.
std::string state(Emit& e, double value, const Shape& shape, DType dtype) {
  return shape.empty() ? e.number(value, dtype) : filled(e, value, shape, dtype);
}

void running_product(Emit& e) {
  const int axis = e.axis(e.op<op::ProductScan>().axis);
  const Shape row = row_shape(e, axis);
  e.set(scan(e, axis, {{state(e, 1, row, e.dtype()), {row, e.dtype()}}}, {e.dtype()},
             [&](const std::vector<std::string>& states, const std::string& x) {
               const std::string y = e.mul(states[0], x);
               return std::vector<std::string>{y, e.node("Identity", {y})};
             })[1]);
}

void running_place(Emit& e) {
  const auto& op = e.op<op::ExtremeScan>();
  const int axis = e.axis(op.axis);
  const Shape row = row_shape(e, axis);
  const std::string first = state(e, 0, row, DType::int64), one = e.number(1, DType::int64);
  const double worst = op.largest ? -std::numeric_limits<double>::infinity() : std::numeric_limits<double>::infinity();
  const std::string start =
      e.is_real() ? state(e, worst, row, e.dtype()) : e.reshape(e.slice(e.in(), axis, 0, 1), row);  // the first row
  e.set(
      scan(e, axis, {{start, {row, e.dtype()}}, {first, {row, DType::int64}}, {first, {row, DType::int64}}},
           {DType::int64}, [&](const std::vector<std::string>& s, const std::string& x) {
             std::string better = e.node(op.largest ? "GreaterOrEqual" : "LessOrEqual", {x, s[0]});
             if (e.is_real()) better = e.node("Or", {better, e.node("IsNaN", {x})});
             const std::string at = e.where(better, s[2], s[1]);
             return std::vector<std::string>{e.where(better, x, s[0]), at, e.add(s[2], one), e.node("Identity", {at})};
           })[3]);
}

const WriterRow reduction_table[] = {
    {&op::Sum::def, [](Emit& e) { reduction<op::Sum>(e, "ReduceSum"); }},
    {&op::Mean::def, [](Emit& e) { reduction<op::Mean>(e, "ReduceMean"); }},
    {&op::Max::def, [](Emit& e) { reduction<op::Max>(e, "ReduceMax"); }},
    {&op::Min::def, [](Emit& e) { reduction<op::Min>(e, "ReduceMin"); }},
    {&op::Prod::def, [](Emit& e) { reduction<op::Prod>(e, "ReduceProd"); }},
    {&op::NanSum::def, [](Emit& e) { without_nan<op::NanSum>(e, "ReduceSum", 0); }},
    {&op::NanProd::def, [](Emit& e) { without_nan<op::NanProd>(e, "ReduceProd", 1); }},
    {&op::Any::def, truth<op::Any>},
    {&op::All::def, truth<op::All>},
    {&op::Norm::def, norm},
    {&op::SumTo::def, sum_to},
    {&op::ArgMax::def, [](Emit& e) { place<op::ArgMax>(e, "ArgMax"); }},
    {&op::ArgMin::def, [](Emit& e) { place<op::ArgMin>(e, "ArgMin"); }},
    {&op::NumpyArgMax::def, [](Emit& e) { place<op::NumpyArgMax>(e, "ArgMax"); }},
    {&op::NumpyArgMin::def, [](Emit& e) { place<op::NumpyArgMin>(e, "ArgMin"); }},
    {&op::ArgMaxChannel::def, place_of_channel},
    {&op::Order::def, order},
    {&op::Scan::def, running_sum},
    {&op::ProductScan::def, running_product},
    {&op::ExtremeScan::def, running_place},
};

}  // namespace

std::span<const WriterRow> reduction_writers() { return reduction_table; }

}  // namespace kaon::onnx::exporting
