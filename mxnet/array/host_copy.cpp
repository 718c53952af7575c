#include "kaon/mxnet/array/host_copy.h"

#include <fmt/format.h>

#include <cstring>

#include "kaon/graph/autograd.h"
#include "kaon/mxnet/c_api.h"
#include "kaon/mxnet/call/call.h"
#include "kaon/mxnet/call/inputs.h"
#include "kaon/mxnet/handle/guard.h"
#include "kaon/mxnet/handle/handle.h"
#include "kaon/mxnet/handle/sparse_array.h"
#include "kaon/ops/array/array_node.h"
#include "kaon/ops/host_read.h"

namespace kaon::mxnet {

using namespace ops;

void read_values(const NDArray& given, void* out) {
  const NDArray array = on_host(given, no_site);
  const auto copy = [out](const ArrayNode& node) {
    if (node.bytes() > 0) std::memcpy(out, node.data(), node.bytes());
  };
  if (array.engine().read_now(array.var(), [&] { copy(array.node()); })) return;
  read_in_turn(array, copy, {"copy_to_host", no_site});
}

void write_values(const NDArray& array, const void* values) {
  const size_t bytes = array.node().bytes();
  if (array.device().type != DeviceType::cpu) {
    const NDArray here = NDArray::empty(array.shape(), array.dtype(), Device());
    write_values(here, values);
    NDArray target = array;
    target.assign(Arg<NDArray>(here, no_site));
    return;
  }
  const auto copy = [&] {
    if (bytes > 0) std::memcpy(array.node().data(), values, bytes);
  };
  Engine& engine = array.engine();
  if (engine.is_gone()) {  // nothing runs on an array of a parent process
    engine.read_now(array.var(), copy);
    return;
  }
  array.node().buffer->note_write(no_site);
  const AccessMode mode = array.node().covers_buffer() ? AccessMode::write : AccessMode::update;
  const Access access{array.var(), mode};
  engine.push({access}, [&](RunContext&) { copy(); }, {.label = {"copy_from_host", no_site}});
  engine.wait(array.var(), mode);
}

namespace {
void check_count(const NDArray& array, size_t count) {
  if (size_t(array.size()) == count) return;
  throw ValueError(fmt::format("[copy] the memory size does not match: the array {} has {} elements, got {}",
                               array.shape().str(), array.size(), count));
}
}  // namespace

}  // namespace kaon::mxnet

using namespace kaon;
using namespace kaon::mxnet;

int MXNDArraySyncCopyFromCPU(NDArrayHandle handle, const void* data, size_t size) {
  return guard([&] {
    const NDArray& array = dense_of(array_of(handle), "copy from the host");
    check_count(array, size);
    const autograd::ModeScope mode(false, autograd::is_training());
    write_values(array, data);
  });
}

int MXNDArraySyncCopyToCPU(NDArrayHandle handle, void* data, size_t size) {
  return guard([&] {
    const NDArray& array = dense_of(array_of(handle), "copy to the host");
    check_count(array, size);
    read_values(array, data);
  });
}

int MXNDArrayWaitToRead(NDArrayHandle handle) {
  return guard([&] {
    const ArrayObject& object = array_of(handle);
    const auto wait = [](const NDArray& a) {
      if (a.defined() && !a.engine().read_now(a.var(), [] {})) a.wait_to_read();
    };
    wait(object.array);
    if (!object.sparse) return;
    wait(object.sparse->data);
    for (const NDArray& a : object.sparse->aux) wait(a);
  });
}
int MXNDArrayWaitToWrite(NDArrayHandle handle) {
  return guard([&] {
    const ArrayObject& object = array_of(handle);
    if (object.array.defined()) object.array.wait_to_write();
    if (!object.sparse) return;
    if (object.sparse->data.defined()) object.sparse->data.wait_to_write();
    for (const NDArray& a : object.sparse->aux) a.wait_to_write();
  });
}
int MXNDArrayWaitAll() {
  return guard([&] { Engine::current().wait_all(); });
}
