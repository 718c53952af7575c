// MXNet's C interface, as the Python package of MXNet 1.9.1 calls it: libkaon_mxnet.so exports these functions, so that
// Python programs for MXNet run on Kaon (MXNET_LIBRARY_PATH). Names and signatures are MXNet's; C programs may call
// them too.
//
// Each function returns 0, or -1 and a text for MXGetLastError of the same thread. A handle that a function gives out
// is an object of its caller, who frees it by the function of its kind, also where it stands for an array that other
// handles stand for. Lists of handles, texts and shapes are the library's: they are valid until the thread's next call
// of a function of the same section. Thread safety: any thread; one handle is used by one thread at a time, except for
// reading arrays.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define KAON_MXNET_API __attribute__((visibility("default")))

#ifdef __cplusplus
extern "C" {
#endif

typedef void* NDArrayHandle;
typedef void* SymbolHandle;
typedef void* AtomicSymbolCreator;
typedef void* OpHandle;
typedef void* FunctionHandle;
typedef void* CachedOpHandle;
typedef void* ExecutorHandle;
typedef void* KVStoreHandle;
typedef void* RecordIOHandle;
typedef void* DataIterHandle;
typedef void* DataIterCreator;
typedef void* ProfileHandle;
typedef void* DLManagedTensorHandle;
typedef void* MXNetFunctionHandle;
typedef void* MXNetObjectHandle;
typedef void* CudaModuleHandle;
typedef void* CudaKernelHandle;

struct LibFeature {
  const char* name;
  bool enabled;
};

typedef union {
  int64_t v_int64;
  double v_float64;
  void* v_handle;
  const char* v_str;
} MXNetValue;

// Callbacks of a program, each with what it gets as its last argument.
struct MXCallbackList {
  int num_callbacks;
  int (**callbacks)(void);
  void** contexts;
};
typedef int (*CustomOpPropCreator)(const char* op_type, int num_params, const char** keys, const char** values,
                                   struct MXCallbackList* callbacks);
typedef void (*MXKVStoreUpdater)(int key, NDArrayHandle pushed, NDArrayHandle stored, void* context);
typedef void (*MXKVStoreStrUpdater)(const char* key, NDArrayHandle pushed, NDArrayHandle stored, void* context);
typedef void (*MXKVStoreServerController)(int command, const char* body, void* context);
typedef void (*ExecutorMonitorCallback)(const char* name, NDArrayHandle array, void* context);
typedef void (*CachedOpMonitorCallback)(const char* node, const char* op, NDArrayHandle array);

// --- The library
KAON_MXNET_API const char* MXGetLastError(void);
KAON_MXNET_API int MXEngineSetBulkSize(int bulk_size, int* prev_bulk_size);
KAON_MXNET_API int MXFuncDescribe(FunctionHandle fun, uint32_t* num_use_vars, uint32_t* num_scalars,
                                  uint32_t* num_mutate_vars, int* type_mask);
KAON_MXNET_API int MXFuncGetInfo(FunctionHandle fun, const char** name, const char** description, uint32_t* num_args,
                                 const char*** arg_names, const char*** arg_type_infos, const char*** arg_descriptions,
                                 const char** return_type);
KAON_MXNET_API int MXFuncInvokeEx(FunctionHandle fun, NDArrayHandle* use_vars, float* scalar_args,
                                  NDArrayHandle* mutate_vars, int num_params, char** param_keys, char** param_vals);
KAON_MXNET_API int MXGetEnv(const char* name, const char** value);
KAON_MXNET_API int MXGetGPUCount(int* out);
KAON_MXNET_API int MXGetGPUMemoryInformation64(int dev, uint64_t* free_mem, uint64_t* total_mem);
KAON_MXNET_API int MXIsNumpyShape(int* curr);
KAON_MXNET_API int MXLibInfoFeatures(const struct LibFeature** libFeature, size_t* size);
KAON_MXNET_API int MXListAllOpNames(uint32_t* out_size, const char*** out_array);
KAON_MXNET_API int MXListFunctions(uint32_t* out_size, FunctionHandle** out_array);
KAON_MXNET_API int MXLoadLib(const char* path, unsigned verbose);
KAON_MXNET_API int MXLoadTVMOp(const char* libpath);
KAON_MXNET_API int MXNetFuncCall(MXNetFunctionHandle func, MXNetValue* arg_values, int* type_codes, int num_args,
                                 MXNetValue* ret_val, int* ret_type_code);
KAON_MXNET_API int MXNetFuncFree(MXNetFunctionHandle func);
KAON_MXNET_API int MXNetFuncGetGlobal(const char* name, MXNetFunctionHandle* out);
KAON_MXNET_API int MXNetFuncListGlobalNames(int* out_size, const char*** out_array);
KAON_MXNET_API int MXNetObjectFree(MXNetObjectHandle obj);
KAON_MXNET_API int MXNotifyShutdown(void);
KAON_MXNET_API int MXRandomSeed(int seed);
KAON_MXNET_API int MXRandomSeedContext(int seed, int dev_type, int dev_id);
KAON_MXNET_API int MXSetEnv(const char* name, const char* value);
KAON_MXNET_API int MXSetIsNumpyShape(int is_np_shape, int* prev);
KAON_MXNET_API int MXStorageEmptyCache(int dev_type, int dev_id);
KAON_MXNET_API int MXSymbolGetAtomicSymbolInfo(AtomicSymbolCreator creator, const char** name, const char** description,
                                               uint32_t* num_args, const char*** arg_names,
                                               const char*** arg_type_infos, const char*** arg_descriptions,
                                               const char** key_var_num_args, const char** return_type);
// Kaon's own, for tests: how many handles exist, of arrays ("array") or of all kinds ("all").
KAON_MXNET_API int KaonLiveHandles(const char* kind, int64_t* out);
KAON_MXNET_API int NNGetOpHandle(const char* op_name, OpHandle* op_out);

// --- Arrays
KAON_MXNET_API int MXNDArrayAt(NDArrayHandle handle, uint32_t idx, NDArrayHandle* out);
KAON_MXNET_API int MXNDArrayAt64(NDArrayHandle handle, int64_t idx, NDArrayHandle* out);
KAON_MXNET_API int MXNDArrayCallDLPackDeleter(DLManagedTensorHandle dlpack);
KAON_MXNET_API int MXNDArrayCreateEx(const uint32_t* shape, uint32_t ndim, int dev_type, int dev_id, int delay_alloc,
                                     int dtype, NDArrayHandle* out);
KAON_MXNET_API int MXNDArrayCreateEx64(const int64_t* shape, int ndim, int dev_type, int dev_id, int delay_alloc,
                                       int dtype, NDArrayHandle* out);
KAON_MXNET_API int MXNDArrayCreateFromSharedMemEx(int shared_pid, int shared_id, const int* shape, int ndim, int dtype,
                                                  NDArrayHandle* out);
KAON_MXNET_API int MXNDArrayCreateNone(NDArrayHandle* out);
KAON_MXNET_API int MXNDArrayCreateSparseEx(int storage_type, const uint32_t* shape, uint32_t ndim, int dev_type,
                                           int dev_id, int delay_alloc, int dtype, uint32_t num_aux, int* aux_type,
                                           uint32_t* aux_ndims, const uint32_t* aux_shape, NDArrayHandle* out);
KAON_MXNET_API int MXNDArrayCreateSparseEx64(int storage_type, const int64_t* shape, int ndim, int dev_type, int dev_id,
                                             int delay_alloc, int dtype, uint32_t num_aux, int* aux_type,
                                             int* aux_ndims, const int64_t* aux_shape, NDArrayHandle* out);
KAON_MXNET_API int MXNDArrayDetach(NDArrayHandle handle, NDArrayHandle* out);
KAON_MXNET_API int MXNDArrayFree(NDArrayHandle handle);
KAON_MXNET_API int MXNDArrayFromDLPack(DLManagedTensorHandle dlpack, NDArrayHandle* out_handle);
KAON_MXNET_API int MXNDArrayFromDLPackEx(DLManagedTensorHandle dlpack, const bool transient_handle,
                                         NDArrayHandle* out_handle);
KAON_MXNET_API int MXNDArrayGetAuxNDArray(NDArrayHandle handle, uint32_t i, NDArrayHandle* out);
KAON_MXNET_API int MXNDArrayGetAuxType(NDArrayHandle handle, uint32_t i, int* out_type);
KAON_MXNET_API int MXNDArrayGetContext(NDArrayHandle handle, int* out_dev_type, int* out_dev_id);
KAON_MXNET_API int MXNDArrayGetDType(NDArrayHandle handle, int* out_dtype);
KAON_MXNET_API int MXNDArrayGetDataNDArray(NDArrayHandle handle, NDArrayHandle* out);
KAON_MXNET_API int MXNDArrayGetGrad(NDArrayHandle handle, NDArrayHandle* out);
KAON_MXNET_API int MXNDArrayGetGradState(NDArrayHandle handle, int* out);
KAON_MXNET_API int MXNDArrayGetShapeEx(NDArrayHandle handle, int* out_dim, const int** out_pdata);
KAON_MXNET_API int MXNDArrayGetShapeEx64(NDArrayHandle handle, int* out_dim, const int64_t** out_pdata);
KAON_MXNET_API int MXNDArrayGetSharedMemHandle(NDArrayHandle handle, int* shared_pid, int* shared_id);
KAON_MXNET_API int MXNDArrayGetStorageType(NDArrayHandle handle, int* out_storage_type);
KAON_MXNET_API int MXNDArrayLoad(const char* fname, uint32_t* out_size, NDArrayHandle** out_arr,
                                 uint32_t* out_name_size, const char*** out_names);
KAON_MXNET_API int MXNDArrayLoadFromBuffer(const void* ndarray_buffer, size_t size, uint32_t* out_size,
                                           NDArrayHandle** out_arr, uint32_t* out_name_size, const char*** out_names);
KAON_MXNET_API int MXNDArrayLoadFromRawBytes(const void* buf, size_t size, NDArrayHandle* out);
KAON_MXNET_API int MXNDArrayReshape64(NDArrayHandle handle, int ndim, int64_t* dims, bool reverse, NDArrayHandle* out);
KAON_MXNET_API int MXNDArraySave(const char* fname, uint32_t num_args, NDArrayHandle* args, const char** keys);
KAON_MXNET_API int MXNDArraySaveRawBytes(NDArrayHandle handle, size_t* out_size, const char** out_buf);
KAON_MXNET_API int MXNDArraySetGradState(NDArrayHandle handle, int state);
KAON_MXNET_API int MXNDArraySlice(NDArrayHandle handle, uint32_t slice_begin, uint32_t slice_end, NDArrayHandle* out);
KAON_MXNET_API int MXNDArraySlice64(NDArrayHandle handle, int64_t slice_begin, int64_t slice_end, NDArrayHandle* out);
KAON_MXNET_API int MXNDArraySyncCheckFormat(NDArrayHandle handle, const bool full_check);
KAON_MXNET_API int MXNDArraySyncCopyFromCPU(NDArrayHandle handle, const void* data, size_t size);
KAON_MXNET_API int MXNDArraySyncCopyFromNDArray(NDArrayHandle handle_dst, NDArrayHandle handle_src, const int i);
KAON_MXNET_API int MXNDArraySyncCopyToCPU(NDArrayHandle handle, void* data, size_t size);
KAON_MXNET_API int MXNDArrayToDLPack(NDArrayHandle handle, DLManagedTensorHandle* out_dlpack);
KAON_MXNET_API int MXNDArrayWaitAll(void);
KAON_MXNET_API int MXNDArrayWaitToRead(NDArrayHandle handle);
KAON_MXNET_API int MXNDArrayWaitToWrite(NDArrayHandle handle);
KAON_MXNET_API int MXShallowCopyNDArray(NDArrayHandle src, NDArrayHandle* out);

// --- Operator calls
KAON_MXNET_API int MXImperativeInvokeEx(AtomicSymbolCreator creator, int num_inputs, NDArrayHandle* inputs,
                                        int* num_outputs, NDArrayHandle** outputs, int num_params,
                                        const char** param_keys, const char** param_vals, const int** out_stypes);

// --- Gradients
KAON_MXNET_API int MXAutogradBackward(uint32_t num_output, NDArrayHandle* output_handles, NDArrayHandle* ograd_handles,
                                      int retain_graph);
KAON_MXNET_API int MXAutogradBackwardEx(uint32_t num_output, NDArrayHandle* output_handles,
                                        NDArrayHandle* ograd_handles, uint32_t num_variables,
                                        NDArrayHandle* var_handles, int retain_graph, int create_graph, int is_train,
                                        NDArrayHandle** grad_handles, int** grad_stypes);
KAON_MXNET_API int MXAutogradGetSymbol(NDArrayHandle handle, SymbolHandle* out);
KAON_MXNET_API int MXAutogradIsRecording(bool* curr);
KAON_MXNET_API int MXAutogradIsTraining(bool* curr);
KAON_MXNET_API int MXAutogradMarkVariables(uint32_t num_var, NDArrayHandle* var_handles, uint32_t* reqs_array,
                                           NDArrayHandle* grad_handles);
KAON_MXNET_API int MXAutogradSetIsRecording(int is_recording, int* prev);
KAON_MXNET_API int MXAutogradSetIsTraining(int is_training, int* prev);

// --- Symbols
KAON_MXNET_API int MXGenAtomicSymbolFromSymbol(SymbolHandle sym_handle, SymbolHandle* ret_sym_handle);
KAON_MXNET_API int MXShallowCopySymbol(SymbolHandle src, SymbolHandle* out);
KAON_MXNET_API int MXSymbolCompose(SymbolHandle sym, const char* name, uint32_t num_args, const char** keys,
                                   SymbolHandle* args);
KAON_MXNET_API int MXSymbolCopy(SymbolHandle symbol, SymbolHandle* out);
KAON_MXNET_API int MXSymbolCreateAtomicSymbol(AtomicSymbolCreator creator, uint32_t num_param, const char** keys,
                                              const char** vals, SymbolHandle* out);
KAON_MXNET_API int MXSymbolCreateFromFile(const char* fname, SymbolHandle* out);
KAON_MXNET_API int MXSymbolCreateFromJSON(const char* json, SymbolHandle* out);
KAON_MXNET_API int MXSymbolCreateGroup(uint32_t num_symbols, SymbolHandle* symbols, SymbolHandle* out);
KAON_MXNET_API int MXSymbolCreateVariable(const char* name, SymbolHandle* out);
KAON_MXNET_API int MXSymbolCutSubgraph(SymbolHandle sym, SymbolHandle** inputs, int* input_size);
KAON_MXNET_API int MXSymbolGetAttr(SymbolHandle symbol, const char* key, const char** out, int* success);
KAON_MXNET_API int MXSymbolGetChildren(SymbolHandle symbol, SymbolHandle* out);
KAON_MXNET_API int MXSymbolGetInputSymbols(SymbolHandle sym, SymbolHandle** inputs, int* input_size);
KAON_MXNET_API int MXSymbolGetInternals(SymbolHandle symbol, SymbolHandle* out);
KAON_MXNET_API int MXSymbolGetName(SymbolHandle symbol, const char** out, int* success);
KAON_MXNET_API int MXSymbolGetNumOutputs(SymbolHandle symbol, uint32_t* output_count);
KAON_MXNET_API int MXSymbolGetOutput(SymbolHandle symbol, uint32_t index, SymbolHandle* out);
KAON_MXNET_API int MXSymbolGrad(SymbolHandle sym, uint32_t num_wrt, const char** wrt, SymbolHandle* out);
KAON_MXNET_API int MXSymbolInferShapeEx(SymbolHandle sym, uint32_t num_args, const char** keys,
                                        const uint32_t* arg_ind_ptr, const int* arg_shape_data, uint32_t* in_shape_size,
                                        const int** in_shape_ndim, const int*** in_shape_data, uint32_t* out_shape_size,
                                        const int** out_shape_ndim, const int*** out_shape_data,
                                        uint32_t* aux_shape_size, const int** aux_shape_ndim,
                                        const int*** aux_shape_data, int* complete);
KAON_MXNET_API int MXSymbolInferShapeEx64(SymbolHandle sym, uint32_t num_args, const char** keys,
                                          const int64_t* arg_ind_ptr, const int64_t* arg_shape_data,
                                          size_t* in_shape_size, const int** in_shape_ndim,
                                          const int64_t*** in_shape_data, size_t* out_shape_size,
                                          const int** out_shape_ndim, const int64_t*** out_shape_data,
                                          size_t* aux_shape_size, const int** aux_shape_ndim,
                                          const int64_t*** aux_shape_data, int* complete);
KAON_MXNET_API int MXSymbolInferShapePartialEx(SymbolHandle sym, uint32_t num_args, const char** keys,
                                               const uint32_t* arg_ind_ptr, const int* arg_shape_data,
                                               uint32_t* in_shape_size, const int** in_shape_ndim,
                                               const int*** in_shape_data, uint32_t* out_shape_size,
                                               const int** out_shape_ndim, const int*** out_shape_data,
                                               uint32_t* aux_shape_size, const int** aux_shape_ndim,
                                               const int*** aux_shape_data, int* complete);
KAON_MXNET_API int MXSymbolInferShapePartialEx64(SymbolHandle sym, uint32_t num_args, const char** keys,
                                                 const int64_t* arg_ind_ptr, const int64_t* arg_shape_data,
                                                 size_t* in_shape_size, const int** in_shape_ndim,
                                                 const int64_t*** in_shape_data, size_t* out_shape_size,
                                                 const int** out_shape_ndim, const int64_t*** out_shape_data,
                                                 size_t* aux_shape_size, const int** aux_shape_ndim,
                                                 const int64_t*** aux_shape_data, int* complete);
KAON_MXNET_API int MXSymbolInferType(SymbolHandle sym, uint32_t num_args, const char** keys, const int* arg_type_data,
                                     uint32_t* in_type_size, const int** in_type_data, uint32_t* out_type_size,
                                     const int** out_type_data, uint32_t* aux_type_size, const int** aux_type_data,
                                     int* complete);
KAON_MXNET_API int MXSymbolInferTypePartial(SymbolHandle sym, uint32_t num_args, const char** keys,
                                            const int* arg_type_data, uint32_t* in_type_size, const int** in_type_data,
                                            uint32_t* out_type_size, const int** out_type_data, uint32_t* aux_type_size,
                                            const int** aux_type_data, int* complete);
KAON_MXNET_API int MXSymbolListArguments(SymbolHandle symbol, uint32_t* out_size, const char*** out_str_array);
KAON_MXNET_API int MXSymbolListAttr(SymbolHandle symbol, uint32_t* out_size, const char*** out);
KAON_MXNET_API int MXSymbolListAttrShallow(SymbolHandle symbol, uint32_t* out_size, const char*** out);
KAON_MXNET_API int MXSymbolListAuxiliaryStates(SymbolHandle symbol, uint32_t* out_size, const char*** out_str_array);
KAON_MXNET_API int MXSymbolListOutputs(SymbolHandle symbol, uint32_t* out_size, const char*** out_str_array);
KAON_MXNET_API int MXSymbolPrint(SymbolHandle symbol, const char** out_str);
KAON_MXNET_API int MXSymbolRemoveAmpCast(SymbolHandle sym_handle, SymbolHandle* ret_sym_handle);
KAON_MXNET_API int MXSymbolSaveToFile(SymbolHandle symbol, const char* fname);
KAON_MXNET_API int MXSymbolSaveToJSON(SymbolHandle symbol, const char** out_json);
KAON_MXNET_API int MXSymbolSetAttr(SymbolHandle symbol, const char* key, const char* value);
KAON_MXNET_API int NNSymbolCompose(SymbolHandle sym, const char* name, uint32_t num_args, const char** keys,
                                   SymbolHandle* args);
KAON_MXNET_API int NNSymbolFree(SymbolHandle symbol);
KAON_MXNET_API int NNSymbolListInputNames(SymbolHandle symbol, int option, uint32_t* out_size,
                                          const char*** out_str_array);

// --- Calls of a whole symbol
KAON_MXNET_API int MXCachedOpRegisterOpHook(NDArrayHandle handle, CachedOpMonitorCallback callback, bool monitor_all);
KAON_MXNET_API int MXCreateCachedOpEx(SymbolHandle handle, int num_flags, const char** keys, const char** vals,
                                      CachedOpHandle* out);
KAON_MXNET_API int MXFreeCachedOp(CachedOpHandle handle);
KAON_MXNET_API int MXInvokeCachedOpEx(CachedOpHandle handle, int num_inputs, NDArrayHandle* inputs, int* num_outputs,
                                      NDArrayHandle** outputs, const int** out_stypes);

// --- Executors
KAON_MXNET_API int MXExecutorBackwardEx(ExecutorHandle handle, uint32_t len, NDArrayHandle* head_grads, int is_train);
KAON_MXNET_API int MXExecutorBindEX(SymbolHandle symbol_handle, int dev_type, int dev_id, uint32_t num_map_keys,
                                    const char** map_keys, const int* map_dev_types, const int* map_dev_ids,
                                    uint32_t len, NDArrayHandle* in_args, NDArrayHandle* arg_grad_store,
                                    uint32_t* grad_req_type, uint32_t aux_states_len, NDArrayHandle* aux_states,
                                    ExecutorHandle shared_exec, ExecutorHandle* out);
KAON_MXNET_API int MXExecutorForward(ExecutorHandle handle, int is_train);
KAON_MXNET_API int MXExecutorFree(ExecutorHandle handle);
KAON_MXNET_API int MXExecutorGetOptimizedSymbol(ExecutorHandle handle, SymbolHandle* out);
KAON_MXNET_API int MXExecutorOutputs(ExecutorHandle handle, uint32_t* out_size, NDArrayHandle** out);
KAON_MXNET_API int MXExecutorPrint(ExecutorHandle handle, const char** out_str);
KAON_MXNET_API int MXExecutorReshapeEx(int partial_shaping, int allow_up_sizing, int dev_type, int dev_id,
                                       uint32_t num_map_keys, const char** map_keys, const int* map_dev_types,
                                       const int* map_dev_ids, const uint32_t num_provided_arg_shapes,
                                       const char** provided_arg_shape_names, const int* provided_arg_shape_data,
                                       const uint32_t* provided_arg_shape_idx, uint32_t* num_in_args,
                                       NDArrayHandle** in_args, NDArrayHandle** arg_grads, uint32_t* num_aux_states,
                                       NDArrayHandle** aux_states, ExecutorHandle shared_exec, ExecutorHandle* out);
KAON_MXNET_API int MXExecutorSetMonitorCallbackEX(ExecutorHandle handle, ExecutorMonitorCallback callback,
                                                  void* callback_handle, bool monitor_all);
KAON_MXNET_API int MXExecutorSimpleBindEx(
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
    NDArrayHandle** aux_states, ExecutorHandle shared_exec_handle, ExecutorHandle* out);
KAON_MXNET_API int MXExecutorSimpleBindEx64(
    SymbolHandle symbol_handle, int dev_type, int dev_id, const uint32_t num_g2c_keys, const char** g2c_keys,
    const int* g2c_dev_types, const int* g2c_dev_ids, const uint32_t provided_grad_req_list_len,
    const char** provided_grad_req_names, const char** provided_grad_req_types, const uint32_t num_provided_arg_shapes,
    const char** provided_arg_shape_names, const int64_t* provided_arg_shape_data,
    const uint32_t* provided_arg_shape_idx, const uint32_t num_provided_arg_dtypes,
    const char** provided_arg_dtype_names, const int* provided_arg_dtypes, const uint32_t num_provided_arg_stypes,
    const char** provided_arg_stype_names, const int* provided_arg_stypes, const uint32_t num_shared_arg_names,
    const char** shared_arg_name_list, int* shared_buffer_len, const char** shared_buffer_name_list,
    NDArrayHandle* shared_buffer_handle_list, const char*** updated_shared_buffer_name_list,
    NDArrayHandle** updated_shared_buffer_handle_list, uint32_t* num_in_args, NDArrayHandle** in_args,
    NDArrayHandle** arg_grads, uint32_t* num_aux_states, NDArrayHandle** aux_states, ExecutorHandle shared_exec_handle,
    ExecutorHandle* out);

// --- Key-value stores
KAON_MXNET_API int MXKVStoreBarrier(KVStoreHandle handle);
KAON_MXNET_API int MXKVStoreBroadcast(KVStoreHandle handle, uint32_t vnum, const int* vkeys, uint32_t onum,
                                      const int* okeys, NDArrayHandle* vals, NDArrayHandle* outs, int priority);
KAON_MXNET_API int MXKVStoreBroadcastEx(KVStoreHandle handle, uint32_t vnum, const char** vkeys, uint32_t onum,
                                        const char** okeys, NDArrayHandle* vals, NDArrayHandle* outs, int priority);
KAON_MXNET_API int MXKVStoreCreate(const char* type, KVStoreHandle* out);
KAON_MXNET_API int MXKVStoreFree(KVStoreHandle handle);
KAON_MXNET_API int MXKVStoreGetGroupSize(KVStoreHandle handle, int* ret);
KAON_MXNET_API int MXKVStoreGetRank(KVStoreHandle handle, int* ret);
KAON_MXNET_API int MXKVStoreGetType(KVStoreHandle handle, const char** type);
KAON_MXNET_API int MXKVStoreInit(KVStoreHandle handle, uint32_t num, const int* keys, NDArrayHandle* vals);
KAON_MXNET_API int MXKVStoreInitEx(KVStoreHandle handle, uint32_t num, const char** keys, NDArrayHandle* vals);
KAON_MXNET_API int MXKVStoreIsWorkerNode(int* ret);
KAON_MXNET_API int MXKVStorePullRowSparse(KVStoreHandle handle, uint32_t num, const int* keys, NDArrayHandle* vals,
                                          const NDArrayHandle* row_ids, int priority);
KAON_MXNET_API int MXKVStorePullRowSparseEx(KVStoreHandle handle, uint32_t num, const char** keys, NDArrayHandle* vals,
                                            const NDArrayHandle* row_ids, int priority);
KAON_MXNET_API int MXKVStorePullWithSparse(KVStoreHandle handle, uint32_t num, const int* keys, NDArrayHandle* vals,
                                           int priority, bool ignore_sparse);
KAON_MXNET_API int MXKVStorePullWithSparseEx(KVStoreHandle handle, uint32_t num, const char** keys, NDArrayHandle* vals,
                                             int priority, bool ignore_sparse);
KAON_MXNET_API int MXKVStorePush(KVStoreHandle handle, uint32_t num, const int* keys, NDArrayHandle* vals,
                                 int priority);
KAON_MXNET_API int MXKVStorePushEx(KVStoreHandle handle, uint32_t num, const char** keys, NDArrayHandle* vals,
                                   int priority);
KAON_MXNET_API int MXKVStorePushPull(KVStoreHandle handle, uint32_t vnum, const int* vkeys, uint32_t onum,
                                     const int* okeys, NDArrayHandle* vals, NDArrayHandle* outs, int priority);
KAON_MXNET_API int MXKVStorePushPullEx(KVStoreHandle handle, uint32_t vnum, const char** vkeys, uint32_t onum,
                                       const char** okeys, NDArrayHandle* vals, NDArrayHandle* outs, int priority);
KAON_MXNET_API int MXKVStoreRunServer(KVStoreHandle handle, MXKVStoreServerController controller,
                                      void* controller_handle);
KAON_MXNET_API int MXKVStoreSendCommmandToServers(KVStoreHandle handle, int cmd_id, const char* cmd_body);
KAON_MXNET_API int MXKVStoreSetGradientCompression(KVStoreHandle handle, uint32_t num_params, const char** keys,
                                                   const char** vals);
KAON_MXNET_API int MXKVStoreSetUpdaterEx(KVStoreHandle handle, MXKVStoreUpdater updater,
                                         MXKVStoreStrUpdater str_updater, void* updater_handle);

// --- Records and iterators
KAON_MXNET_API int MXDataIterBeforeFirst(DataIterHandle handle);
KAON_MXNET_API int MXDataIterCreateIter(DataIterCreator handle, uint32_t num_param, const char** keys,
                                        const char** vals, DataIterHandle* out);
KAON_MXNET_API int MXDataIterFree(DataIterHandle handle);
KAON_MXNET_API int MXDataIterGetData(DataIterHandle handle, NDArrayHandle* out);
KAON_MXNET_API int MXDataIterGetIndex(DataIterHandle handle, uint64_t** out_index, uint64_t* out_size);
KAON_MXNET_API int MXDataIterGetIterInfo(DataIterCreator creator, const char** name, const char** description,
                                         uint32_t* num_args, const char*** arg_names, const char*** arg_type_infos,
                                         const char*** arg_descriptions);
KAON_MXNET_API int MXDataIterGetLabel(DataIterHandle handle, NDArrayHandle* out);
KAON_MXNET_API int MXDataIterGetPadNum(DataIterHandle handle, int* pad);
KAON_MXNET_API int MXDataIterNext(DataIterHandle handle, int* out);
KAON_MXNET_API int MXListDataIters(uint32_t* out_size, DataIterCreator** out_array);
KAON_MXNET_API int MXRecordIOReaderCreate(const char* uri, RecordIOHandle* out);
KAON_MXNET_API int MXRecordIOReaderFree(RecordIOHandle handle);
KAON_MXNET_API int MXRecordIOReaderReadRecord(RecordIOHandle handle, const char** buf, size_t* size);
KAON_MXNET_API int MXRecordIOReaderSeek(RecordIOHandle handle, size_t pos);
KAON_MXNET_API int MXRecordIOWriterCreate(const char* uri, RecordIOHandle* out);
KAON_MXNET_API int MXRecordIOWriterFree(RecordIOHandle handle);
KAON_MXNET_API int MXRecordIOWriterTell(RecordIOHandle handle, size_t* pos);
KAON_MXNET_API int MXRecordIOWriterWriteRecord(RecordIOHandle handle, const char* buf, size_t size);

// --- Functions and operators of the program's own
KAON_MXNET_API int MXCustomFunctionRecord(int num_inputs, NDArrayHandle* inputs, int num_outputs,
                                          NDArrayHandle* outputs, struct MXCallbackList* callbacks);
KAON_MXNET_API int MXCustomOpRegister(const char* op_type, CustomOpPropCreator creator);

// --- Profiling
KAON_MXNET_API int MXAggregateProfileStatsPrintEx(const char** out_str, int reset, int format, int sort_by,
                                                  int ascending);
KAON_MXNET_API int MXDumpProcessProfile(int finished, int profile_process, KVStoreHandle kvStoreHandle);
KAON_MXNET_API int MXProcessProfilePause(int paused, int profile_process, KVStoreHandle kvStoreHandle);
KAON_MXNET_API int MXProfileAdjustCounter(ProfileHandle counter_handle, int64_t value);
KAON_MXNET_API int MXProfileCreateCounter(ProfileHandle domain, const char* counter_name, ProfileHandle* out);
KAON_MXNET_API int MXProfileCreateDomain(const char* domain, ProfileHandle* out);
KAON_MXNET_API int MXProfileCreateEvent(const char* event_name, ProfileHandle* out);
KAON_MXNET_API int MXProfileCreateFrame(ProfileHandle domain, const char* frame_name, ProfileHandle* out);
KAON_MXNET_API int MXProfileCreateTask(ProfileHandle domain, const char* task_name, ProfileHandle* out);
KAON_MXNET_API int MXProfileDestroyHandle(ProfileHandle frame_handle);
KAON_MXNET_API int MXProfileDurationStart(ProfileHandle duration_handle);
KAON_MXNET_API int MXProfileDurationStop(ProfileHandle duration_handle);
KAON_MXNET_API int MXProfileSetCounter(ProfileHandle counter_handle, uint64_t value);
KAON_MXNET_API int MXProfileSetMarker(ProfileHandle domain, const char* instant_marker_name, const char* scope);
KAON_MXNET_API int MXSetProcessProfilerConfig(int num_params, const char* const* keys, const char* const* vals,
                                              KVStoreHandle kvstoreHandle);
KAON_MXNET_API int MXSetProcessProfilerState(int state, int profile_process, KVStoreHandle kvStoreHandle);

// --- Rewriting symbols: backends, quantisation, mixed precision; CUDA source
KAON_MXNET_API int MXBuildSubgraphByOpNames(SymbolHandle sym_handle, const char* prop_name, const uint32_t num_ops,
                                            const char** op_names, SymbolHandle* ret_sym_handle);
KAON_MXNET_API int MXGenBackendSubgraph(SymbolHandle sym_handle, const char* backend, SymbolHandle* ret_sym_handle);
KAON_MXNET_API int MXOptimizeForBackend(
    SymbolHandle sym_handle, const char* backend_name, const int dev_type, SymbolHandle* ret_sym_handle,
    const uint32_t args_len, NDArrayHandle* in_args_handle, const uint32_t aux_len, NDArrayHandle* in_aux_handle,
    const uint32_t num_options, const char** keys, const char** vals, const uint32_t num_input_shapes,
    const char** input_shape_names, const int64_t* input_shape_data, const uint32_t* input_shape_idx,
    const uint32_t num_input_dtypes, const char** input_dtype_names, const int* input_dtypes,
    const uint32_t num_input_stypes, const char** input_stype_names, const int* input_stypes, bool skip_infer,
    int* new_args_cnt, NDArrayHandle** new_args_handle, char*** new_arg_names_handle, int* new_aux_cnt,
    NDArrayHandle** new_aux_handle, char*** new_aux_names_handle);
KAON_MXNET_API int MXQuantizeSymbol(SymbolHandle sym_handle, SymbolHandle* ret_sym_handle, const int* dev_type,
                                    const uint32_t num_excluded_sym_names, const char** excluded_sym_names,
                                    const uint32_t num_excluded_op_names, const char** excluded_op_names,
                                    const uint32_t num_offline, const char** offline_params,
                                    const char* quantized_dtype, const bool calib_quantize, const char* quantize_mode,
                                    const char* quantize_granularity, uint32_t* out_num_calib_names,
                                    const char*** out_calib_names);
KAON_MXNET_API int MXReducePrecisionSymbol(
    SymbolHandle sym_handle, SymbolHandle* ret_sym_handle, uint32_t num_args, const int* arg_type_data,
    uint32_t num_ind_ptr, const int* ind_ptr, const int* target_dtype, const int cast_optional_params,
    const uint32_t num_target_dtype_op_names, const uint32_t num_fp32_op_names,
    const uint32_t num_widest_dtype_op_names, const uint32_t num_conditional_fp32_op_names,
    const uint32_t num_excluded_symbols, const uint32_t num_model_params, const char** target_dtype_op_names,
    const char** fp32_op_names, const char** widest_dtype_op_names, const char** conditional_fp32_op_names,
    const char** excluded_symbols, const char** conditional_param_names, const char** conditional_param_vals,
    const char** model_param_names, const char** arg_names);
KAON_MXNET_API int MXRemoveSubgraphPropertyOpNames(const char* prop_name);
KAON_MXNET_API int MXRemoveSubgraphPropertyOpNamesV2(const char* prop_name);
KAON_MXNET_API int MXRtcCudaKernelCall(CudaKernelHandle handle, int dev_id, void** args, uint32_t grid_dim_x,
                                       uint32_t grid_dim_y, uint32_t grid_dim_z, uint32_t block_dim_x,
                                       uint32_t block_dim_y, uint32_t block_dim_z, uint32_t shared_mem);
KAON_MXNET_API int MXRtcCudaKernelCreate(CudaModuleHandle handle, const char* name, int num_args, int* is_ndarray,
                                         int* is_const, int* arg_types, CudaKernelHandle* out);
KAON_MXNET_API int MXRtcCudaKernelFree(CudaKernelHandle handle);
KAON_MXNET_API int MXRtcCudaModuleCreate(const char* source, int num_options, const char** options, int num_exports,
                                         const char** exports, CudaModuleHandle* out);
KAON_MXNET_API int MXRtcCudaModuleFree(CudaModuleHandle handle);
KAON_MXNET_API int MXSetCalibTableToQuantizedSymbol(SymbolHandle qsym_handle, const uint32_t num_layers,
                                                    const char** layer_names, const float* low_quantiles,
                                                    const float* high_quantiles, SymbolHandle* ret_sym_handle);
KAON_MXNET_API int MXSetSubgraphPropertyOpNames(const char* prop_name, const uint32_t num_ops, const char** op_names);
KAON_MXNET_API int MXSetSubgraphPropertyOpNamesV2(const char* prop_name, const uint32_t num_ops, const char** op_names);

#ifdef __cplusplus
}
#endif
