// StoreObject: the object behind the handle of a key-value store.
#pragma once

#include <mutex>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "kaon/gluon/kvstore/kvstore.h"
#include "kaon/mxnet/c_api.h"
#include "kaon/mxnet/handle/handle.h"

namespace kaon::mxnet {

// Keys are numbers or texts, all of one kind. Arrays that are named under one key in a call belong together: they are
// added up, or all get the value. Thread safety: any thread; a call waits for the others, and an updater may call
// the store in turn.
class StoreObject : public Counted<StoreObject> {
 public:
  // Throws ValueError for the types of stores over several machines, and for unknown ones.
  explicit StoreObject(const char* type);

  const std::string& type() const { return type_; }
  template <class Key>
  void init(std::span<const Key> keys, NDArrayHandle* values);
  // Arrays of another dtype than the value's are converted.
  template <class Key>
  void push(std::span<const Key> keys, NDArrayHandle* values);
  // Arrays of another dtype than the value's get it converted.
  template <class Key>
  void pull(std::span<const Key> keys, NDArrayHandle* outs);
  // Without an updater and a value the sum goes to `outs` alone.
  template <class Key>
  void pushpull(std::span<const Key> keys, NDArrayHandle* values, std::span<const Key> out_keys, NDArrayHandle* outs);
  // Called in push() and pushpull() with two new handles, which are the callee's.
  void set_updater(MXKVStoreUpdater for_numbers, MXKVStoreStrUpdater for_texts, void* context);

 private:
  enum class KeyKind : uint8_t { none, number, text };
  using Grouped = std::vector<std::pair<gluon::KVKey, std::vector<NDArray>>>;
  template <class Key>
  Grouped group(std::span<const Key> keys, NDArrayHandle* arrays);
  void push_group(const gluon::KVKey& key, std::vector<NDArray>& arrays);
  void give(const gluon::KVKey& key, const NDArray& value, std::span<const NDArray> outs) const;

  std::string type_;
  std::recursive_mutex mutex_;
  KeyKind kind_ = KeyKind::none;  // of the first call's keys
  bool has_updater_ = false;
  gluon::KVStore store_;
};

}  // namespace kaon::mxnet
