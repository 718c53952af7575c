// x(...), x[{...}] and x.at(...) of arrays: views where that is possible, and writing in place.
#include "kaon/ops/array/array_node.h"
#include "kaon/ops/indexing/kernels/selection.h"
#include "kaon/ops/operator/interceptor.h"

namespace kaon {

using namespace ops;

namespace {

// None for a value of a trace, which has neither device nor engine.
std::optional<Device> device_of(const NDArray& x) { return x.node().buffer ? std::optional(x.device()) : std::nullopt; }

// Of an array that has memory, without gradient history.
NDArray view(const NDArray& x, int64_t first, const Shape& shape) {
  const ArrayNode& n = x.node();
  const size_t offset = n.offset + size_t(first) * size_of(n.dtype);
  return NDArray(IntrusivePtr<ArrayNode>(new ArrayNode(n.buffer, shape, n.dtype, offset)));
}

NDArray selected(const NDArray& x, const Selection<NDArray>& s) {
  const SelectedPart<NDArray> part(nd, s, device_of(x));
  return can_view(x) && s.is_dense() ? part.choose(view(x, s.first_element(), s.shape())) : part.read(x);
}

}  // namespace

NDArray NDArray::operator()(const I& i0, const I& i1, const I& i2, const I& i3, const I& i4, const I& i5, const I& i6,
                            const I& i7) const {
  return selected(*this, Selection<NDArray>(shape(), {i0, i1, i2, i3, i4, i5, i6, i7}));
}

NDArray NDArray::operator[](std::initializer_list<int64_t> rows) const {
  return (*this)(nd.array(std::span(rows.begin(), rows.size()), {.device = device_of(*this)}));
}

template <>
void ArrayPart<NDArray>::assign(const Arg<NDArray>& value) {
  array_.check_writable("at", value);
  if (!device_of(array_)) {
    throw TraceError("[at] writing in place inside a trace; write x = x.at(...).replaced(value)");
  }
  const EngineScope scope(array_.engine());  // of the arrays made here
  const auto reshape = [](const NDArray& x, const Shape& shape) { return view(x, 0, shape); };
  const auto write = [&]<class Op>(const Op& op, const NDArray& target, const auto&... arrays) {
    const NDArray* inputs[] = {&arrays...};
    NDArray::apply_into(Op::def, &op, inputs, target, value.site());
    return target;
  };
  const Selection<NDArray> s(array_.shape(), indices_);
  if (s.shape().size()) SelectedPart<NDArray>(nd, s, array_.device()).replace(array_, value, reshape, write);
}

template <>
void ArrayPart<NDArray>::update(BinaryKind kind, const Arg<NDArray>& value) {
  const NDArray part = selected(array_, Selection<NDArray>(array_.shape(), indices_));
  assign(Arg<NDArray>(NDArray::binary(kind, Arg<NDArray>(part, value.site()), value), value.site()));
}

template <>
NDArray ArrayPart<NDArray>::replaced(const Arg<NDArray>& value) && {
  const Selection<NDArray> s(array_.shape(), indices_);
  const SelectedPart<NDArray> part(nd, s, device_of(array_));
  const auto reshape = [&](const NDArray& x, const Shape& shape) { return part.reshaped(x, shape); };
  const auto call = [&](const auto& op, const NDArray&, const NDArray& first, const auto&... others) {
    return nd.call(op, In<NDArray>(first, value.site()), others...);
  };
  return part.replace(array_, value, reshape, call);
}

}  // namespace kaon
