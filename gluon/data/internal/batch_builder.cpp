#include "kaon/gluon/data/internal/batch_builder.h"

#include <fmt/format.h>

#include <cstring>

#include "kaon/ops/array/array_node.h"

namespace kaon::gluon::data::detail {

void BatchBuilder::add(const Sample& sample) {
  add(data_, sample.data, "data");
  add(label_, sample.label, "label");
  ++added_;
}

void BatchBuilder::add(Column& column, const HostTensor& value, const char* what) {
  if (added_ == 0) {
    if (!value.defined()) {
      if (&column == &data_) throw ValueError("[DataLoader] a sample has no data");
      return;
    }
    column.shape = value.shape();
    Shape batched(count_);
    for (int64_t d : value.shape()) batched.push_back(d);
    EngineScope scope(*engine_);
    column.array = NDArray::empty(batched, value.dtype());
    column.memory = static_cast<std::byte*>(column.array.node().data());
  }
  const bool has = value.defined(), had = column.array.defined();
  if (has != had || (has && value.shape() != column.shape)) {
    auto text = [](bool defined, const Shape& shape) { return defined ? "shape " + shape.str() : std::string("none"); };
    throw ShapeError(fmt::format("[DataLoader] the samples of a batch must agree in {}: expected {}, got {}", what,
                                 text(had, column.shape), text(has, value.shape())));
  }
  if (!has) return;
  if (value.dtype() != column.array.dtype()) {
    throw TypeError(fmt::format("[DataLoader] the samples of a batch must agree in {}: expected dtype {}, got {}", what,
                                name_of(column.array.dtype()), name_of(value.dtype())));
  }
  if (const size_t n = value.bytes()) std::memcpy(column.memory + size_t(added_) * n, value.data(), n);
}

Batch BatchBuilder::finish() {
  const auto there = [&](const NDArray& a) { return a.defined() ? a.as_in_context(device_) : a; };
  return Batch(there(data_.array), there(label_.array), added_);
}

}  // namespace kaon::gluon::data::detail
