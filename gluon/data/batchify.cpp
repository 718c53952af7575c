#include "kaon/gluon/data/batchify.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "kaon/gluon/data/internal/stacked_rows.h"
#include "kaon/gluon/data/vision.h"
#include "kaon/ops/math/dispatch.h"

namespace kaon::gluon::data {

using namespace graph;

Batch::Batch(batchify::Fields fields, int64_t size, bool has_names) : size_(size) {
  if (std::ranges::any_of(fields, &batchify::Field::is_list)) lists_.resize(fields.size());
  auto given = std::make_shared<std::vector<std::string>>();
  for (size_t i = 0; i < fields.size(); ++i) {
    put(i, std::move(fields[i].array));
    given->push_back(std::move(fields[i].name));
    if (fields[i].is_list) lists_[i] = std::move(fields[i].list);
  }
  if (has_names) names = std::move(given);
}

const std::vector<NDArray>& Batch::list(size_t i) const {
  if (i >= lists_.size() || lists_[i].empty()) {
    throw IndexError(
        fmt::format("[Batch] list: expected an array that batchify::List makes, got {} of {}", i, num_arrays()));
  }
  return lists_[i];
}

Batch Batch::as_in_context(Device device) const {
  Batch there = *this;
  const auto move = [&](NDArray& a) { a = a.defined() ? a.as_in_context(device) : a; };
  move(there.data);
  move(there.label);
  for (NDArray& a : there.others) move(a);
  for (auto& list : there.lists_) {
    for (NDArray& a : list) move(a);
  }
  return there;
}

namespace batchify {
namespace {

// For dispatch: the bytes of a number as one element.
HostTensor number_of(double value, DType dtype, const std::string& name) {
  HostTensor number(Shape(), dtype);
  dispatch_all("batchify::Pad", dtype, [&]<class T>() {
    if constexpr (std::is_integral_v<T>) {
      const double low = double(std::numeric_limits<T>::lowest()), high = double(std::numeric_limits<T>::max());
      if (!(value >= low && value <= high && value == std::trunc(value))) {
        throw ValueError(fmt::format("[batchify::Pad] pad_val for {}: expected a number of dtype {}, got {}", name,
                                     kaon::name_of(dtype), value));
      }
    }
    if constexpr (std::is_arithmetic_v<T>) {
      *number.mutable_as<T>() = T(value);
    } else {
      *number.mutable_as<T>() = T(float(value));
    }
  });
  return number;
}

std::vector<Column> columns_of(std::vector<Sample>& samples) {
  std::vector<Column> columns(samples.empty() ? 0 : samples[0].num_arrays());
  for (size_t i = 0; i < columns.size(); ++i) columns[i].name = samples[0].name_of(i);
  for (Sample& sample : samples) {
    if (sample.num_arrays() != columns.size()) {
      throw ValueError(fmt::format("[batchify] the samples of a batch must have as many arrays: expected {}, got {}",
                                   columns.size(), sample.num_arrays()));
    }
    for (size_t i = 0; i < columns.size(); ++i) columns[i].items.push_back(std::move(sample[i]));
  }
  return columns;
}

void append(Fields& all, Fields more) {
  for (Field& field : more) all.push_back(std::move(field));
}

}  // namespace

Fields Stack::operator()(const Column& column) const {
  detail::StackedRows rows(int64_t(column.items.size()), column.items[0]);
  for (const HostTensor& item : column.items) rows.add(item, column.name);
  return {{.array = rows.finish(), .name = column.name}};
}

Fields List::operator()(const Column& column) const {
  Field field{.is_list = true, .name = column.name};
  for (const HostTensor& item : column.items) field.list.push_back(item.to_array());
  return {std::move(field)};
}

Pad::Pad(const PadOptions& options) : options_(options) {
  if (options.round_to < 0) {
    throw ValueError(fmt::format("[batchify::Pad] round_to: expected at least 0, got {}", options.round_to));
  }
  if (options.dtype && !is_valid(*options.dtype)) {
    throw TypeError(fmt::format("[batchify::Pad] unknown dtype number {}", int(*options.dtype)));
  }
}

Fields Pad::operator()(const Column& column) const {
  const std::vector<HostTensor>& items = column.items;
  const Shape& first = items[0].shape();
  const int axis = options_.axis < 0 ? options_.axis + first.ndim() : options_.axis;
  if (axis < 0 || axis >= first.ndim()) {
    throw ValueError(fmt::format("[batchify::Pad] axis {} is out of range for {} of shape {}", options_.axis,
                                 column.name, first.str()));
  }
  const DType dtype = options_.dtype.value_or(items[0].dtype());
  int64_t length = 0;
  std::vector<int32_t> lengths;
  for (const HostTensor& item : items) {
    Shape like = item.shape();
    const bool fits = like.ndim() == first.ndim();
    if (fits) like[axis] = first[axis];
    if (!fits || like != first) {
      throw ShapeError(fmt::format("[batchify::Pad] {}: shapes may differ along axis {} alone, got {} and {}",
                                   column.name, axis, first.str(), item.shape().str()));
    }
    if (!options_.dtype && item.dtype() != dtype) {
      throw TypeError(fmt::format("[batchify::Pad] {}: expected one dtype, got {} and {}", column.name,
                                  kaon::name_of(dtype), kaon::name_of(item.dtype())));
    }
    lengths.push_back(int32_t(item.shape()[axis]));
    length = std::max(length, item.shape()[axis]);
  }
  if (options_.round_to > 0) length = (length + options_.round_to - 1) / options_.round_to * options_.round_to;

  Shape shape = first;
  shape[axis] = length;
  size_t outer = 1, inner = size_of(dtype);
  for (int d = 0; d < axis; ++d) outer *= size_t(shape[d]);
  for (int d = axis + 1; d < shape.ndim(); ++d) inner *= size_t(shape[d]);
  const HostTensor number = number_of(options_.pad_val, dtype, column.name);
  detail::StackedRows rows(int64_t(items.size()), HostTensor::view(nullptr, nullptr, shape, dtype));
  HostTensor padded(shape, dtype);
  for (const HostTensor& item : items) {
    const HostTensor cast = item.dtype() == dtype ? item : vision::transforms::cast(dtype)(item);
    const size_t used = size_t(item.shape()[axis]) * inner, whole = size_t(length) * inner;
    std::byte* out = padded.mutable_data();
    for (size_t o = 0; o < outer; ++o) {
      if (used) std::memcpy(out + o * whole, cast.data() + o * used, used);
      for (size_t at = used; at < whole; at += number.bytes())
        std::memcpy(out + o * whole + at, number.data(), number.bytes());
    }
    rows.add(padded, column.name);
  }
  Fields fields{{.array = rows.finish(), .name = column.name}};
  if (options_.ret_length) {
    const Shape count(int64_t(lengths.size()));
    fields.push_back({.array = HostTensor(count, lengths).to_array(), .name = column.name + "_length"});
  }
  return fields;
}

Tuple::Tuple(std::vector<ColumnFunction> functions) : functions_(std::move(functions)) {
  if (functions_.empty()) throw ValueError("[batchify::Tuple] expected at least one function, got none");
}

Batch Tuple::operator()(std::vector<Sample> samples) const {
  const bool has_names = !samples.empty() && samples[0].names;
  std::vector<Column> columns = columns_of(samples);
  if (columns.size() != functions_.size()) {
    throw ValueError(fmt::format("[batchify::Tuple] expected samples of {} arrays, one for each function, got {}",
                                 functions_.size(), columns.size()));
  }
  Fields fields;
  for (size_t i = 0; i < columns.size(); ++i) append(fields, functions_[i](columns[i]));
  return Batch(std::move(fields), int64_t(samples.size()), has_names);
}

Batch each_array(const ColumnFunction& function, std::vector<Sample> samples) {
  const bool has_names = !samples.empty() && samples[0].names;
  Fields fields;
  for (const Column& column : columns_of(samples)) append(fields, function(column));
  return Batch(std::move(fields), int64_t(samples.size()), has_names);
}

}  // namespace batchify
}  // namespace kaon::gluon::data
