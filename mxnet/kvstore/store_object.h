// StoreObject: the object behind the handle of a key-value store.
#pragma once

#include <mutex>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "kaon/gluon/kvstore/kvstore.h"
#include "kaon/mxnet/c_api.h"
#include "kaon/mxnet/handle/handle.h"

namespace kaon::mxnet {

// Keys are numbers or texts, all of one kind. Arrays that are named under one key in a call belong together: they are
// added up, or all get the value. Values are dense; a key that was given a row_sparse value shows its updater such
// ones. Thread safety: any thread; a call waits for the others, and an updater may call the store in turn.
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
  // Arrays of another dtype than the value's get it converted. Sparse ones are left as they are where they are to be
  // ignored.
  template <class Key>
  void pull(std::span<const Key> keys, NDArrayHandle* outs, bool ignores_sparse);
  // Without an updater and a value the sum goes to `outs` alone.
  template <class Key>
  void pushpull(std::span<const Key> keys, NDArrayHandle* values, std::span<const Key> out_keys, NDArrayHandle* outs);
  // To each row_sparse array the rows of its list, each once and in ascending order. Blocks.
  template <class Key>
  void pull_rows(std::span<const Key> keys, NDArrayHandle* outs, const NDArrayHandle* row_ids);
  // Called in push() and pushpull() with two new handles, which are the callee's.
  void set_updater(MXKVStoreUpdater for_numbers, MXKVStoreStrUpdater for_texts, void* context);

 private:
  enum class KeyKind : uint8_t { none, number, text };
  using Arrays = std::vector<ArrayObject*>;
  using Grouped = std::vector<std::pair<gluon::KVKey, Arrays>>;
  template <class Key>
  Grouped group(std::span<const Key> keys, NDArrayHandle* arrays);
  template <class Key>
  void expect_kind();
  NDArray value_of(const gluon::KVKey& key) const;  // throws ValueError where there is none
  void push_group(const gluon::KVKey& key, const Arrays& arrays);
  static void give(const gluon::KVKey& key, const NDArray& value, const Arrays& outs);

  std::string type_;
  std::recursive_mutex mutex_;
  KeyKind kind_ = KeyKind::none;      // of the first call's keys
  std::set<std::string> row_sparse_;  // the keys whose values are shown so
  bool pushes_rows_ = false;          // the sum that is pushed is shown so
  bool has_updater_ = false;
  gluon::KVStore store_;
};

}  // namespace kaon::mxnet
