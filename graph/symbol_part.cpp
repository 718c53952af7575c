// x(...) and x.at(...) of Symbols.
#include "kaon/graph/symbol.h"
#include "kaon/ops/indexing/kernels/selection.h"

namespace kaon {

using namespace ops;

Symbol Symbol::operator()(const I& i0, const I& i1, const I& i2, const I& i3, const I& i4, const I& i5, const I& i6,
                          const I& i7) const {
  const Selection<Symbol> s(shape(), {i0, i1, i2, i3, i4, i5, i6, i7});
  return SelectedPart<Symbol>(sym, s, std::nullopt).read(*this);
}

template <>
Symbol ArrayPart<Symbol>::replaced(const Arg<Symbol>& value) && {
  const Selection<Symbol> s(array_.shape(), indices_);
  const SelectedPart<Symbol> part(sym, s, std::nullopt);
  const auto reshape = [&](const Symbol& x, const Shape& shape) { return part.reshaped(x, shape); };
  const auto call = [&](const auto& op, const Symbol&, const Symbol& first, const auto&... others) {
    return sym.call(op, In<Symbol>(first, value.site()), others...);
  };
  return part.replace(array_, value, reshape, call);
}

template <>
void ArrayPart<Symbol>::assign(const Arg<Symbol>& value) {
  array_ = std::move(*this).replaced(value);
}

template <>
void ArrayPart<Symbol>::update(BinaryKind kind, const Arg<Symbol>& value) {
  const Selection<Symbol> s(array_.shape(), indices_);
  const SelectedPart<Symbol> part(sym, s, std::nullopt);
  if (value.is_number() && part.is_masked_whole(array_)) {  // the number of elements is not known in a trace
    array_ = part.take_masked(array_, Symbol::binary(kind, array_, value));
  } else {
    assign(Symbol::binary(kind, part.read(array_), value));
  }
}

}  // namespace kaon
