#include "kaon/mxnet/kvstore/store_object.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <type_traits>

#include "kaon/engine/error.h"
#include "kaon/graph/autograd.h"
#include "kaon/mxnet/handle/sparse_array.h"
#include "kaon/ops/functions.h"

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
void StoreObject::expect_kind() {
  const KeyKind kind = std::is_same_v<Key, int> ? KeyKind::number : KeyKind::text;
  if (kind_ == KeyKind::none) kind_ = kind;
  if (kind_ == kind) return;
  throw ValueError(fmt::format("[KVStore] mixed key types are not allowed: the store has {}, got {}",
                               kind_ == KeyKind::number ? "numbers" : "texts",
                               kind == KeyKind::number ? "numbers" : "texts"));
}

template <class Key>
StoreObject::Grouped StoreObject::group(std::span<const Key> keys, NDArrayHandle* arrays) {
  expect_kind<Key>();
  Grouped groups;
  for (size_t i = 0; i < keys.size(); ++i) {
    const KVKey key(keys[i]);
    ArrayObject& array = array_of(arrays[i]);
    if (array.is_none()) throw ValueError(fmt::format("[KVStore] the array of '{}' has no value", key.str()));
    const auto same = std::ranges::find_if(groups, [&](const auto& g) { return g.first.str() == key.str(); });
    if (same != groups.end()) {
      same->second.push_back(&array);
    } else {
      groups.emplace_back(key, Arrays{&array});
    }
  }
  return groups;
}

NDArray StoreObject::value_of(const KVKey& key) const {
  const NDArray value = store_.value(key);
  if (!value.defined()) throw ValueError(fmt::format("[KVStore] '{}' has no value: call init() first", key.str()));
  return value;
}

template <class Key>
void StoreObject::init(std::span<const Key> keys, NDArrayHandle* values) {
  const std::scoped_lock lock(mutex_);
  for (const auto& [key, arrays] : group(keys, values)) {
    for (ArrayObject* a : arrays) {
      store_.init(key, to_dense(*a));  // a second value of one key is refused
      if (a->sparse) row_sparse_.insert(key.str());
    }
  }
}

void StoreObject::push_group(const KVKey& key, const Arrays& arrays) {
  const NDArray value = value_of(key);
  const autograd::ModeScope mode(false, false);
  std::vector<NDArray> dense;
  for (ArrayObject* a : arrays) {
    NDArray values = to_dense(*a);
    dense.push_back(values.dtype() == value.dtype() ? values : values.astype(value.dtype(), no_site));
  }
  pushes_rows_ = arrays[0]->sparse != nullptr;
  store_.push(key, dense);
}

void StoreObject::give(const KVKey& key, const NDArray& value, const Arrays& outs) {
  const autograd::ModeScope mode(false, false);
  for (ArrayObject* out : outs) {
    if (out->sparse) {
      assign(*out->sparse, value);
      continue;
    }
    NDArray& array = out->array;
    if (array.shape() != value.shape()) {
      throw ShapeError(fmt::format("[KVStore] '{}' has shape {}, the array that is to have it has {}", key.str(),
                                   value.shape().str(), array.shape().str()));
    }
    if (array.ptr() != value.ptr()) array.assign(value);
  }
}

template <class Key>
void StoreObject::push(std::span<const Key> keys, NDArrayHandle* values) {
  const std::scoped_lock lock(mutex_);
  for (const auto& [key, arrays] : group(keys, values)) push_group(key, arrays);
}

template <class Key>
void StoreObject::pull(std::span<const Key> keys, NDArrayHandle* outs, bool ignores_sparse) {
  const std::scoped_lock lock(mutex_);
  for (auto& [key, arrays] : group(keys, outs)) {
    if (ignores_sparse) std::erase_if(arrays, [](const ArrayObject* a) { return a->sparse != nullptr; });
    give(key, value_of(key), arrays);
  }
}

template <class Key>
void StoreObject::pushpull(std::span<const Key> keys, NDArrayHandle* values, std::span<const Key> out_keys,
                           NDArrayHandle* outs) {
  const std::scoped_lock lock(mutex_);
  // all are pushed before one is pulled: the arrays of several keys may be the same
  std::map<std::string, NDArray> sums;
  for (const auto& [key, arrays] : group(keys, values)) {
    if (has_updater_ || store_.value(key).defined()) {
      push_group(key, arrays);
      continue;
    }
    std::vector<NDArray> dense;
    for (ArrayObject* a : arrays) dense.push_back(to_dense(*a));
    const NDArray sum = NDArray::empty(dense[0].shape(), dense[0].dtype(), dense[0].device());
    store_.pushpull(key, dense, std::span(&sum, 1));
    sums.emplace(key.str(), sum);
  }
  for (const auto& [key, arrays] : group(out_keys, outs)) {
    const auto sum = sums.find(key.str());
    give(key, sum == sums.end() ? value_of(key) : sum->second, arrays);
  }
}

template <class Key>
void StoreObject::pull_rows(std::span<const Key> keys, NDArrayHandle* outs, const NDArrayHandle* row_ids) {
  const std::scoped_lock lock(mutex_);
  expect_kind<Key>();
  const autograd::ModeScope mode(false, false);
  for (size_t i = 0; i < keys.size(); ++i) {
    const KVKey key(keys[i]);
    const NDArray value = value_of(key);
    const ArrayObject& out = array_of(outs[i]);
    if (!out.sparse || out.sparse->storage != ops::StorageType::row_sparse) {
      throw ValueError(fmt::format("[KVStore] row_sparse_pull: expected a row_sparse array for '{}'", key.str()));
    }
    std::vector<int64_t> rows = dense_of(array_of(row_ids[i]), "row_sparse_pull").asvector<int64_t>(no_site);
    std::ranges::sort(rows);
    rows.erase(std::unique(rows.begin(), rows.end()), rows.end());
    if (!rows.empty() && (rows.front() < 0 || rows.back() >= value.shape()[0])) {
      throw IndexError(fmt::format("[KVStore] row_sparse_pull: expected rows from 0 to {} of '{}', got {}",
                                   value.shape()[0] - 1, key.str(), rows.front() < 0 ? rows.front() : rows.back()));
    }
    auto taken = nothing_stored(ops::StorageType::row_sparse, value.shape(), value.dtype(), value.device());
    if (!rows.empty()) {
      const NDArray places =
          NDArray::from(rows.data(), rows.size(), Shape(int64_t(rows.size())), DType::int64, value.device());
      taken->data = nd.take(value, places, {.axis = 0});
      taken->aux = {places};
    }
    assign(*out.sparse, *taken);
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
        const auto shown = [](const NDArray& dense, bool as_rows) {
          if (!as_rows) return std::make_unique<ArrayObject>(dense);
          auto rows = nothing_stored(ops::StorageType::row_sparse, dense.shape(), dense.dtype(), dense.device());
          assign(*rows, dense);
          return std::make_unique<ArrayObject>(std::move(rows), Context::of(dense.device()));
        };
        auto pushed = shown(sum, pushes_rows_), value = shown(stored, row_sparse_.contains(key.str()));
        const std::shared_ptr<SparseArray> rows = value->sparse;
        if (is_number) {
          for_numbers(number_of(key), pushed.release(), value.release(), context);
        } else {
          for_texts(key.str().c_str(), pushed.release(), value.release(), context);
        }
        if (!rows) return;
        ArrayObject updated(rows, Context::of(stored.device()));
        NDArray(stored).assign(to_dense(updated));
      });
}

template void StoreObject::init(std::span<const int>, NDArrayHandle*);
template void StoreObject::init(std::span<const char* const>, NDArrayHandle*);
template void StoreObject::push(std::span<const int>, NDArrayHandle*);
template void StoreObject::push(std::span<const char* const>, NDArrayHandle*);
template void StoreObject::pull(std::span<const int>, NDArrayHandle*, bool);
template void StoreObject::pull(std::span<const char* const>, NDArrayHandle*, bool);
template void StoreObject::pushpull(std::span<const int>, NDArrayHandle*, std::span<const int>, NDArrayHandle*);
template void StoreObject::pushpull(std::span<const char* const>, NDArrayHandle*, std::span<const char* const>,
                                    NDArrayHandle*);
template void StoreObject::pull_rows(std::span<const int>, NDArrayHandle*, const NDArrayHandle*);
template void StoreObject::pull_rows(std::span<const char* const>, NDArrayHandle*, const NDArrayHandle*);

}  // namespace kaon::mxnet
