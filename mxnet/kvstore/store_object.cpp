#include "kaon/mxnet/kvstore/store_object.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <type_traits>

#include "kaon/engine/error.h"
#include "kaon/graph/autograd.h"

namespace kaon::mxnet {

using gluon::KVKey;
using gluon::KVStore;

namespace {

std::string checked(const char* type) {
  const std::string_view name = type;
  if (name.starts_with("dist")) {
    throw ValueError(fmt::format("[KVStore] Kaon does not provide stores over several machines, got '{}'", name));
  }
  constexpr std::string_view known[] = {
      "local", "device", "nccl", "local_update_cpu", "local_allreduce_cpu", "local_allreduce_device"};
  if (std::ranges::find(known, name) == std::end(known)) {
    throw ValueError(fmt::format("[KVStore] expected one of the types {}, got '{}'", fmt::join(known, ", "), name));
  }
  return std::string(name);
}

int number_of(const KVKey& key) {
  int number = 0;
  std::from_chars(key.str().data(), key.str().data() + key.str().size(), number);
  return number;
}

}  // namespace

StoreObject::StoreObject(const char* type) : type_(checked(type)), store_(KVStore::create("device")) {}

template <class Key>
StoreObject::Grouped StoreObject::group(std::span<const Key> keys, NDArrayHandle* arrays) {
  const KeyKind kind = std::is_same_v<Key, int> ? KeyKind::number : KeyKind::text;
  if (kind_ == KeyKind::none) kind_ = kind;
  if (kind_ != kind) {
    throw ValueError(fmt::format("[KVStore] mixed key types are not allowed: the store has {}, got {}",
                                 kind_ == KeyKind::number ? "numbers" : "texts",
                                 kind == KeyKind::number ? "numbers" : "texts"));
  }
  Grouped groups;
  for (size_t i = 0; i < keys.size(); ++i) {
    const KVKey key(keys[i]);
    const NDArray& array = array_of(arrays[i]).array;
    if (!array.defined()) throw ValueError(fmt::format("[KVStore] the array of '{}' has no value", key.str()));
    const auto same = std::ranges::find_if(groups, [&](const auto& g) { return g.first.str() == key.str(); });
    if (same != groups.end()) {
      same->second.push_back(array);
    } else {
      groups.emplace_back(key, std::vector<NDArray>{array});
    }
  }
  return groups;
}

template <class Key>
void StoreObject::init(std::span<const Key> keys, NDArrayHandle* values) {
  const std::scoped_lock lock(mutex_);
  for (const auto& [key, arrays] : group(keys, values)) {
    for (const NDArray& a : arrays) store_.init(key, a);  // a second value of one key is refused
  }
}

void StoreObject::push_group(const KVKey& key, std::vector<NDArray>& arrays) {
  const NDArray value = store_.value(key);
  const autograd::ModeScope mode(false, false);
  for (NDArray& a : arrays) {
    if (value.defined() && a.dtype() != value.dtype()) a = a.astype(value.dtype(), no_site);
  }
  store_.push(key, arrays);
}

void StoreObject::give(const KVKey& key, const NDArray& value, std::span<const NDArray> outs) const {
  const autograd::ModeScope mode(false, false);
  for (NDArray out : outs) {
    if (!value.defined()) {
      store_.pull(key, out);  // throws
    } else if (out.shape() != value.shape()) {
      throw ShapeError(fmt::format("[KVStore] '{}' has shape {}, the array that is to have it has {}", key.str(),
                                   value.shape().str(), out.shape().str()));
    }
    if (out.ptr() != value.ptr()) out.assign(value);
  }
}

template <class Key>
void StoreObject::push(std::span<const Key> keys, NDArrayHandle* values) {
  const std::scoped_lock lock(mutex_);
  for (auto& [key, arrays] : group(keys, values)) push_group(key, arrays);
}

template <class Key>
void StoreObject::pull(std::span<const Key> keys, NDArrayHandle* outs) {
  const std::scoped_lock lock(mutex_);
  for (const auto& [key, arrays] : group(keys, outs)) give(key, store_.value(key), arrays);
}

template <class Key>
void StoreObject::pushpull(std::span<const Key> keys, NDArrayHandle* values, std::span<const Key> out_keys,
                           NDArrayHandle* outs) {
  const std::scoped_lock lock(mutex_);
  // all are pushed before one is pulled: the arrays of several keys may be the same
  std::map<std::string, NDArray> sums;
  for (auto& [key, arrays] : group(keys, values)) {
    if (has_updater_ || store_.value(key).defined()) {
      push_group(key, arrays);
    } else {
      NDArray sum = NDArray::empty(arrays[0].shape(), arrays[0].dtype(), arrays[0].device());
      store_.pushpull(key, arrays, std::span(&sum, 1));
      sums.emplace(key.str(), std::move(sum));
    }
  }
  for (const auto& [key, arrays] : group(out_keys, outs)) {
    const auto sum = sums.find(key.str());
    give(key, sum == sums.end() ? store_.value(key) : sum->second, arrays);
  }
}

void StoreObject::set_updater(MXKVStoreUpdater for_numbers, MXKVStoreStrUpdater for_texts, void* context) {
  const std::scoped_lock lock(mutex_);
  has_updater_ = true;
  store_.set_updater(
      [this, for_numbers, for_texts, context](const KVKey& key, const NDArray& sum, const NDArray& stored) {
        const bool is_number = kind_ == KeyKind::number;
        if (is_number ? !for_numbers : !for_texts) {
          throw ValueError(
              fmt::format("[KVStore] there is no updater for keys that are {}", is_number ? "numbers" : "texts"));
        }
        auto* pushed = new ArrayObject(sum);
        auto* value = new ArrayObject(stored);
        if (is_number) {
          for_numbers(number_of(key), pushed, value, context);
        } else {
          for_texts(key.str().c_str(), pushed, value, context);
        }
      });
}

template void StoreObject::init(std::span<const int>, NDArrayHandle*);
template void StoreObject::init(std::span<const char* const>, NDArrayHandle*);
template void StoreObject::push(std::span<const int>, NDArrayHandle*);
template void StoreObject::push(std::span<const char* const>, NDArrayHandle*);
template void StoreObject::pull(std::span<const int>, NDArrayHandle*);
template void StoreObject::pull(std::span<const char* const>, NDArrayHandle*);
template void StoreObject::pushpull(std::span<const int>, NDArrayHandle*, std::span<const int>, NDArrayHandle*);
template void StoreObject::pushpull(std::span<const char* const>, NDArrayHandle*, std::span<const char* const>,
                                    NDArrayHandle*);

}  // namespace kaon::mxnet
