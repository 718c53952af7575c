// MXKVStore*: key-value stores of one process.
#include <fmt/format.h>

#include "kaon/engine/error.h"
#include "kaon/mxnet/c_api.h"
#include "kaon/mxnet/handle/guard.h"
#include "kaon/mxnet/kvstore/store_object.h"

using namespace kaon;
using namespace kaon::mxnet;

namespace {

StoreObject& store_of(KVStoreHandle handle) {
  if (!handle) throw ValueError("the handle of a key-value store is null");
  return *static_cast<StoreObject*>(handle);
}

std::span<const int> keys_of(const int* keys, uint32_t count) { return {keys, count}; }
std::span<const char* const> keys_of(const char** keys, uint32_t count) { return {keys, count}; }

template <class Key>
int broadcast(KVStoreHandle handle, uint32_t count, Key keys, uint32_t out_count, Key out_keys, NDArrayHandle* values,
              NDArrayHandle* outs) {
  return guard([&] {
    store_of(handle).init(keys_of(keys, count), values);
    store_of(handle).pull(keys_of(out_keys, out_count), outs, true);
  });
}

}  // namespace

int MXKVStoreCreate(const char* type, KVStoreHandle* out) {
  return guard([&] { *out = new StoreObject(type); });
}
int MXKVStoreFree(KVStoreHandle handle) {
  return guard([&] { delete &store_of(handle); });
}
int MXKVStoreGetType(KVStoreHandle handle, const char** type) {
  return guard([&] { *type = store_of(handle).type().c_str(); });
}

// One process: it is the worker, and the only one.
int MXKVStoreGetRank(KVStoreHandle handle, int* ret) {
  return guard([&] { store_of(handle), *ret = 0; });
}
int MXKVStoreGetGroupSize(KVStoreHandle handle, int* ret) {
  return guard([&] { store_of(handle), *ret = 1; });
}
int MXKVStoreBarrier(KVStoreHandle handle) {
  return guard([&] { store_of(handle); });
}
int MXKVStoreIsWorkerNode(int* ret) {
  *ret = 1;
  return 0;
}

int MXKVStoreInit(KVStoreHandle handle, uint32_t num, const int* keys, NDArrayHandle* vals) {
  return guard([&] { store_of(handle).init(keys_of(keys, num), vals); });
}
int MXKVStoreInitEx(KVStoreHandle handle, uint32_t num, const char** keys, NDArrayHandle* vals) {
  return guard([&] { store_of(handle).init(keys_of(keys, num), vals); });
}
int MXKVStorePush(KVStoreHandle handle, uint32_t num, const int* keys, NDArrayHandle* vals, int) {
  return guard([&] { store_of(handle).push(keys_of(keys, num), vals); });
}
int MXKVStorePushEx(KVStoreHandle handle, uint32_t num, const char** keys, NDArrayHandle* vals, int) {
  return guard([&] { store_of(handle).push(keys_of(keys, num), vals); });
}
int MXKVStorePullWithSparse(KVStoreHandle handle, uint32_t num, const int* keys, NDArrayHandle* vals, int,
                            bool ignore_sparse) {
  return guard([&] { store_of(handle).pull(keys_of(keys, num), vals, ignore_sparse); });
}
int MXKVStorePullWithSparseEx(KVStoreHandle handle, uint32_t num, const char** keys, NDArrayHandle* vals, int,
                              bool ignore_sparse) {
  return guard([&] { store_of(handle).pull(keys_of(keys, num), vals, ignore_sparse); });
}
int MXKVStorePushPull(KVStoreHandle handle, uint32_t vnum, const int* vkeys, uint32_t onum, const int* okeys,
                      NDArrayHandle* vals, NDArrayHandle* outs, int) {
  return guard([&] { store_of(handle).pushpull(keys_of(vkeys, vnum), vals, keys_of(okeys, onum), outs); });
}
int MXKVStorePushPullEx(KVStoreHandle handle, uint32_t vnum, const char** vkeys, uint32_t onum, const char** okeys,
                        NDArrayHandle* vals, NDArrayHandle* outs, int) {
  return guard([&] { store_of(handle).pushpull(keys_of(vkeys, vnum), vals, keys_of(okeys, onum), outs); });
}
int MXKVStoreBroadcast(KVStoreHandle handle, uint32_t vnum, const int* vkeys, uint32_t onum, const int* okeys,
                       NDArrayHandle* vals, NDArrayHandle* outs, int) {
  return broadcast(handle, vnum, vkeys, onum, okeys, vals, outs);
}
int MXKVStoreBroadcastEx(KVStoreHandle handle, uint32_t vnum, const char** vkeys, uint32_t onum, const char** okeys,
                         NDArrayHandle* vals, NDArrayHandle* outs, int) {
  return broadcast(handle, vnum, vkeys, onum, okeys, vals, outs);
}

int MXKVStoreSetUpdaterEx(KVStoreHandle handle, MXKVStoreUpdater updater, MXKVStoreStrUpdater str_updater,
                          void* updater_handle) {
  return guard([&] { store_of(handle).set_updater(updater, str_updater, updater_handle); });
}

int MXKVStorePullRowSparse(KVStoreHandle handle, uint32_t num, const int* keys, NDArrayHandle* vals,
                           const NDArrayHandle* row_ids, int) {
  return guard([&] { store_of(handle).pull_rows(keys_of(keys, num), vals, row_ids); });
}
int MXKVStorePullRowSparseEx(KVStoreHandle handle, uint32_t num, const char** keys, NDArrayHandle* vals,
                             const NDArrayHandle* row_ids, int) {
  return guard([&] { store_of(handle).pull_rows(keys_of(keys, num), vals, row_ids); });
}
int MXKVStoreSetGradientCompression(KVStoreHandle, uint32_t, const char**, const char**) {
  return guard([] {
    throw ValueError("[KVStore] set_gradient_compression: Kaon does not compress gradients, which stay in one process");
  });
}
int MXKVStoreSendCommmandToServers(KVStoreHandle, int, const char*) {
  return guard([] { throw ValueError("[KVStore] Kaon's stores have no servers to which commands could be sent"); });
}
int MXKVStoreRunServer(KVStoreHandle, MXKVStoreServerController, void*) {
  return guard([] { throw ValueError("[KVStore] Kaon does not provide servers of stores over several machines"); });
}
