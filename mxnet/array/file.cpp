// Files of arrays, and arrays as bytes.
#include <algorithm>
#include <cstring>
#include <fstream>
#include <string>

#include "kaon/mxnet/c_api.h"
#include "kaon/mxnet/handle/guard.h"
#include "kaon/mxnet/handle/handle.h"
#include "kaon/mxnet/handle/numpy_shape.h"
#include "kaon/mxnet/handle/returned.h"
#include "kaon/mxnet/handle/sparse_array.h"

using namespace kaon;
using namespace kaon::mxnet;
using namespace kaon::ops;

namespace {

int format_version() { return has_numpy_shape() ? 3 : 2; }

// MXNet's rule: files that were written with NumPy's shapes are read with them, and the others without.
void check_shapes(std::string_view bytes, size_t mark_at) {
  constexpr uint32_t numpy_mark = 0xF993FACA, first_mark = 0xF993FAC8;
  uint32_t mark = 0;
  if (bytes.size() < mark_at + sizeof(mark)) return;  // the reader says what is missing
  std::memcpy(&mark, bytes.data() + mark_at, sizeof(mark));
  if (mark == numpy_mark && !has_numpy_shape()) {
    throw ValueError("[load] the array was saved with NumPy's shapes: load it under np_shape(True)");
  }
  if (mark >= first_mark && mark < numpy_mark && numpy_shape() == NumpyShape::thread) {
    throw ValueError("[load] the array was saved without NumPy's shapes: load it under np_shape(False)");
  }
}

// Where the first array of a list begins.
constexpr size_t list_head = 24;

std::string first_bytes(const char* file) {
  std::string bytes(list_head + sizeof(uint32_t), '\0');
  std::ifstream stream(file, std::ios::binary);
  stream.read(bytes.data(), std::streamsize(bytes.size()));
  bytes.resize(size_t(stream.gcount()));
  return bytes;
}

StoredArray stored(const ArrayObject& object) {
  if (object.sparse) {
    refresh(*object.sparse);
    return *object.sparse;
  }
  return {.shape = {}, .data = object.array, .aux = {}};
}

void* handle_of(StoredArray array) {
  if (array.storage == StorageType::dense) return new_handle(std::move(array.data), Context());
  auto sparse = std::make_shared<SparseArray>();
  static_cast<StoredArray&>(*sparse) = std::move(array);
  sparse->dtype = sparse->data.dtype();
  return new ArrayObject(std::move(sparse), Context());
}

void give(NamedStoredArrays arrays, uint32_t* out_size, NDArrayHandle** out_arr, uint32_t* out_name_size,
          const char*** out_names) {
  Returned& lists = returned();
  std::vector<std::string> names;
  lists.handles.clear();
  for (auto& [name, array] : arrays) {
    lists.handles.push_back(handle_of(std::move(array)));
    names.push_back(std::move(name));
  }
  const bool named = std::ranges::any_of(names, [](const std::string& n) { return !n.empty(); });
  lists.texts.set(named ? std::move(names) : std::vector<std::string>());
  *out_size = uint32_t(lists.handles.size());
  lists.handles.push_back(nullptr);  // so that an empty list has an address too
  *out_arr = lists.handles.data();
  *out_name_size = lists.texts.size();
  *out_names = lists.texts.data();
}

}  // namespace

int MXNDArraySave(const char* fname, uint32_t num_args, NDArrayHandle* args, const char** keys) {
  return guard([&] {
    NamedStoredArrays arrays;
    for (uint32_t i = 0; i < num_args; ++i) arrays.emplace_back(keys ? keys[i] : "", stored(array_of(args[i])));
    save_stored(fname, arrays, format_version());
  });
}

int MXNDArrayLoad(const char* fname, uint32_t* out_size, NDArrayHandle** out_arr, uint32_t* out_name_size,
                  const char*** out_names) {
  return guard([&] {
    check_shapes(first_bytes(fname), list_head);
    give(load_stored(fname), out_size, out_arr, out_name_size, out_names);
  });
}

int MXNDArrayLoadFromBuffer(const void* ndarray_buffer, size_t size, uint32_t* out_size, NDArrayHandle** out_arr,
                            uint32_t* out_name_size, const char*** out_names) {
  return guard([&] {
    const std::string_view bytes(static_cast<const char*>(ndarray_buffer), size);
    check_shapes(bytes, list_head);
    give(load_stored_from_bytes(bytes, "buffer"), out_size, out_arr, out_name_size, out_names);
  });
}

int MXNDArraySaveRawBytes(NDArrayHandle handle, size_t* out_size, const char** out_buf) {
  return guard([&] {
    std::string& text = returned().text;
    text = array_to_bytes(stored(array_of(handle)), format_version());
    *out_size = text.size();
    *out_buf = text.data();
  });
}

int MXNDArrayLoadFromRawBytes(const void* buf, size_t size, NDArrayHandle* out) {
  return guard([&] {
    const std::string_view bytes(static_cast<const char*>(buf), size);
    check_shapes(bytes, 0);
    *out = handle_of(array_from_bytes(bytes, "bytes"));
  });
}
