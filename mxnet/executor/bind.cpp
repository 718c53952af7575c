// Executors made: bound to a program's arrays, or to new ones of inferred shapes.
#include <fmt/format.h>

#include <unordered_map>
#include <unordered_set>

#include "kaon/mxnet/c_api.h"
#include "kaon/mxnet/executor/arrays.h"
#include "kaon/mxnet/executor/output_storage.h"
#include "kaon/mxnet/handle/guard.h"
#include "kaon/mxnet/symbol/symbol_object.h"
#include "kaon/ops/attributes.h"

using namespace kaon;
using namespace kaon::mxnet;

namespace {

using ops::StorageType;

constexpr uint32_t write_inplace = 2;  // MXNet's numbers: 0 null, 1 write, 2 write in place, 3 add

GradReq request_of(uint32_t number) {
  if (number == 0) return GradReq::null;
  if (number == 1 || number == write_inplace) return GradReq::write;
  if (number == 3) return GradReq::add;
  throw ValueError(fmt::format("[bind] expected 0 (null), 1 (write) or 3 (add) as a gradient request, got {}", number));
}

GradReq request_of(std::string_view text) {
  if (text == "null") return GradReq::null;
  if (text == "write" || text == "inplace") return GradReq::write;
  if (text == "add") return GradReq::add;
  throw ValueError(fmt::format("[bind] expected null, write or add as grad_req, got '{}'", text));
}

ContextGroups contexts_of(int dev_type, int dev_id, uint32_t count, const char** keys, const int* types,
                          const int* ids) {
  ContextGroups contexts{.general = Context::numbered(dev_type, dev_id), .groups = {}};
  for (uint32_t i = 0; i < count; ++i) contexts.groups[keys[i]] = Context::numbered(types[i], ids[i]);
  return contexts;
}

// MXNet's numbers: -1 none, 0 dense, 1 row_sparse, 2 csr.
StorageType numbered_storage(int number, const std::string& name) {
  switch (number) {
    case -1:
    case 0: return StorageType::dense;
    case 1: return StorageType::row_sparse;
    case 2: return StorageType::csr;
    default: throw ValueError(fmt::format("[simple_bind] '{}': {} is no storage type", name, number));
  }
}

BoundArray bound(void* handle) {
  if (!handle) return {};
  ArrayObject& object = array_of(handle);
  if (object.sparse) return {to_dense(object), object.context, object.sparse};
  return {dense_of(object, "[bind] an array"), object.context};
}
BoundArray bound_gradient(void* handle) {
  BoundArray gradient = bound(handle);
  if (gradient.sparse) gradient.array = dense_gradient(gradient.sparse);
  return gradient;
}

// The storage that a variable was made for: variable(..., stype="csr").
StorageType storage_of(const SymbolNode& variable) {
  const auto text = variable.text_attrs.find("__storage_type__");
  if (text == variable.text_attrs.end()) return StorageType::dense;
  int number = 0;
  if (!ops::from_text(std::string_view(text->second), number)) {
    throw ValueError(fmt::format("[simple_bind] '{}': {} is no storage type", variable.name, text->second));
  }
  return numbered_storage(number, variable.name);
}

// The arrays of a simple_bind. Parameters are those of an executor that shares them, data comes from a buffer whose
// arrays serve one executor after the other.
class Allocation {
 public:
  Allocation(const Symbol& symbol, const ContextGroups& contexts, const InferredArrays& inferred)
      : symbol_(symbol), contexts_(contexts), inferred_(inferred) {
    for (const SymbolNode* n : graph::topological_order(symbol.entries())) {
      if (is_operator(*n)) continue;
      variables_.emplace(n->name, n);
      storages[n->name] = storage_of(*n);
    }
  }

  std::unordered_map<std::string, StorageType> storages;  // by variable
  std::unordered_set<std::string> shared_names;
  ExecutorObject* shared = nullptr;
  bool has_buffer = false;
  std::map<std::string, BoundArray> buffer;

  Bindings make(const std::vector<GradReq>& requests) {
    Bindings made;
    made.requests = requests;
    const std::vector<std::string> names = symbol_.list_arguments(), states = symbol_.list_auxiliary_states();
    for (size_t i = 0; i < names.size(); ++i) {
      const TensorMeta& meta = inferred_.arguments[i];
      const bool wants = requests[i] != GradReq::null;
      const StorageType storage = storages[names[i]];
      const bool is_row_sparse =
          has_row_sparse_gradient(symbol_, *variables_.at(names[i]), storage == StorageType::row_sparse);
      const StorageType of_gradient = is_row_sparse ? StorageType::row_sparse : StorageType::dense;
      if (shared_names.count(names[i]) != 0) {
        const size_t at = shared ? index_of(shared->symbol().list_arguments(), names[i]) : 0;
        const bool found = shared && at < shared->arrays().arguments.size();
        made.arguments.push_back(found ? checked(names[i], shared->arrays().arguments[at], meta)
                                       : new_array(meta, context_of(names[i]), storage));
        BoundArray gradient;
        if (wants && found) gradient = shared->arrays().gradients[at];
        if (wants && !gradient.array.defined()) gradient = new_gradient(meta, context_of(names[i]), of_gradient);
        made.gradients.push_back(std::move(gradient));
      } else if (storage != StorageType::dense) {
        made.arguments.push_back(new_array(meta, context_of(names[i]), storage));
        made.gradients.push_back(wants ? new_gradient(meta, context_of(names[i]), of_gradient) : BoundArray());
      } else {
        made.arguments.push_back(from_buffer(names[i], names[i], meta));
        made.gradients.push_back(!wants          ? BoundArray()
                                 : is_row_sparse ? new_gradient(meta, context_of(names[i]), of_gradient)
                                                 : from_buffer("grad of " + names[i], names[i], meta));
      }
    }
    for (size_t i = 0; i < states.size(); ++i) {
      const TensorMeta& meta = inferred_.states[i];
      const size_t at = shared ? index_of(shared->symbol().list_auxiliary_states(), states[i]) : 0;
      const bool found = shared && at < shared->arrays().states.size();
      made.states.push_back(found ? checked(states[i], shared->arrays().states[at], meta)
                                  : new_array(meta, context_of(states[i])));
    }
    return made;
  }

 private:
  static size_t index_of(const std::vector<std::string>& names, const std::string& name) {
    return size_t(std::find(names.begin(), names.end(), name) - names.begin());
  }
  Context context_of(const std::string& variable) const {
    const auto it = variables_.find(variable);
    return it == variables_.end() ? contexts_.general : contexts_.of(*it->second);
  }
  static const BoundArray& checked(const std::string& name, const BoundArray& array, const TensorMeta& meta) {
    if (array.array.shape() == meta.shape && array.array.dtype() == meta.dtype) return array;
    throw ShapeError(
        fmt::format("[simple_bind] '{}' has shape {} and dtype {}, that of the executor which shares it {} {}", name,
                    meta.shape.str(), name_of(meta.dtype), array.array.shape().str(), name_of(array.array.dtype())));
  }
  BoundArray from_buffer(const std::string& key, const std::string& variable, const TensorMeta& meta) {
    if (!has_buffer) return new_array(meta, context_of(variable));
    const auto it = buffer.find(key);
    if (it != buffer.end() && it->second.array.dtype() == meta.dtype && it->second.array.size() >= meta.shape.size()) {
      return {in_memory_of(it->second.array, meta.shape), it->second.context};
    }
    return buffer[key] = new_array(meta, context_of(variable));
  }

  const Symbol& symbol_;
  const ContextGroups& contexts_;
  const InferredArrays& inferred_;
  std::unordered_map<std::string, const SymbolNode*> variables_;
};

// One request for all arguments, one for each, or some by name.
std::vector<GradReq> requests_of(const std::vector<std::string>& arguments, uint32_t count, const char** names,
                                 const char** types) {
  std::vector<GradReq> requests(arguments.size(), GradReq::null);
  if (!types) return requests;
  if (count == 0) {
    requests.assign(arguments.size(), request_of(std::string_view(types[0])));
  } else if (!names) {
    if (count != arguments.size()) {
      throw ValueError(fmt::format("[simple_bind] expected {} gradient requests, got {}", arguments.size(), count));
    }
    for (uint32_t i = 0; i < count; ++i) requests[i] = request_of(std::string_view(types[i]));
  } else {
    for (uint32_t i = 0; i < count; ++i) {
      for (size_t k = 0; k < arguments.size(); ++k) {
        if (arguments[k] == names[i]) requests[k] = request_of(std::string_view(types[i]));
      }
    }
  }
  return requests;
}

DTypes named_dtypes(uint32_t count, const char** names, const int* numbers) {
  DTypes dtypes;
  for (uint32_t i = 0; i < count; ++i) {
    if (numbers[i] < 0) continue;
    if (numbers[i] > 127 || !ops::is_valid(DType(numbers[i]))) {
      throw ValueError(fmt::format("[simple_bind] '{}': {} is no dtype", names[i], numbers[i]));
    }
    dtypes[names[i]] = DType(numbers[i]);
  }
  return dtypes;
}

}  // namespace

int MXExecutorBindEX(SymbolHandle symbol_handle, int dev_type, int dev_id, uint32_t num_map_keys, const char** map_keys,
                     const int* map_dev_types, const int* map_dev_ids, uint32_t len, NDArrayHandle* in_args,
                     NDArrayHandle* arg_grad_store, uint32_t* grad_req_type, uint32_t aux_states_len,
                     NDArrayHandle* aux_states, ExecutorHandle, ExecutorHandle* out) {
  return guard([&] {
    Bindings arrays;
    for (uint32_t i = 0; i < len; ++i) {
      arrays.arguments.push_back(bound(in_args[i]));
      const GradReq request = grad_req_type ? request_of(grad_req_type[i]) : GradReq::null;
      const bool wants = arg_grad_store && request != GradReq::null;
      arrays.gradients.push_back(wants ? bound_gradient(arg_grad_store[i]) : BoundArray());
      arrays.requests.push_back(request);
    }
    for (uint32_t i = 0; i < aux_states_len; ++i) arrays.states.push_back(bound(aux_states[i]));
    *out = new ExecutorObject(symbol_of(symbol_handle).symbol,
                              contexts_of(dev_type, dev_id, num_map_keys, map_keys, map_dev_types, map_dev_ids),
                              std::move(arrays));
  });
}

namespace {

template <class Int>
int simple_bind(SymbolHandle symbol_handle, int dev_type, int dev_id, uint32_t num_g2c_keys, const char** g2c_keys,
                const int* g2c_dev_types, const int* g2c_dev_ids, uint32_t num_reqs, const char** req_names,
                const char** req_types, uint32_t num_shapes, const char** shape_names, const Int* shape_data,
                const uint32_t* shape_idx, uint32_t num_dtypes, const char** dtype_names, const int* dtypes,
                uint32_t num_stypes, const char** stype_names, const int* stypes, uint32_t num_shared_names,
                const char** shared_names, int* buffer_len, const char** buffer_names, NDArrayHandle* buffer_handles,
                const char*** new_buffer_names, NDArrayHandle** new_buffer_handles, uint32_t* num_in_args,
                NDArrayHandle** in_args, NDArrayHandle** arg_grads, uint32_t* num_aux_states,
                NDArrayHandle** aux_states, ExecutorHandle shared_exec, ExecutorHandle* out) {
  return guard([&] {
    const Symbol& symbol = symbol_of(symbol_handle).symbol;
    const ContextGroups contexts = contexts_of(dev_type, dev_id, num_g2c_keys, g2c_keys, g2c_dev_types, g2c_dev_ids);
    const InferredArrays inferred = infer_arrays(symbol, named_shapes(num_shapes, shape_names, shape_data, shape_idx),
                                                 named_dtypes(num_dtypes, dtype_names, dtypes));
    Allocation allocation(symbol, contexts, inferred);
    for (uint32_t i = 0; i < num_stypes; ++i) {
      allocation.storages[stype_names[i]] = numbered_storage(stypes[i], stype_names[i]);
    }
    for (uint32_t i = 0; i < num_shared_names; ++i) allocation.shared_names.insert(shared_names[i]);
    allocation.shared = static_cast<ExecutorObject*>(shared_exec);
    allocation.has_buffer = *buffer_len >= 0;
    for (int i = 0; i < *buffer_len; ++i) allocation.buffer[buffer_names[i]] = bound(buffer_handles[i]);
    Bindings arrays = allocation.make(requests_of(symbol.list_arguments(), num_reqs, req_names, req_types));

    auto made = std::make_unique<ExecutorObject>(symbol, contexts, arrays);
    ReturnedArrays& lists = return_arrays(arrays);
    *num_in_args = uint32_t(arrays.arguments.size());
    *in_args = lists.arguments.data();
    *arg_grads = lists.gradients.data();
    *num_aux_states = uint32_t(arrays.states.size());
    *aux_states = lists.states.data();
    if (allocation.has_buffer) {
      lists.buffer.clear();
      lists.buffer_names.clear();
      lists.buffer_name_pointers.clear();
      for (const auto& [name, array] : allocation.buffer) {
        lists.buffer.push_back(new_handle(array.array, array.context));
        lists.buffer_names.push_back(name);
      }
      for (const std::string& name : lists.buffer_names) lists.buffer_name_pointers.push_back(name.c_str());
      *buffer_len = int(lists.buffer.size());
      *new_buffer_names = lists.buffer_name_pointers.data();
      *new_buffer_handles = lists.buffer.data();
    }
    *out = made.release();
  });
}

}  // namespace

int MXExecutorSimpleBindEx(
    SymbolHandle symbol_handle, int dev_type, int dev_id, const uint32_t num_g2c_keys, const char** g2c_keys,
    const int* g2c_dev_types, const int* g2c_dev_ids, const uint32_t provided_grad_req_list_len,
    const char** provided_grad_req_names, const char** provided_grad_req_types, const uint32_t num_provided_arg_shapes,
    const char** provided_arg_shape_names, const int* provided_arg_shape_data, const uint32_t* provided_arg_shape_idx,
    const uint32_t num_provided_arg_dtypes, const char** provided_arg_dtype_names, const int* provided_arg_dtypes,
    const uint32_t num_provided_arg_stypes, const char** provided_arg_stype_names, const int* provided_arg_stypes,
    const uint32_t num_shared_arg_names, const char** shared_arg_name_list, int* shared_buffer_len,
    const char** shared_buffer_name_list, NDArrayHandle* shared_buffer_handle_list,
    const char*** updated_shared_buffer_name_list, NDArrayHandle** updated_shared_buffer_handle_list,
    uint32_t* num_in_args, NDArrayHandle** in_args, NDArrayHandle** arg_grads, uint32_t* num_aux_states,
    NDArrayHandle** aux_states, ExecutorHandle shared_exec_handle, ExecutorHandle* out) {
  return simple_bind(symbol_handle, dev_type, dev_id, num_g2c_keys, g2c_keys, g2c_dev_types, g2c_dev_ids,
                     provided_grad_req_list_len, provided_grad_req_names, provided_grad_req_types,
                     num_provided_arg_shapes, provided_arg_shape_names, provided_arg_shape_data, provided_arg_shape_idx,
                     num_provided_arg_dtypes, provided_arg_dtype_names, provided_arg_dtypes, num_provided_arg_stypes,
                     provided_arg_stype_names, provided_arg_stypes, num_shared_arg_names, shared_arg_name_list,
                     shared_buffer_len, shared_buffer_name_list, shared_buffer_handle_list,
                     updated_shared_buffer_name_list, updated_shared_buffer_handle_list, num_in_args, in_args,
                     arg_grads, num_aux_states, aux_states, shared_exec_handle, out);
}

int MXExecutorSimpleBindEx64(SymbolHandle symbol_handle, int dev_type, int dev_id, const uint32_t num_g2c_keys,
                             const char** g2c_keys, const int* g2c_dev_types, const int* g2c_dev_ids,
                             const uint32_t provided_grad_req_list_len, const char** provided_grad_req_names,
                             const char** provided_grad_req_types, const uint32_t num_provided_arg_shapes,
                             const char** provided_arg_shape_names, const int64_t* provided_arg_shape_data,
                             const uint32_t* provided_arg_shape_idx, const uint32_t num_provided_arg_dtypes,
                             const char** provided_arg_dtype_names, const int* provided_arg_dtypes,
                             const uint32_t num_provided_arg_stypes, const char** provided_arg_stype_names,
                             const int* provided_arg_stypes, const uint32_t num_shared_arg_names,
                             const char** shared_arg_name_list, int* shared_buffer_len,
                             const char** shared_buffer_name_list, NDArrayHandle* shared_buffer_handle_list,
                             const char*** updated_shared_buffer_name_list,
                             NDArrayHandle** updated_shared_buffer_handle_list, uint32_t* num_in_args,
                             NDArrayHandle** in_args, NDArrayHandle** arg_grads, uint32_t* num_aux_states,
                             NDArrayHandle** aux_states, ExecutorHandle shared_exec_handle, ExecutorHandle* out) {
  return simple_bind(symbol_handle, dev_type, dev_id, num_g2c_keys, g2c_keys, g2c_dev_types, g2c_dev_ids,
                     provided_grad_req_list_len, provided_grad_req_names, provided_grad_req_types,
                     num_provided_arg_shapes, provided_arg_shape_names, provided_arg_shape_data, provided_arg_shape_idx,
                     num_provided_arg_dtypes, provided_arg_dtype_names, provided_arg_dtypes, num_provided_arg_stypes,
                     provided_arg_stype_names, provided_arg_stypes, num_shared_arg_names, shared_arg_name_list,
                     shared_buffer_len, shared_buffer_name_list, shared_buffer_handle_list,
                     updated_shared_buffer_name_list, updated_shared_buffer_handle_list, num_in_args, in_args,
                     arg_grads, num_aux_states, aux_states, shared_exec_handle, out);
}
