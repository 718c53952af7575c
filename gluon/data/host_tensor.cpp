#include "kaon/gluon/data/host_tensor.h"

#include <fmt/format.h>

#include "kaon/ops/array/array_node.h"

namespace kaon::gluon::data {

using namespace graph;

namespace detail {

std::string name_of_array(size_t place, const std::vector<std::string>* names) {
  if (names && place < names->size()) return (*names)[place];
  if (names || place > 1) return fmt::format("array {}", place);
  return place == 0 ? "data" : "label";
}

void no_such_array(const std::string& asked, size_t count, const std::vector<std::string>* names) {
  std::string there;
  for (size_t i = 0; i < count; ++i) there += (i ? ", " : "") + name_of_array(i, names);
  throw IndexError(fmt::format("[Sample] no array {}: expected one of {} arrays: {}", asked, count, there));
}

}  // namespace detail

HostTensor::HostTensor(const Shape& shape, DType dtype) : shape_(shape), dtype_(dtype) {
  if (!shape.is_known()) throw ShapeError(fmt::format("[HostTensor] expected a known shape, got {}", shape.str()));
  if (!is_valid(dtype)) throw TypeError(fmt::format("[HostTensor] unknown dtype number {}", int(dtype)));
  own_.resize(bytes());
}

HostTensor HostTensor::view(std::shared_ptr<const void> owner, const void* data, const Shape& shape, DType dtype) {
  HostTensor t;
  t.shape_ = shape;
  t.dtype_ = dtype;
  t.view_ = static_cast<const std::byte*>(data);
  t.owner_ = std::move(owner);
  return t;
}

HostTensor HostTensor::copy_of(const NDArray& given) {
  const NDArray array = on_host(given, std::source_location::current());
  HostTensor t(array.shape(), array.dtype());
  const auto copy = [&](const ArrayNode& node) {
    if (!t.own_.empty()) std::memcpy(t.own_.data(), node.data(), t.own_.size());
  };
  read_in_turn(array, copy, {.name = "copy_to_host"});
  return t;
}

NDArray HostTensor::to_array() const {
  if (!defined()) throw ValueError("[HostTensor] to_array: expected a tensor, got none");
  NDArray array = NDArray::empty(shape_, dtype_);  // nobody else knows it yet
  if (const size_t n = bytes()) std::memcpy(array.node().data(), data(), n);
  return array;
}

std::byte* HostTensor::mutable_data() {
  if (view_) {
    own_.assign(view_, view_ + bytes());
    view_ = nullptr;
    owner_.reset();
  }
  return own_.data();
}

HostTensor HostTensor::reshape(const Shape& shape) && {
  if (shape.size() != shape_.size() || !shape.is_known()) {
    throw ShapeError(fmt::format("[HostTensor] cannot reshape {} to {}", shape_.str(), shape.str()));
  }
  shape_ = shape;
  return std::move(*this);
}

void HostTensor::check_size(size_t count) const {
  if (count != size_t(size())) {
    throw ShapeError(fmt::format("[HostTensor] shape {} needs {} values, got {}", shape_.str(), size(), count));
  }
}

void HostTensor::check_dtype(DType wanted) const {
  if (dtype_ != wanted) {
    throw TypeError(fmt::format("[HostTensor] expected dtype {}, got {}", name_of(wanted),
                                defined() ? name_of(dtype_) : "an undefined tensor"));
  }
}

}  // namespace kaon::gluon::data
