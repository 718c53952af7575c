// MXDataIter*: the iterators that programs make by name.
#include "kaon/engine/error.h"
#include "kaon/mxnet/c_api.h"
#include "kaon/mxnet/handle/guard.h"
#include "kaon/mxnet/records/data_iterator.h"

using namespace kaon;
using namespace kaon::mxnet;

namespace {

DataIterator& iterator_of(DataIterHandle handle) {
  if (!handle) throw ValueError("the handle of a data iterator is null");
  return *static_cast<DataIterator*>(handle);
}

}  // namespace

int MXListDataIters(uint32_t* out_size, DataIterCreator** out_array) {
  return guard([&] {
    static thread_local std::vector<DataIterCreator> creators;
    creators.clear();
    for (const IteratorInfo& i : all_iterators()) creators.push_back(const_cast<IteratorInfo*>(&i));
    *out_size = uint32_t(creators.size());
    *out_array = creators.data();
  });
}

int MXDataIterGetIterInfo(DataIterCreator creator, const char** name, const char** description, uint32_t* num_args,
                          const char*** arg_names, const char*** arg_type_infos, const char*** arg_descriptions) {
  return guard([&] {
    if (!creator) throw ValueError("the handle of a kind of data iterator is null");
    IteratorInfo& info = *static_cast<IteratorInfo*>(creator);
    *name = info.name.c_str();
    *description = "";
    *num_args = uint32_t(info.arguments.size());
    *arg_names = info.c_names.data();
    *arg_type_infos = info.c_types.data();
    *arg_descriptions = info.c_descriptions.data();
  });
}

int MXDataIterCreateIter(DataIterCreator creator, uint32_t num_param, const char** keys, const char** vals,
                         DataIterHandle* out) {
  return guard([&] {
    if (!creator) throw ValueError("the handle of a kind of data iterator is null");
    const IteratorInfo& info = *static_cast<const IteratorInfo*>(creator);
    std::map<std::string, std::string> given;
    for (uint32_t i = 0; i < num_param; ++i) given.insert_or_assign(keys[i], vals[i]);
    *out = info.make(IteratorAttributes(info, std::move(given))).release();
  });
}

int MXDataIterFree(DataIterHandle handle) {
  return guard([&] { delete &iterator_of(handle); });
}
int MXDataIterNext(DataIterHandle handle, int* out) {
  return guard([&] { *out = iterator_of(handle).next(); });
}
int MXDataIterBeforeFirst(DataIterHandle handle) {
  return guard([&] { iterator_of(handle).before_first(); });
}
int MXDataIterGetData(DataIterHandle handle, NDArrayHandle* out) {
  return guard([&] { *out = iterator_of(handle).data().release(); });
}
int MXDataIterGetLabel(DataIterHandle handle, NDArrayHandle* out) {
  return guard([&] { *out = iterator_of(handle).label().release(); });
}
int MXDataIterGetPadNum(DataIterHandle handle, int* pad) {
  return guard([&] { *pad = iterator_of(handle).pad(); });
}
int MXDataIterGetIndex(DataIterHandle handle, uint64_t** out_index, uint64_t* out_size) {
  return guard([&] {
    const std::vector<uint64_t>& index = iterator_of(handle).index();
    *out_index = const_cast<uint64_t*>(index.data());
    *out_size = index.size();
  });
}
